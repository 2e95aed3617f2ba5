"""`deduplicate`: of all rows with the same key, the first one passes.

State of a key: when it came, or until when, in event time, it is remembered. What is no longer remembered costs
nothing: it is skipped by whoever looks, and merging drops it. A row is late if its key would be forgotten already:
whether it was there before, nobody knows any more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.groups import Groups, IntArray
from rechannel.kernels.logic import Applied, Arrivals, Columns, Late, Thinned
from rechannel.kernels.marks import micros
from rechannel.kernels.plain import EveryRow, as_they_came
from rechannel.kernels.sorting import from_numpy
from rechannel.kernels.tracking import spread
from rechannel.model.eventtime import ENDED, NEVER, Clock

TIMESTEP = pa.field("timestep", pa.int64(), False)
UNTIL = pa.field("until_us", pa.int64(), False)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class DeduplicateLogic(EveryRow):
    """The first row of every key: a `StatefulLogic`.

    row_schema: columns of the rows, in and out. within_us: how long after its first row's event time, in column `on`, a
    key is remembered; None = for ever. keep_late: late rows are somebody's.
    """

    key_schema: pa.Schema
    row_schema: pa.Schema
    within_us: int | None = None
    on: str | None = None
    keep_late: bool = False

    @property
    def state_schema(self) -> pa.Schema:
        """The timestep of the first row, or when the key is forgotten."""
        return pa.schema([TIMESTEP if self.within_us is None else UNTIL])

    @property
    def output_schema(self) -> pa.Schema:
        """As the rows."""
        return self.row_schema

    @property
    def shown_schema(self) -> pa.Schema:
        """Keys, and since or until when they are known."""
        return pa.schema([*self.key_schema, *self.state_schema])

    @property
    def value_schema(self) -> pa.Schema:
        """All columns that are not keys."""
        return pa.schema([f for f in self.row_schema if f.name not in self.key_schema.names])

    def thin(self, values: Sequence[pa.Array], groups: Groups) -> Thinned | None:
        """The first row of every key; all, where each of them may be late."""
        if self.within_us is not None or groups.count == groups.rows:
            return None
        return groups.starts, {}

    def apply(self, arrivals: Arrivals) -> Applied:
        """Let the first timely row of every key that is not known pass."""
        rows = np.arange(arrivals.groups.rows, dtype=np.int64)
        late = self._late(arrivals)
        timely = rows if late is None else rows[~late]
        owners = arrivals.groups.ids[timely]
        first = np.ones(len(owners), dtype=np.bool_)
        first[1:] = owners[1:] != owners[:-1]
        new = first & ~arrivals.found[owners]
        chosen, keys = timely[new], owners[new]
        untouched = np.ones(arrivals.groups.count, dtype=np.bool_)
        untouched[keys] = False
        return Applied(
            state=[
                spread(column, keys, len(untouched)) for column in self._state(arrivals, chosen)
            ],
            dropped=None,
            output=self._rows(arrivals, chosen, keys),
            output_hashes=arrivals.hashes[keys],
            untouched=untouched,
            late=self._late_rows(arrivals, late),
        )

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Keys that are still remembered; all where they are for ever."""
        if self.within_us is None:
            return None
        until = state[0].fill_null(NEVER).to_numpy(zero_copy_only=False)
        alive: Mask = until > clock.watermark
        return alive

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """The keys that are known, and since or until when."""
        return pa.RecordBatch.from_arrays([*keys, *state], schema=self.shown_schema)

    def _untils(self, arrivals: Arrivals, rows: IntArray | None = None) -> IntArray:
        """Until when the keys of rows would be remembered. A row without a time: from now on."""
        column = self._column(arrivals)
        times, nulls = micros(column if rows is None else column.take(pa.array(rows)))
        until: IntArray = times + (self.within_us or 0)
        if nulls is not None:
            clock = arrivals.clock
            now = ENDED if clock.watermark in (NEVER, ENDED) else clock.watermark
            until = np.where(nulls, now if now == ENDED else now + (self.within_us or 0), until)
        return until

    def _column(self, arrivals: Arrivals) -> pa.Array:
        """Event times of all rows."""
        name = self.on or ""
        if name in self.key_schema.names:
            column = arrivals.keys[self.key_schema.get_field_index(name)]
            return column.take(pa.array(arrivals.groups.ids))
        return arrivals.values[self.value_schema.get_field_index(name)]

    def _late(self, arrivals: Arrivals) -> Mask | None:
        """Which rows are late; None where none can be."""
        if self.within_us is None:
            return None
        late: Mask = self._untils(arrivals) <= arrivals.clock.before
        return late if late.any() else None

    def _state(self, arrivals: Arrivals, rows: IntArray) -> Columns:
        if self.within_us is None:
            return [from_numpy(np.full(len(rows), arrivals.timestep, dtype=np.int64), pa.int64())]
        return [from_numpy(self._untils(arrivals, rows), pa.int64())]

    def _rows(self, arrivals: Arrivals, rows: IntArray, owners: IntArray) -> pa.RecordBatch:
        columns = self.key_schema, self.value_schema
        return as_they_came(arrivals, rows, owners, columns, self.row_schema)

    def _late_rows(self, arrivals: Arrivals, late: Mask | None) -> Late | None:
        if late is None:
            return None
        rows = np.flatnonzero(late)
        if not self.keep_late:
            return Late(count=len(rows))
        owners = arrivals.groups.ids[rows]
        batch = self._rows(arrivals, rows, owners)
        return Late(count=len(rows), rows=batch, hashes=arrivals.hashes[owners])
