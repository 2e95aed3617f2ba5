"""The cluster of tests: it does as it is told, and says no as a real one."""

from __future__ import annotations

import pytest

from rechannel.engine.reconfigure.cluster import Cluster, Executor, FixedCluster
from rechannel.model.configuration import Resources


def three() -> FixedCluster:
    alive = [Executor(id=str(i), host=f"h{i}", cores=2) for i in range(3)]
    return FixedCluster(alive=alive, room=5, cores=2, host="new", amounts={"gpu": 1})


def ids(cluster: Cluster) -> list[str]:
    return [executor.id for executor in cluster.executors()]


def test_executors_come_after_as_many_looks_as_told() -> None:
    cluster = three()
    cluster.delay = 2
    cluster.request(4)
    assert ids(cluster) == ["0", "1", "2"]
    assert ids(cluster) == ["0", "1", "2"]
    assert ids(cluster) == ["0", "1", "2", "3"]
    assert cluster.executors()[-1] == Executor(id="3", host="new", cores=2)


def test_executors_may_never_come() -> None:
    cluster = three()
    cluster.delay = None
    cluster.request(5)
    assert [ids(cluster) for _ in range(9)] == [["0", "1", "2"]] * 9
    assert cluster.requested == [5]


def test_fewer_are_not_stopped_but_given_back() -> None:
    cluster = three()
    cluster.request(2)
    assert len(ids(cluster)) == 3
    cluster.decommission(["1"])
    assert ids(cluster) == ["0", "2"]
    assert cluster.decommissioned == ["1"]


def test_who_is_given_back_without_a_request_for_fewer_is_replaced_under_another_id() -> None:
    cluster = three()
    cluster.request(3)
    cluster.decommission(["1"])
    assert ids(cluster) == ["0", "2", "3"]


def test_an_executor_dies() -> None:
    cluster = three()
    cluster.kill("0")
    assert ids(cluster) == ["1", "2"]
    with pytest.raises(KeyError):
        cluster.kill("0")


def test_what_is_refused_is_said_with_what_would_be_accepted() -> None:
    cluster = three()
    assert cluster.refuses_executors(5) is None
    assert "1 to 5" in (cluster.refuses_executors(6) or "")
    assert "1 to 5" in (cluster.refuses_executors(0) or "")
    assert cluster.refuses_resources(Resources(cpus=2, amounts={"gpu": 0.5})) is None
    assert "up to 2" in (cluster.refuses_resources(Resources(cpus=3)) or "")
    assert "memory_mb" in (cluster.refuses_resources(Resources(memory_mb=9)) or "")
    assert "up to 1" in (cluster.refuses_resources(Resources(amounts={"gpu": 2})) or "")
    assert "up to 0" in (cluster.refuses_resources(Resources(amounts={"tpu": 1})) or "")
    assert cluster.refuses_place("2") is None
    assert "'7'" in (cluster.refuses_place("7") or "")
    assert "2 on h2" in (cluster.refuses_place("7") or "")


def test_on_one_executor_nothing_is_placed() -> None:
    assert "one executor" in (FixedCluster().refuses_place("0") or "")
