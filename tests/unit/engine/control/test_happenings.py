"""What triggers look at."""

from __future__ import annotations

import rechannel as rc
from rechannel.control.board import Board
from rechannel.control.events import Installed
from rechannel.engine.control.happenings import Happenings
from rechannel.engine.reconfigure.cluster import FixedCluster
from rechannel.testing import Harness, script
from rechannel.testing.process import Process


def seat():
    board = Board().after(Installed(controller="one", time_ms=1, path="m:C"))
    return board.seat("one")


def events(happenings: Happenings) -> dict[str, int]:
    return dict(happenings.moment(seat(), 1, 1).events)


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
