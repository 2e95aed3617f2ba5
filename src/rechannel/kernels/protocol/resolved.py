"""Look up the capabilities of one operator, once: the only place that tests which ones a logic has.

Each question has one name here, for all callers. The capability that it belongs to answers it. An operator without that
capability gets the default: nothing waits, every row counts, a key has one state row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns, columns_of
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.capabilities import (
    Combining,
    EarlyEmitting,
    Emitted,
    Expiring,
    Grouped,
    Incremental,
    LateTelling,
    LookupRange,
    OnTimer,
    PartlyHashed,
    Projecting,
    Pruned,
    Pruning,
    Revising,
    SeveralRows,
    Spreadable,
    Stamping,
    Succeeded,
    Timed,
    TimingOut,
    Viewed,
    WithoutLookup,
    WrittenOnce,
)
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray
from rechannel.model.spread import Share

FOUND = {
    "combining": Combining,
    "projecting": Projecting,
    "pruning": Pruning,
    "stamping": Stamping,
    "spreadable": Spreadable,
    "partly_hashed": PartlyHashed,
    "several_rows": SeveralRows,
    "without_lookup": WithoutLookup,
    "expiring": Expiring,
    "written_once": WrittenOnce,
    "viewed": Viewed,
    "timed": Timed,
    "grouped": Grouped,
    "on_timer": OnTimer,
    "early": EarlyEmitting,
    "incremental": Incremental,
    "revising": Revising,
    "succeeded": Succeeded,
    "timing_out": TimingOut,
}
"""The field of `Capabilities` that holds a logic if it has a capability."""


@dataclass(frozen=True, slots=True, eq=False)
class Capabilities:
    """A logic, and the same logic once per capability; None = it does not have that capability."""

    logic: StatefulLogic
    combining: Combining | None = field(init=False)
    projecting: Projecting | None = field(init=False)
    pruning: Pruning | None = field(init=False)
    stamping: Stamping | None = field(init=False)
    spreadable: Spreadable | None = field(init=False)
    partly_hashed: PartlyHashed | None = field(init=False)
    several_rows: SeveralRows | None = field(init=False)
    without_lookup: WithoutLookup | None = field(init=False)
    expiring: Expiring | None = field(init=False)
    written_once: WrittenOnce | None = field(init=False)
    viewed: Viewed | None = field(init=False)
    timed: Timed | None = field(init=False)
    grouped: Grouped | None = field(init=False)
    on_timer: OnTimer | None = field(init=False)
    early: EarlyEmitting | None = field(init=False)
    incremental: Incremental | None = field(init=False)
    revising: Revising | None = field(init=False)
    succeeded: Succeeded | None = field(init=False)
    timing_out: TimingOut | None = field(init=False)

    def __post_init__(self) -> None:
        """Look for all of them."""
        for name, capability in FOUND.items():
            found = self.logic if isinstance(self.logic, capability) else None
            object.__setattr__(self, name, found)

    # What travels -----------------------------------------------------------------------------------------------

    @property
    def hashed(self) -> int:
        """How many of the first key columns are hashed: rows that are equal in them are in one task."""
        found = self.partly_hashed
        return len(self.logic.key_schema) if found is None else found.hashed

    @property
    def sent(self) -> int:
        """How many of the first key columns travel."""
        if self.stamping is not None:
            return self.stamping.sent
        found = self.several_rows
        return len(self.logic.key_schema) if found is None else found.hashed

    @property
    def reads(self) -> tuple[str, ...]:
        """Columns that `values_of` reads, without keys."""
        found = self.projecting
        return tuple(self.logic.value_schema.names) if found is None else found.reads

    @property
    def combinable(self) -> bool:
        """Whether rows of a key can be combined into one partial state before the exchange."""
        return self.combining is not None and self.combining.combinable

    def values_of(self, batch: pa.RecordBatch) -> Columns:
        """Return the columns of `value_schema` for rows that are about to travel."""
        if self.projecting is None:
            return columns_of(batch, self.logic.value_schema)
        return self.projecting.values_of(batch)

    def wire_schema(self, *, combined: bool) -> pa.Schema:
        """Return the columns that travel with the key: raw ones, or those of partial states."""
        return self._combining().combined_schema if combined else self.logic.value_schema

    def combine(self, values: Columns, groups: Groups) -> Columns:
        """Combine raw rows into one partial state per group. Raises ValueError for an operator that cannot."""
        return self._combining().combine(values, groups)

    def _combining(self) -> Combining:
        if self.combining is None:
            msg = f"{type(self.logic).__name__} does not combine rows before the exchange"
            raise ValueError(msg)
        return self.combining

    def prune(self, values: Sequence[pa.Array], groups: Groups) -> Pruned | None:
        """Return which raw rows need to travel; None = all of them, unchanged."""
        return None if self.pruning is None else self.pruning.prune(values, groups)

    def stamped(self, keys: Columns, clock: Clock) -> Columns:
        """Return the keys that arrived, with the columns that follow from the time."""
        return keys if self.stamping is None else self.stamping.stamped(keys, clock)

    def undivided(self, side: int) -> str | None:
        """Return why rows of a side cannot be dealt out over several tasks; None = they can."""
        if self.spreadable is None:
            return "all rows of a key have to meet in one task"
        return self.spreadable.undivided(side)

    def side_of(self, values: Columns) -> int:
        """Return the side of rows that travel together; 0 for an operator whose rows have no sides."""
        return 0 if self.spreadable is None else self.spreadable.side_of(values)

    def considered(self, keys: Columns, share: Share | None) -> Mask | None:
        """Return which stored rows a task considers, given its part in a spread bin; None = all of them."""
        if share is None or self.spreadable is None:
            return None
        return self.spreadable.considered(keys, share)

    def depends_on_order(self, side: int) -> bool:
        """Whether the order in which rows of a side arrive decides what is emitted, or in which order."""
        if self.spreadable is None:
            return self.logic.ordered
        return self.spreadable.depends_on_order(side)

    # What is stored ---------------------------------------------------------------------------------------------

    @property
    def needs_lookup(self) -> bool:
        """Whether the stored state of a key matters when its rows arrive."""
        return self.without_lookup is None

    @property
    def totals(self) -> Incremental | None:
        """The logic, if it keeps totals in addition to its state."""
        found = self.incremental
        return found if found is not None and found.keeps_totals else None

    @property
    def view_schema(self) -> pa.Schema:
        """How `finish` presents state: key columns first."""
        return self.logic.output_schema if self.viewed is None else self.viewed.view_schema

    @property
    def state_shapes(self) -> Mapping[str, str] | None:
        """Return what named states are, if each stored row belongs to one."""
        return None if self.succeeded is None else self.succeeded.state_shapes

    @property
    def state_kind(self) -> str:
        """What kind of state it is: logic with the same kind may take it over."""
        return type(self.logic).__name__ if self.succeeded is None else self.succeeded.state_kind

    @property
    def stored_schema(self) -> pa.Schema:
        """Key and state columns, as segments hold them."""
        return pa.schema([*self.logic.key_schema, *self.logic.state_schema])

    def row_order(self, keys: Columns) -> IntArray | None:
        """Return the numbers by which state rows of one hash are sorted; None = the whole key is hashed."""
        return None if self.partly_hashed is None else self.partly_hashed.row_order(keys)

    def sent_order(self, keys: Columns) -> IntArray | None:
        """Return `row_order` for rows that travel; None also if its column does not travel."""
        return self.row_order(keys) if self.sent == len(self.logic.key_schema) else None

    def lookup_range(self, values: Columns, groups: Groups) -> LookupRange | None:
        """Return which state rows `apply` reads of each key that received rows; None = all of them."""
        found = self.several_rows
        return None if found is None else found.lookup_range(values, groups)

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Return which state rows still count at a time; None = all."""
        return None if self.expiring is None else self.expiring.live(keys, state, clock)

    def needed(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Mask | None:
        """Return which state rows still count, given the others; None = all."""
        found = self.written_once
        return None if found is None else found.needed(keys, state, hashes, clock)

    # What is emitted, and when ----------------------------------------------------------------------------------

    @property
    def early_ms(self) -> int | None:
        """Interval of processing time at which rows that still wait are emitted; None = never."""
        return None if self.early is None else self.early.early_ms

    @property
    def lasts_us(self) -> int | None:
        """About how long a state row is kept; None = for ever."""
        return None if self.timed is None else self.timed.lasts_us

    @property
    def lag_us(self) -> int:
        """How far emitted rows may lie before the last watermark."""
        return 0 if self.timed is None else self.timed.lag_us

    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Return the event time that each state row waits for, or lasts until; None if no row has one."""
        return None if self.timed is None else self.timed.timer_of(keys, state)

    def processing_timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Return the processing time of each row's timer, beside those of event time; None if no row has one."""
        return None if self.on_timer is None else self.on_timer.processing_timer_of(keys, state)

    def processing_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return the range (after, until] of timers of processing time that are due beside those of event time."""
        return None if self.on_timer is None else self.on_timer.processing_range(clock)

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether state rows that waited for this event time, or an earlier one, are no longer needed."""
        return self.timed is not None and self.timed.gone(timer, clock)

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return the range (after, until] of timers that are due; None: only the output of `apply` is emitted."""
        return None if self.timed is None else self.timed.due_range(clock)

    def span_of(self, keys: Columns) -> tuple[int, int] | None:
        """Return the first and last event time that state of these keys waits for; None if keys do not tell."""
        return None if self.timed is None else self.timed.span_of(keys)

    def together(self, keys: Columns, state: Columns) -> Mask | None:
        """Return which due state rows are emitted with all other rows of their key; None = each by itself."""
        return None if self.grouped is None else self.grouped.together(keys, state)

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """Return what is emitted for rows that are due. Raises ValueError for an operator whose rows never are."""
        if self.timed is None:
            msg = f"nothing of {type(self.logic).__name__} waits for event time"
            raise ValueError(msg)
        return self.timed.fire(keys, state, hashes, clock)


def telling_late(logic: StatefulLogic) -> StatefulLogic:
    """Return the logic that also emits late rows; the same one if it cannot."""
    if not isinstance(logic, LateTelling):
        return logic
    told: Any = replace(logic, keep_late=True)  # type: ignore[type-var] # a dataclass, as every logic is
    found: StatefulLogic = told
    return found


def looking_for_ends(logic: StatefulLogic) -> StatefulLogic:
    """Return the logic that finds the rows that leave its table by time; the same one if none does."""
    if not isinstance(logic, Revising):
        return logic
    made: Any = logic.looking_for_ends()
    found: StatefulLogic = made
    return found
