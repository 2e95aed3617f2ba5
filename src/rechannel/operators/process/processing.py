"""What both flavours of `process` share: which columns there are, what waits for time, and how an answer is put
together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.functions.dead_letters import Letters, MayDivide, offsets_of, row_texts
from rechannel.kernels.protocol.bases import ManyRows, as_they_came
from rechannel.kernels.protocol.capabilities import (
    Emitted,
    Expiring,
    OnTimer,
    Succeeded,
    Viewed,
)
from rechannel.kernels.protocol.logic import Dead, OperatorInput
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.operators.process.states import State
from rechannel.operators.process.stored import Layout


@dataclass(frozen=True, eq=False, kw_only=True)
class Processing(ManyRows, Viewed, Expiring, OnTimer, Succeeded, MayDivide):
    """A user's function that emits any rows, with states and timers per key."""

    keys: pa.Schema
    """The user's keys."""
    row_schema: pa.Schema
    """Columns of the stream."""
    fields: pa.Schema
    """Columns of the rows that it emits, after the keys."""
    states: Mapping[str, State]
    timers: Mapping[str, str]
    """The kind of time of each timer: "event" or "processing"."""
    sides: Mapping[str, pa.Schema]
    """Columns of each side output, after the keys."""
    on: str | None = None
    """Column of event times in whose order rows come; None = in the order of the stream."""

    @cached_property
    def layout(self) -> Layout:
        """Return how state is stored."""
        return Layout(self.keys, self.states, tuple(self.timers), self.trailing)

    @property
    def state_kind(self) -> str:
        """Return the kind: both flavours understand each other's state."""
        return "process"

    @property
    def state_shapes(self) -> Mapping[str, str]:
        """Return what each state is, by name."""
        return {name: state.shape for name, state in self.states.items()}

    @property
    def key_schema(self) -> pa.Schema:
        """Keys, and what tells the rows of a key apart."""
        return self.layout.key_schema

    @cached_property
    def value_schema(self) -> pa.Schema:
        """All columns that are not keys."""
        return pa.schema([each for each in self.row_schema if each.name not in self.keys.names])

    @property
    def state_schema(self) -> pa.Schema:
        """Return when rows are due or end, and a column per state."""
        return self.layout.state_schema

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, then what the function emits."""
        return pa.schema([*self.keys, *self.fields])

    @property
    def view_schema(self) -> pa.Schema:
        """Return the columns in which stored rows are shown."""
        return self.layout.view_schema

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return stored rows as they are shown."""
        return self.layout.finish(keys, state)

    # Time -------------------------------------------------------------------------------------------------------

    @property
    def by_event_time(self) -> bool:
        """Whether timers go by event time, all of them or some."""
        return "event" in self.timers.values()

    @cached_property
    def trailing(self) -> tuple[str, ...]:
        """Timers of processing time beside those of event time: of a key, they go off after those."""
        if not self.by_event_time:
            return ()
        return tuple(name for name, kind in self.timers.items() if kind == "processing")

    @cached_property
    def leading(self) -> tuple[str, ...]:
        """All other timers. They go by the watermark, which is that of processing time if all timers go by that."""
        return tuple(name for name in self.timers if name not in self.trailing)

    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Return when timers go off; for all other rows, and timers of `processing_timer_of`, the end of time."""
        return self.layout.timers_of(keys, state, self.leading) if self.timers else None

    def processing_timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Return when timers of processing time go off beside others; for all other rows the end of time."""
        return self.layout.timers_of(keys, state, self.trailing) if self.trailing else None

    def processing_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return which timers of processing time go off now, beside those of event time."""
        moved = clock.processing > clock.processing_before
        return (clock.processing_before, clock.processing) if self.trailing and moved else None

    def together(self, keys: Columns, state: Columns) -> Mask | None:
        """Return the timers: a key is handed over with all its rows."""
        return self.layout.are_timers(keys) if self.timers else None

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Return timers that have not gone off, and what has not outlived its time."""
        return self.layout.live(keys, state, clock)

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Return which timers go off now."""
        moved = clock.watermark > clock.before
        return (clock.before, clock.watermark) if self.timers and moved else None

    # What comes of a call ---------------------------------------------------------------------------------------

    def emitted(
        self, arrivals: OperatorInput, owners: IntArray, made: Columns, fields: pa.Schema
    ) -> Emitted:
        """Return rows with their keys in front. owners: position of the key of each row, ascending."""
        schema = pa.schema([*self.keys, *fields])
        columns = [*take(arrivals.keys, owners), *made]
        return pa.RecordBatch.from_arrays(columns, schema=schema), arrivals.hashes[owners]

    def dead(self, arrivals: OperatorInput, failed: Mapping[int, str]) -> Dead | None:
        """Return the rows of the keys for which the function failed. failed: what was wrong, by position of the key."""
        if not failed:
            return None
        rows = np.flatnonzero(np.isin(arrivals.groups.ids, np.array(sorted(failed))))
        owners = arrivals.groups.ids[rows]
        columns = self.keys, self.value_schema
        came = as_they_came(arrivals, rows, owners, columns, self.row_schema)
        letters = Letters(
            errors=[failed[key] for key in owners.tolist()],
            rows=row_texts(came),
            offsets=offsets_of(came),
        )
        return Dead(letters=letters, hashes=arrivals.hashes[owners])
