"""Session windows: rows of a key that are less than a gap apart, in event time, and no longer than that from others.

State: a row per session. Its key columns are the user's, and the event times of its first and its last row: so what a
session waits for, the gap behind its last row, follows from its key, and a session that grows is another one in the
place of the old. Sessions that a row brings together become one.

Of the sessions of a key that are kept none is nearer to another than the gap, and those that are gone ended before the
watermark. A row of before the watermark is *late* unless it is within a session that is kept, or less than the gap
behind its last row: anything else could belong to one that is gone. So sessions are those of a batch over all rows that
are not late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.aggregate_logic import AggregateLogic
from rechannel.kernels.groups import Groups, IntArray
from rechannel.kernels.logic import Applied, Arrivals, Changed, Columns, Held, Late
from rechannel.kernels.marks import MICROS, micros
from rechannel.kernels.plain import ManyRows, column_of, held_by, late_rows
from rechannel.kernels.sorting import from_numpy, last_not_after, nested_order, running_max, take
from rechannel.kernels.window_reduce import WindowReduceLogic
from rechannel.kernels.windows import END, START, values_read
from rechannel.model.eventtime import Clock

FIRST = pa.field("_first", pa.int64(), False)
LAST = pa.field("_last", pa.int64(), False)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionLogic(ManyRows):
    """Aggregates of the rows of a key in a session: a `StatefulLogic`. They are shown when it is complete.

    inner: over the user's keys. row_schema: the stream's columns. on: the column of event times. gap_us: how far apart
    rows of one session are at most, exclusive. keep_late: late rows are somebody's.
    """

    inner: AggregateLogic | WindowReduceLogic
    row_schema: pa.Schema
    on: str
    gap_us: int
    keep_late: bool = False

    @property
    def keys(self) -> pa.Schema:
        """The user's keys."""
        return self.inner.key_schema

    @property
    def key_schema(self) -> pa.Schema:
        """Keys, and the session's first and last event time, microseconds."""
        return pa.schema([*self.keys, FIRST, LAST])

    @cached_property
    def value_schema(self) -> pa.Schema:
        """Event time and what the aggregates read, or all that a late row is made of."""
        if self.keep_late:
            return pa.schema([f for f in self.row_schema if f.name not in self.keys.names])
        names = dict.fromkeys([self.on, *self.inner.value_schema.names])
        return pa.schema(
            [self.row_schema.field(name) for name in names if name not in self.keys.names]
        )

    @property
    def ordered(self) -> bool:
        """By time; rows of one time matter to a function of the user, and to who gets late ones."""
        return self.inner.ordered or self.keep_late

    @property
    def state_schema(self) -> pa.Schema:
        """As of the aggregates."""
        return self.inner.state_schema

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, start and end of the session (its last row and the gap), aggregates."""
        width = len(self.keys)
        fields = list(self.inner.output_schema)
        times = [pa.field(name, MICROS, False) for name in (START, END)]
        return pa.schema([*fields[:width], *times, *fields[width:]])

    @property
    def shown_schema(self) -> pa.Schema:
        """Sessions that are not complete are shown as they are emitted."""
        return self.output_schema

    # Time -------------------------------------------------------------------------------------------------------

    def due(self, keys: Columns, state: Columns) -> IntArray:
        """Ends of the sessions."""
        ends: IntArray = self.minor(keys) + self.gap_us
        return ends

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask:
        """Sessions that are not complete."""
        alive: Mask = self.due(keys, state) > clock.watermark
        return alive

    def gone(self, due: int, clock: Clock) -> bool:
        """Whether sessions that end then are complete."""
        return due <= clock.watermark

    def awaited(self, clock: Clock) -> tuple[int, int]:
        """Sessions that have become complete."""
        return clock.before, clock.watermark

    def fire(
        self, keys: Columns, state: Columns, hashes: npt.NDArray[np.uint64], clock: Clock
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.uint64]]:
        """The complete sessions themselves."""
        return self.finish(keys, state), hashes

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys, start and end of the sessions, finished aggregates."""
        width = len(self.keys)
        inner = self.inner.finish(keys[:width], state)
        start = keys[width].cast(MICROS)
        end = from_numpy(self.due(keys, state), pa.int64()).cast(MICROS)
        columns = [*inner.columns[:width], start, end, *inner.columns[width:]]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    # Rows -------------------------------------------------------------------------------------------------------

    def apply(self, arrivals: Arrivals) -> Applied:
        """Put rows into sessions, and sessions together."""
        held = held_by(arrivals)
        columns = self.keys, self.value_schema
        times, nulls = micros(column_of(self.on, arrivals, columns))
        first = held.keys[-2].to_numpy(zero_copy_only=False)
        last = self.minor(held.keys)
        late = self._late(arrivals, held.owners, first, last, times)
        late = late if nulls is None else late | nulls
        rows = np.flatnonzero(~late)
        met = _Met.sweep(
            np.concatenate([held.owners, arrivals.groups.ids[rows]]),
            np.concatenate([first, times[rows]]),
            np.concatenate([last, times[rows]]),
            self.gap_us,
        )
        return Applied(
            state=[],
            dropped=None,
            output=pa.RecordBatch.from_arrays(
                [pa.array([], f.type) for f in self.output_schema], schema=self.output_schema
            ),
            output_hashes=arrivals.hashes[:0],
            late=self._late_rows(arrivals, np.flatnonzero(late)),
            changed=self._changed(arrivals, held, rows, met),
        )

    def _changed(self, arrivals: Arrivals, held: Held, rows: IntArray, met: _Met) -> Changed:
        """Sessions with the rows that came, and tombstones of those in whose place they are."""
        count = len(held.owners)
        came = met.order >= count
        of = met.session[came]  # of the rows that came, by key and time
        grown = np.zeros(met.count, dtype=np.bool_)
        grown[of] = True
        place = np.cumsum(grown) - 1  # of every session that changes among those
        fresh = rows[met.order[came] - count]
        groups = Groups(np.flatnonzero(np.diff(of, prepend=-1)), len(fresh))
        read = values_read(arrivals, (self.keys, self.value_schema), self.inner)
        new_states = self.inner.combine(take(read, fresh), groups)
        within = np.empty(count, dtype=np.int64)  # the session that every one of before is in now
        within[met.order[~came]] = met.session[~came]
        old = np.flatnonzero(grown[within])  # sessions that were there and change
        both = np.concatenate([place[within[old]], np.arange(groups.count)])
        sort = np.argsort(both, kind="stable")
        states = [
            pa.concat_arrays([before, new])
            for before, new in zip(take(held.state, old), new_states, strict=True)
        ]
        starts = np.flatnonzero(np.diff(both[sort], prepend=-1))
        merged = self.inner.merged_states(take(states, sort), Groups(starts, len(sort)))
        new = np.flatnonzero(grown)
        owners, first, last = met.owners[new], met.first[new], met.last[new]
        # One that did not get longer is written under the key that it had.
        was_first = held.keys[-2].to_numpy(zero_copy_only=False)[old]
        was_last = self.minor(held.keys)[old]
        at = place[within[old]]
        ended = np.flatnonzero((was_first != first[at]) | (was_last != last[at]))
        gone = old[ended]
        owners = np.concatenate([owners, held.owners[gone]])
        columns = [
            *take(arrivals.keys, owners),
            from_numpy(np.concatenate([first, was_first[ended]]), FIRST.type),
            from_numpy(np.concatenate([last, was_last[ended]]), LAST.type),
            *(
                pa.concat_arrays([one, other])
                for one, other in zip(merged, take(held.state, gone), strict=True)
            ),
        ]
        dropped = np.arange(len(owners)) >= len(new)
        hashes = arrivals.hashes[owners]
        order = nested_order(hashes, self.minor(columns[: len(self.key_schema)]))
        return Changed(
            hashes=hashes[order],
            columns=take(columns, order),
            dropped=dropped[order] if len(gone) else None,
        )

    def _late(
        self, arrivals: Arrivals, owners: IntArray, first: IntArray, last: IntArray, times: IntArray
    ) -> Mask:
        """Which rows could belong to a session that is gone."""
        late: Mask = times < arrivals.clock.before
        doubtful = np.flatnonzero(late)
        if not len(doubtful) or not len(owners):
            return late
        # The session of the key that begins last at or before the row: sessions of a key are sorted by time.
        of = arrivals.groups.ids[doubtful]
        place = last_not_after(owners, first, of, times[doubtful])
        there = place >= np.searchsorted(owners, of)
        at = np.maximum(place, 0)
        kept = there & (times[doubtful] < last[at] + self.gap_us)
        late[doubtful[kept]] = False
        return late

    def _late_rows(self, arrivals: Arrivals, rows: IntArray) -> Late | None:
        if not len(rows):
            return None
        if not self.keep_late:
            return Late(count=len(rows))
        return late_rows(arrivals, rows, (self.keys, self.value_schema), self.row_schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Met:
    """Spans of time of keys, put together where they are less than a gap apart.

    order: spans by owner and begin. session: which one each of those is in. owners, first, last: of every session; they
    ascend by owner and time.
    """

    order: IntArray
    session: IntArray
    owners: IntArray
    first: IntArray
    last: IntArray

    @property
    def count(self) -> int:
        """How many sessions."""
        return len(self.owners)

    @classmethod
    def sweep(cls, owners: IntArray, first: IntArray, last: IntArray, gap: int) -> _Met:
        """Sweep over the spans of every key by their begin, and look how far those before have come."""
        order = nested_order(owners, first)
        owner, begin, end = owners[order], first[order], last[order]
        reach = running_max(owner, end)
        new = np.ones(len(order), dtype=np.bool_)
        new[1:] = (owner[1:] != owner[:-1]) | (begin[1:] >= reach[:-1] + gap)
        starts = np.flatnonzero(new)
        ends = (np.append(starts[1:], len(order)) - 1)[: len(starts)]
        return cls(
            order=order,
            session=np.cumsum(new) - 1,
            owners=owner[starts],
            first=begin[starts],
            last=reach[ends],
        )
