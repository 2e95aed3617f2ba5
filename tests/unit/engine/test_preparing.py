"""What is asked of a cluster ahead of a change, and when it is over."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import Any, cast

import pytest

from rechannel.engine.cluster import Executor, FixedCluster
from rechannel.engine.exchange import Exchange
from rechannel.engine.preparing import ClusterPreparer
from rechannel.errors import SessionError
from rechannel.reconfigure import ask
from rechannel.reconfigure.record import Phase, Record


@dataclass(kw_only=True)
class Stubborn(FixedCluster):
    """Takes no requests."""

    def request(self, total: int) -> None:
        raise SessionError(f"no {total}")


def preparer(cluster: FixedCluster) -> ClusterPreparer:
    return ClusterPreparer(exchange=cast("Exchange", None), cluster=cluster)


def over(total: int, phase: Phase) -> Record:
    record = Record(
        id="r1", change=ask.executors(total), strategy=ask.all_at_once(), cause="a test"
    )
    return replace(record, phase=phase)


def three(kind: Any = FixedCluster) -> Any:
    alive = [Executor(id=str(number), host="h", cores=1) for number in range(3)]
    return kind(alive=alive, room=5)


def test_those_that_are_not_wanted_any_more_go_when_the_change_is_done():
    cluster = three()
    preparer(cluster).finished(over(2, Phase.DONE))
    assert (cluster.requested, len(cluster.decommissioned), len(cluster.alive)) == ([2], 1, 2)


def test_no_more_come_when_it_failed():
    cluster = three()
    preparer(cluster).finished(over(5, Phase.FAILED))
    assert (cluster.requested, cluster.decommissioned) == ([3], [])


def test_a_cluster_that_takes_no_request_then_does_not_end_the_job(caplog):
    cluster = three(Stubborn)
    with caplog.at_level(logging.WARNING), pytest.raises(SessionError):
        cluster.request(1)
    preparer(cluster).finished(over(2, Phase.DONE))
    assert "executors that are not wanted any more may stay: no 2" in caplog.text
    assert len(cluster.alive) == 3
