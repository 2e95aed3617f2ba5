"""Findings about the number of tasks of a stage, and of the files that it reads."""

from dataclasses import replace

import pytest

from rechannel.profiling.diagnosis.case import Case
from rechannel.profiling.diagnosis.partitions import too_few, too_many
from rechannel.profiling.diagnosis.small_files import small_files
from rechannel.profiling.spark.task_events import Metrics
from tests.unit.profiling.diagnosis.applications import (
    MIB,
    START,
    Did,
    Made,
    Maker,
    case_of,
    scanned,
    times,
    uneven,
)


def test_one_task_for_all():
    case = case_of([Made(tasks=times(1, 20_000), details=("Exchange SinglePartition, ENSURE",))])
    (found,) = too_few(case)
    assert found.cause == "too-few-partitions"
    assert "has 1 task for 4 cores" in found.text
    assert "coalesce(1)" in found.advice
    assert found.seconds == pytest.approx(15, abs=0.1)


def test_only_stages_that_have_too_few_tasks_are_counted():
    one, enough = Made(tasks=times(1, 9_000)), Made(tasks=times(4, 10_000))
    case = case_of([enough], [one], [enough], [one])
    assert [len(family.stages) for family in case.families] == [4]
    (found,) = too_few(case)
    assert found.text.startswith("Stage 1 (map at job.py:1), like 1 other, has 1 task")


def test_a_last_wave_of_one_task():
    case = case_of([Made(tasks=times(5, 4_000))])
    (found,) = too_few(case)
    assert found.cause == "idle-cores"
    assert "in the last of its 2 waves 1 task runs" in found.text
    assert found.seconds == pytest.approx(3, abs=0.1)


@pytest.mark.parametrize(
    ("site", "count"), [("", 0), (" (parquet at <console>:23)", 0), (" (collect at job.py:1)", 1)]
)
def test_spark_decides_how_many_tasks_read_schemas(site, count):
    stage = Made(tasks=times(1, 9_000), name=f"parallelize > mapPartitions{site}")
    assert len(list(too_few(case_of([stage])))) == count


def test_few_tasks_for_which_dynamic_allocation_keeps_few_executors():
    def found(ms, dynamic):
        settings = {"spark.dynamicAllocation.enabled": dynamic}
        app = Maker(settings=settings).made(
            [[Made(tasks=times(8, ms))], [Made(tasks=times(2, ms))]]
        )
        gone = replace(app.executors["2"], removed=app.jobs[0].end + 50)
        case = Case(app=replace(app, executors={**app.executors, "2": gone}))
        assert case.observed.capacity.at(app.jobs[1].start) == 2
        return list(too_few(case))

    (few,) = found(60_000, "true")
    assert "has 2 tasks for 4 cores: dynamic allocation gives the other cores back" in few.text
    assert few.seconds == pytest.approx(30, abs=0.1)
    assert found(60_000, "false") == []
    # It takes as long to start an executor.
    assert found(20_000, "true") == []


@pytest.mark.parametrize(
    "did",
    [
        pytest.param(times(4, 9_000), id="one for each core"),
        pytest.param(times(7, 9_000), id="the last wave is nearly full"),
        pytest.param(times(2, 400), id="short"),
        pytest.param(uneven(41_000, 400), id="skew"),
        pytest.param(times(40, 1_000), id="many"),
    ],
)
def test_enough_tasks(did):
    assert list(too_few(case_of([Made(tasks=did)]))) == []


def test_few_tasks_in_the_batches_of_a_stream():
    jobs = [[Made(tasks=times(1, 4_000), details=("MicroBatchScan kafka",))]] * 6
    (found,) = too_few(case_of(*jobs, streaming=True))
    assert found.cause == "too-few-partitions"
    assert found.place.batch == 0
    assert found.seconds == pytest.approx(6 * 3, abs=0.1)
    assert "`minPartitions`" in found.advice
    # A stream that waits between its batches would only wait longer.
    assert list(too_few(case_of(*jobs, streaming=True, gap=2_000))) == []


def test_idle_cores_after_a_failure_are_not_too_few_tasks():
    maker = Maker()
    app = maker.made([[Made(tasks=times(4, 4_000))]])
    maker.add(0, 0, "1", (START + 1_000, START + 1_500), Metrics(run=400), good=False)
    assert list(too_few(Case(app=app))) == []
    maker.add(0, 4, "1", (START + 5_000, START + 9_000), Metrics(run=3_900))
    assert list(too_few(Case(app=app))) == []


