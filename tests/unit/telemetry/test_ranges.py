"""What is told of the range that a timestep reads: what changes, and not more than there is room for."""

from __future__ import annotations

import json

import rechannel as rc
from rechannel.job import InProcess, Job
from rechannel.state.stores.memory import MemoryStore
from rechannel.telemetry.ranges import MOST_VALUES, range_of
from rechannel.testing import script


def test_members_that_stay_the_same_are_left_out():
    start = {"topic": "t", "at": {"0": 5, "1": 7}, "gone": 1}
    end = {"topic": "t", "at": {"0": 5, "1": 9, "2": 0}, "head": "p1"}
    assert range_of(start, end) == {
        "start": {"at": {"1": 7}, "gone": 1},
        "end": {"at": {"1": 9, "2": 0}, "head": "p1"},
    }


def test_offsets_may_be_anything_that_json_holds():
    assert range_of({}, {}) == {"start": {}, "end": {}}
    assert range_of(None, {"at": None}) == {"start": {}, "end": {"at": None}}
    assert range_of({"at": None}, {"at": {}}) == {"start": {"at": None}, "end": {"at": {}}}
    assert range_of({"at": [1, 2]}, {"at": [1, 3]}) == {
        "start": {"at": [1, 2]},
        "end": {"at": [1, 3]},
    }
    same = {"at": [1, {"deep": "x"}]}
    assert range_of(same, dict(same)) == {"start": {}, "end": {}}


def test_a_record_does_not_grow_with_the_partitions():
    start = {"at": {str(n): 10**12 for n in range(1500)}}
    end = {"at": {str(n): 10**12 + 1 for n in range(1500)}}
    told = range_of(start, end)
    assert len(told["start"]["at"]) == len(told["end"]["at"]) == MOST_VALUES
    assert told["left_out"] == 1500 - MOST_VALUES
    assert len(json.dumps(told)) < 4096
    assert range_of({"at": [0] * 1500}, {"at": [1] * 1500, "n": 1}) == {
        "start": {},
        "end": {"n": 1},
        "left_out": 1,
    }
    only_one = range_of(start, {"at": {**start["at"], "7": 5}})
    assert only_one == {"start": {"at": {"7": 10**12}}, "end": {"at": {"7": 5}}}


def test_progress_shows_ranges_also_of_sources_that_come_and_go_and_after_a_restart():
    store, one, two = MemoryStore(), script("k long"), script("k long")

    def write(rows, name):
        return rc.read().memory(rows, name=name).write.memory(f"out {name}", name=f"out {name}")

    def sources(job):
        return job.last_progress.sources

    def push(job):
        one.push([{"k": 1}])
        job.process_all_available(60)

    job = Job("j", write(one, "one"), state=store).start(in_process=InProcess())
    push(job)
    assert sources(job) == {"one": {"start": {"batches": 0}, "end": {"batches": 1}}}
    job.reconfigure(rc.changes.add(write(two, "two"))).wait(60)
    push(job)
    assert sources(job) == {
        "one": {"start": {"batches": 1}, "end": {"batches": 2}},
        "two": {"start": {}, "end": {}},
    }
    job.reconfigure(rc.changes.remove("out two", "two")).wait(60)
    push(job)
    assert sources(job) == {"one": {"start": {"batches": 2}, "end": {"batches": 3}}}
    job.stop(60)
    job = Job("j", write(one, "one"), state=store).start(in_process=InProcess())
    push(job)
    assert sources(job) == {"one": {"start": {"batches": 3}, "end": {"batches": 4}}}
    job.stop(60)
