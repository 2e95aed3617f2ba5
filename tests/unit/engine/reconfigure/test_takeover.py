"""What a driver makes of the Configuration that the one before left."""

from __future__ import annotations

import logging
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.engine.reconfigure.takeover import APPLICATION
from rechannel.reconfigure.record import Phase, Record
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script


class Refusing(FixedCluster):
    """Takes no request."""

    def request(self, total: int) -> None:
        msg = f"the cluster manager refused a request for {total} executors"
        raise RuntimeError(msg)


def cluster(application: str, kind: type[FixedCluster] = FixedCluster, room: int = 9):
    alive = [Executor(id=str(i), host="h", cores=2) for i in range(2)]
    return kind(alive=alive, room=room, application=application)


class Restarts:
    """The same job on one cluster after the other."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.rows = script("k BIGINT", [[{"k": 1}]])

    def on(self, there: FixedCluster, **options: Any) -> Harness:
        stream = rc.read().memory(self.rows, name="rows")
        counts = stream.key_by("k").aggregate(n=agg.count(), name="counts")
        harness = Harness(counts.write.memory("out"), store=self.store, cluster=there, **options)
        harness.start()
        return harness


def left_behind() -> Restarts:
    """A job whose driver asked for an executor more and put a task somewhere."""
    made = Restarts()
    first = made.on(cluster("one"))
    first.process.reconfigure([rc.changes.executors(3), rc.changes.place("counts", 1, "0")])
    first.process.run()
    assert placement(first) == {1: "0"}
    return made


def step_by_step() -> Restarts:
    """A job with a task on a certain executor, and a change under way that has made one step of four."""
    made = Restarts()
    first = made.on(cluster("one"), settings=Settings(bins=8, keep_versions=9))
    first.process.reconfigure(rc.changes.place("counts", 1, "0"))
    first.process.run()
    made.rows.push([{"k": 2}])
    first.process.reconfigure(rc.changes.move("counts", [0, 1, 2, 3], 1), rc.strategies.fluid())
    while not moving(first).taken:
        assert first.process.step()
    assert moving(first).base["operators"]["counts"]["placement"] == [[1, "0"]]
    return made


def moving(harness: Harness) -> Record:
    return harness.process.changes.coordination.find("r2")


def placement(harness: Harness) -> dict[int, str]:
    return dict(harness.process.position.configuration.operators["counts"].placement)


def test_executors_are_asked_for_again_and_places_of_another_application_forgotten(caplog):
    made, there = left_behind(), cluster("two")
    with caplog.at_level(logging.WARNING):
        again = made.on(there)
    assert there.requested == [3]
    assert placement(again) == {}
    assert "{'counts': {1: '0'}} are executors of another application" in caplog.text
    assert again.journal_state().notes[APPLICATION] == "two"
    assert placement(made.on(cluster("two"))) == {}
    made.rows.push([{"k": 2}])
    last = made.on(cluster("two"))
    last.process.run()
    assert last.output().num_rows == 1


def test_a_change_that_is_led_back_in_another_application_puts_no_task_where_it_was():
    again = step_by_step().on(cluster("two"), settings=Settings(bins=8, keep_versions=9))
    again.process.abort("r2")
    again.process.run()
    assert moving(again).phase is Phase.UNDONE
    assert placement(again) == {}


def test_nor_does_one_whose_way_back_was_planned_in_the_application_before():
    made, options = left_behind(), {"settings": Settings(bins=8, keep_versions=9)}
    first = made.on(cluster("one"), **options)
    change = [rc.changes.place("counts", 1, "1"), rc.changes.move("counts", list(range(8)), 1)]
    made.rows.push([{"k": 2}])
    first.process.reconfigure(change, rc.strategies.fluid(gap=3))
    while not moving(first).taken:
        assert first.process.step()
    first.process.abort("r2")
    assert any(assign.name == "placement" for assign in moving(first).left[0].first)
    again = made.on(cluster("two"), **options)
    again.process.run()
    assert moving(again).phase is Phase.UNDONE
    assert placement(again) == {}


def test_what_waits_to_put_a_task_on_an_executor_of_another_application_fails():
    made = Restarts()
    first = made.on(cluster("one"))
    for task, executor in ((0, "1"), (1, None)):
        first.process.reconfigure(rc.changes.place("counts", task, executor), at=99)
    again = made.on(cluster("two"))
    found = again.process.changes.coordination
    assert found.find("r1").reason == (
        "rolled back: it names executors of another Spark application; request it again"
    )
    assert [str(record.phase) for record in found.records] == ["failed", "waiting"]
    assert made.on(cluster("two")).process.changes.coordination.find("r2").open


def test_in_the_same_application_changes_go_on_with_their_places():
    again = step_by_step().on(cluster("one"), settings=Settings(bins=8, keep_versions=9))
    again.process.abort("r2")
    again.process.run()
    assert placement(again) == {1: "0"}


def test_in_the_same_application_tasks_stay_where_they_were_put():
    made, there = left_behind(), cluster("one")
    there.alive.append(Executor(id="2", host="h", cores=2))
    assert placement(made.on(there)) == {1: "0"}
    assert there.requested == []


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (cluster("two", room=2), "accepted are 1 to 2"),
        (cluster("two", Refusing), "refused a request for 3"),
    ],
)
def test_where_executors_are_refused_the_driver_goes_on_and_says_so(there, told, caplog):
    made = left_behind()
    with caplog.at_level(logging.WARNING):
        again = made.on(there)
    assert "the previous driver had 3 executors" in caplog.text
    assert told in caplog.text
    made.rows.push([{"k": 2}])
    again.process.run()


def test_where_there_is_no_application_nothing_is_noted():
    harness = Restarts().on(cluster(""))
    assert APPLICATION not in harness.journal_state().notes
