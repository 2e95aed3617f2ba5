"""Event logs that every minor of PySpark has written of the applications in `spark_application.py`.

What is expected follows from the applications: each number here is one that can be counted there.
"""

from collections import Counter
from functools import cache
from pathlib import Path

import polars as pl
import pytest

from rechannel.profiling.model.analysis import ProfileOptions
from rechannel.profiling.reading import analyse_file
from rechannel.profiling.spark.event_files import log_files, log_lines
from rechannel.profiling.spark.log import SparkLog
from tests.unit.profiling.logs import attempts_of
from tests.unit.profiling.spark_application import (
    ALONE,
    BATCHES,
    LOSSES,
    NUMBERS,
    PAUSE_MS,
    RETRIED,
    SCANNED,
    SHUFFLE_PARTITIONS,
    TOGETHER,
)

LOGS = Path(__file__).parents[1] / "spark_logs"
MINORS = ("3.3", "3.4", "3.5", "4.0", "4.1", "4.2", "4.3")
CLUSTERS = ("3.5", "4.3")
NAMES = (
    *(f"ordinary-{minor}" for minor in MINORS),
    *(f"{case}-{minor}" for case in ("lost", "speculation") for minor in CLUSTERS),
)
MS = 1_000_000
# Tasks of a query, and of a batch.
QUERY = SCANNED + SHUFFLE_PARTITIONS
BATCH = 1 + SHUFFLE_PARTITIONS


def place(name):
    """A log: a file of some codec, or a directory."""
    (found,) = LOGS.glob(f"{name}*")
    return found


@cache
def log(name):
    return SparkLog(strict=True).read(log_lines(place(name)), name)


@cache
def whole(name, window=0.5):
    return analyse_file(place(name), ProfileOptions(window=window), strict=True)


@cache
def ran(name):
    return attempts_of(log(name))


def job(name, description):
    (found,) = [each for each in log(name).jobs.values() if each.description == description]
    return found


def attempts(name, description):
    """Attempts of tasks of a job: good ones, and all."""
    stages = job(name, description).stages
    tasks = [task for task in ran(name) if task.stage in stages]
    return sum(task.good for task in tasks), len(tasks)


def test_all_logs_are_there_and_small():
    assert {
        file.name.removesuffix(file.suffix) if file.is_file() else file.name
        for file in LOGS.iterdir()
    } == set(NAMES)
    assert sum(file.stat().st_size for file in LOGS.rglob("*") if file.is_file()) < 300_000
    endings = {file.suffix for name in NAMES for file in log_files(place(name))}
    assert endings == {".zstd", ".lz4", ".snappy", ".lzf"}


@pytest.mark.parametrize("name", NAMES)
def test_logs_are_read_whole(name):
    found = log(name)
    case, _, minor = name.partition("-")
    assert (found.name, found.bad_lines) == (case, 0)
    assert found.version.startswith(f"{minor}.")
    assert ran(name)
    assert found.open_tasks == 0
    assert all(found.start < each.start <= each.end < found.end for each in found.jobs.values())
    # From 4.0 on Spark rolls its logs if nobody asks for anything else.
    assert place(name).is_dir() == (minor >= "4")


@pytest.mark.parametrize("name", NAMES)
def test_nothing_in_them_tells_where_they_were_made(name):
    text = b"".join(log_lines(place(name)))
    assert b"SparkListenerEnvironmentUpdate" not in text
    assert b'"User":"user"' in text
    for words in (b"/tmp/", b"/root/", b"/home/", b"site-packages", b"/work/"):
        assert words not in text


@pytest.mark.parametrize("name", NAMES)
def test_critical_participation_of_windows_adds_up_to_one(name):
    found = whole(name).profile
    through = found.windows.filter(pl.col("paths") > float("-inf"))["window"]
    sums = found.cells.group_by("window").agg(pl.sum("critical")).collect()
    ones = sums.filter(pl.col("window").is_in(through.implode()))["critical"]
    assert len(ones) == len(through) > 10
    assert ones.to_list() == pytest.approx([1] * len(ones), abs=1e-9)
    assert not any("busy" in note for note in whole(name).notes)


