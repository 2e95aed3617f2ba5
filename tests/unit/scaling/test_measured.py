"""From what a stream has measured to the windows that policies see."""

from __future__ import annotations

import dataclasses
import math
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import RefusedError
from rechannel.kernels.tasks.binned import pack_bins
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.scaling.measured import (
    Machines,
    arriving,
    edges_of,
    machines_of,
    measured_windows,
)
from rechannel.scaling.model.rates import rates_of
from rechannel.scaling.policies.ds2 import Ds2
from rechannel.scaling.policies.judging import achieved
from rechannel.scaling.spans import MOST_TIMESTEPS
from rechannel.sources.backlog import Backlog
from rechannel.telemetry.events import (
    JobStarted,
    TimestepCommitted,
    TimestepStarted,
    event_from_json,
    event_to_json,
)
from rechannel.telemetry.progress import fold
from rechannel.telemetry.recent_tasks import recent_tasks
from rechannel.telemetry.task_finished import Sent, SparkMetrics, TaskFinished
from rechannel.testing import Harness, ManualClock

KEYS = 10


def events(timesteps=4, *, tasks=2, version=1, first=1, first_ms=0, bins=None):
    """One timestep per second: 100 rows arrive, 60 are read, and each makes two rows for "counts"."""
    out = []
    for number in range(first, first + timesteps):
        at = first_ms + (number - first) * 1_000
        sent = (Sent(operator="counts", input=0, offered=300, rows=120, keys=9, bytes=1),)
        source = TaskFinished(
            timestep=number, operator="in", task=0, attempt="a", host="h",
            started_ms=at, finished_ms=at + 100, rows_in=60, sent=sent,
        )  # fmt: skip
        counts = [
            TaskFinished(
                timestep=number, operator="counts", task=task, attempt="a", host="h",
                started_ms=at + 200, finished_ms=at + 700, ms={"wait": 100.0}, rows_in=120 // tasks,
                bins=bins, spark=SparkMetrics(
                    stage=2, partition=task, executor="1", host="h",
                    launch_ms=at + 150 + 4 * task, finish_ms=at + 750,
                ),
            )
            for task in range(tasks)
        ]  # fmt: skip
        left = Backlog(rows=40 * number)
        out += [
            TimestepStarted(
                timestep=number, now_ms=at, at_ms=at, offsets={"in": {}},
                configuration=version, backlog={"in": left},
            ),
            source,
            *counts,
            TimestepCommitted(
                timestep=number, at_ms=at + 800, duration_ms=800.0,
                phases={"plan": 20.0, "commit": 30.0},
            ),
        ]  # fmt: skip
    return out


def driver(timestep=1):
    return JobStarted(job="j", at_ms=0, engine="spark", timestep=timestep)


def windows(stream, **how):
    stream = [driver(), *stream]
    how = {"length_s": 1.5, **how}
    return measured_windows(fold(stream).recent_progress, recent_tasks(stream), **how)


def configured(version=1, **more):
    operators = {"counts": OperatorConfiguration(tasks=3)}
    return {version: Configuration(version=version, operators=operators, **more)}


def test_a_window_has_what_was_measured():
    (window,) = windows(events(4), machines=Machines(executors=2, cores_per_executor=2))
    assert (window.first, window.last, window.configuration) == (2, 3, 1)
    seen = window.seen
    assert (seen.start_s, seen.end_s) == (0, 2)
    assert seen.topology.inputs == {
        arriving("in"): (),
        "in": (arriving("in"),),
        "counts": ("in",),
    }
    counts = seen.activities["counts"].reports
    assert counts.records_in.tolist() == [120, 120]
    assert (counts.received, counts.most_received) == (240, 120)
    assert counts.useful_s.tolist() == [0.8, 0.8]
    assert seen.activities["in"].reports.records_out == {"counts": 240}
    assert rates_of(seen.activities["in"].reports, 2).selectivity("counts") == 2
    assert seen.arrivals[arriving("in")].rate == 100
    assert seen.arrivals[arriving("in")].backlog == 120
    assert seen.activities["counts"].tasks.rows.tolist() == [60] * 4
    assert seen.activities["counts"].tasks.ms.tolist() == [600, 596] * 2
    cores = seen.cores
    assert cores.busy == pytest.approx((100 + 600 + 596) * 2 / (4 * 2_000))
    assert cores.durations_ms == (800, 800)
    assert cores.driver_ms == 800 - 100 - 600
    assert cores.launch_ms == 4
    assert (cores.interval_ms, cores.in_flight) == (1_000, 1)


