"""A running session, as its status store tells of it."""

import time
from dataclasses import replace
from threading import Event

import pytest

from rechannel.errors import SessionError
from rechannel.profiling.model.summaries import joined
from rechannel.profiling.spark.live import LiveSession
from rechannel.profiling.watch import Watch

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

    def __init__(self, rows, over=900, number=0):
        self.rows, self.over, self.number, self.asked = rows, over, number, 0

    def newest(self, what, most):
        if what == "ExecutorSummaryWrapper":
            return [{"info": {"id": "1", "totalCores": 2}}]
        return self.since(what, 0)

    def since(self, what, first, last=None, index=""):
        if not first <= self.number <= (self.number if last is None else last):
            return []
        stage = {
            "stageId": self.number,
            "attemptId": 0,
            "status": "COMPLETE" if self.over else "ACTIVE",
            "name": "count at job.py:1",
            "submissionTime": START + 10,
            "completionTime": START + self.over if self.over else None,
            "numCompleteTasks": len(self.rows),
        }
        times = {"submissionTime": START, "completionTime": stage["completionTime"]}
        graph = {"childClusters": [{"name": "WholeStageCodegen (1)"}, {"name": "Exchange"}]}
        return {
            "JobDataWrapper": [{"info": {"jobId": self.number, "status": "RUNNING", **times}}],
            "StageDataWrapper": [{"info": stage}],
            "RDDOperationGraphWrapper": [{"stageId": self.number, "rootCluster": graph}],
        }[what]

    def rows_of(self, stage, attempt=0):
        self.asked += 1
        return self.rows


def live(store):
    return LiveSession(tasks=store, title="a job", clock=lambda: START + 700)


def test_every_window_has_what_was_in_it():
    store = Store([task(0, 20, 400), task(1, 20, 850)])
    watch = live(store)
    assert watch.ready(START + 500) == pytest.approx(0.1)
    windows = [watch.window(START + at, START + at + 500) for at in (0, 500, 1_000)]
    first, second, third = (
        {r["worker"]: r["critical"] for r in each.profile.by_worker().to_dicts()}
        for each in windows
    )
    # The driver waits for the longer one.
    assert first["executor 1 core 1"] == 0
    assert first["executor 1 core 2"] > 0.5
    # One task is left, on the core that has its number.
    assert second.keys() == {"driver", "executor 1 core 2"}
    assert second["executor 1 core 2"] > 0.5
    assert sum(windows[1].profile.cells.collect()["critical"]) == pytest.approx(1)
    operators = windows[1].profile.by_operator()["operator"].to_list()
    assert operators == ["Exchange (count at job.py:1)"]
    # A stage that is over is asked for once.
    assert store.asked == 1
    assert third == {"driver": pytest.approx(1)}


def test_tasks_that_run_or_failed():
    rows = [task(0, 20, 0, "RUNNING"), task(1, 20, 300, "FAILED", executorRunTime=-280)]
    watch = live(Store(rows, over=None))
    found = watch.window(START, START + 500).profile
    kinds = found.by_activity()["kind"].to_list()
    assert {"processing", "failed work"} <= set(kinds)


def test_what_was_over_before_is_not_looked_at():
    store = Store([task(0, 20, 400)], over=450)
    watch = live(store)
    watch.begin()
    assert len(watch.window(START, START + 500).profile.by_operator()) == 0
    assert store.asked == 0
    # What runs is.
    store.over = None
    watch = live(store)
    watch.begin()
    assert len(watch.window(START, START + 500).profile.by_operator()) == 1


def test_a_clock_that_was_set_during_a_job_spoils_no_window():
    store = Store([task(0, 20, 400)], over=None)
    answer = store.since

    def since(what, first, last=None, index=""):
        found = answer(what, first, last, index)
        if what == "JobDataWrapper" and found:
            found[0]["info"]["submissionTime"] = 86_400_000
        return found

    store.since = since
    found = live(store).window(START, START + 500)
    assert found.profile.known == 1
    assert len(found.profile.by_operator()) == 1


