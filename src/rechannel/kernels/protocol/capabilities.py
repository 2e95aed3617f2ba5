"""What an operator may be able to do in addition to the core (`logic.StatefulLogic`): one small base class for each.

An operator inherits the capabilities that it has and implements their members, and no others. Tasks never look for a
capability themselves: `resolved.Capabilities` does so once per program, and has the default for operators without it.
A member with a body here has the default for most operators with the capability.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray
from rechannel.model.spread import Share

if TYPE_CHECKING:
    from rechannel.kernels.lsm.merge import Rows
    from rechannel.kernels.lsm.runs import OpenRuns, RunWriter
    from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
    from rechannel.kernels.protocol.program import StageProgram, TaskState
    from rechannel.state.manifest import Edit


LookupRange = tuple[IntArray, IntArray]
"""For each key, which rows are wanted: those with a row order key in [first, last)."""

Pruned = tuple[IntArray, Mapping[int, pa.Array]]
"""Positions of the rows that travel, ascending, and those of their columns that changed, by column number."""

Emitted = tuple[pa.RecordBatch, HashArray]
"""Rows and the hashes of their keys, ascending."""


# What travels ---------------------------------------------------------------------------------------------------


class Combining(ABC):
    """Rows of a key can be combined into one partial state before the exchange."""

    @property
    def combinable(self) -> bool:
        """Whether this operator can, with its functions and settings."""
        return True

    @property
    @abstractmethod
    def combined_schema(self) -> pa.Schema:
        """Columns of partial states."""

    @abstractmethod
    def combine(self, values: Columns, groups: Groups) -> Columns:
        """Combine raw rows into one partial state per group."""


class Projecting(ABC):
    """The columns that travel are computed from other columns."""

    @property
    @abstractmethod
    def reads(self) -> tuple[str, ...]:
        """Columns that `values_of` reads, without keys."""

    @abstractmethod
    def values_of(self, batch: pa.RecordBatch) -> Columns:
        """Compute the columns of `value_schema` for rows that are about to travel."""


class Pruning(ABC):
    """Before the exchange, some rows can be recognised as changing nothing."""

    @abstractmethod
    def prune(self, values: Sequence[pa.Array], groups: Groups) -> Pruned | None:
        """Return which raw rows need to travel; None = all of them, unchanged.

        The others change nothing, whatever other rows and state their keys have. values: columns of `value_schema`.
        groups: rows by key, in stream order.
        """


class Stamping(ABC):
    """The last key column follows from the time at which rows arrive."""

    @property
    @abstractmethod
    def sent(self) -> int:
        """How many of the first key columns travel; the rows themselves do not have the others."""

    @abstractmethod
    def stamped(self, keys: Columns, clock: Clock) -> Columns:
        """Return the keys that arrived, with the columns that follow from the time."""


class Spreadable(ABC):
    """Several tasks can share the rows of a key: those of one side are dealt out, those of the other go to all.

    `OperatorInput.share` says which part a task has. `apply` changes no stored row of the side that goes to all; new
    rows of that side, also late ones, count only for the task that is `primary`.
    """

    @abstractmethod
    def undivided(self, side: int) -> str | None:
        """Return why rows of a side cannot be dealt out, as the rest of a sentence; None = they can."""

    @abstractmethod
    def side_of(self, values: Columns) -> int:
        """Return the side of rows that travel together. values: columns of `value_schema`, at least one row."""

    @abstractmethod
    def considered(self, keys: Columns, share: Share) -> Mask | None:
        """Return which stored rows a task considers; None = all of them."""

    @abstractmethod
    def depends_on_order(self, side: int) -> bool:
        """Whether the order of a side's rows decides more than the order of what is emitted."""


# What is stored ---------------------------------------------------------------------------------------------------


class PartlyHashed(ABC):
    """Only the first key columns are hashed. State rows that are equal in them lie together, sorted by a number."""

    @property
    @abstractmethod
    def hashed(self) -> int:
        """How many of the first key columns are hashed: rows that are equal in them are in one task."""

    @abstractmethod
    def row_order(self, keys: Columns) -> IntArray | None:
        """Return the numbers by which rows of one hash are sorted; None = they are not sorted."""


class SeveralRows(PartlyHashed):
    """A key has several state rows. Key columns that do not travel tell them apart."""

    def lookup_range(self, values: Columns, groups: Groups) -> LookupRange | None:
        """Return which state rows `apply` reads of each key that received rows; None = all of them."""
        del values, groups
        return None


class WithoutLookup(ABC):  # noqa: B024 - to have it is all there is to it
    """The stored state of a key does not matter when its rows arrive: nothing is looked up for them."""