def test_what_the_configuration_knows_goes_before():
    known = configured(interval_ms=500, in_flight=2)
    machines = Machines(executors=1, cores_per_executor=1)
    (window,) = windows(events(4), machines=machines, configurations=known)
    assert window.seen.parallelism == {"in": 1, "counts": 3}
    assert window.seen.activities["counts"].reports.records_in.tolist() == [120, 120, 0]
    assert (window.seen.cores.interval_ms, window.seen.cores.in_flight) == (500, 2)
    assert window.seen.cores.driver_ms == 50
    assert window.seen.cores.busy == 1


def test_without_machines_there_are_no_cores():
    (window,) = windows(events(4))
    assert window.seen.cores is None


@pytest.mark.parametrize(
    ("length_s", "took_s", "last"), [(5, 60, 2), (5, 5, 2), (5, 4.9, 6), (6, 60, 3), (11, 60, 4)]
)
def test_a_timestep_that_takes_long_ends_a_window_that_covers_a_fifth(length_s, took_s, last):
    slow = [
        dataclasses.replace(each, duration_ms=1_000.0 * took_s)
        if isinstance(each, TimestepCommitted)
        else each
        for each in events(7)
    ]
    found = windows(slow, length_s=length_s)[0]
    assert (found.first, found.last) == (2, last)
    assert (found.seen.start_s, found.seen.end_s) == (0, last - 1)
    assert found.seen.arrivals[arriving("in")].rate == 100


def test_timesteps_that_begin_some_milliseconds_early_make_a_window():
    early = [
        dataclasses.replace(each, now_ms=each.now_ms - 20 * each.timestep)
        if isinstance(each, TimestepStarted)
        else each
        for each in events(6)
    ]
    found = windows(early, length_s=1)
    assert [(each.first, each.last) for each in found] == [(n, n) for n in range(2, 7)]
    assert found[0].seen.window_s == pytest.approx(0.98)
    assert [each.first for each in windows(early, length_s=1.01)] == [2, 4]


def test_windows_follow_each_other():
    found = windows(events(8))
    assert [(each.first, each.last) for each in found] == [(2, 3), (4, 5), (6, 7)]
    later = windows(events(8), after=5)
    assert [(each.first, each.last) for each in later] == [(6, 7)]
    assert later[0].seen.start_s == 4


def test_a_window_has_no_more_timesteps_than_a_job_shows():
    stream = events(2 * MOST_TIMESTEPS + 3)
    found = windows(stream, length_s=3_600)
    assert [each.last - each.first + 1 for each in found] == [MOST_TIMESTEPS] * len(found)
    assert len(found) == 1
    assert found[0].seen.window_s == MOST_TIMESTEPS


def test_a_change_ends_a_window():
    stream = [*events(4, version=1), *events(4, tasks=3, version=2, first=5, first_ms=4_000)]
    found = windows(stream)
    assert [(each.first, each.last, each.configuration) for each in found] == [
        (2, 3, 1),
        (4, 4, 1),
        (5, 6, 2),
        (7, 8, 2),
    ]
    assert [each.seen.parallelism["counts"] for each in found] == [2, 2, 3, 3]
    long = windows(stream, length_s=2.5)
    assert [(each.first, each.last) for each in long] == [(2, 4), (5, 7)]
    # One second before the change is less than half of the length.
    assert [(each.first, each.last) for each in windows(stream, length_s=2.5, after=3)] == [(5, 7)]


