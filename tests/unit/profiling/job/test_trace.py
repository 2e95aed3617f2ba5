"""Telemetry of a job as a trace: times, workers and messages of events that are made up."""

from __future__ import annotations

import pytest

from rechannel.profiling.job.log import JobLog
from rechannel.profiling.job.trace import job_trace
from rechannel.profiling.model.findings import cause_of
from rechannel.profiling.reading import analyse_trace
from rechannel.telemetry.events import (
    JobStopped,
    OperatorFinished,
    SinkPublished,
    TimestepFailed,
)
from tests.unit.profiling.jobs import (
    MS,
    START,
    began,
    by_worker,
    committed,
    made,
    messages,
    published,
    small,
    spans,
    started,
    task,
)


def test_what_tasks_and_the_driver_did():
    trace = made(small()).trace
    assert list(trace.names.operators) == ["rows", "counts", "out"]
    assert list(trace.names.workers) == [
        *("driver", "publisher"),
        *("rows task 0", "rows task 1", "counts task 0", "counts task 1"),
    ]
    assert spans(trace, "rows task 0") == [
        ("read", 20, 25),
        ("process", 25, 35),
        ("send", 35, 40),
        ("shuffle write", 40, 42),
    ]
    # A millisecond of this one is not named.
    assert spans(trace, "rows task 1")[-1] == ("other", 38, 39)
    assert spans(trace, "counts task 1") == [
        ("waiting", 50, 51),
        ("lookup", 51, 55),
        ("process", 55, 110),
    ]
    assert spans(trace, "driver") == [
        ("idle", 0, 10),
        ("planning", 10, 12),
        ("scheduling", 12, 15),
        ("waiting", 15, 40),
        ("waiting", 40, 43),
        ("scheduling", 43, 45),
        ("waiting", 45, 62),
        ("waiting", 62, 111),
        ("scheduling", 111, 112),
        ("commit", 112, 116),
        ("release", 116, 117),
        ("idle", 117, 150),
    ]
    assert spans(trace, "publisher") == [("publish", 120, 130)]


def test_what_went_between_them():
    found = messages(made(small()).trace)
    control, data = "control message", "data message"
    assert [row for row in found if "counts task 1" in row] == [
        ("driver", "counts task 1", control, 45, 50),
        ("counts task 1", "driver", control, 110, 111),
        # It asks the task that was done last.
        ("counts task 1", "rows task 0", control, 50, 50.000001),
        ("rows task 0", "counts task 1", data, 50.000001, 51),
    ]
    assert ("rows task 0", "driver", control, 42, 43) in found
    assert ("driver", "publisher", control, 116, 120) in found
    assert len(found) == 4 * 2 + 2 * 2 + 1


def test_the_task_that_the_others_wait_for_leads():
    trace = made(small()).trace
    workers = by_worker(trace, window=150 * MS)
    assert workers["counts task 0"] == workers["rows task 1"] == 0
    assert workers["counts task 1"] == pytest.approx(59 / 150, abs=0.01)
    assert max(workers, key=workers.get) == "counts task 1"
    assert set(by_worker(trace, window=20 * MS)) == set(trace.names.workers)


def test_without_figures_of_spark_tasks_are_launched_when_they_begin():
    """As in process: one task after the other, each released by the driver."""
    ms = {"process": 20}
    events = [
        began(),
        started(0),
        task("rows", 0, 2, {"send": 10}, to=["counts"]),
        task("counts", 0, 12, ms, bins="x"),
        task("counts", 1, 32, {"process": 70}, bins="x"),
        committed(0),
    ]
    trace = made(events).trace
    workers = by_worker(trace)
    assert workers["counts task 1"] == pytest.approx(70 / 107)
    assert workers["counts task 0"] == pytest.approx(20 / 107)
    assert workers["rows task 0"] == pytest.approx(10 / 107)
    assert spans(trace, "driver") == [
        ("planning", 0, 2),
        ("waiting", 2, 12),
        ("waiting", 12, 32),
        ("waiting", 32, 102),
        ("commit", 102, 106),
        ("release", 106, 107),
    ]


