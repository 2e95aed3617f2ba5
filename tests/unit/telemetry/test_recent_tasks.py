"""What the tasks of the last timesteps received and took."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.control import Controller
from rechannel.telemetry.events import (
    JobStarted,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.log import EventLog
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.recent_tasks import (
    TIMESTEPS_WITH_BINS,
    RecentTasks,
    at_once,
    columns_of,
    evened,
    recent_tasks,
)
from rechannel.telemetry.task_finished import Sent, SparkMetrics, TaskFinished
from rechannel.testing import Harness, script


def task(timestep, operator="counts", number=0, *, rows=10, began=0.0, ms=5.0, wait=1.0, **more):
    return TaskFinished(
        timestep=timestep, operator=operator, task=number, attempt="a", host="h", rows_in=rows,
        started_ms=began, finished_ms=began + ms, ms={"wait": wait}, **more,
    )  # fmt: skip


def measured(number, launch, finish):
    return SparkMetrics(
        stage=1, partition=number, executor="1", host="h", launch_ms=launch, finish_ms=finish
    )


def begun(timestep):
    return TimestepStarted(timestep=timestep, now_ms=0, at_ms=0)


def done(timestep, duration_ms=20.0):
    return TimestepCommitted(timestep=timestep, at_ms=20, duration_ms=duration_ms)


DRIVER = JobStarted(job="j", at_ms=0, engine="in-process")


def test_columns_are_in_the_order_of_the_tasks():
    sent = [
        Sent(operator="next", input=0, offered=9, rows=rows, keys=1, bytes=8) for rows in (3, 4)
    ]
    found = columns_of(
        [
            task(1, number=1, rows=7, began=4, ms=6, wait=2, sent=(sent[0],), bins="x"),
            task(1, number=0, rows=5, began=1, ms=2, wait=0, sent=(sent[1],)),
        ]
    )
    assert found.numbers.tolist() == [0, 1]
    assert found.rows.tolist() == [5, 7]
    assert found.busy_ms.tolist() == [2, 4]
    assert found.core_ms.tolist() == [2, 6]
    assert (found.began_ms, found.ended_ms) == (1, 10)
    assert (found.sent, found.offered) == ({"next": 7}, {"next": 18})
    assert found.bins == ("x",)
    assert found.launch_ms is None


def test_with_sparks_figures_a_core_is_taken_from_launch_to_result():
    spans = [(100, 140), (103, 150), (106, 150), (141, 150)]
    tasks = [task(1, number=n, ms=8, spark=measured(n, *span)) for n, span in enumerate(spans)]
    found = columns_of(tasks)
    assert found.core_ms.tolist() == [40, 47, 44, 9]
    assert found.busy_ms.tolist() == [7, 7, 7, 7]
    assert (found.began_ms, found.ended_ms) == (100, 150)
    # The fourth waited for a core: the driver had no part in that.
    assert found.launch_ms == 3


def test_cores_are_counted_by_the_tasks_that_have_one_at_once():
    assert at_once([]) == 0
    spans = [(0, 10), (2, 5), (5, 8), (6, 7), (10, 12)]
    tasks = [task(1, number=n, began=began, ms=end - began) for n, (began, end) in enumerate(spans)]
    assert at_once(tasks) == 3
    events = [DRIVER, begun(1), *tasks, done(1)]
    (found,) = recent_tasks(events)
    assert (found.at_once, found.executors) == (3, 0)
    placed = [
        each.measured(dataclasses.replace(measured(n, n, n + 2), executor=str(n % 2)))
        for n, each in enumerate(tasks)
    ]
    (found,) = recent_tasks([DRIVER, begun(1), *placed, done(1)])
    assert (found.at_once, found.executors) == (2, 2)


def test_a_core_is_free_before_its_result_is_there():
    """On two cores, Spark launches the third task before it has the result of the first."""
    spans = [(100, 140), (102, 150), (131, 170), (141, 175)]
    tasks = [
        task(
            1, number=n, spark=dataclasses.replace(measured(n, *span), run_ms=25, deserialise_ms=2)
        )
        for n, span in enumerate(spans)
    ]
    assert columns_of(tasks).launch_ms == 2
    assert at_once(tasks) == 2
    unknown = [task(1, number=n, spark=measured(n, *span)) for n, span in enumerate(spans)]
    assert at_once(unknown) == 3


def test_the_driver_has_what_is_in_no_turn():
    events = [
        DRIVER,
        begun(1),
        task(1, "in", began=2, ms=4),
        task(1, "in", 1, began=3, ms=5),
        task(1, "counts", began=10, ms=6),
        task(1, "other", began=11, ms=2),
        done(1, 20),
    ]
    (found,) = recent_tasks(events)
    assert found.turns_ms == 6 + 6
    assert found.driver_ms == 8
    assert found.tasks == 4
    assert found.launch_ms is None


def test_only_the_attempt_that_was_committed_counts():
    failed = TimestepFailed(timestep=1, at_ms=0, error="E")
    events = [
        DRIVER, begun(1), task(1, rows=1), failed, begun(1), task(1, rows=2), begun(2), task(2, rows=3),
        DRIVER, begun(1), task(1, rows=4), done(1), begun(2), task(2, rows=5), done(2),
    ]  # fmt: skip
    found = recent_tasks(events)
    assert [each.operators["counts"].rows.tolist() for each in found] == [[4], [5]]
    assert [each.driver for each in found] == [2, 2]


def test_the_number_of_tasks_is_bounded():
    fold, kept = RecentTasks(timesteps=5, tasks=6), []
    for timestep, tasks in enumerate([1, 1, 1, 1, 1, 1, 1, 4, 9, 1], start=1):
        fold.see([*(task(timestep, number=n) for n in range(tasks)), done(timestep)])
        kept.append([each.timestep for each in fold.recent])
    assert kept[5] == [2, 3, 4, 5, 6]
    assert kept[7:] == [[6, 7, 8], [9], [10]]


def test_bins_are_kept_of_the_latest_timesteps():
    fold, last = RecentTasks(), TIMESTEPS_WITH_BINS + 3
    for timestep in range(1, last + 1):
        fold.see([task(timestep, bins="x"), done(timestep)])
    with_bins = [each.timestep for each in fold.recent if each.operators["counts"].bins]
    assert with_bins == list(range(4, last + 1))
    assert len(fold.recent) == last


def test_a_fold_that_fails_leaves_the_log_alone(tmp_path, caplog):
    def fails(events):
        raise ValueError("no")

    log = EventLog(tmp_path, seen=fails)
    log.append(begun(1))
    log.close()
    assert list(read_events(tmp_path)) == [begun(1)]
    assert "cannot show its events" in caplog.text


def test_what_the_log_shows_is_what_is_read_back(tmp_path):
    events = [DRIVER]
    for timestep in range(1, 6):
        events += [
            begun(timestep),
            *(task(timestep, number=n, rows=n) for n in range(4)),
            done(timestep),
        ]
    fold = RecentTasks()
    log = EventLog(tmp_path, seen=fold.see)
    log.append(*events)
    log.close()
    saved = recent_tasks(read_events(tmp_path))
    assert len(saved) == len(fold.recent) == 5
    for one, other in zip(fold.recent, saved, strict=True):
        assert (one.timestep, one.duration_ms, one.driver) == (
            other.timestep, other.duration_ms, other.driver,
        )  # fmt: skip
        np.testing.assert_array_equal(one.operators["counts"].rows, other.operators["counts"].rows)
        np.testing.assert_array_equal(
            one.operators["counts"].core_ms, other.operators["counts"].core_ms
        )


class Watching(Controller):
    trigger = rc.control.every(timesteps=1)

    def __init__(self, seen):
        self.seen = seen

    def on_begin(self, control):
        self.seen.append(control.tasks)


def test_a_controller_sees_the_tasks():
    seen = []
    rows = [{"k": n % 5} for n in range(100)]
    stream = rc.read().memory(script("k long", [rows, rows]), name="in")
    counted = stream.key_by("k").aggregate(n=agg.count(), name="counts")
    harness = Harness(counted.write.memory("out"))
    harness.start(controllers=[Watching(seen)]).run()
    last = seen[-1][-1]
    assert last.operators["in"].rows.sum() == 100
    assert last.operators["in"].offered == {"counts": 100}
    arrived = last.operators["counts"].rows.sum()
    assert last.operators["in"].sent == {"counts": arrived}
    assert len(last.operators["counts"].numbers) == 2


def test_tasks_that_share_one_of_spark_share_what_it_needs_around_them():
    core, busy = np.array([25.0, 3.0, 9.0, 4.0]), np.array([3.0, 3.0, 4.0, 4.0])
    shared = np.array([70.0, 70.0, 71.0, 70.0])
    made = evened(core, busy, shared)
    assert made.tolist() == pytest.approx([3 + 22 / 3, 3 + 22 / 3, 9.0, 4 + 22 / 3])
    assert made.sum() == pytest.approx(core.sum())
    alone = np.array([-1.0, -2.0, 70.0, 71.0])
    assert evened(core, busy, alone) is core