@pytest.mark.parametrize("minor", MINORS)
class TestOrdinary:
    """A query with a shuffle, two jobs at the same time, a task that fails once, three batches of a stream."""

    def test_jobs_and_tasks(self, minor):
        found = log(f"ordinary-{minor}")
        tasks = ran(f"ordinary-{minor}")
        # An adaptive query is a job per stage.
        assert len(found.jobs) == 2 + len(TOGETHER) + 1 + BATCHES
        assert len(tasks) == QUERY + len(TOGETHER) + 3 + BATCHES * BATCH
        assert Counter(task.good for task in tasks)[False] == 1
        assert found.cores == {"driver": 2}

    def test_the_query(self, minor):
        found = log(f"ordinary-{minor}")
        first, second = (each for each in found.jobs.values() if each.description == NUMBERS)
        tasks = Counter(task.stage for task in ran(f"ordinary-{minor}"))
        (scan,) = first.stages
        skipped, count = sorted(second.stages)
        assert (tasks[scan], tasks[skipped], tasks[count]) == (SCANNED, 0, SHUFFLE_PARTITIONS)
        assert found.stages[count].parents == (skipped,)
        assert found.stages[skipped].rdd == found.stages[scan].rdd
        assert "Exchange" in found.stages[scan].name
        assert found.stages[count].name.startswith("Exchange > HashAggregate")

    def test_two_jobs_at_the_same_time(self, minor):
        one, two = (job(f"ordinary-{minor}", name) for name in TOGETHER)
        assert max(one.start, two.start) < min(one.end, two.end)
        assert min(each.end - each.start for each in (one, two)) >= PAUSE_MS
        assert [attempts(f"ordinary-{minor}", name) for name in TOGETHER] == [(1, 1), (1, 1)]
        # Both cores run at once.
        spans = whole(f"ordinary-{minor}").pieces.source.whole().activities
        kinds = whole(f"ordinary-{minor}").profile.names
        slept = (spans.kind == kinds.kind("processing")) & (spans.end - spans.start > 0.9e9)
        slept &= (spans.start > min(one.start, two.start) * MS) & (spans.end < two.end * MS + 1e9)
        assert set(spans.worker[slept].tolist()) == {1, 2}

    def test_an_attempt_that_failed_and_its_retry(self, minor):
        name = f"ordinary-{minor}"
        assert attempts(name, RETRIED) == (2, 3)
        (failed,) = [task for task in ran(name) if not task.good]
        assert failed.stage in job(name, RETRIED).stages
        again = [t for t in ran(name) if t.stage == failed.stage]
        assert max(again, key=lambda task: task.launch).launch >= failed.finish
        sums = dict(whole(name).profile.by_activity().select("kind", "ns").rows())
        assert 0 < sums["failed work"] <= (failed.finish - failed.launch) * MS

    def test_batches_of_the_stream(self, minor):
        found = log(f"ordinary-{minor}")
        assert len(found.batches) == BATCHES
        assert [each.number for each in found.batches] == list(range(BATCHES))
        jobs = [each for each in found.jobs.values() if each.batch is not None]
        assert [each.batch for each in jobs] == list(range(BATCHES))
        assert len({each.query for each in jobs}) == 1
        for each, batch in zip(jobs, found.batches, strict=True):
            assert batch.start < each.start <= each.end <= batch.end
        names = [found.stages[number].name for each in jobs for number in each.stages]
        assert sum("Scan text" in name for name in names) == BATCHES
        assert sum("StateStoreSave" in name for name in names) == BATCHES
        assert "batch planning" in whole(f"ordinary-{minor}").profile.by_activity()["kind"]


@pytest.mark.parametrize("minor", CLUSTERS)
class TestLost:
    """Three executors of one core are lost."""

    def test_executors_come_and_go(self, minor):
        found = log(f"lost-{minor}")
        # Two to begin with; a new one for each.
        assert set(found.cores.values()) == {1}
        assert len(found.removed) == len(LOSSES)
        assert len(found.cores) in (2 + len(LOSSES) - 1, 2 + len(LOSSES))
        assert set(found.removed) < set(found.cores)

    def test_attempts(self, minor):
        name = f"lost-{minor}"
        without, first, second = LOSSES
        assert attempts(name, without) == (ALONE, ALONE + 1)
        # The task that was lost with its executor, and the one whose output was.
        good = ALONE + SHUFFLE_PARTITIONS
        assert attempts(name, first) == (good, good + 2)
        # The task that was lost, its second attempt, which finds no output, and the outputs that are written again.
        done, all_ = attempts(name, second)
        assert all_ - done == 2
        assert done - good in range(1, ALONE)

    def test_lost_work_lasts_until_the_driver_knows(self, minor):
        found = log(f"lost-{minor}")
        tasks = ran(f"lost-{minor}")
        for executor, gone in found.removed.items():
            (last,) = [t for t in tasks if t.executor == executor and abs(t.finish - gone) < 200]
            assert not last.good
            assert last.worked == last.finish - last.launch > 0

    def test_nothing_is_done_by_executors_that_have_gone(self, minor):
        found, profile = log(f"lost-{minor}"), whole(f"lost-{minor}").profile
        starts = profile.windows.select("window", "start")
        cells = profile.cells.collect().join(starts, on="window")
        names = list(profile.names.workers)
        for executor, gone in found.removed.items():
            worker = names.index(f"executor {executor} core 1")
            theirs = cells.filter((pl.col("worker") == worker) | (pl.col("peer") == worker))
            assert len(theirs) > 0
            assert theirs["start"].max() < (gone + 100) * MS


@pytest.mark.parametrize("minor", CLUSTERS)
class TestSpeculation:
    """The first attempt of a task is slow; a speculative one overtakes it."""

    def test_one_attempt_is_killed(self, minor):
        name = f"speculation-{minor}"
        assert attempts(name, "one is slow") == (ALONE, ALONE + 1)
        (killed,) = [task for task in ran(name) if task.killed]
        assert not killed.good
        # It ended seconds after the job that did not need it any more.
        assert killed.finish > job(name, "one is slow").end + 1_000

    def test_nobody_waits_for_it(self, minor):
        name = f"speculation-{minor}"
        over = job(name, "one is slow").end * MS
        profile = whole(name).profile
        late = profile.windows.filter(pl.col("start") > over)
        cells = profile.cells.collect().filter(pl.col("window").is_in(late["window"].implode()))
        driver = cells.filter(pl.col("worker") == 0)
        assert len(late) >= 4
        assert driver["ns"].sum() == (late["end"] - late["start"]).sum()
        kinds = [profile.names.kinds[kind] for kind in driver["kind"].unique().to_list()]
        assert kinds == ["driver program"]