def test_phases_are_never_longer_than_the_task():
    short = task("rows", 0, 2, {"wait": 4, "process": 8, "send": 8}, lasted=10)
    later = task("rows", 1, 20, {"of a later version": 4}, lasted=4)
    trace = made([began(), started(0), short, later, committed(0)]).trace
    assert spans(trace, "rows task 0") == [("read", 2, 6), ("process", 6, 12)]
    assert spans(trace, "rows task 1") == [("other", 20, 24)]


def test_clocks_that_do_not_agree():
    """A worker's clock is an hour late, another one's early; the driver's is set back."""
    hour = 3_600_000
    late = task("rows", 0, 20 + hour, {"process": 20}, launch=15, finish=43)
    early = task("rows", 1, 18 - hour, {"process": 200}, launch=15, finish=40)
    unknown = task("rows", 2, 18 - hour, {"process": 30})
    found = made([began(), started(10), late, early, unknown, committed(10)])
    assert found.moved == 3
    assert "clocks of 3 tasks" in found.notes[0]
    assert spans(found.trace, "rows task 0") == [("process", 23, 43)]
    assert spans(found.trace, "rows task 1") == [("process", 15, 40)]
    assert spans(found.trace, "rows task 2") == [("process", 10, 40)]
    back = [*small(), began(100), started(90, 2), committed(90, plan=-5, run=-7, number=2)]
    assert by_worker(made(back).trace)["counts task 1"] > 0
    assert made(back).notes == []


def test_times_are_cut_to_whole_milliseconds():
    """A commit seems to begin before its last task is done: by less than a millisecond, so its timestep began later."""
    ends = task("rows", 0, 2, {"process": 100.5})
    trace = made([began(), started(0), ends, committed(0)]).trace
    assert spans(trace, "rows task 0") == [("process", 2, 102.5)]
    assert spans(trace, "driver")[-2:] == [("commit", 102.5, 106.5), ("release", 106.5, 107.5)]


def test_tasks_of_a_front_may_be_beside_each_other():
    one = task("rows", 0, 5, {"process": 30}, number=1)
    two = task("rows", 0, 20, {"process": 30}, number=2)
    three = task("rows", 0, 40, {"process": 30}, number=3)
    steps = [started(0, n) for n in (1, 2, 3)]
    ends = [committed(0, number=n) for n in (1, 2, 3)]
    mixed = [each for pair in zip((one, two, three), ends, strict=True) for each in pair]
    trace = made([began(), *steps, *mixed]).trace
    assert list(trace.names.workers)[2:] == ["rows task 0", "rows task 0 (2)"]
    assert spans(trace, "rows task 0") == [("process", 5, 35), ("process", 40, 70)]
    assert spans(trace, "rows task 0 (2)") == [("process", 20, 50)]


def test_an_attempt_that_failed():
    ms = {"process": 20}
    again = task("rows", 0, 60, ms, launch=55, finish=85, again=1)
    other = task("rows", 1, 20, ms, launch=15, finish=43)
    trace = made([began(), started(0), other, again, committed(0)]).trace
    assert spans(trace, "driver")[3:5] == [("failed work", 43, 55), ("waiting", 55, 85)]


def test_timesteps_that_came_to_nothing():
    """One fails; its driver ends; the next one runs it again, and dies in the following one, which is then replayed."""
    ms = {"process": 50}
    events = [
        began(0),
        started(10),
        TimestepFailed(timestep=1, at_ms=START + 40, error="E"),
        JobStopped(job="j", at_ms=START + 45, error="E"),
        began(100),
        started(110),
        task("rows", 0, 115, ms),
        committed(110),
        started(220, 2),
        task("rows", 0, 225, ms, number=2),
        OperatorFinished(timestep=2, operator="rows", at_ms=START + 280),
        began(500),
        started(510, 2),
        task("rows", 0, 515, ms, number=2),
        committed(510, number=2),
    ]
    log = JobLog()
    for event in events:
        log.see(event)
    log.close()
    assert log.failed == [(START + 10, START + 40), (START + 220, START + 280)]
    trace = job_trace(log).trace
    assert spans(trace, "driver")[:3] == [
        ("idle", 0, 10),
        ("failed work", 10, 40),
        ("idle", 40, 45),
    ]
    # Between drivers nothing is known.
    gaps = [(a, b) for kind, a, b in spans(trace, "driver") if kind == "unknown"]
    assert gaps == [(45, 100), (280, 500)]
    assert ("failed work", 220, 280) in spans(trace, "driver")
    assert spans(trace, "rows task 0") == [("process", 115, 165), ("process", 515, 565)]
    assert by_worker(trace)["rows task 0"] > 0


