"""What an operator may be able to do beside the core (`logic.StatefulLogic`), one small base class for each.

An operator inherits the capabilities that it has and writes out their members, and no others. Tasks never look for a
capability themselves: `resolved.Capabilities` does, once for a program, and has the answer of operators without it.
Members with a body here are answers that most operators with the capability share.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray

if TYPE_CHECKING:
    from rechannel.kernels.lsm.merge import Rows
    from rechannel.kernels.lsm.runs import OpenRuns, RunWriter
    from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
    from rechannel.kernels.protocol.program import StageProgram, TaskState
    from rechannel.state.manifest import Edit


LookupRange = tuple[IntArray, IntArray]
"""For every key, the row order keys from which on, and up to which, rows are wanted: [first, last)."""

Pruned = tuple[IntArray, Mapping[int, pa.Array]]
"""Rows that travel, ascending, and columns of them that are others than they were, by their number."""

Emitted = tuple[pa.RecordBatch, HashArray]
"""Rows and the hashes of their keys, ascending."""


# What travels ---------------------------------------------------------------------------------------------------


class Combining(ABC):
    """Rows of a key can become one partial state before the exchange."""

    @property
    def combinable(self) -> bool:
        """Whether this one can, with the functions and settings that it has."""
        return True

    @property
    @abstractmethod
    def combined_schema(self) -> pa.Schema:
        """Columns of partial states."""

    @abstractmethod
    def combine(self, values: Columns, groups: Groups) -> Columns:
        """Partial states of raw rows, one per group."""


class Projecting(ABC):
    """The columns that travel are made of others."""

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """Columns of rows that are about to travel, without keys, of which `values_of` makes what it makes."""

    @abstractmethod
    def values_of(self, batch: pa.RecordBatch) -> Columns:
        """Columns of `value_schema`, of rows that are about to travel."""


class Pruning(ABC):
    """Some rows change nothing, and that shows before the exchange."""

    @abstractmethod
    def prune(self, values: Sequence[pa.Array], groups: Groups) -> Pruned | None:
        """Which of some raw rows need to travel; None = all of them, unchanged.

        The others change nothing, whatever else there is of their keys. values: columns of `value_schema`. groups: rows
        by key, in the stream's order.
        """


class Stamping(ABC):
    """The last key column follows from the time at which rows arrive."""

    @property
    @abstractmethod
    def sent(self) -> int:
        """How many key columns, from the first on, travel; those that do not are no columns of the rows."""

    @abstractmethod
    def stamped(self, keys: Columns, clock: Clock) -> Columns:
        """Keys that arrived, with the columns that follow from the time."""


# What is stored ---------------------------------------------------------------------------------------------------


class PartlyHashed(ABC):
    """The hash is of the first key columns; state rows that are alike in them lie together, sorted by a number."""

    @property
    @abstractmethod
    def hashed(self) -> int:
        """How many key columns, from the first on, are hashed: rows that are alike in them are in one task."""

    @abstractmethod
    def row_order(self, keys: Columns) -> IntArray | None:
        """What rows of one hash are sorted by; None = nothing."""


class SeveralRows(PartlyHashed):
    """A key has several state rows. Key columns that do not travel tell them apart."""

    def lookup_range(self, values: Columns, groups: Groups) -> LookupRange | None:
        """Which state rows of every key that received rows `apply` looks at; None = all that there are."""
        del values, groups
        return None


class WithoutLookup(ABC):  # noqa: B024 - to have it is all there is to it
    """What is stored of a key does not matter when rows of it come: nothing is looked up for them."""


class Expiring(ABC):
    """State rows end by themselves."""

    @abstractmethod
    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Which state rows still count at a time (None = all): keys whose timeout passed do not."""


