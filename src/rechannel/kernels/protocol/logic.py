"""What a stateful operator is to the kernels: one protocol, implemented per operator family.

Tasks before the exchange, which partition rows, and tasks after it, which keep state, know nothing of counts or user
functions. They hash, sort, group, look up, merge and write; a `StatefulLogic` says what the state of a key is and how
rows change it. Implementations are frozen values, pickled to workers, and pure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.functions.dead_letters import Letters
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray


class AggregateFunction(Protocol):
    """One aggregate column, e.g. the mean of `price`. Vectorised over groups; pure; order-free unless `ordered`.

    All float results are bit-for-bit independent of row order and of how rows were split between partial states.
    """

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the input columns that `partial` wants, in this order (empty for count of rows)."""

    @property
    def ordered(self) -> bool:
        """Whether the result depends on the order of rows within a group (first, last, last_n)."""

    def state_fields(self, inputs: list[pa.Field]) -> list[pa.Field]:
        """Fields of the state, given the fields of the inputs. Raises DataflowError for types it cannot take."""

    def output_field(self, inputs: list[pa.Field]) -> pa.Field:
        """Field (type; the name is replaced by the caller) of the finished value."""

    def empty(self, inputs: list[pa.Field]) -> Columns | None:
        """State of no rows, as columns of length 1: merged with any state it changes nothing.

        None where the state cannot say that there were no rows.
        """

    def partial(self, values: Columns, groups: Groups) -> Columns:
        """One state row per group from input rows. Row order within a group is the stream's order."""

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """One state row per group from state rows; within a group, rows are in stream order (oldest first)."""

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Element-wise merge of old state (valid only where `found`) with new state of the same length."""

    def final(self, states: Columns, inputs: list[pa.Field]) -> pa.Array:
        """Finished value of every state row."""


@runtime_checkable
class Invertible(Protocol):
    """What an `AggregateFunction` has besides where states can be taken out of a merged one again.

    A *total* is a merged state that is followed by its tallies: int64 columns that say of the states in it what
    `subtract` has to know. A total that states were merged into and taken out of is, bit for bit, that of the states
    which are left, in whatever order they came and went; `subtract` says of which totals it cannot tell.
    """

    def tally(self, states: Columns) -> Columns:
        """Tallies of state rows, of each taken by itself."""

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """One total per group of totals."""

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask | None]:
        """Row by row a total less another one that was merged into it; something is left.

        Also which rows have to be merged anew of what is left (None = none).
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
    """Rows that end; None = none does."""


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
    """Which rows of `values` belong to which key."""
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
    """Rows that the user's function could not handle. hashes: of their keys, ascending."""

    letters: Letters
    hashes: HashArray


@dataclass(frozen=True, eq=False, kw_only=True)
class OperatorOutput:
    """What a stateful operator answers."""

    state: Columns
    """New state columns, one row per key of `OperatorInput.keys`."""
    dropped: Mask | None
    """Shape (keys,): where the key's state ends here; None = nowhere."""
    output: pa.RecordBatch
    """Rows to emit, with the columns of `StatefulLogic.output_schema`."""
    output_hashes: HashArray
    """Hash of the key of each output row, ascending."""
    untouched: Mask | None = None
    """Shape (keys,): where the key's state stays, whatever `state` has there; None = nowhere."""
    late: Late | None = None
    """Rows that changed nothing because they came too late."""
    dead: Dead | None = None
    """Rows that changed nothing because the user's function failed for them."""
    changed: Changed | None = None
    """State rows to write, instead of `state`, `dropped` and `untouched`, if a key has several."""


class StatefulLogic(Protocol):
    """A stateful operator, bound to schemas: the part that all of them have.

    What only some of them can do are capabilities, which an operator inherits (`capabilities`).
    """

    @property
    def key_schema(self) -> pa.Schema:
        """Key columns."""

    @property
    def value_schema(self) -> pa.Schema:
        """Raw columns that travel to the operator, beside the key."""

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
        """The new state of every key, and what to emit."""

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Present state rows to people: rows of the output's columns, or of those of `Viewed` (used by `job.state`)."""
