"""Rows of a key in the order of their event times: they wait until the watermark has passed them.

State: the rows that wait. Rows with the same time leave in the order of the stream. A row that is earlier than the
watermark of the previous timestep is *late*: later rows may have left already. Rows that leave are not earlier than
that watermark, so they are not late for an operator downstream.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import from_numpy, nested_order, take
from rechannel.kernels.protocol.bases import ManyRows, late_rows
from rechannel.kernels.protocol.capabilities import (
    Emitted,
    Expiring,
    LateTelling,
    Timed,
    Viewed,
    WithoutLookup,
)
from rechannel.kernels.protocol.logic import Changed, Late, OperatorInput, OperatorOutput
from rechannel.kernels.protocol.two_sides import ROW, row_numbers
from rechannel.kernels.shuffle.watermarks import micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray


@dataclass(frozen=True, eq=False, kw_only=True)
class EventTimeSortLogic(ManyRows, WithoutLookup, Viewed, Expiring, Timed, LateTelling):
    """Rows, emitted later in the order of their event times: a `StatefulLogic`."""

    keys: pa.Schema
    """Key columns."""
    row_schema: pa.Schema
    """Columns of the stream, as late rows have them."""
    on: str
    """Column of event times."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""

    @property
    def key_schema(self) -> pa.Schema:
        """Return the keys and the column that distinguishes the rows of a key."""
        return self.keys.append(ROW)

    @cached_property
    def value_schema(self) -> pa.Schema:
        """All columns that are not keys."""
        return pa.schema([f for f in self.row_schema if f.name not in self.keys.names])

    @property
    def state_schema(self) -> pa.Schema:
        """Return the columns of a row but its keys."""
        return self.value_schema

    @property
    def output_schema(self) -> pa.Schema:
        """Return the columns of the rows, in their order."""
        return self.row_schema

    @cached_property
    def view_schema(self) -> pa.Schema:
        """Rows that wait, keys first."""
        return pa.schema([*self.keys, *self.value_schema])

    # Time -------------------------------------------------------------------------------------------------------

    def timer_of(self, keys: Columns, state: Columns) -> IntArray:
        """Return the instant after each row: at its own time, rows with the same time may still arrive."""
        times, _ = self._times(keys, state)
        return times + 1

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask:
        """Return the rows that wait for event time."""
        alive: Mask = self.timer_of(keys, state) > clock.watermark
        return alive

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether rows of then have left."""
        return timer <= clock.watermark

    def due_range(self, clock: Clock) -> tuple[int, int]:
        """Rows that the watermark has passed."""
        return clock.before, clock.watermark

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """The rows in their order."""
        order = nested_order(hashes, self._times(keys, state)[0], self.row_order(keys))
        rows = self.finish(take(keys, order), take(state, order))
        return rows.select(self.row_schema.names), hashes[order]

    # Rows -------------------------------------------------------------------------------------------------------

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Keep what is in time."""
        ids = arrivals.groups.ids
        times, nulls = self._times(take(arrivals.keys, ids), arrivals.values)
        late = times < arrivals.clock.before
        late = late if nulls is None else late | nulls
        rows = np.flatnonzero(~late)
        nothing = np.zeros(len(ids), dtype=np.int64)
        numbers = row_numbers(nothing, arrivals.timestep, arrivals.groups)[rows]
        hashes = arrivals.hashes[ids[rows]]
        # Keys that share a hash lie between each other.
        order = nested_order(hashes, numbers)
        rows = rows[order]
        columns = [
            *take(arrivals.keys, ids[rows]),
            from_numpy(numbers[order], ROW.type),
            *take(arrivals.values, rows),
        ]
        return OperatorOutput(
            state=[],
            dropped=None,
            output=pa.RecordBatch.from_arrays(
                [pa.array([], f.type) for f in self.output_schema], schema=self.output_schema
            ),
            output_hashes=arrivals.hashes[:0],
            late=self._late_rows(arrivals, np.flatnonzero(late)),
            changed=Changed(hashes=hashes[order], columns=columns),
        )

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return rows with their keys first."""
        columns = [*keys[: len(self.keys)], *state]
        return pa.RecordBatch.from_arrays(columns, schema=self.view_schema)

    def _times(self, keys: Columns, values: Columns) -> tuple[IntArray, Mask | None]:
        """Event times of rows."""
        if self.on in self.keys.names:
            return micros(keys[self.keys.get_field_index(self.on)])
        return micros(values[self.value_schema.get_field_index(self.on)])

    def _late_rows(self, arrivals: OperatorInput, rows: IntArray) -> Late | None:
        if not len(rows):
            return None
        if not self.keep_late:
            return Late(count=len(rows))
        return late_rows(arrivals, rows, (self.keys, self.value_schema), self.row_schema)