def test_a_log_whose_begin_was_deleted_and_whose_end_is_not_there_yet():
    events = [*small()[3:8], started(120, 2), task("rows", 0, 125, {"process": 5}, number=2)]
    trace = made(events).trace
    assert spans(trace, "rows task 0")[-1] == ("shuffle write", 40, 42)
    assert ("commit", 112, 116) in spans(trace, "driver")
    assert by_worker(trace)["counts task 1"] > 0.3
    half = made([began(), started(5), SinkPublished(timestep=0, sink="out", at_ms=START + 30)])
    assert spans(half.trace, "driver") == [("idle", 0, 5), ("scheduling", 5, 30)]


def slow_sink(backlog) -> list:
    """Timesteps of 20 ms and a sink that takes 100 for each: two may wait for it."""
    events = [began(backlog=backlog)]
    now = 0
    for number in range(1, 9):
        now = max(now, 100 * (number - 3) + 22)
        events += [
            started(now, number),
            task("rows", 0, now + 3, {"process": 10}, number=number),
            committed(now, run=13, number=number),
        ]
        now += 20
        events.append(published(20 + 100 * number, 100, number))
    return [*events, JobStopped(job="j", at_ms=START + 900)]


def test_a_slow_sink_holds_the_driver_up():
    free, held = (made(slow_sink(backlog)).trace for backlog in (None, 2))
    assert by_worker(free)["driver"] > 0.8
    # From its first timestep until the driver may begin the last one.
    assert by_worker(held)["publisher"] == pytest.approx((520 - 20) / 900)
    assert [row for row in messages(held) if row[:2] == ("publisher", "driver")][:2] == [
        ("publisher", "driver", "control message", 120, 122),
        ("publisher", "driver", "control message", 220, 222),
    ]
    assert not [row for row in messages(free) if row[:2] == ("publisher", "driver")]
    # What it is busy with is not handed to it: it takes the next when it is done.
    assert [row[1] for row in messages(held) if row[0] == "driver"].count("publisher") == 1
    for roomy in (3, 8):
        assert spans(made(slow_sink(roomy)).trace, "driver") == spans(free, "driver")


def test_findings_know_the_activities():
    causes = {
        "processing": ("read", "deserialise", "lookup", "process", "merge", "write", "other"),
        "communication": ("receive", "fetch", "send", "outbox", "shuffle write"),
        "scheduling": ("planning", "scheduling", "control message"),
        "driver-program": ("commit", "release", "publish"),
    }
    for cause, kinds in causes.items():
        assert {cause_of(kind) for kind in kinds} == {cause}, cause


def test_the_publisher_is_no_straggler():
    """The driver waits for it, but most of the path is work of six tasks, one after the other."""
    events = [began(backlog=0)]
    for number in range(5):
        now = 110 * number
        tasks = [
            task("rows", i, now + 2 + 10 * i, {"process": 10}, number=number) for i in range(6)
        ]
        step = committed(now, run=60, number=number)
        events += [started(now, number), *tasks, step, published(now + 108, 42, number)]
    trace = made([*events, started(550, 5)]).trace
    workers = by_worker(trace)
    assert workers["publisher"] > 2.5 * workers["rows task 0"] > 0
    found = analyse_trace(trace, "j").findings
    assert [each.cause for each in found][:2] == ["processing", "driver-program"]


def test_empty_and_nearly_empty_logs():
    assert len(made([]).trace.activities) == 0
    assert spans(made([began(), JobStopped(job="j", at_ms=START + 9)]).trace, "driver") == [
        ("idle", 0, 9)
    ]
    alone = made([began(), started(0), committed(0), published(130, 5)]).trace
    assert by_worker(alone)["driver"] > 0.9
