"""Control operations as tasks see them: the handler that runs in every task, and what it sees of the task.

A control message travels on every channel of a timestep, with the watermarks. In each task that it passes, the
operation's handler is called as Chi's operator side is (Mai et al., VLDB'18):

    on_begin     the first message has arrived
    on_next      once per input channel, with the replies that came on it
    on_complete  all channels have delivered theirs: returns the task's reply
    on_dispose   the task is done with the message, and forwards it next

Replies of one operator are merged two by two on their way, so the driver receives one per operator and last task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeAlias

import pyarrow as pa

from rechannel.model.buffers import IntArray

Reply: TypeAlias = Any
"""What a handler returns: a value that JSON can hold, or a frozen dataclass of such values (`reply_type`)."""

REPLY_BYTES = 64 << 10
"""Bytes that the merged replies of one operator may have, as JSON, unless the operation says otherwise."""

HANDLER_SECONDS = 1.0
"""How long a handler may take in one task, unless the operation says otherwise.

Unpickling it, merging the replies that arrive, and all of its callbacks count together.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeavyKey:
    """A key that received many rows in this timestep."""

    key: tuple[Any, ...]
    """Its values, in the order of the key columns."""
    hash: int
    rows: int
    rows_by_side: tuple[int, int] | None = None
    """Of these rows, those of the left and of the right input; None for an operator with one input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlChannel:
    """One input channel of a task, as a control message came on it."""

    operator: str
    """The operator upstream."""
    task: int
    """Its task."""
    replies: Mapping[str, Reply] = field(default_factory=dict)
    """Replies that came along, merged, by operator; each travels on one channel of its sender."""
    rows: int = 0
    """Rows that came on it in this timestep."""
    bytes: int = 0
    """Their bytes."""


class StateReader(Protocol):
    """Reads a task's state."""

    def __call__(self) -> pa.RecordBatch:
        """Return it in the columns that the operator shows."""


@dataclass(frozen=True, kw_only=True)
class TaskView:
    """What a handler sees of the task that it runs in. Nothing in it can be written to."""

    operator: str
    task: int
    timestep: int
    stream_ms: int
    """The timestep's own time, Unix milliseconds."""
    blocking: bool
    """Whether the handler runs before the rows of the timestep; the figures of its rows are 0 then."""
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    keys: int = 0
    """Keys that received rows."""
    ms: Mapping[str, float] = field(default_factory=dict)
    """Milliseconds by activity."""
    bin_rows: IntArray | None = None
    """Rows received, shape (bins,), 0 in bins of other tasks; None for a task without state or without rows."""
    bin_bytes: tuple[float, ...] = ()
    """Expected bytes of state, shape (bins,), 0 in bins of other tasks; empty without state."""
    state_rows: int = 0
    """Rows in the files of its state, before the timestep."""
    heaviest: Sequence[HeavyKey] = ()
    """As many as the handler's `heaviest` asks for, those with most rows first."""
    event_time_lag_ms: float | None = None
    """From the latest event time that the task knows to the time of the timestep; None without event time."""
    read_state: StateReader | None = None
    """Reads the state as of the previous timestep; None unless the handler has `reads_state`, or without state."""


class OperatorHandler:
    """The operator side of a control operation. One instance serves one task in one timestep.

    A handler that raises, takes too long or returns too much is a failed reply, never a failed task. It runs again
    where a task is retried, and only the reply of the successful attempt counts.
    """

    heaviest: ClassVar[int] = 0
    """How many of its heaviest keys a task shows; 0 = they are not looked for."""
    reads_state: ClassVar[bool] = False
    """Whether it reads the task's state."""
    reply_type: ClassVar[type | None] = None
    """Dataclass of its replies; None = values that JSON can hold. Any other reply is a failed one."""

    def on_begin(self, task: TaskView) -> None:
        """The first control message of the operation has arrived at this task."""

    def on_next(self, task: TaskView, channel: ControlChannel) -> None:
        """A control message has arrived on an input channel. Tasks of sources have none."""

    def on_complete(self, task: TaskView) -> Reply:
        """All channels have delivered the message. Returns the task's reply; None = it has none."""
        del task

    def on_dispose(self) -> None:
        """The task is done with the message, which it forwards next. If this raises, the reply counts all the same."""

    def merge(self, one: Reply, other: Reply) -> Reply:
        """Combine two replies of the same operator. It has to be associative and commutative."""
        del other
        return one


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlMessage:
    """A control operation on its way through a timestep."""

    operation: str
    """Id of the operation."""
    handler: bytes
    """The pickled `OperatorHandler`: every task has an instance of its own."""
    operators: frozenset[str] | None = None
    """Operators whose tasks run the handler; None = all. The message passes the others all the same."""
    blocking: bool = False
    heaviest: int = 0
    """Of the handler."""
    reply_bytes: int = REPLY_BYTES
    seconds: float = HANDLER_SECONDS

    @property
    def sender(self) -> str:
        """The controller that has sent it, with the number of its installation."""
        return self.operation.rpartition(".")[0]

    def runs_in(self, operator: str) -> bool:
        """Whether the handler runs in the tasks of an operator."""
        return self.operators is None or operator in self.operators
