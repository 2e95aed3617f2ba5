"""The seam between what changes a running stream and what gives it processes: a cluster, or this test.

Asking and getting are different things: `request` returns at once, and `executors` shows what came of
it, seconds or minutes later. What cannot come is refused before it is asked for: `refuses_...` say
why, and what would be accepted.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rechannel.model.configuration import Resources


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """A process that runs tasks.

    id: never given twice by one driver. cores: how many tasks of one CPU it runs at a time.
    profile: number of the resource profile that Spark started it for; 0 = as the session has it.
    """

    id: str
    host: str
    cores: int
    profile: int = 0


class Cluster(Protocol):
    """What a running stream can ask of its cluster. May be called from any thread."""

    @property
    def application(self) -> str:
        """Application that the executor ids belong to; empty if unknown."""

    def executors(self) -> tuple[Executor, ...]:
        """Executors that take tasks now, oldest first; none that is on its way out."""

    def request(self, total: int) -> None:
        """Ask for this many executors; returns at once.

        More are started. Fewer are not stopped, but no longer replaced: which of them go says
        `decommission`. Raises SessionError when the cluster does not take the request.
        """

    def decommission(self, ids: Sequence[str]) -> None:
        """Let executors finish their tasks, hand on their shuffle files and end; returns at once.

        Unless fewer were requested before, the cluster starts others in their place.
        """

    def refuses_executors(self, total: int) -> str | None:
        """Why it cannot have this many executors and how many it could; None when it may ask."""

    def refuses_resources(self, resources: Resources) -> str | None:
        """Why no task could ever have these resources and what it could have; None when it can."""

    def refuses_place(self, executor: str) -> str | None:
        """Why no task can be put on this executor, and where it can; None when it can."""


def refuse_place(executor: str, executors: Sequence[Executor]) -> str | None:
    """What every cluster says of a place."""
    if len(executors) < 2:
        return "the stream has one executor: every task is on it, and none can be placed"
    if any(executor == other.id for other in executors):
        return None
    there = ", ".join(f"{other.id} on {other.host}" for other in executors)
    return f"no executor {executor!r} is alive; tasks can be put on {there}"


@dataclass(kw_only=True)
class FixedCluster:
    """A cluster that does as a test says.

    alive: the executors now; a test may change them. room: the most there can be. delay: how often
    `executors` is asked until those show that were requested last (None = never). cores, host: of new ones.
    requested, decommissioned: what was asked, in order. application: whose executors they are.
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
        """New executors are numbered from here."""
        self._made = len(self.alive)

    def executors(self) -> tuple[Executor, ...]:
        """Those alive; those requested join when it is time."""
        due = self.delay is not None and self._looks >= self.delay
        self._looks += 1
        while due and self.requested and len(self.alive) < self.requested[-1]:
            self.alive.append(Executor(id=str(self._made), host=self.host, cores=self.cores))
            self._made += 1
        return tuple(self.alive)

    def request(self, total: int) -> None:
        """Note it; the waiting begins."""
        self.requested.append(total)
        self._looks = 0

    def decommission(self, ids: Sequence[str]) -> None:
        """They are gone at once."""
        self.decommissioned.extend(ids)
        self.alive = [executor for executor in self.alive if executor.id not in ids]

    def kill(self, executor: str) -> None:
        """An executor dies. Raises KeyError for one that is not alive: nothing would have happened."""
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
        """Only where an executor is."""
        return refuse_place(executor, self.alive)
