"""Which times belong to an application."""

import json

import numpy as np
import pytest

from rechannel.profiling.model.trace import MS
from rechannel.profiling.reading import open_file
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.times import DAY, FAR, core_of, left_out
from rechannel.profiling.spark.trace import spark_trace
from tests.unit.profiling.hostile import progress
from tests.unit.profiling.logs import START, info, line, metrics, small, stage_info, task_end

YEAR = 365 * DAY
END = START + 800


def core(*parts):
    return core_of(np.array(part, dtype=np.int64) for part in parts)


def test_the_largest_group_of_days_is_the_application():
    assert core() is None
    assert core([]) is None
    assert core([5]) == (5, 5)
    assert core([5, 9], [3]) == (3, 9)
    far = (FAR + 2) * DAY
    assert core([0, far, far + 1]) == (far, far + 1)
    assert core([far, 0], [far + 1]) == (far, far + 1)
    assert core([0, 1, far, far + 1]) == (0, 1)
    # Months of silence are no reason, and so are years of activity.
    months = [at * 390 * DAY for at in range(20)]
    assert core(months, [months[-1] + far]) == (0, months[-1])


def read(*lines):
    log = SparkLog().read([*small()[:-1], *lines, small()[-1]])
    return log, spark_trace(log)


def ended(number, launch, finish):
    return task_end(0, info(number, "1", launch, finish), metrics(1))


@pytest.mark.parametrize(
    ("lines", "far"),
    [
        ([progress("q", 1, 3 * YEAR, 500)], {"progress event": 1}),
        ([ended(9, -START, 300)], {"task": 1}),
        ([ended(9, 100, 100 * YEAR), ended(10, 3 * YEAR, 3 * YEAR + 5)], {"task": 2}),
        ([line("TaskStart", **{"Stage ID": 0, "Task Info": info(9, "1", 9 * YEAR)})], {"task": 1}),
        (
            [line("JobStart", **{"Job ID": 5, "Submission Time": 1, "Stage Infos": []})],
            {"job": 1},
        ),
    ],
)
def test_what_lies_far_away_is_left_out_and_counted(lines, far):
    log, made = read(*lines)
    assert log.bad_lines == 0
    assert {what: count for what, count in log.far.items() if count} == far
    assert made.span == (START * MS, END * MS)
    assert (len(made.placed.tasks), log.open_tasks) == (3, 0)
    (note,) = left_out(log.far)
    assert "more than 400 days away from everything else" in note


def test_ends_that_lie_far_away_are_unknown():
    log, made = read(line("JobEnd", **{"Job ID": 0, "Completion Time": START + 9 * YEAR}))
    assert log.jobs[0].end == 0
    assert made.span == (START * MS, END * MS)
    late = line("ApplicationEnd", Timestamp=START + 9 * YEAR)
    log = SparkLog().read([*small()[:-1], late])
    assert spark_trace(log).span == (START * MS, (START + 720) * MS)
    early = line("ApplicationStart", **{"App Name": "a", "Timestamp": 5})
    log = SparkLog().read([small()[0], early, *small()[2:]])
    assert (spark_trace(log).span, log.start) == (((START + 110) * MS, END * MS), 0)


def test_times_of_executors_and_stages_that_lie_far_away_are_unknown():
    stage = {**stage_info(0), "Submission Time": START + 9 * YEAR, "Completion Time": START + 520}
    added = {"Executor ID": "7", "Executor Info": {"Host": "h", "Total Cores": 2}}
    log, made = read(
        line("StageCompleted", **{"Stage Info": stage}),
        line("ExecutorAdded", Timestamp=START + 9 * YEAR, **added),
    )
    assert (log.stages[0].submitted, log.stages[0].completed) == (0, START + 520)
    assert log.executors["7"].added == 0
    assert not any(log.far.values())
    assert made.span == (START * MS, END * MS)


@pytest.mark.parametrize("days", [30, 390])
def test_an_application_that_was_idle_stays_whole(days):
    log, made = read(ended(9, days * DAY, days * DAY + 50))
    assert not any(log.far.values())
    assert made.span == (START * MS, (START + days * DAY + 50) * MS)


@pytest.mark.parametrize("time", [-5, 1 << 43, 1 << 60])
def test_times_that_cannot_be(time):
    lines = [
        line("JobStart", **{"Job ID": 5, "Submission Time": time, "Stage Infos": []}),
        line("JobEnd", **{"Job ID": 5, "Completion Time": time}),
        line("ExecutorRemoved", **{"Executor ID": "1", "Timestamp": time}),
        line("ApplicationEnd", Timestamp=time),
    ]
    log, made = read(*lines)
    assert (5 in log.jobs, log.bad_lines, log.executors["1"].removed) == (False, 0, 0)
    assert made.span == (START * MS, END * MS)
    log, _ = read(ended(9, time - START, 300))
    assert log.bad_lines == 1


@pytest.mark.parametrize(
    "text", ["", "soon", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "x" * 1_000]
)
def test_batches_without_a_time_are_left_out(text):
    told = json.loads(progress("q", 1, 100, 200))
    told["progress"]["timestamp"] = text
    log, _ = read(json.dumps(told, separators=(",", ":")).encode() + b"\n")
    assert log.batches == []
    assert (log.bad_lines, log.far.get("progress event", 0)) in {(1, 0), (0, 1)}
    assert all(len(reason) <= 200 for _, reason in log.bad)


def test_the_notes_of_a_file(tmp_path):
    file = tmp_path / "app-1"
    lines = [*small(), ended(9, -START, 300), progress("q", 1, 3 * YEAR, 500)]
    file.write_bytes(b"".join(lines))
    assert open_file(file).notes == [
        "1 task and 1 progress event lie more than 400 days away from everything else in the log and"
        " were left out"
    ]
    file.write_bytes(b"".join(small()).replace(b"4.3.0", b"1.6.3"))
    (note,) = open_file(file).notes
    assert note.startswith("the log is of Spark 1.6.3, and logs before 2.1 are not supported")


def test_what_was_left_out_is_noted_if_the_end_lies_far_away_too(tmp_path):
    file = tmp_path / "app-1"
    late = line("ApplicationEnd", Timestamp=START + 9 * YEAR)
    file.write_bytes(b"".join([*small()[:-1], ended(9, -START, 300), late]))
    (note,) = open_file(file).notes
    assert note.startswith("1 task lies more than 400 days away")
