"""`deduplicate`: of all rows with the same key, the first one passes, or the first one within a time.

State of a key: the timestep in which its row passed or, within a time, the event time until which rows are duplicates
of the last row that passed. So which rows pass follows from their order and their times, not from how they were cut
into timesteps. A row that is earlier than the one that passed is a duplicate, too.

A row is late if the watermark of the previous timestep is `within` past it: by then its duplicates would be forgotten.
So a key is remembered until no row that is not late can be its duplicate. After that it costs nothing: every look-up
skips it, and merging drops it. A row without a time is late, as in windows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import from_numpy
from rechannel.kernels.columnar.sparse import spread
from rechannel.kernels.protocol.bases import EveryRow, as_they_came, column_of, late_rows
from rechannel.kernels.protocol.capabilities import Expiring, LateTelling, Pruned, Pruning, Viewed
from rechannel.kernels.protocol.logic import Late, OperatorInput, OperatorOutput
from rechannel.kernels.shuffle.watermarks import micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import NEVER, Clock, less
from rechannel.operators.process.spacing import spaced, until_after

TIMESTEP = pa.field("timestep", pa.int64(), False)
UNTIL = pa.field("until_us", pa.int64(), False)


Times = tuple[IntArray, Mask | None]
"""Microseconds, and which of them are missing."""


@dataclass(frozen=True, eq=False, kw_only=True)
class DeduplicateLogic(EveryRow, Pruning, Viewed, Expiring, LateTelling):
    """The first row of every key, for ever or within a time: a `StatefulLogic`."""

    key_schema: pa.Schema
    row_schema: pa.Schema
    """Columns of the rows, in and out."""
    within_us: int | None = None
    """How long, in event time, rows are duplicates of the last one that passed; None = for ever."""
    on: str | None = None
    """Column of event times."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""

    @property
    def state_schema(self) -> pa.Schema:
        """The timestep of the first row, or until when rows are the same as the last one that passed."""
        return pa.schema([TIMESTEP if self.within_us is None else UNTIL])

    @property
    def output_schema(self) -> pa.Schema:
        """Return the columns of the rows."""
        return self.row_schema

    @property
    def view_schema(self) -> pa.Schema:
        """Keys, and since when they are known, or until when rows are the same."""
        return pa.schema([*self.key_schema, *self.state_schema])

    @property
    def value_schema(self) -> pa.Schema:
        """All columns that are not keys."""
        return pa.schema([f for f in self.row_schema if f.name not in self.key_schema.names])

    def prune(self, values: Sequence[pa.Array], groups: Groups) -> Pruned | None:
        """The first row of every key; all, where a later one may pass."""
        if self.within_us is not None or groups.count == groups.rows:
            return None
        return groups.starts, {}

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Let the timely rows pass that are not the same as one before."""
        times = None if self.within_us is None else self._times(arrivals)
        late = None if times is None else self._late(arrivals, times)
        chosen = self._first(arrivals) if times is None else self._apart(arrivals, times, late)
        owners = arrivals.groups.ids[chosen]
        last = np.flatnonzero(np.diff(owners, append=-1))
        keys, untouched = owners[last], np.ones(arrivals.groups.count, dtype=np.bool_)
        untouched[keys] = False
        if times is None:
            state = np.full(len(keys), arrivals.timestep, dtype=np.int64)
        else:
            state = until_after(times[0][chosen[last]], self.within_us or 0)
        return OperatorOutput(
            state=[spread(from_numpy(state, pa.int64()), keys, len(untouched))],
            dropped=None,
            output=self._rows(arrivals, chosen, owners),
            output_hashes=arrivals.hashes[owners],
            untouched=untouched,
            late=self._late_rows(arrivals, late),
        )

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Keys of which rows may be the same that are not late; all where they are for ever."""
        if self.within_us is None:
            return None
        alive: Mask = _untils(state) > less(clock.watermark, self.within_us)
        return alive

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """The keys that are known, and since when, or until when rows are the same."""
        return pa.RecordBatch.from_arrays([*keys, *state], schema=self.view_schema)

    def _first(self, arrivals: OperatorInput) -> IntArray:
        """The first rows of keys that are not known."""
        return arrivals.groups.starts[~arrivals.found]

    def _apart(self, arrivals: OperatorInput, times: Times, late: Mask | None) -> IntArray:
        """Timely rows that are not within the time of the last one that passed."""
        rows = np.arange(arrivals.groups.rows, dtype=np.int64)
        timely = rows if late is None else rows[~late]
        untils = np.where(arrivals.found, _untils(arrivals.old), NEVER)
        owners = arrivals.groups.ids[timely]
        return timely[spaced(owners, times[0][timely], untils, self.within_us or 0)]

    def _times(self, arrivals: OperatorInput) -> Times:
        """Event times of all rows, and which have none."""
        columns = self.key_schema, self.value_schema
        return micros(column_of(self.on or "", arrivals, columns))

    def _late(self, arrivals: OperatorInput, times: Times) -> Mask | None:
        """Which rows are late; None where none is."""
        instants, nulls = times
        late: Mask = instants <= less(arrivals.clock.before, self.within_us or 0)
        if nulls is not None:
            late |= nulls
        return late if late.any() else None

    def _rows(self, arrivals: OperatorInput, rows: IntArray, owners: IntArray) -> pa.RecordBatch:
        columns = self.key_schema, self.value_schema
        return as_they_came(arrivals, rows, owners, columns, self.row_schema)

    def _late_rows(self, arrivals: OperatorInput, late: Mask | None) -> Late | None:
        if late is None:
            return None
        rows = np.flatnonzero(late)
        if not self.keep_late:
            return Late(count=len(rows))
        columns = self.key_schema, self.value_schema
        return late_rows(arrivals, rows, columns, self.row_schema)


def _untils(state: Columns) -> IntArray:
    """Until when rows are the same; of tombstones, which have no state, NEVER."""
    untils: IntArray = state[0].fill_null(NEVER).to_numpy(zero_copy_only=False)
    return untils
