"""What is asked of a cluster ahead of a change, and when it is over."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from rechannel import changes
from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.engine.reconfigure.cluster_preparer import ClusterPreparer, executors_kept
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.errors import NotReadyError, SessionError
from rechannel.reconfigure import strategies
from rechannel.reconfigure.record import Phase, Record, TakenStep
from tests.support.changing import Paper


@dataclass(kw_only=True)
class Stubborn(FixedCluster):
    """Takes no requests."""

    def request(self, total: int) -> None:
        raise SessionError(f"no {total}")


def preparer(cluster: FixedCluster, **more: Any) -> ClusterPreparer:
    return ClusterPreparer(switch=cast("ProgramSwitch", None), cluster=cluster, **more)


def over(total: int, phase: Phase, id_: str = "r1") -> Record:
    record = Record(
        id=id_, change=changes.executors(total), strategy=strategies.all_at_once(), cause="a test"
    )
    return replace(record, phase=phase)


def three(kind: Any = FixedCluster, **more: Any) -> Any:
    alive = [Executor(id=str(number), host="h", cores=1) for number in range(3)]
    return kind(alive=alive, room=5, **more)


def asks(made: ClusterPreparer, total: int, id_: str = "r1") -> None:
    """A change begins to wait for executors; nobody sees what comes of it."""
    with suppress(NotReadyError):
        made.prepare(over(total, Phase.WAITING, id_), Paper().now, {})


def test_those_that_are_not_wanted_any_more_go_when_the_change_is_done():
    cluster = three()
    preparer(cluster).release(over(2, Phase.DONE))
    assert (cluster.requested, len(cluster.decommissioned), len(cluster.alive)) == ([2], 1, 2)


def test_no_more_come_when_it_failed():
    cluster = three()
    preparer(cluster).release(over(5, Phase.FAILED))
    assert (cluster.requested, cluster.decommissioned) == ([3], [])


def test_a_cluster_that_takes_no_request_then_does_not_end_the_job(caplog):
    cluster = three(Stubborn)
    with caplog.at_level(logging.WARNING), pytest.raises(SessionError):
        cluster.request(1)
    preparer(cluster).release(over(2, Phase.DONE))
    assert "executors that are no longer needed may stay: no 2" in caplog.text
    assert len(cluster.alive) == 3


def test_a_preparation_that_is_over_neither_waits_on_nor_takes_back_what_others_asked_for():
    cluster, waits = three(delay=None), ["r1", "r2"]

    def meanwhile(_: float) -> None:
        if waits.pop(0) == "r2":
            raise NotReadyError("not here")
        made.release(over(4, Phase.ABORTED))
        asks(made, 6, "r2")

    made = preparer(cluster, sleep=meanwhile)
    with pytest.raises(NotReadyError, match="r1 is over"):
        made.prepare(over(4, Phase.WAITING), Paper().now, {})
    made.release(over(4, Phase.ABORTED))
    assert cluster.requested == [4, 3, 6]


def test_a_preparation_that_begins_when_it_is_over_asks_for_nothing():
    cluster = three(delay=None)
    made = preparer(cluster)
    made.release(over(5, Phase.SUPERSEDED))
    asks(made, 5)
    assert cluster.requested == [3]


def test_who_dies_is_replaced_also_where_more_were_asked_for_in_vain():
    cluster = three(delay=None)
    made = preparer(cluster, patience=0.0)
    asks(made, 5)
    cluster.kill("1")
    made.release(over(5, Phase.ABORTED))
    assert cluster.requested == [5, 3]


def test_what_the_configuration_has_stays_asked_for_when_a_change_is_rolled_back():
    cluster = three(delay=None)
    made = preparer(cluster)
    made.restore_executors(4)
    made.release(over(5, Phase.FAILED))
    assert cluster.requested == [4, 4]


def test_what_a_change_that_is_open_asks_for_stays_asked_for_when_another_is_done():
    cluster = three(delay=None)
    made = preparer(cluster, patience=0.0)
    asks(made, 2)
    asks(made, 5, "r2")
    made.release(over(2, Phase.DONE))
    assert (cluster.requested, cluster.decommissioned) == ([5], [])
    made.release(over(5, Phase.ABORTED, "r2"))
    assert cluster.requested == [5, 3]


def test_fewer_are_asked_for_when_that_is_done_also_where_they_never_came():
    cluster = three(delay=None)
    made = preparer(cluster, patience=0.0)
    made.restore_executors(5)
    asks(made, 4)
    made.release(over(4, Phase.DONE))
    assert (cluster.requested, cluster.decommissioned) == ([5, 5, 4], [])


@pytest.mark.parametrize(
    ("phase", "begun", "times", "held"),
    [
        (Phase.DONE, False, {}, 5),
        (Phase.ABORTED, False, {}, None),
        (Phase.SUPERSEDED, True, {}, 5),
        (Phase.SUPERSEDED, True, {"reversing": 2}, None),
        (Phase.UNDONE, True, {"reversing": 2}, None),
    ],
)
def test_what_a_change_leaves_in_the_configuration(phase, begun, times, held):
    taken = (TakenStep(timestep=1, time_ms=1, bins=0, size=0.0),) if begun else ()
    assert executors_kept(replace(over(5, phase), taken=taken, times=times)) == held


def test_a_change_of_something_else_leaves_no_executors():
    assert executors_kept(replace(over(5, Phase.DONE), change=changes.set_interval(5))) is None


def test_a_change_that_held_before_it_was_prepared_requests_its_executors():
    cluster = three()
    made = preparer(cluster)
    made.release(over(5, Phase.DONE))
    asks(made, 5)
    assert cluster.requested == [5]