class Expiring(ABC):
    """State rows end by themselves."""

    @abstractmethod
    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Return which state rows still count at a time (None = all). Keys whose timeout has passed do not."""


class WrittenOnce(ABC):  # noqa: B024 - most operators that have it need no more
    """A state row is written once and never changed, only ended, and tells by itself whether it still counts.

    Any merge may then remove a row together with its tombstone, and rows that no longer count.
    """

    def needed(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Mask | None:
        """Return which of some state rows (ascending by hash) still count, given the others (None = all).

        It never changes what is emitted: `apply` and `fire` may receive other rows as well.
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
        """Return the event time that each state row waits for, or lasts until; None if no row has one."""

    @abstractmethod
    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return (after, until): what is emitted now is made of state rows with after < timer <= until.

        None: only the output of `apply` is emitted.
        """

    @abstractmethod
    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """Return what is emitted for the rows that are due (ascending by hash)."""

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether state rows that waited for this event time, or an earlier one, are no longer needed."""
        del timer, clock
        return False

    @property
    def lasts_us(self) -> int | None:
        """About how long a state row is kept, if it ends at the time that it waits for; None = for ever."""
        return None

    @property
    def lag_us(self) -> int:
        """How far emitted rows may lie before the last watermark: the operator passes on its watermark less that."""
        return 0

    def span_of(self, keys: Columns) -> tuple[int, int] | None:
        """Return the first and last event time that state of these keys waits for; None if keys do not tell."""
        del keys
        return None


class Grouped(ABC):
    """The rows of a key that are due are emitted with its other rows."""

    @abstractmethod
    def together(self, keys: Columns, state: Columns) -> Mask | None:
        """Return which due state rows are emitted with all other rows of their key; None = each is emitted by itself.

        `apply` has all rows of the keys that received some, and returns what is emitted for these keys. `fire` receives
        all rows, as of the previous timestep, of every other key that has such a row. Runs without such rows are read
        only for these keys.
        """


class OnTimer(Timed, Grouped):
    """Timers of a key go off in `apply`, which may change the state of the key then.

    `apply` also receives the keys that got no rows and have a state row that is due, without rows. What is stored may
    since say otherwise: a key for which nothing is due does not change.
    """

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """Raise ValueError: all that is emitted is the output of `apply`."""
        msg = f"timers of {type(self).__name__} go off in apply"
        raise ValueError(msg)

    def processing_timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Return the processing time at which the timer of each row goes off; for other rows the end of time.

        None unless timers go by event time and by processing time beside each other. Then `timer_of` has the former.
        """
        del keys, state
        return None

    def processing_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return (after, until): which of the timers of `processing_timer_of` go off; None = none does."""
        del clock
        return None


class EarlyEmitting(ABC):
    """Rows that still wait for event time can be emitted at an interval."""

    @property
    @abstractmethod
    def early_ms(self) -> int | None:
        """The interval of processing time; None = this operator emits nothing early."""


class LateTelling(ABC):
    """Late rows can be emitted, apart from the others."""

    @property
    @abstractmethod
    def keep_late(self) -> bool:
        """Whether late rows are read downstream, so that all columns travel. A field: see `resolved.telling_late`."""


class Incremental(ABC):
    """What is emitted can be updated from timestep to timestep, with totals that are stored in runs of their own."""

    @property
    @abstractmethod
    def keeps_totals(self) -> bool:
        """Whether this operator does so, with its functions."""

    @abstractmethod
    def advance(self, work: Work) -> Advanced:
        """Emit what is complete now, and write the totals as of this timestep."""


class Revising(ABC):
    """What it emits are rows of a table, which later ones replace or end: there can be a changelog of them.

    A state row, as `finish` presents it, is a row of the table.
    """

    @property
    @abstractmethod
    def table_key(self) -> int:
        """How many of the first columns of the output are the key of the table: two of its rows differ in them."""

    @property
    def on_close_only(self) -> bool:
        """Whether rows are in the table only when the time that they wait for has passed. They stay in it."""
        return False

    @property
    def times_out(self) -> bool:
        """Whether a row leaves the table when its state no longer counts (`Expiring`)."""
        return False

    def looking_for_ends(self) -> Self:
        """Return the logic that finds rows which leave the table by time, if it does not by itself."""
        return self


# What matters for a change of logic ---------------------------------------------------------------------------------


class Succeeded(ABC):
    """Logic of another class may take over the state, if its state is of the same kind."""

    @property
    @abstractmethod
    def state_kind(self) -> str:
        """One word for what the state is."""

    @property
    def state_shapes(self) -> Mapping[str, str] | None:
        """Return what the columns of states do not show, by name, if each stored row belongs to one named state.

        Such a row bears the name of its state. None = a stored row is one row of all columns.
        """
        return None


class TimingOut(ABC):
    """A key ends if it receives no rows for some time."""

    @property
    @abstractmethod
    def timeout_ms(self) -> int | None:
        """The time; None = never."""

    @property
    @abstractmethod
    def keeps_timers(self) -> bool:
        """Whether state has the time at which each key ends, not only the time of its last rows."""

    @property
    def ends_noted(self) -> bool:
        """Whether it is noted beside stored state when keys end by this timeout, for a changelog that reports them."""
        return False


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Work:
    """What `Incremental.advance` gets: one task in one timestep."""

    program: StageProgram
    state: TaskState
    timestep: int
    runs: OpenRuns
    """State as of the timestep before."""
    fresh: Rows
    """State rows that changed in this timestep."""
    arrivals: OperatorInput
    applied: OperatorOutput
    writer: RunWriter


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Advanced:
    """What `Incremental.advance` returns."""

    emitted: Emitted | None
    """None: the output of `apply`."""
    edit: Edit
    """How the totals change."""
    rows_read: int
