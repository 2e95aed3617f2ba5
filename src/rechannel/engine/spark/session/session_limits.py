"""What a session's master can give a running stream, and what has to be refused. Pure.

Spark accepts nearly everything and then waits: for a task that no executor could ever hold, for executors
that no worker has room for. And where it does say no, it does so when the job is run, which ends the
stream. So what a session can do is read off its settings once, and said beforehand.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.model.configuration import Resources

_AMOUNT = re.compile(r"spark\.executor\.resource\.([^.]+)\.amount")
_LOCAL_CLUSTER = re.compile(r"local-cluster\[\s*(\d+)\s*,\s*(\d+)\s*,\s*(\d+)\s*\]")


class Kind(StrEnum):
    """Masters, as far as they differ here."""

    CONNECT = "connect"
    LOCAL = "local"
    LOCAL_CLUSTER = "local-cluster"
    STANDALONE = "standalone"
    YARN = "yarn"
    KUBERNETES = "kubernetes"
    OTHER = "other"


_CLUSTERS = (Kind.LOCAL_CLUSTER, Kind.STANDALONE, Kind.YARN, Kind.KUBERNETES)


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """A session's settings that decide what it can have.

    dynamic: whether Spark chooses the number of executors. gives_back: whether executors can be decommissioned.
    executor_cores: of each; None = not set. cores_max: of all, on standalone. task_cpus: what every task has.
    amounts: what every executor has of other resources. room: the most executors that fit; None = not known.
    most_cores, most_memory_mb: of the largest executor that the cluster could start; None = not known.
    """

    master: str
    kind: Kind
    dynamic: bool = False
    gives_back: bool = False
    executor_cores: int | None = None
    task_cpus: int = 1
    amounts: Mapping[str, float] = field(default_factory=dict)
    room: int | None = None
    most_cores: int | None = None
    most_memory_mb: int | None = None

    @property
    def has_executors(self) -> bool:
        """Whether the master has executors that can be listed and asked for."""
        return self.kind in _CLUSTERS

    @classmethod
    def of(cls, master: str, settings: Mapping[str, str]) -> SessionLimits:
        """Read the settings of a classic session."""
        cores = settings.get("spark.executor.cores")
        found = {_AMOUNT.fullmatch(key): value for key, value in settings.items()}
        kind = _kind(master)
        return cls(
            master=master,
            kind=kind,
            dynamic=_on(settings, "spark.dynamicAllocation.enabled"),
            gives_back=_on(settings, "spark.decommission.enabled"),
            executor_cores=int(cores) if cores else None,
            task_cpus=int(settings.get("spark.task.cpus", 1)),
            amounts={match[1]: float(value) for match, value in found.items() if match},
            room=_room(master, kind, settings),
            most_cores=_most_cores(master, kind, settings),
            most_memory_mb=_most_memory(master),
        )


CONNECT = SessionLimits(master="Spark Connect", kind=Kind.CONNECT)
"""Of a session whose server does not tell."""


def refuse_executors(limits: SessionLimits, alive: int, total: int) -> str | None:
    """Why there cannot be `total` executors, and how many there can; None when it can be tried.

    alive: how many there are.
    """
    if limits.kind is Kind.CONNECT:
        return (
            "a Spark Connect session cannot ask for executors: its server decides; run on a classic "
            "session to change their number"
        )
    if limits.kind is Kind.LOCAL:
        if total == 1:
            return None
        return (
            f"master {limits.master} is a single process: accepted is 1 executor; run on a cluster "
            "(spark://..., yarn, k8s://..., local-cluster[n,cores,MB]) for more"
        )
    if not limits.has_executors:
        return f"executors cannot be asked for on master {limits.master}; accepted are the {alive} there"
    if limits.dynamic:
        return (
            "dynamic allocation decides the number of executors and would undo this; make the session "
            "with spark.dynamicAllocation.enabled=false, or set its minExecutors and maxExecutors"
        )
    least = 1 if limits.gives_back else max(1, alive)
    if least <= total and (limits.room is None or total <= limits.room):
        return None
    most = "" if limits.room is None else f" and at most {limits.room}"
    why = (
        ""
        if limits.gives_back or total < 1 or total >= least
        else " (to give executors back, make the session with spark.decommission.enabled=true)"
    )
    return f"master {limits.master} cannot have {total} executors; accepted are at least {least}{most}{why}"


def refuse_resources(
    limits: SessionLimits, executors: Sequence[Executor], resources: Resources
) -> str | None:
    """Why no task could have these resources, and what it could have; None when it can."""
    if asks_nothing(limits, resources):
        return None
    if not limits.has_executors:
        return (
            f"resources of an operator need separate executors, which {limits.master} does not report; "
            f"accepted is cpus={limits.task_cpus} and nothing else"
        )
    if resources.memory_mb is not None and not limits.dynamic:
        return (
            "memory_mb means executors of another size, which Spark starts only with "
            "spark.dynamicAllocation.enabled=true; accepted without it are cpus and amounts"
        )
    return (
        _too_many_cpus(limits, executors, resources)
        or _too_much_memory(limits, resources)
        or _too_much(limits, resources)
    )


def asks_nothing(limits: SessionLimits, resources: Resources) -> bool:
    """Whether this is what every task has anyway."""
    plain = resources.memory_mb is None and not resources.amounts
    return plain and resources.cpus == limits.task_cpus


def shares_executors(limits: SessionLimits, resources: Resources | None) -> bool:
    """Whether an operator's tasks run on the session's own executors, beside those of others.

    With dynamic allocation Spark starts other executors for every other wish.
    """
    return resources is None or asks_nothing(limits, resources) or not limits.dynamic


def _too_many_cpus(
    limits: SessionLimits, executors: Sequence[Executor], resources: Resources
) -> str | None:
    # Executors of another size may be asked for only together with memory.
    if resources.memory_mb is not None:
        return _too_large(limits, resources)
    most = max((executor.cores for executor in executors), default=limits.executor_cores)
    if most is None or resources.cpus <= most:
        return None
    return (
        f"no executor could run a task of {resources.cpus} CPUs: the largest has {most}, and Spark "
        f"would wait for ever; accepted are up to {most}, or make the session with a larger "
        "spark.executor.cores"
    )


def _too_large(limits: SessionLimits, resources: Resources) -> str | None:
    most = limits.most_cores
    if most is None or max(resources.cpus, limits.executor_cores or 1) <= most:
        return None
    return (
        f"no executor could run a task of {resources.cpus} CPUs: {limits.master} can start none of more "
        f"than {most}, and Spark would wait for ever; accepted are up to {most}"
    )


def _too_much_memory(limits: SessionLimits, resources: Resources) -> str | None:
    asked, most = resources.memory_mb, limits.most_memory_mb
    if asked is None or most is None or asked <= most:
        return None
    return (
        f"no worker of {limits.master} has room for an executor of {asked} MB, and Spark would wait for "
        f"ever; accepted is memory_mb up to {most}"
    )


def _too_much(limits: SessionLimits, resources: Resources) -> str | None:
    for name, amount in resources.amounts.items():
        there = limits.amounts.get(name, 0.0)
        if amount > there:
            return (
                f"no executor could run a task with {amount:g} of {name!r}: each has {there:g}; make "
                f"the session with spark.executor.resource.{name}.amount of at least {amount:g}"
            )
        if amount > 1 and amount != int(amount):
            return (
                f"a task has a whole number of {name!r} or a part of one, not {amount:g}; accepted "
                f"are {int(amount)} and {int(amount) + 1}"
            )
    return None


def _kind(master: str) -> Kind:
    for kind, start in (
        (Kind.LOCAL_CLUSTER, "local-cluster["),
        (Kind.LOCAL, "local"),
        (Kind.STANDALONE, "spark://"),
        (Kind.YARN, "yarn"),
        (Kind.KUBERNETES, "k8s://"),
    ):
        if master.startswith(start):
            return kind
    return Kind.OTHER


def _room(master: str, kind: Kind, settings: Mapping[str, str]) -> int | None:
    cores = settings.get("spark.executor.cores")
    match = _LOCAL_CLUSTER.fullmatch(master)
    if match:
        workers, each = int(match[1]), int(match[2])
        return workers * (each // int(cores) if cores else 1)
    most = settings.get("spark.cores.max")
    if kind is Kind.STANDALONE and most:
        return int(most) // int(cores or 1)  # every executor has one core at least
    return None


def _most_cores(master: str, kind: Kind, settings: Mapping[str, str]) -> int | None:
    match = _LOCAL_CLUSTER.fullmatch(master)
    if match:
        return int(match[2])
    most = settings.get("spark.cores.max")
    return int(most) if kind is Kind.STANDALONE and most else None


def _most_memory(master: str) -> int | None:
    match = _LOCAL_CLUSTER.fullmatch(master)
    return int(match[3]) if match else None


def _on(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "false").lower() == "true"
