"""The seam between the reconfigurer and what provides executors: a cluster, or a test.

Requesting and getting executors are apart: `request` returns at once, and `executors` shows the result seconds or
minutes later. What the cluster cannot provide is refused before it is requested: `refuses_...` return the reason, and
what would be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rechannel.model.configuration import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """A process that runs tasks."""

    id: str
    """Never used twice by one driver."""
    host: str
    cores: int
    """Number of tasks of one CPU that it runs at a time."""
    profile: int = 0
    """Number of the resource profile that Spark started it for; 0 = the session's default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What has become of an executor's tasks so far."""

    done: int = 0
    killed: int = 0
    """Mostly because a copy elsewhere ended sooner, or this was the copy."""


class Cluster(Protocol):
    """What a running stream can request of its cluster. Any thread may call it."""

    @property
    def application(self) -> str:
        """Application that the executor ids belong to; empty if unknown."""

    def executors(self) -> tuple[Executor, ...]:
        """Executors that take tasks now, oldest first, without those being decommissioned."""

    def request(self, total: int) -> None:
        """Request this many executors; returns at once.

        If that is more than there are, others are started. If it is fewer, none is stopped, but those that end are not
        replaced; `decommission` chooses which of them end. Raises SessionError if the cluster refuses the request.
        """

    def decommission(self, ids: Sequence[str]) -> None:
        """Let executors finish their tasks, hand over their shuffle files and end; returns at once.

        Request fewer executors first: otherwise the cluster starts others in their place.
        """

    def refuses_executors(self, total: int) -> str | None:
        """Why the cluster cannot have this many executors, and how many it could; None if it can."""

    def refuses_resources(self, resources: Resources) -> str | None:
        """Why no task could ever have these resources, and which it could; None if one could."""

    def refuses_place(self, executor: str) -> str | None:
        """Why no task can be placed on this executor, and where it can; None if it can."""


def refuse_place(executor: str, executors: Sequence[Executor]) -> str | None:
    """Why no task can be placed on an executor, for every kind of cluster; None if it can."""
    if len(executors) < 2:
        return "the stream has one executor: every task is on it, and none can be placed"
    if any(executor == other.id for other in executors):
        return None
    there = ", ".join(f"{other.id} on {other.host}" for other in executors)
    return f"no executor {executor!r} is alive; tasks can be put on {there}"


@dataclass(kw_only=True)
class FixedCluster:
    """A cluster that a test controls.

    alive: the present executors; a test may change them. room: the most there can be. delay: number of calls of
    `executors` until those requested last appear (None = never). cores, host: of new ones. requested, decommissioned:
    the calls, in order. application: whose executors they are.
    """

    alive: list[Executor] = field(default_factory=lambda: [Executor(id="0", host="h0", cores=1)])
    room: int = 1
    delay: int | None = 0
    cores: int = 1
    host: str = "h0"
    application: str = ""
    amounts: Mapping[str, float] = field(default_factory=dict)
    requested: list[int] = field(default_factory=list)
    decommissioned: list[str] = field(default_factory=list)
    _made: int = 0
    _looks: int = 0

    def __post_init__(self) -> None:
        """Number new executors from here."""
        self._made = len(self.alive)

    def executors(self) -> tuple[Executor, ...]:
        """Those alive; requested ones join after `delay` calls."""
        due = self.delay is not None and self._looks >= self.delay
        self._looks += 1
        while due and self.requested and len(self.alive) < self.requested[-1]:
            self.alive.append(Executor(id=str(self._made), host=self.host, cores=self.cores))
            self._made += 1
        return tuple(self.alive)

    def request(self, total: int) -> None:
        """Record the request; the delay begins."""
        self.requested.append(total)
        self._looks = 0

    def decommission(self, ids: Sequence[str]) -> None:
        """Remove executors at once."""
        self.decommissioned.extend(ids)
        self.alive = [executor for executor in self.alive if executor.id not in ids]

    def kill(self, executor: str) -> None:
        """Let an executor die. Raises KeyError if it is not alive."""
        if all(executor != other.id for other in self.alive):
            raise KeyError(executor)
        self.alive = [other for other in self.alive if other.id != executor]

    def refuses_executors(self, total: int) -> str | None:
        """Return why there is no room for this many executors; None if there is."""
        if 1 <= total <= self.room:
            return None
        return f"the cluster cannot have {total} executors; accepted are 1 to {self.room}"

    def refuses_resources(self, resources: Resources) -> str | None:
        """Return why the largest executor could not run such a task; None if it could. Memory cannot be changed."""
        most = max((executor.cores for executor in self.alive), default=0)
        if resources.memory_mb is not None:
            return "the memory of executors is fixed; leave memory_mb out"
        if resources.cpus > most:
            return f"no executor has {resources.cpus} CPUs; accepted are up to {most}"
        for name, amount in resources.amounts.items():
            if amount > self.amounts.get(name, 0):
                return f"no executor has {amount:g} of {name!r}; accepted are up to {self.amounts.get(name, 0):g}"
        return None

    def refuses_place(self, executor: str) -> str | None:
        """Accept the executors that are alive, if there are several."""
        return refuse_place(executor, self.alive)
