"""What sessions can have, and what is refused before Spark waits for it."""

from __future__ import annotations

import pytest

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.spark.session.session_limits import (
    CONNECT,
    Kind,
    SessionLimits,
    refuse_executors,
    refuse_resources,
    shares_executors,
)
from rechannel.model.configuration import Resources

GIVES = {"spark.decommission.enabled": "true"}
DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
GPU = {"spark.executor.resource.gpu.amount": "2", "spark.executor.resource.gpu.vendor": "x"}
WORKERS = "local-cluster[2,4,1024]"
MOST = {**DYNAMIC, "spark.cores.max": "7"}
TWO = [Executor(id=str(i), host="h", cores=i + 1) for i in range(2)]


@pytest.mark.parametrize(
    ("master", "kind"),
    [
        ("local", Kind.LOCAL),
        ("local[2,4]", Kind.LOCAL),
        ("local-cluster[3,2,1024]", Kind.LOCAL_CLUSTER),
        ("spark://a:7077,b:7077", Kind.STANDALONE),
        ("yarn", Kind.YARN),
        ("k8s://https://host", Kind.KUBERNETES),
        ("other://host", Kind.OTHER),
    ],
)
def test_masters_are_table_key(master: str, kind: Kind) -> None:
    assert SessionLimits.of(master, {}).kind is kind


def test_settings_are_read() -> None:
    settings = {"spark.executor.cores": "3", "spark.task.cpus": "2", **GPU, **GIVES, **DYNAMIC}
    assert SessionLimits.of("spark://h:1", settings) == SessionLimits(
        master="spark://h:1",
        kind=Kind.STANDALONE,
        dynamic=True,
        gives_back=True,
        executor_cores=3,
        task_cpus=2,
        amounts={"gpu": 2.0},
    )


@pytest.mark.parametrize(
    ("master", "settings", "room"),
    [
        ("local-cluster[3,2,1024]", {}, 3),
        ("local-cluster[3, 4, 1024]", {"spark.executor.cores": "2"}, 6),
        ("spark://h:1", {"spark.executor.cores": "2", "spark.cores.max": "7"}, 3),
        ("spark://h:1", {"spark.cores.max": "7"}, 7),
        ("spark://h:1", {}, None),
        ("yarn", {"spark.executor.cores": "2", "spark.cores.max": "7"}, None),
    ],
)
def test_how_many_executors_fit(master: str, settings: dict[str, str], room: int | None) -> None:
    assert SessionLimits.of(master, settings).room == room


@pytest.mark.parametrize(
    ("limits", "total", "words"),
    [
        (CONNECT, 2, "Spark Connect"),
        (SessionLimits.of("local[2]", {}), 1, None),
        (SessionLimits.of("local[2]", {}), 2, "accepted is 1 executor"),
        (SessionLimits.of("other://h", {}), 2, "accepted are the 2 there"),
        (SessionLimits.of("yarn", DYNAMIC), 2, "spark.dynamicAllocation.enabled=false"),
        (SessionLimits.of("yarn", GIVES), 400, None),
        (SessionLimits.of("yarn", GIVES), 1, None),
        (SessionLimits.of("yarn", GIVES), 0, "at least 1"),
        (SessionLimits.of("yarn", {}), 2, None),
        (SessionLimits.of("yarn", {}), 1, "spark.decommission.enabled=true"),
        (SessionLimits.of("local-cluster[3,2,1024]", GIVES), 3, None),
        (SessionLimits.of("local-cluster[3,2,1024]", GIVES), 4, "at least 1 and at most 3"),
    ],
)
def test_numbers_of_executors(limits: SessionLimits, total: int, words: str | None) -> None:
    refusal = refuse_executors(limits, 2, total)
    assert (refusal is None) == (words is None), refusal
    assert words is None or words in (refusal or "")


@pytest.mark.parametrize(
    ("limits", "resources", "words"),
    [
        (SessionLimits.of("local[2]", {}), Resources(), None),
        (SessionLimits.of("local[2]", {"spark.task.cpus": "2"}), Resources(cpus=2), None),
        (SessionLimits.of("local[2]", {}), Resources(cpus=2), "accepted is cpus=1"),
        (CONNECT, Resources(cpus=2), "Spark Connect"),
        (SessionLimits.of("yarn", {}), Resources(cpus=2), None),
        (SessionLimits.of("yarn", {}), Resources(cpus=3), "accepted are up to 2"),
        (
            SessionLimits.of("yarn", {}),
            Resources(memory_mb=9),
            "spark.dynamicAllocation.enabled=true",
        ),
        (SessionLimits.of("yarn", DYNAMIC), Resources(memory_mb=9, cpus=3), None),
        (SessionLimits.of("yarn", DYNAMIC), Resources(cpus=3), "accepted are up to 2"),
        (SessionLimits.of(WORKERS, DYNAMIC), Resources(memory_mb=1024, cpus=4), None),
        (
            SessionLimits.of(WORKERS, DYNAMIC),
            Resources(memory_mb=512, cpus=5),
            "none of more than 4",
        ),
        (SessionLimits.of(WORKERS, DYNAMIC), Resources(memory_mb=1025), "memory_mb up to 1024"),
        (SessionLimits.of("spark://h:1", MOST), Resources(memory_mb=9, cpus=7), None),
        (
            SessionLimits.of("spark://h:1", MOST),
            Resources(memory_mb=9, cpus=8),
            "accepted are up to 7",
        ),
        (
            SessionLimits.of("yarn", {}),
            Resources(amounts={"gpu": 1}),
            "spark.executor.resource.gpu.amount",
        ),
        (SessionLimits.of("yarn", GPU), Resources(amounts={"gpu": 0.25}), None),
        (SessionLimits.of("yarn", GPU), Resources(amounts={"gpu": 2}), None),
        (SessionLimits.of("yarn", GPU), Resources(amounts={"gpu": 3}), "each has 2"),
        (SessionLimits.of("yarn", GPU), Resources(amounts={"gpu": 1.5}), "accepted are 1 and 2"),
    ],
)
def test_resources(limits: SessionLimits, resources: Resources, words: str | None) -> None:
    refusal = refuse_resources(limits, TWO, resources)
    assert (refusal is None) == (words is None), refusal
    assert words is None or words in (refusal or "")


def test_before_executors_are_there_the_setting_says_how_large_they_are() -> None:
    limits = SessionLimits.of("yarn", {"spark.executor.cores": "4"})
    assert refuse_resources(limits, [], Resources(cpus=4)) is None
    assert "up to 4" in (refuse_resources(limits, [], Resources(cpus=5)) or "")
    assert refuse_resources(SessionLimits.of("yarn", {}), [], Resources(cpus=5)) is None


def test_who_has_executors_of_its_own() -> None:
    fixed, dynamic = SessionLimits.of("yarn", {}), SessionLimits.of("yarn", DYNAMIC)
    assert shares_executors(fixed, Resources(cpus=2))
    assert shares_executors(dynamic, None)
    assert shares_executors(dynamic, Resources())
    assert not shares_executors(dynamic, Resources(cpus=2))
