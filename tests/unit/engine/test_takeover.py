"""What a driver makes of the Configuration that the one before left."""

from __future__ import annotations

import logging

import pytest

import rechannel as rc
from rechannel.engine.cluster import Executor, FixedCluster
from rechannel.engine.takeover import APPLICATION
from rechannel.testing import Harness, MemoryStore, script


class Refusing(FixedCluster):
    """Takes no request."""

    def request(self, total: int) -> None:
        msg = f"the cluster manager did not take a request for {total} executors"
        raise RuntimeError(msg)


def cluster(application: str, kind: type[FixedCluster] = FixedCluster, room: int = 9):
    alive = [Executor(id=str(i), host="h", cores=2) for i in range(2)]
    return kind(alive=alive, room=room, application=application)


class Restarts:
    """The same job on one cluster after the other."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.rows = script("k BIGINT", [[{"k": 1}]])

    def on(self, there: FixedCluster) -> Harness:
        stream = rc.read().memory(self.rows, name="rows")
        counts = stream.key_by("k").aggregate(n=rc.count(), name="counts")
        harness = Harness(counts.write.memory("out"), store=self.store, cluster=there)
        harness.start()
        return harness


def left_behind() -> Restarts:
    """A job whose driver asked for an executor more and put a task somewhere."""
    made = Restarts()
    first = made.on(cluster("one"))
    first.process.reconfigure([rc.executors(3), rc.place("counts", 1, "0")])
    first.process.run()
    assert placement(first) == {1: "0"}
    return made


def placement(harness: Harness) -> dict[int, str]:
    return dict(harness.process.driver.configuration.operators["counts"].placement)


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


def test_in_the_same_application_tasks_stay_where_they_were_put():
    made, there = left_behind(), cluster("one")
    there.alive.append(Executor(id="2", host="h", cores=2))
    assert placement(made.on(there)) == {1: "0"}
    assert there.requested == []


@pytest.mark.parametrize(
    ("there", "told"),
    [
        (cluster("two", room=2), "accepted are 1 to 2"),
        (cluster("two", Refusing), "did not take a request for 3"),
    ],
)
def test_where_executors_are_refused_the_driver_goes_on_and_says_so(there, told, caplog):
    made = left_behind()
    with caplog.at_level(logging.WARNING):
        again = made.on(there)
    assert "there were 3 executors before" in caplog.text
    assert told in caplog.text
    made.rows.push([{"k": 2}])
    again.process.run()


def test_where_there_is_no_application_nothing_is_noted():
    harness = Restarts().on(cluster(""))
    assert APPLICATION not in harness.journal_state().notes
