"""A running session, as its status store tells of it."""

from itertools import islice

import pytest

from rechannel.errors import SessionError
from rechannel.profiling.live import RETAINED, Live

START = 1_700_000_000_000


def task(number, launch, duration, status="SUCCESS", **more):
    figures = {
        "executorDeserializeTime": 5,
        "executorRunTime": max(0, duration - 15),
        "jvmGcTime": 0,
        "resultSerializationTime": 0,
        "shuffleFetchWaitTime": 0,
        "shuffleWriteTime": 0,
    }
    return {
        "taskId": number,
        "stageId": 0,
        "index": number,
        "executorId": "1",
        "launchTime": START + launch,
        "duration": duration,
        "status": status,
        "resultFetchStart": -1,
        **figures,
        **more,
    }


class Store:
    """What Spark would answer; how often it was asked for tasks."""

    def __init__(self, rows, over=900):
        self.rows, self.over, self.asked = rows, over, 0

    def newest(self, what, most):
        stage = {
            "stageId": 0,
            "attemptId": 0,
            "name": "count at job.py:1",
            "submissionTime": START + 10,
            "completionTime": START + self.over if self.over else None,
        }
        job = {"jobId": 0, "submissionTime": START, "completionTime": stage["completionTime"]}
        executor = {"id": "1", "totalCores": 2}
        known = {
            "JobDataWrapper": job,
            "StageDataWrapper": stage,
            "ExecutorSummaryWrapper": executor,
        }
        return [{"info": known[what]}]

    def rows_of(self, stage, attempt=0):
        self.asked += 1
        return self.rows


class Clock:
    def __init__(self):
        self.now, self.slept = START, []

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.now += round(seconds * 1_000)


def live(store, retained=RETAINED):
    clock = Clock()
    return Live(
        tasks=store, retained=retained, title="a job", clock=clock, sleep=clock.sleep
    ), clock


def test_every_window_is_told_when_it_is_over():
    store = Store([task(0, 20, 400), task(1, 20, 850)])
    watch, clock = live(store)
    first, second, third = islice(watch.windows(500), 3)
    assert clock.now == START + 1_800
    shares = [
        {r["worker"]: r["critical"] for r in each.profile.by_worker().to_dicts()}
        for each in (first, second, third)
    ]
    assert shares[0]["executor 1 core 1"] > 0
    assert shares[0]["executor 1 core 2"] > 0
    # One task is left, on the core that has its number.
    assert shares[1].keys() == {"driver", "executor 1 core 2"}
    assert shares[1]["executor 1 core 2"] > 0.5
    assert sum(second.profile.cells.collect()["critical"]) == pytest.approx(1)
    assert second.profile.by_operator()["operator"].to_list() == ["count at job.py:1"]
    # A stage that is over is asked for once.
    assert store.asked == 1
    assert shares[2] == {"driver": pytest.approx(1)}


def test_tasks_that_run_or_failed():
    rows = [task(0, 20, 0, "RUNNING"), task(1, 20, 300, "FAILED", executorRunTime=-280)]
    watch, _ = live(Store(rows, over=None))
    found = watch.window(START, START + 500).profile
    kinds = found.by_activity()["kind"].to_list()
    assert {"processing", "failed work"} <= set(kinds)


def test_a_window_with_more_jobs_than_spark_keeps_is_told():
    watch, _ = live(Store([]), {**RETAINED, "spark.ui.retainedJobs": 1})
    assert "raise spark.ui.retainedJobs" in watch.window(START, START + 500).notes[0]


def test_a_connect_session_has_no_store():
    with pytest.raises(SessionError, match="event log instead"):
        Live.of(object())