def test_a_stage_of_few_tasks_next_to_another_one_leaves_no_core_idle():
    maker = Maker()
    app = maker.made([[Made(tasks=times(1, 20_000))]])
    assert len(list(too_few(Case(app=app)))) == 1
    for i in range(3):
        maker.add(7, i, str(1 + i % 2), (START + 1_000, START + 21_000), Metrics(run=19_900))
    assert list(too_few(Case(app=app))) == []


def test_thousands_of_tiny_tasks():
    empty = times(1_000, 20, run=8)
    case = case_of(
        [Made(tasks=[*empty, *times(40, 60, run=48, read=1_000)])],
        settings={"spark.sql.shuffle.partitions": "1040"},
    )
    (found,) = too_many(case)
    assert found.cause == "too-many-partitions"
    assert "has 1,040 tasks for 4 cores" in found.text
    assert "`spark.sql.shuffle.partitions` (1040 now)" in found.advice
    # 22.4 s of tasks, of which 1.6 s are work; the cost of a task is 20 ms.
    assert found.seconds == pytest.approx(22.4 / 4 - 0.4 - 0.04, abs=0.1)


WRITES = ("Exchange rangepartitioning(a#1, 400)", "WriteFiles")


def filed(rows: int, details: tuple[str, ...] = WRITES, **more) -> Made:
    """Hundreds of tasks that wait for the files that they write."""
    return Made(tasks=times(400, 150, cpu=10, rows_filed=rows), details=details, **more)


def test_a_file_of_a_few_rows_from_each_task():
    (found,) = too_many(case_of([filed(5)]))
    assert "93 % of their time is what starting and ending a task and creating a file" in found.text
    # 60 s of tasks, of which 4 s are work, in eight tasks; a task costs 140 ms.
    assert found.seconds == pytest.approx(60 / 4 - 2 * (4 / 8 + 0.14), abs=0.1)


@pytest.mark.parametrize(
    "stage",
    [
        pytest.param(filed(1_000), id="more than a few rows"),
        pytest.param(filed(5, WRITES[:1]), id="no files"),
        pytest.param(filed(5, functions=("f",)), id="a Python function"),
    ],
)
def test_tasks_that_may_work_on_what_they_write(stage):
    assert list(too_many(case_of([stage]))) == []


def test_jobs_that_list_files_have_as_many_tasks_as_directories():
    app = Maker().made([[Made(tasks=times(1_000, 20, run=2))]])
    (found,) = too_many(Case(app=app))
    assert found.cause == "too-many-partitions"
    listing = replace(app.jobs[0], description="Listing leaf files and directories for 1000 paths")
    assert list(too_many(Case(app=replace(app, jobs={0: listing})))) == []


@pytest.mark.parametrize(
    "did",
    [
        pytest.param(times(1_000, 300), id="not tiny"),
        pytest.param(times(20, 100, run=10), id="not many"),
        pytest.param([Did(ms=20 + i % 100, read=5 * (i % 100)) for i in range(1_000)], id="work"),
        pytest.param(times(1_000, 150, read=MIB), id="the same work"),
        pytest.param(times(1_000, 20, run=8, input=10), id="files"),
    ],
)
def test_not_too_many_tasks(did):
    assert list(too_many(case_of([Made(tasks=did)]))) == []


FILES = [Made(tasks=times(40, 1_000, input=MIB), details=("FileScan parquet [id#7]",))]


def test_thousands_of_small_files():
    case = case_of(FILES, executions=scanned(4_000, 40 * MIB))
    (found,) = small_files(case)
    assert found.cause == "small-files"
    assert "reads 4,000 files of 10 KiB on average" in found.text
    assert found.seconds == pytest.approx(10 - 0.6, abs=0.2)


@pytest.mark.parametrize(
    ("files", "size"), [(40, MIB), (4_000, 1 << 40), (4_000, 800 * MIB), (0, 0)]
)
def test_no_small_files(files, size):
    assert list(small_files(case_of(FILES, executions=scanned(files, size)))) == []


def test_small_files_in_the_batches_of_a_stream():
    jobs = [[Made(tasks=times(400, 100, input=1_000))]] * 4
    (found,) = small_files(case_of(*jobs, streaming=True))
    assert "like 3 others, reads 400 files of 1.0 KiB on average" in found.text
    assert found.seconds == pytest.approx(4 * 10, rel=0.1)
    assert list(small_files(case_of(*jobs, streaming=True, gap=20_000))) == []


def test_each_task_a_small_file():
    case = case_of([Made(tasks=times(400, 200, input=1_000))])
    (found,) = small_files(case)
    assert "reads 400 files of 1.0 KiB" in found.text
    assert list(small_files(case_of([Made(tasks=times(400, 200, read=1_000))]))) == []
