"""What triggers look at."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

import rechannel as rc
from rechannel.control.board import Board
from rechannel.control.events import Installed
from rechannel.engine.control.executor_watch import LOOK_MS
from rechannel.engine.control.happenings import Happenings
from rechannel.engine.reconfigure.cluster import FixedCluster
from rechannel.testing import Harness, ManualClock, script
from rechannel.testing.process import Process


def seat():
    board = Board().after(Installed(controller="one", time_ms=1, path="m:C"))
    return board.seat("one")


def events(happenings: Happenings) -> dict[str, int]:
    return dict(happenings.moment(seat(), 1, 1).events)


def test_measured_is_the_latest_timestep_whose_tasks_are_known():
    def seen(*tasks: int):
        known = [SimpleNamespace(timestep=timestep) for timestep in tasks]
        return Happenings(tuple).moment(seat(), 9, 1, tasks=known)

    trigger = rc.control.on("measured")
    assert not trigger.due(seen(), None)
    assert trigger.due(seen(3, 4), None)
    assert not trigger.due(seen(3, 4), seen(4))
    assert trigger.due(seen(4, 5), seen(3, 4))
    assert dict(seen(3).events) == dict(seen(4).events)  # none of the events that the journal keeps


def test_executors_that_are_gone_are_counted():
    happenings = Happenings(tuple)
    for alive in ("ab", "ab", "b", "bc", "c"):
        happenings.looked(frozenset(alive), None)
    assert events(happenings)["executor_lost"] == 2


def test_executors_that_were_given_back_are_not_lost():
    happenings = Happenings(tuple)
    happenings.looked(frozenset("abc"), 3)
    happenings.looked(frozenset("a"), 1)
    assert "executor_lost" not in events(happenings)
    happenings.looked(frozenset(), 1)
    assert events(happenings)["executor_lost"] == 1


@pytest.mark.parametrize(
    ("looks", "lost"),
    [
        # A change to 1 executor: it is wanted from its step on, and two leave when it is done.
        ([("abc", 3), ("abc", 1), ("ab", 1), ("a", 1), ("", 1)], 1),
        ([("abc", 3), ("ab", 1), ("a", 1)], 0),
        ([("abc", None), ("abc", 2), ("a", 2)], 1),
        # A change to 3: they are wanted before they come.
        ([("a", 1), ("a", 3), ("abc", 3), ("bc", 3), ("bcd", 3), ("bde", 3)], 2),
        ([("ab", None), ("b", None), ("bc", None)], 1),
    ],
)
def test_only_executors_that_are_missed_are_lost(looks, lost):
    happenings = Happenings(tuple)
    for alive, wanted in looks:
        happenings.looked(frozenset(alive), wanted)
    assert events(happenings).get("executor_lost", 0) == lost


class Losing(rc.control.Controller):
    trigger = rc.control.on("executor_lost")

    def on_init(self):
        return 0

    def on_begin(self, control):
        control.state = control.state + 1


def test_a_controller_begins_when_an_executor_is_lost():
    rows = script("k bigint", [[{"k": 1}] for _ in range(4)])
    counts = rc.read().memory(rows).key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    cluster = FixedCluster()
    process = Harness(counts.write.memory("out"), cluster=cluster).start(controllers=[Losing()])
    process.run()
    assert process.controllers.board.seat("losing").state == 0
    cluster.alive = cluster.alive[:-1]
    rows.push([{"k": 2}])
    rows.push([{"k": 3}])
    process.run()
    assert process.controllers.board.seat("losing").state == 1


def test_it_also_begins_while_no_rows_arrive():
    clock, cluster = ManualClock(), FixedCluster()
    counts = (
        rc.read()
        .memory(script("k bigint", [[{"k": 1}]]))
        .key_by("k")
        .aggregate(n=rc.aggregates.count(), name="counts")
    )
    stream = Harness(counts.write.memory("out"), cluster=cluster, clock=clock)
    process = stream.start(controllers=[Losing()])
    process.run()
    cluster.alive = cluster.alive[:-1]
    for expected in (0, 1):
        while process.step() or len(process.executor):  # looks are made beside the driver
            pass
        assert process.controllers.board.seat("losing").state == expected
        clock.advance(LOOK_MS)
    assert list(stream.outputs()) == [1]


class Reaching(rc.control.Controller):
    trigger = rc.control.on("watermark", at_ms=3_000)

    def on_begin(self, control):
        control.state = [*(control.state or []), control.timestep]


def timed() -> tuple[object, Process]:
    rows = script("k bigint, at timestamp")
    counts = (
        rc.read()
        .memory(rows)
        .event_time("at")
        .key_by("k")
        .window(rc.windows.tumbling("1 second"))
        .aggregate(n=rc.aggregates.count(), name="counts")
    )
    return rows, Harness(counts.write.memory("out")).start(controllers=[Reaching()])


def test_a_controller_begins_once_when_a_watermark_has_passed():
    from datetime import UTC, datetime

    rows, process = timed()
    for second in (1, 2, 4, 5, 6):
        rows.push([{"k": 1, "at": datetime.fromtimestamp(second, UTC)}])
        process.run()
    assert process.controllers.board.seat("reaching").state == [3]


class Seeing(rc.control.Controller):
    """Notes the timesteps that its trigger has seen."""

    def __init__(self, metric: str, **bound: float) -> None:
        self.trigger = rc.control.when(metric, **bound)

    def on_begin(self, control):
        control.state = [*(control.state or []), control.timestep]


@pytest.mark.parametrize(
    ("metric", "bound", "seen"),
    [
        ("rows_in", {"above": 10}, [3]),
        ("rows_out", {"below": 3}, [1, 2, 5]),
        ("duration_ms", {"above": 50}, [3]),
        ("input_rows_per_second", {"below": 11}, [5]),
        ("failures", {"above": 0}, [3]),
    ],
)
def test_a_controller_begins_when_a_metric_is_out_of_bounds(metric, bound, seen):
    """Timestep 3 has more rows, takes longer and fails once."""
    clock, failed = ManualClock(), []

    def slow(operator: str, timestep: int, task: int, attempt: int) -> str | None:
        if (operator, task) != ("counts", 0):
            return None
        clock.advance(100 if timestep == 3 else 10)
        if timestep != 3 or attempt >= 4:
            return None
        failed.append(attempt)
        return "before"

    rows = script("k bigint")
    counts = rc.read().memory(rows).key_by("k").aggregate(n=rc.aggregates.count(), name="counts")
    flow = counts.map_batches(lambda batches: batches).write.memory("out")
    process = Harness(flow, clock=clock).start(
        controllers=[Seeing(metric, **bound)], task_faults=slow
    )
    for keys in ([1, 1], [1, 2], [*range(20)], [1, 2, 3], [1]):
        rows.push([{"k": k} for k in keys])
        process.run()
        clock.advance(90)
    assert failed == [0, 1, 2, 3]
    assert process.controllers.board.seat("seeing").state == seen