def test_the_time_over_a_restart_is_unknown():
    stream = [*events(4), driver(5), *events(4, first=5, first_ms=60_000)]
    found = windows(stream)
    assert [(each.first, each.last) for each in found] == [(2, 3), (4, 4), (6, 7)]
    assert found[-1].seen.start_s == 60
    assert all(each.seen.arrivals[arriving("in")].rate == 100 for each in found)


@pytest.mark.parametrize("length_s", [0.5, 1.5, 4.5])
def test_what_is_achieved_does_not_depend_on_how_many_timesteps_a_window_has(length_s):
    found = windows(
        events(10), length_s=length_s, machines=Machines(executors=1, cores_per_executor=2)
    )
    assert [achieved(each.seen) for each in found] == [pytest.approx(0.6)] * len(found)


def test_cores_are_those_of_the_latest_timesteps_on_as_many_executors():
    def seen(at_once: int, executors: int = 1) -> SimpleNamespace:
        return SimpleNamespace(at_once=at_once, executors=executors)

    assert machines_of([]) is None
    assert machines_of([seen(8), seen(8), seen(1), seen(0)]) == Machines(
        executors=1, cores_per_executor=8
    )
    assert machines_of([seen(8), seen(4, 2), seen(2, 2)]) == Machines(
        executors=2, cores_per_executor=2
    )


def test_timesteps_without_their_tasks_are_left_out():
    stream = [driver(), *events(9)]
    lost = [
        each
        for each in stream
        if not (isinstance(each, TaskFinished) and each.timestep == 5 and each.task == 1)
    ]
    assert len(lost) == len(stream) - 1
    progress = fold(stream).recent_progress
    found = measured_windows(progress, recent_tasks(lost), length_s=1.5)
    assert [(each.first, each.last) for each in found] == [(2, 3), (4, 4), (6, 7), (8, 9)]
    late = [each for each in recent_tasks(stream) if each.timestep < 7]
    found = measured_windows(progress, late, length_s=1.5)
    # The seventh has no tasks yet: the window that the sixth begins is for the next call.
    assert [(each.first, each.last) for each in found] == [(2, 3), (4, 5)]
    assert measured_windows(progress, [], length_s=1.5) == ()
    assert measured_windows([], recent_tasks(stream), length_s=1.5) == ()


def test_bins_say_how_heavy_the_heaviest_is():
    packed = pack_bins(np.array([1, 7, 2]))
    (window,) = windows(events(4, bins=packed))
    counts = window.seen.activities["counts"]
    assert (counts.heaviest_bin, counts.most_tasks) == (0.7, 3)
    assert window.seen.activities["in"].heaviest_bin is None
    assert counts.has_bins
    (window,) = windows(events(4), configurations=configured())
    assert not window.seen.activities["counts"].has_bins
    found = windows(events(6, bins=packed), rows_per_bin={"counts": [9, 1, 0, 0]})
    assert [each.seen.activities["counts"].heaviest_bin for each in found] == [0.7, 0.9]


def test_who_receives_nothing_by_an_exchange_counts_as_a_source():
    stream = []
    for event in events(4):
        stream.append(event)
        if isinstance(event, TaskFinished) and event.operator == "in":
            stream.append(dataclasses.replace(event, operator="in.kept", rows_in=30, sent=()))
    (window,) = windows(stream)
    assert window.seen.arrivals[arriving("in.kept")].rate == 30
    (window,) = windows(stream, edges=[("in", "counts"), ("in", "in.kept"), ("gone", "counts")])
    assert set(window.seen.arrivals) == {arriving("in")}
    assert window.seen.topology.inputs["in.kept"] == ("in",)


@pytest.mark.parametrize("length_s", [0, -1, math.inf, math.nan])
def test_a_window_has_a_length(length_s):
    with pytest.raises(RefusedError, match="above 0"):
        windows(events(4), length_s=length_s)


