"""What a stateful operator is to the kernels: one protocol, implemented per operator family.

Tasks before the exchange, which partition rows, and tasks after it, which keep state, know nothing of counts or user
functions. They hash, sort, group, look up, merge and write; a `StatefulLogic` says what the state of a key is and how
rows change it. Implementations are frozen values, pickled to workers, and pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.functions.broadcast import BroadcastTable
from rechannel.kernels.functions.dead_letters import Letters
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray
from rechannel.model.spread import Share


@runtime_checkable
class AggregateFunction(Protocol):
    """One aggregate column, such as the mean of `price`. Vectorised over groups; pure; order-free unless `ordered`.

    All float results are bit-for-bit independent of row order and of how rows were split between partial states.
    """

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input columns of `partial`, in order (empty for a count of rows)."""

    @property
    def ordered(self) -> bool:
        """Whether the result depends on the order of rows within a group (first, last, last_n)."""

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """Return the fields of the state, given those of the inputs. Raises DataflowError for types it cannot take."""

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """Return the field of the finished value. Its type counts; the caller replaces the name."""

    def empty(self, inputs: list[pa.Field]) -> Columns | None:
        """Return the state of no rows, as columns of length 1. Merged with any state, it changes nothing.

        None if the state cannot express that there were no rows.
        """

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """Return one state row per group of input rows. Within a group, rows are in stream order."""

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Return one state row per group of state rows. Within a group, rows are in stream order, oldest first."""

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Merge old state (valid only where `found`) with new state of the same length, row by row."""

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Return the finished value of each state row."""


@runtime_checkable
class HidesType(Protocol):
    """An `AggregateFunction` whose state depends on the type of its input, and has the same columns for all types."""

    def of_type(self, inputs: list[pa.Field]) -> str:
        """Return a text that is the same for types whose states may be merged."""


@runtime_checkable
class Invertible(Protocol):
    """An `AggregateFunction` whose merged states can be taken apart again.

    A *total* is a merged state followed by its tallies: int64 columns with what `subtract` has to know about the states
    in it. After states were merged in and taken out, a total is bit for bit the total of the states that are left, in
    whatever order they came and went. `subtract` tells for which totals it cannot guarantee that.
    """

    def tally(self, states: Columns) -> Columns:
        """Return the tallies of each single state row."""

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Merge totals into one per group."""

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask | None]:
        """Take from each total another one that was merged into it; at least one state is left.

        Also returns which rows have to be merged anew from the states that are left (None = none).
        """


@dataclass(frozen=True, eq=False, kw_only=True)
class StoredRows:
    """All state rows of the keys that received rows, for an operator with several rows per key."""

    keys: Columns
    """Key columns, one row per state row."""
    state: Columns
    """State columns."""
    owners: IntArray
    """Position of the key of each row among the keys received, ascending; rows of a key are in row order."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Changed:
    """State rows to write: they replace those with the same hash and key columns."""

    hashes: HashArray
    """Ascending; rows of one hash are sorted by `PartlyHashed.row_order`."""
    columns: Columns
    """Key and state columns."""
    dropped: Mask | None = None
    """Which rows end; None = no row does."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OperatorInput:
    """What one task received for its keys in one timestep."""

    keys: Columns
    """Key columns, one row per distinct key, ascending by hash."""
    hashes: HashArray
    """Shape (keys,)."""
    values: Columns
    """Columns of `Capabilities.wire_schema`; rows sorted by key and, within a key, by stream order."""
    groups: Groups
    """Which rows of `values` belong to which key: none to a key that is here for its timers only (`OnTimer`)."""
    combined: bool
    """Whether `values` are partial states (after `combine`) or raw rows."""
    old: Columns
    """State columns of every key as of the previous timestep; undefined where not `found`."""
    found: Mask
    """Shape (keys,): whether the key had state."""
    clock: Clock
    """Journalled time of the timestep, and event time."""
    timestep: int
    """Its number."""
    held: StoredRows | None = None
    """Stored rows of the keys, instead of `old` and `found`, if a key has several (`SeveralRows`)."""
    share: Share | None = None
    """The task's part in a spread bin, if the keys are of one; `held` has the rows that it considers."""
    broadcast: Mapping[str, BroadcastTable] = field(default_factory=dict)
    """Tables of broadcast inputs by name, as of this timestep."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Late:
    """Rows that came too late."""

    count: int
    """How many."""
    rows: pa.RecordBatch | None = None
    """The rows themselves, if they are read."""
    hashes: HashArray | None = None
    """Hashes of their keys, ascending."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Dead:
    """Rows that the user's function could not handle."""

    letters: Letters
    hashes: HashArray
    """Hashes of their keys, ascending."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OperatorOutput:
    """What a stateful operator returns for one timestep."""

    state: Columns
    """New state columns, one row per key of `OperatorInput.keys`."""
    dropped: Mask | None
    """Shape (keys,): whether the key's state ends here; None = no key's does."""
    output: pa.RecordBatch
    """Rows to emit, with the columns of `StatefulLogic.output_schema`."""
    output_hashes: HashArray
    """Hash of the key of each output row, ascending."""
    untouched: Mask | None = None
    """Shape (keys,): whether the key's state stays unchanged, whatever `state` has there; None = no key's does."""
    late: Late | None = None
    """Rows that changed nothing because they came too late."""
    dead: Dead | None = None
    """Rows that changed nothing because the user's function failed for them."""
    side_outputs: Mapping[str, tuple[pa.RecordBatch, HashArray]] = field(default_factory=dict)
    """Rows of side outputs by name, with the hashes of their keys, ascending."""
    changed: Changed | None = None
    """State rows to write, instead of `state`, `dropped` and `untouched`, if a key has several."""


class StatefulLogic(Protocol):
    """A stateful operator, bound to schemas: the members that all operators have.

    What only some operators can do is a capability, which they inherit (`capabilities`).
    """

    @property
    def key_schema(self) -> pa.Schema:
        """Key columns."""

    @property
    def value_schema(self) -> pa.Schema:
        """Raw columns that travel to the operator, apart from the key."""

    @property
    def state_schema(self) -> pa.Schema:
        """State columns, without key and hash."""

    @property
    def output_schema(self) -> pa.Schema:
        """What the operator emits: key columns first."""

    @property
    def ordered(self) -> bool:
        """Whether rows of a key must arrive in stream order."""

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Return the new state of each key, and what to emit."""

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return state rows as `job.state` shows them: with the columns of the output, or of `Viewed`."""