class Waiting(Store):
    """A store with 200 more stages, of the same job, which are to come."""

    def newest(self, what, most):
        found = super().newest(what, most)
        return found if what == "ExecutorSummaryWrapper" else found[::-1][:most]

    def since(self, what, first, last=None, index=""):
        found = super().since(what, self.number, None, index)
        if what == "StageDataWrapper":
            told = {"status": "PENDING", "submissionTime": None}
            found += [{"info": {**found[0]["info"], **told, "stageId": n}} for n in range(1, 201)]
        return [row for row in found if first <= number(row) <= (1_000 if last is None else last)]


def number(row):
    info = row.get("info", row)
    return info.get("stageId", info.get("jobId"))


def test_what_runs_is_found_among_many_stages_that_wait():
    watch = live(Waiting([task(0, 20, 400)], over=None))
    watch.begin()
    found = watch.window(START, START + 500)
    assert len(found.profile.by_operator()) == 1
    assert found.notes == []


def test_what_spark_forgot_is_told():
    store = Store([task(0, 20, 400)], over=450)
    watch = live(store)
    assert watch.window(START, START + 500).notes == []
    # Jobs and stages 1 to 6 came and went.
    store.number, store.over = 7, None
    notes = watch.window(START + 500, START + 1_000).notes
    assert notes[0].startswith("Spark dropped 12 jobs or stages ")
    assert "raise spark.ui.retainedJobs" in notes[0]
    # It is told once.
    assert watch.window(START + 1_000, START + 1_500).notes == []


def test_tasks_that_spark_forgot_are_told():
    store = Store([task(0, 20, 400)], over=450)
    answer = store.since
    store.since = lambda *a, **k: [
        {**row, "info": {**row["info"], "numCompleteTasks": 3}} if "info" in row else row
        for row in answer(*a, **k)
    ]
    watch = live(store)
    (note,) = watch.window(START, START + 500).notes
    assert note.startswith("Spark dropped 2 tasks ")


def test_a_connect_session_has_no_store():
    with pytest.raises(SessionError, match="event log instead"):
        LiveSession.of(object())


class Known:
    """A session whose windows are known; the clock is behind all of them."""

    def __init__(self, count, fails=()):
        self.fails = fails
        store = Store([task(0, 20, 400), task(1, 20, 850)])
        made = [live(store).window(START, START + 500) for _ in range(count)]
        self.made = [replace(each, title=f"window {n}") for n, each in enumerate(made)]
        self.asked = []

    title, gone = "a job", False

    def begin(self):
        self.began = True

    def stopped(self):
        return self.gone

    def clock(self):
        assert self.began
        return START

    def ready(self, end_ms):
        # Behind the last one nothing is ready.
        return 0 if len(self.asked) < len(self.made) or self.gone else 0.01

    def window(self, start_ms, end_ms):
        number = len(self.asked)
        self.asked.append((start_ms - START, end_ms - START))
        if number in self.fails:
            raise RuntimeError("Spark did not answer")
        return self.made[number]


def titles(windows):
    return [each.title for each in windows]


def until(true):
    deadline = time.monotonic() + 20
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_watch_looks_at_one_window_behind_the_other():
    known, told = Known(4), []
    with Watch(live=known, window_ms=500, tell=told.append, keep=3) as watch:
        until(lambda: len(told) == 4)
        assert titles(watch.windows) == titles(known.made[1:])
        assert watch.latest.title == known.made[3].title
        assert len(watch.profile().windows) == 3
    assert known.asked == [(0, 500), (500, 1_000), (1_000, 1_500), (1_500, 2_000)]
    # Who comes late sees what is kept, and an end.
    assert titles(watch) == titles(known.made[1:])


def test_whoever_iterates_sees_every_window_until_it_is_stopped():
    known, seen = Known(3), []
    watch = Watch(live=known, window_ms=500)
    for found in watch:
        seen.append(found)
        if len(seen) == 3:
            watch.stop()
    assert titles(seen) == titles(known.made)


