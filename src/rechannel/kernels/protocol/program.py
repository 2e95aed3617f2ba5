"""Values that are shipped to tasks: the program of a stage, for all timesteps of a Configuration, and one step of it.

A *stage* is one operator: a source stage, which reads rows of sources, or a stateful stage, which reads blobs. What it
emits goes down a tree of branches, in which a user's function runs once, however many consumers share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.kernels.protocol.control import ControlMessage
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.migrate import Chain
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.eventtime import Clock, TimeInput, Times
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.model.spread import Share
from rechannel.state.merging import Merge
from rechannel.state.run import Run
from rechannel.state.store import Store

BatchFunction = Callable[[pa.RecordBatch], pa.RecordBatch | Iterable[pa.RecordBatch]]
"""A deterministic function of one Arrow record batch."""


TASK_BYTES = 1 << 30
"""Bytes that a task may hold in rows and what is made of them, if it is not known how much memory it has."""

LATE = "late"
DEAD = "dead letters"
CHANGES = "changes"
OUTPUT = "output "
"""Begins the word for a side output; its name follows."""


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
    """Rows of one node of the dataflow on their way out of a stage."""

    node: str
    """Name of the node whose rows these are."""
    schema: pa.Schema
    """Their columns."""
    function: BatchFunction | None = None
    """Makes them from the parent's rows; None at the root, and for the parent's rows themselves."""
    consumers: tuple[Consumer, ...] = ()
    """Operators that receive them."""
    sink_buffer: bool = False
    """Whether they go to the sink buffer, a file for downstream sinks and DataFrame functions."""
    branches: tuple[Branch, ...] = ()
    """What is made of them."""
    side: str = ""
    """Which rows they are made of: empty = the parent's; `LATE`, `DEAD` = those that were too late for the parent, or
    that it could not handle; `CHANGES` = the parent's changelog; `OUTPUT` and a name = the parent's side output of that
    name.
    """
    source: str | None = None
    """The only source that its rows can be from; None = there are several."""
    replayed: bool = False
    """Whether they are made of dead letters of this node, which are tried once more."""

    def walk(self) -> Iterator[Branch]:
        """Yield this branch and all branches below it."""
        yield self
        for branch in self.branches:
            yield from branch.walk()

    def feeds_ordered(self) -> bool:
        """Whether any consumer below depends on the order of rows."""
        return any(c.logic.ordered for branch in self.walk() for c in branch.consumers)


@dataclass(frozen=True, kw_only=True)
class StageProgram:
    """A stage, without anything that changes from timestep to timestep."""

    operator: str
    root: Branch
    store: Store
    logic: StatefulLogic | None = None
    """None for a source stage."""
    version: int = 1
    """Version of the logic."""
    fingerprint: str = ""
    """Fingerprint of the columns of its state."""
    migrations: Mapping[str, Chain] = field(default_factory=dict)
    """How state of earlier columns is converted, by their fingerprint."""
    combined_by: str = ""
    """Digest of the user's functions that combine what is stored; empty without."""
    times: tuple[TimeInput, ...] = ()
    """Where its event time comes from."""
    origins: tuple[str, ...] = ()
    """Time inputs of the rows at its root."""
    broadcasts: Mapping[str, StageProgram] = field(default_factory=dict)
    """By name of a broadcast input, the operator whose table it is: its state is read with this program."""
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

    @property
    def has_changelog(self) -> bool:
        """Whether the changelog of its operator is read."""
        return any(branch.side == CHANGES for branch in self.root.branches)


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a consumer reads in the producer's exchange, and how its keys are routed in this timestep."""

    first: int
    routing: Routing
    combined: bool


@dataclass(frozen=True, kw_only=True)
class SharedState:
    """State of a spread bin that one task shares with others."""

    own: Intervals
    """Hashes of the bin."""
    share: Share
    runs: tuple[Run, ...] = ()
    """Newest first, clipped to `own`."""


@dataclass(frozen=True, kw_only=True)
class TaskState:
    """State that one task reads and merges in one timestep."""

    own: Intervals
    """Hashes that the task owns."""
    runs: tuple[Run, ...] = ()
    """Newest first, clipped to `own`."""
    merges: tuple[Merge, ...] = ()
    """Merges that are due."""
    totals: tuple[Run, ...] = ()
    """Runs of totals (`Incremental`), newest first, clipped to `own`."""
    shared: tuple[SharedState, ...] = ()
    """Spread bins that it shares: of `own`, if it is the primary, or of other tasks."""


@dataclass(frozen=True, kw_only=True)
class BroadcastState:
    """State of an operator as of a timestep, which every task of another operator reads as a table."""

    runs: tuple[Run, ...] = ()
    """All of them, newest first."""
    clock: Clock
    """Decides which rows count."""


@dataclass(frozen=True, kw_only=True)
class StageStep:
    """One timestep of a stage."""

    timestep: int
    stream_ms: int
    """Journalled time of the timestep."""
    number: int = 0
    """The stage's number in the plan; with the task number it identifies a producer."""
    addresses: dict[tuple[str, int], Address] = field(default_factory=dict)
    """By (consumer, input)."""
    reports_to: int = -1
    """Partition that reports go to; -1 = they travel with the rows, to tasks of the first consumer."""
    tasks: Sequence[TaskState] = ()
    """State of each task of a stateful stage."""
    routing: Routing | None = None
    """Routing of a stateful stage, for rows per bin."""
    times: Times = field(default_factory=Times)
    """Event time of the stage as of the previous timestep."""
    event_times: Mapping[str, int] = field(default_factory=dict)
    """Latest event times that upstream stages have seen in this timestep, by time input, microseconds."""
    memory: int = TASK_BYTES
    """Bytes that a task may hold at once."""
    controls: tuple[ControlMessage, ...] = ()
    """Control operations that travel with the timestep."""
    repeats: bool = True
    """Whether every attempt of a task sends its rows in the same order."""
    broadcasts: Mapping[str, BroadcastState] = field(default_factory=dict)
    """By operator whose table is a broadcast input of this one: its state after this timestep."""