class WrittenOnce(ABC):  # noqa: B024 - most operators that have it need no more
    """A state row is written once and then, at most, ends, and says itself whether it still counts.

    Any merge may then do away with a row and its tombstone when they meet, and with what does not count.
    """

    def needed(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Mask | None:
        """Which of some state rows (ascending by hash) still count beside each other (None = all).

        It never changes what is emitted: `apply` and `fire` are given others as well.
        """
        del keys, state, hashes, clock
        return None


class Viewed(ABC):
    """State is presented with other columns than those that are emitted."""

    @property
    @abstractmethod
    def view_schema(self) -> pa.Schema:
        """How `finish` presents state: key columns first."""


# What is emitted, and when ------------------------------------------------------------------------------------------


class Timed(ABC):
    """State rows wait for event time, or last until it has passed."""

    @abstractmethod
    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Event time that each state row waits for, or lasts until; None where no row has one."""

    @abstractmethod
    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """What is emitted at a time is made of state rows with after < timer <= until.

        None: `apply` says what is emitted.
        """

    @abstractmethod
    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """What is emitted, made of the rows that were due (ascending by hash)."""

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether state rows that waited for this event time, or an earlier one, are of no use any more."""
        del timer, clock
        return False

    @property
    def lasts_us(self) -> int | None:
        """For about how long a state row is there, where it goes with the time that it waits for; None = for ever."""
        return None

    @property
    def lag_us(self) -> int:
        """How far emitted rows may be before the last watermark: the operator hands on its watermark less that."""
        return 0

    def span_of(self, keys: Columns) -> tuple[int, int] | None:
        """First and last event time that state of these keys waits for; None where keys do not say."""
        del keys
        return None


class Grouped(ABC):
    """What is due of a key is emitted with the other rows of the key."""

    @abstractmethod
    def together(self, keys: Columns, state: Columns) -> Mask | None:
        """Which state rows that are due are emitted with all others of their key; None = each is by itself.

        `apply`, which has all rows of the keys that received some, then says what is emitted of these keys, and `fire`
        is given all rows, as of the timestep before, of every other key that has such a row. Where others are there for
        them, runs that have none are not looked at.
        """


class EarlyEmitting(ABC):
    """What still waits for event time can be emitted at an interval."""

    @property
    @abstractmethod
    def early_ms(self) -> int | None:
        """The interval of processing time; None = this one emits nothing early."""


class LateTelling(ABC):
    """Rows that come too late can be emitted beside the others."""

    @property
    @abstractmethod
    def keep_late(self) -> bool:
        """Whether late rows are read, so that all columns travel. A field: see `resolved.telling_late`."""


class Incremental(ABC):
    """What is emitted can be kept up from timestep to timestep, in runs of totals beside the state."""

    @property
    @abstractmethod
    def keeps_totals(self) -> bool:
        """Whether this one does, with the functions that it has."""

    @abstractmethod
    def advance(self, work: Work) -> Advanced:
        """Emit what has become complete, and write the totals as of now."""


# What a change of logic asks ----------------------------------------------------------------------------------------


class Succeeded(ABC):
    """Logic of another class may take over the state, if it is of the same kind."""

    @property
    @abstractmethod
    def state_kind(self) -> str:
        """One word for what the state is."""


class TimingOut(ABC):
    """A key ends when it had no rows for some time."""

    @property
    @abstractmethod
    def timeout_ms(self) -> int | None:
        """The time; None = never."""

    @property
    @abstractmethod
    def keeps_timers(self) -> bool:
        """Whether state says when each key ends, and not only when its last rows came."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """What `Incremental.advance` gets: one task in one timestep."""

    program: StageProgram
    state: TaskState
    timestep: int
    runs: OpenRuns
    """State as of the timestep before."""
    fresh: Rows
    """State rows that changed since."""
    arrivals: OperatorInput
    applied: OperatorOutput
    writer: RunWriter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advanced:
    """What `Incremental.advance` answers."""

    emitted: Emitted | None
    """None: what `apply` says."""
    edit: Edit
    """What becomes of the totals."""
    rows_read: int