def test_a_session_that_does_not_answer_is_asked_again_and_then_no_more(caplog):
    known = Known(6, fails=(1, 3, 4, 5))
    with Watch(live=known, window_ms=500) as watch:
        until(lambda: "no longer profiled" in caplog.text)
        assert titles(watch.windows) == titles([known.made[0], known.made[2]])


def test_a_function_that_fails_is_told_no_more(caplog):
    known, told = Known(3), []

    def tell(found):
        told.append(found)
        raise ValueError("full")

    with Watch(live=known, window_ms=500, tell=tell) as watch:
        until(lambda: len(watch.windows) == 3)
    assert titles(told) == titles(known.made[:1])
    assert "not called again" in caplog.text


def test_windows_as_one_profile():
    store = Store([task(0, 20, 400), task(1, 20, 850)])
    watch = live(store)
    parts = [watch.window(START + at, START + at + 500).profile for at in (0, 500)]
    whole = joined(parts)
    assert whole.windows["window"].to_list() == [0, 1]
    for worker in ("driver", "executor 1 core 2"):
        shares = [
            each.by_worker().filter(worker=worker)["critical"].item() for each in (*parts, whole)
        ]
        assert shares[2] == pytest.approx((shares[0] + shares[1]) / 2)


def test_a_watch_ends_with_its_session():
    known = Known(2)
    watch = Watch(live=known, window_ms=500)
    until(lambda: len(watch.windows) == 2)
    known.gone = True
    assert titles(watch) == titles(known.made)
    assert watch.profile().known > 0


def test_a_watch_whose_session_vanishes_ends(caplog):
    known = Known(2)

    def stopped():
        if len(known.asked) == 2:
            raise ConnectionError("the gateway is gone")
        return False

    known.stopped = stopped
    known.ready = lambda end_ms: 0
    watch = Watch(live=known, window_ms=500)
    until(lambda: "no longer profiled: the gateway is gone" in caplog.text)
    assert titles(watch) == titles(known.made)


def test_a_watch_may_be_stopped_by_whom_it_tells():
    known, told = Known(3), []

    def tell(found):
        told.append(found)
        watch.stop()

    begun = Event()
    known.ready = lambda end_ms: 0 if begun.is_set() else 0.01
    watch = Watch(live=known, window_ms=500, tell=tell)
    begun.set()
    until(lambda: told)
    assert list(watch) == told


def test_nothing_was_seen_yet():
    watch = Watch(live=Known(0), window_ms=500)
    assert watch.latest is None
    assert watch.profile().known == 0
    watch.stop()


def test_what_spark_forgot_while_it_ran_is_over_and_told():
    store = Store([task(0, 20, 0, "RUNNING")], over=None)
    watch = live(store)
    assert watch.window(START, START + 500).notes == []
    store.since = lambda *a, **k: []
    found = watch.window(START + 500, START + 1_000)
    assert found.notes[0].startswith("Spark dropped 2 jobs or stages ")
    assert "scheduling" not in found.profile.by_activity()["kind"].to_list()


def test_a_stage_that_is_run_again_is_found():
    store = Store([task(0, 20, 400)], over=450)
    answer = store.since
    attempts = [(0, "FAILED", START + 450)]

    def since(what, first, last=None, index=""):
        found = answer(what, first, last, index)
        if what == "JobDataWrapper" and found:
            found[0]["info"] |= {"completionTime": None, "stageIds": [0]}
        if what == "StageDataWrapper" and found:
            info = found[0]["info"]
            found = [
                {"info": {**info, "attemptId": n, "status": status, "completionTime": at}}
                for n, status, at in attempts
            ]
        return found

    store.since = since
    watch = live(store)
    assert len(watch.window(START, START + 500).profile.by_operator()) == 1
    attempts.append((1, "COMPLETE", START + 550))
    watch.window(START + 500, START + 600)
    assert store.asked == 2


def test_a_task_as_long_as_all_that_is_known_is_not_waiting():
    watch = live(Store([task(0, -300, 0, "RUNNING", index=0)], over=None))
    found = watch.window(START + 20, START + 500)
    shares = {row["kind"]: row["critical"] for row in found.profile.by_activity().to_dicts()}
    assert shares["processing"] == pytest.approx(1)
