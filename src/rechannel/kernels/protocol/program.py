"""What is shipped to tasks, as values: the program of a stage (the same for all timesteps of a
configuration) and the step of it.

A *stage* is one operator: a source stage (rows of sources in) or a stateful stage (blobs in). What it emits
goes down a tree of
branches, in which a user's function runs once however many consumers share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.migrate import Chain
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.eventtime import TimeInput, Times
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.state.manifest import Run
from rechannel.state.merging import Merge
from rechannel.state.store import Store

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]]
"""A deterministic function of one Arrow record batch."""


TASK_BYTES = 1 << 30
"""Bytes of rows, and of what is made of them, that a task may hold where nothing says how much memory it has."""

LATE = "late"
DEAD = "dead letters"


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """A stateful operator that receives rows of a branch, as its input number `input`."""

    operator: str
    input: int
    logic: StatefulLogic
    can: Capabilities = field(init=False, repr=False, compare=False)
    """What the logic can do."""

    def __post_init__(self) -> None:
        """Look for the logic's capabilities."""
        object.__setattr__(self, "can", Capabilities(self.logic))


@dataclass(frozen=True, kw_only=True)
class Branch:
    """Rows of one node of the dataflow on their way out of a stage.

    node: name of the node whose rows these are. function: what makes them from the parent's rows (None at the root).
    schema: their columns. consumers: operators that receive them. `outbox`: whether they go to the sink buffer, a file
    for downstream sinks and DataFrame functions. branches: what is made of them. side: they are not the parent's rows,
    but those that came too late for it (`LATE`), or those that it could not handle (`DEAD`); "" = they are made of
    those.
    """

    node: str
    schema: pa.Schema
    function: BatchFunction | None = None
    consumers: tuple[Consumer, ...] = ()
    outbox: bool = False
    branches: tuple[Branch, ...] = ()
    side: str = ""

    def walk(self) -> Iterator[Branch]:
        """This branch and all below it."""
        yield self
        for branch in self.branches:
            yield from branch.walk()

    def feeds_ordered(self) -> bool:
        """Whether any consumer below depends on the order of rows."""
        return any(c.logic.ordered for branch in self.walk() for c in branch.consumers)


@dataclass(frozen=True, kw_only=True)
class StageProgram:
    """A stage, without anything that changes from timestep to timestep.

    logic: None for a source stage. version: of the logic. fingerprint: of what it keeps as state. migrations: by the
    fingerprint of what it kept before, how that is read today. times: where its event time comes from. origins: inputs
    of time of the rows at its root.
    """

    operator: str
    root: Branch
    store: Store
    logic: StatefulLogic | None = None
    version: int = 1
    fingerprint: str = ""
    migrations: Mapping[str, Chain] = field(default_factory=dict)
    times: tuple[TimeInput, ...] = ()
    origins: tuple[str, ...] = ()
    resolved: Capabilities | None = field(init=False, repr=False, compare=False)
    """What the logic can do."""

    def __post_init__(self) -> None:
        """Look for the logic's capabilities."""
        found = None if self.logic is None else Capabilities(self.logic)
        object.__setattr__(self, "resolved", found)

    @property
    def can(self) -> Capabilities:
        """What the logic can do. Raises ValueError for a source stage."""
        if self.resolved is None:
            msg = f"stage {self.operator!r} has no state"
            raise ValueError(msg)
        return self.resolved


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a consumer reads in the producer's exchange, and how its keys are routed in this timestep."""

    first: int
    routing: Routing
    combined: bool


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """State that one task reads and merges in one timestep.

    runs: newest first, clipped to `own`. totals: runs of them, likewise.
    """

    own: Intervals
    runs: tuple[Run, ...] = ()
    merges: tuple[Merge, ...] = ()
    totals: tuple[Run, ...] = ()


@dataclass(frozen=True, kw_only=True)
class StageStep:
    """One timestep of a stage.

    number: the stage's number in the plan; with the task number it identifies a producer.
    addresses: by (consumer, input). reports_to: partition that report rows go to (None: -1, read by the action itself).
    tasks: state per task of a stateful stage. routing: its own routing, for rows per bin. times: its event time as of
    the timestep before. marks: event times that stages before it have seen in this timestep.
    memory: bytes that a task may hold at once.
    """

    timestep: int
    now_ms: int
    number: int = 0
    addresses: dict[tuple[str, int], Address] = field(default_factory=dict)
    reports_to: int = -1
    tasks: tuple[TaskState, ...] = ()
    routing: Routing | None = None
    times: Times = field(default_factory=Times)
    marks: Mapping[str, int] = field(default_factory=dict)
    memory: int = TASK_BYTES
