"""What a log says of jobs, stages and hosts, as marks on the axis of time."""

from pathlib import Path

import pytest

from rechannel.profiling.model.landmarks import Mark, MarkKind
from rechannel.profiling.model.trace import MS
from rechannel.profiling.reading import open_file
from rechannel.profiling.spark.application import (
    Application,
    Batch,
    Execution,
    Executor,
    Job,
    Stage,
)
from rechannel.profiling.spark.landmarks import spark_landmarks

LOGS = Path(__file__).parents[1] / "spark_logs"


def stage(number, name, *, parents=(), rdd=-1, ran=True):
    times = {"submitted": 10 * number, "completed": 10 * number + 5} if ran else {}
    return Stage(number=number, name=name, parents=parents, rdd=rdd, **times)


APP = Application(
    name="app",
    end=900,
    executors={"1": Executor(name="1", host="a"), "2": Executor(name="2")},
    jobs={7: Job(number=7, start=100, description="count\n  rows", site="count at x.py:1")},
    executions={3: Execution(number=3, start=90, end=800, description="show")},
    batches=[Batch(query="orders", number=5, start=200, end=300)],
    stages={
        (1, 0): stage(1, "scan", rdd=4),
        (2, 0): stage(2, "scan", rdd=4, ran=False),
        (3, 0): stage(3, "join", parents=(1, 2)),
        (4, 0): stage(4, "sort", parents=(2,)),
    },
)


def test_everything_with_a_number_is_a_mark():
    marks = {(mark.what, mark.number): mark for mark in spark_landmarks(APP).marks}
    assert marks[MarkKind.BATCH, 5] == Mark(
        what=MarkKind.BATCH, number=5, start=200 * MS, end=300 * MS, name="orders"
    )
    assert marks[MarkKind.EXECUTION, 3].name == "show"
    assert marks[MarkKind.STAGE, 3].end == 35 * MS


def test_a_job_that_has_not_ended_lasts_until_the_end():
    (job,) = (mark for mark in spark_landmarks(APP).marks if mark.what == MarkKind.JOB)
    assert (job.end, job.name) == (900 * MS, "count rows")


def test_what_did_not_run_is_no_mark_and_stands_for_what_ran():
    found = spark_landmarks(APP)
    assert (MarkKind.STAGE, 2) not in {(mark.what, mark.number) for mark in found.marks}
    assert found.links == [("scan", "join"), ("scan", "sort")]


def test_hosts_are_those_of_executors():
    assert spark_landmarks(APP).hosts == {"executor 1": "a"}


@pytest.mark.parametrize("name", ["ordinary-3.5.zstd", "ordinary-4.3"])
def test_logs_of_spark_have_all_of_it(name):
    opened = open_file(LOGS / name)
    begin, end = opened.source.span
    found = opened.landmarks
    assert {mark.what for mark in found.marks} == set(MarkKind) - {MarkKind.TIMESTEP}
    assert all(begin - MS <= mark.start <= mark.end <= end + MS for mark in found.marks)
    operators = set(opened.source.names.operators)
    assert found.links
    assert {name for link in found.links for name in link} <= operators