def test_machines_have_cores():
    with pytest.raises(RefusedError, match="at least one executor"):
        Machines(executors=1, cores_per_executor=0)


def test_machines_are_those_that_tasks_were_seen_on():
    assert machines_of([]) is None
    tasks = recent_tasks([driver(), *events(2, tasks=5)])
    assert [each.at_once for each in tasks] == [5, 5]
    assert machines_of(tasks) == Machines(executors=1, cores_per_executor=5)
    two = [dataclasses.replace(each, executors=2) for each in tasks]
    assert machines_of(two) == Machines(executors=2, cores_per_executor=3)


# A stream ------------------------------------------------------------------------------------------


def rows(start, stop):
    return pa.RecordBatch.from_pydict({"k": pa.array([n % KEYS for n in range(start, stop)])})


def stream_of(per_timestep):
    """Two tasks count 100 rows per second by key, in timesteps of a second."""
    clock = ManualClock()
    read = rc.read().generator(
        rows, schema="k long", rows_per_second=100, per_timestep=per_timestep, name="in"
    )
    counts = read.key_by("k").aggregate(n=agg.count(), name="counts")
    settings = rc.Settings(interval_ms=1_000, tasks=2)
    harness = Harness(counts.write.memory("out"), clock=clock, settings=settings)
    return harness, clock


def run(harness, clock, seconds):
    process = harness.start()
    for _ in range(seconds):
        process.run()
        clock.advance(1_000)
    process.run()
    return process.parts.hub


@pytest.mark.parametrize(("per_timestep", "growth"), [(60, 40), (None, 0)])
def test_a_stream_shows_what_arrives_whether_it_keeps_up_or_not(per_timestep, growth):
    harness, clock = stream_of(per_timestep)
    hub = run(harness, clock, 8)
    progress = hub.recent_progress
    backlogs = [each.backlog["in"] for each in progress]
    assert np.diff(backlogs).tolist() == [growth] * (len(backlogs) - 1)
    assert len(backlogs) >= 7
    found = measured_windows(
        progress,
        hub.recent_tasks,
        length_s=3,
        machines=Machines(executors=1, cores_per_executor=2),
    )
    assert len(found) == 2
    for window in found:
        assert window.seen.window_s == 3
        assert window.seen.arrivals[arriving("in")].rate == 100
        assert set(window.seen.parallelism) == {"in", "counts"}
        assert window.seen.activities["counts"].most_tasks == 256
        assert window.seen.cores.interval_ms == 1_000
    told = {each.timestep: each.backlog["in"] for each in progress}
    assert [each.seen.arrivals[arriving("in")].backlog for each in found] == [
        told[each.last] for each in found
    ]
    assert (told[found[-1].last] > 0) == (growth > 0)
    advice, _ = Ds2().decide(found[-1].seen, None)
    assert advice is None or set(advice.parallelism) == {"in", "counts"}


def test_saved_telemetry_shows_the_same():
    stream = [driver(), *events(6)]
    saved = [event_from_json(event_to_json(each)) for each in stream]
    live = measured_windows(fold(stream).recent_progress, recent_tasks(stream), length_s=1.5)
    again = measured_windows(fold(saved).recent_progress, recent_tasks(saved), length_s=1.5)
    assert len(live) == 2
    for one, other in zip(live, again, strict=True):
        assert one.seen.arrivals == other.seen.arrivals
        assert one.seen.topology == other.seen.topology
        for name, activity in one.seen.activities.items():
            told = other.seen.activities[name]
            np.testing.assert_array_equal(activity.tasks.ms, told.tasks.ms)
            np.testing.assert_array_equal(activity.reports.useful_s, told.reports.useful_s)


def test_edges_are_where_rows_went():
    assert edges_of(recent_tasks([driver(), *events(3)])) == (("in", "counts"),)
