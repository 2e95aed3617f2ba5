"""Session windows: rows of a key that are at most a gap apart in time form a session, as in Spark and Flink.

State: one row per session. Its key columns are the user's key and the times of the session's first and last row. So
the time that a session waits for follows from its key, and a session that grows replaces its old row. Sessions that a
new row connects become one.

A row at the end of a session, its last row plus the gap, still belongs to it. So a session is complete when the
watermark is past its end, and gone when the watermark is more than `lateness` past it. The sessions of a key that are
kept are more than a gap apart, and those that are gone ended more than `lateness` before the watermark. A row that is
earlier than that is *late* unless it falls into a kept session, or at most a gap after the last row of one: otherwise
it could belong to a session that is gone. So the sessions are those of a batch over all rows that are not late. In
processing time all rows of a timestep have its time, and no row is late.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.overflow import combined
from rechannel.kernels.columnar.sorting import (
    from_numpy,
    last_not_after,
    nested_order,
    running_max,
    take,
)
from rechannel.kernels.protocol.bases import ManyRows, column_of, held_by, late_rows
from rechannel.kernels.protocol.capabilities import (
    EarlyEmitting,
    Emitted,
    Expiring,
    LateTelling,
    Revising,
    Succeeded,
    Timed,
    Viewed,
)
from rechannel.kernels.protocol.logic import (
    Changed,
    Late,
    OperatorInput,
    OperatorOutput,
    StoredRows,
)
from rechannel.kernels.protocol.two_sides import ROW, row_numbers
from rechannel.kernels.shuffle.watermarks import MICROS, micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock, less
from rechannel.model.hashspace import HashArray
from rechannel.operators.aggregate.logic import AggregateLogic, KeepsAggregates
from rechannel.operators.window.logic import END, START, TOUCHED, values_read
from rechannel.operators.window.reduce import WindowReduceLogic
from rechannel.operators.window.session_rows import KeptRows

FIRST = pa.field("_first", pa.int64(), False)
LAST = pa.field("_last", pa.int64(), False)


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionLogic(
    ManyRows,
    Viewed,
    Expiring,
    Timed,
    EarlyEmitting,
    LateTelling,
    Succeeded,
    Revising,
    KeepsAggregates,
):
    """Aggregates of the rows of a key in a session: a `StatefulLogic`."""

    inner: AggregateLogic | WindowReduceLogic | KeptRows
    """Over the user's keys."""
    row_schema: pa.Schema
    """Columns of the stream."""
    on: str | None
    """Column of event times; None = the time of the timestep."""
    gap_us: int
    """Rows that are at most so far apart are in one session."""
    lateness_us: int = 0
    """For how long, in event time, a complete session takes rows."""
    on_close: bool = True
    """Emit a session when it is complete, and when it gets rows after that; else with every change."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""
    early_ms: int | None = None
    """Interval at which incomplete sessions are emitted; state then has the timestep of their last rows."""

    @property
    def keys(self) -> pa.Schema:
        """The user's keys."""
        return self.inner.key_schema

    @property
    def state_kind(self) -> str:
        """Return the kind: the same whatever the windows are made of."""
        return "window"

    @property
    def kept_aggregates(self) -> AggregateLogic | None:
        """What is kept of the rows, unless a function combines them."""
        return self.inner.kept_aggregates

    @property
    def key_schema(self) -> pa.Schema:
        """Keys, and the times of the session's first and last row, microseconds."""
        return pa.schema([*self.keys, FIRST, LAST])

    @cached_property
    def value_schema(self) -> pa.Schema:
        """Event time and what the aggregates read, or all that a late row is made of."""
        if self.keep_late:
            return pa.schema([f for f in self.row_schema if f.name not in self.keys.names])
        times = [] if self.on is None else [self.on]
        names = dict.fromkeys([*times, *self.inner.value_schema.names])
        return pa.schema(
            [self.row_schema.field(name) for name in names if name not in self.keys.names]
        )

    @property
    def ordered(self) -> bool:
        """By time; the order of rows matters where they are kept, and to who gets late ones."""
        return self.inner.ordered or self.keep_late

    @property
    def state_schema(self) -> pa.Schema:
        """As of the aggregates, and the timestep of the last rows where sessions are shown early."""
        kept = self.inner.state_schema
        return kept if self.early_ms is None else kept.append(TOUCHED)

    @property
    def output_schema(self) -> pa.Schema:
        """Sessions are emitted as those that are not gone are shown."""
        return self.view_schema

    @cached_property
    def view_schema(self) -> pa.Schema:
        """Keys, start and end of the session (its last row and the gap), aggregates."""
        width = len(self.keys)
        fields = list(self.inner.output_schema)
        times = [pa.field(name, MICROS, False) for name in (START, END)]
        return pa.schema([*fields[:width], *times, *fields[width:]])

    @property
    def table_key(self) -> int:
        """The user's keys and the session's start: sessions of a key do not overlap."""
        return len(self.keys) + 1

    @property
    def on_close_only(self) -> bool:
        """Whether a session gets into the table when it is complete: unless it is shown before."""
        return self.on_close and self.early_ms is None

    # Time -------------------------------------------------------------------------------------------------------

    def timer_of(self, keys: Columns, state: Columns) -> IntArray:
        """Times from which no row belongs to the sessions any more: a microsecond after their ends."""
        over: IntArray = self.row_order(keys) + (self.gap_us + 1)
        return over

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask:
        """Sessions that are not gone."""
        # No overflow: such a time plus the lateness stays far below the largest number, a watermark need not.
        alive: Mask = self.timer_of(keys, state) + self.lateness_us > clock.watermark
        return alive

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether sessions that wait for that time are gone."""
        return timer + self.lateness_us <= clock.watermark

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Sessions that have become complete, where they are shown then."""
        return (clock.before, clock.watermark) if self.on_close else None

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """The complete sessions themselves, and those that are shown early."""
        if clock.since is not None:
            over = self.timer_of(keys, state) <= clock.watermark
            touched = state[-1].to_numpy(zero_copy_only=False) > clock.since
            shown = np.flatnonzero(over | touched)
            keys, state, hashes = take(keys, shown), take(state, shown), hashes[shown]
        return self.made(keys, state, hashes)

    def made(self, keys: Columns, state: Columns, hashes: HashArray) -> Emitted:
        """What is emitted of sessions."""
        return self.finish(keys, state), hashes

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys, start and end of the sessions, finished aggregates."""
        width = len(self.keys)
        inner = self.inner.finish(keys[:width], state[: len(self.inner.state_schema)])
        columns = [*inner.columns[:width], *self.times(keys), *inner.columns[width:]]
        return pa.RecordBatch.from_arrays(columns, schema=self.view_schema)

    def times(self, keys: Columns) -> Columns:
        """Start and end of sessions."""
        first, last = keys[len(self.keys)], self.row_order(keys)
        return [first.cast(MICROS), from_numpy(last + self.gap_us, pa.int64()).cast(MICROS)]

    # Rows -------------------------------------------------------------------------------------------------------

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Put rows into sessions, and sessions together."""
        held = held_by(arrivals)
        times, nulls = self._times(arrivals)
        first = held.keys[-2].to_numpy(zero_copy_only=False)
        last = self.row_order(held.keys)
        late = self._late(arrivals, held.owners, first, last, times)
        late = late if nulls is None else late | nulls
        rows = np.flatnonzero(~late)
        met = _Met.sweep(
            np.concatenate([held.owners, arrivals.groups.ids[rows]]),
            np.concatenate([first, times[rows]]),
            np.concatenate([last, times[rows]]),
            self.gap_us,
        )
        changed = self._changed(arrivals, held, rows, met)
        output, hashes = self._shown_now(changed)
        return OperatorOutput(
            state=[],
            dropped=None,
            output=output,
            output_hashes=hashes,
            late=self._late_rows(arrivals, np.flatnonzero(late)),
            changed=changed,
        )

    def _read(self, arrivals: OperatorInput) -> Columns:
        """What is kept of the rows, and where they stand in the stream if that matters."""
        read = values_read(arrivals, (self.keys, self.value_schema), self.inner.value_schema)
        if not self.inner.keeps_rows:
            return read
        nowhere = np.zeros(arrivals.groups.rows, dtype=np.int64)
        places = row_numbers(nowhere, arrivals.timestep, arrivals.groups)
        return [*read, from_numpy(places, ROW.type)]

    def _times(self, arrivals: OperatorInput) -> tuple[IntArray, Mask | None]:
        """Times of the rows, and which have none."""
        if self.on is not None:
            return micros(column_of(self.on, arrivals, (self.keys, self.value_schema)))
        now = arrivals.clock.stream_ms * 1_000
        return np.full(arrivals.groups.rows, now, dtype=np.int64), None

    def _shown_now(self, changed: Changed) -> Emitted:
        """Sessions that changed, where those are shown."""
        left = slice(0) if self.on_close else slice(None)
        hashes, columns = changed.hashes[left], [column[left] for column in changed.columns]
        if changed.dropped is not None and len(hashes):
            kept = np.flatnonzero(~changed.dropped)
            hashes, columns = hashes[kept], take(columns, kept)
        width = len(self.key_schema)
        return self.made(columns[:width], columns[width:], hashes)

    def _changed(
        self, arrivals: OperatorInput, held: StoredRows, rows: IntArray, met: _Met
    ) -> Changed:
        """Sessions with the rows that came, and tombstones of those in whose place they are."""
        count = len(held.owners)
        came = met.order >= count
        of = met.session[came]  # of the rows that came, by key and time
        grown = np.zeros(met.count, dtype=np.bool_)
        grown[of] = True
        place = np.cumsum(grown) - 1  # of every session that changes among those
        within = np.empty(count, dtype=np.int64)  # the session that each stored one is in now
        within[met.order[~came]] = met.session[~came]
        old = np.flatnonzero(grown[within])  # sessions that were there and change
        at = place[within[old]]
        merged = self._states(
            arrivals, rows[met.order[came] - count], of, take(held.state, old), at
        )
        new = np.flatnonzero(grown)
        owners, first, last = met.owners[new], met.first[new], met.last[new]
        # One that did not get longer is written under the key that it had.
        was_first = held.keys[-2].to_numpy(zero_copy_only=False)[old]
        was_last = self.row_order(held.keys)[old]
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
        order = nested_order(hashes, self.row_order(columns[: len(self.key_schema)]))
        return Changed(
            hashes=hashes[order],
            columns=take(columns, order),
            dropped=dropped[order] if len(gone) else None,
        )

    def _states(
        self, arrivals: OperatorInput, fresh: IntArray, of: IntArray, stored: Columns, at: IntArray
    ) -> Columns:
        """Return the states of the sessions that rows came for, by key and time.

        fresh: these rows, by session. of: the session of each. stored: states that become part of such a session.
        at: for each of those, the place of that session in the result.
        """
        groups = Groups(np.flatnonzero(np.diff(of, prepend=-1)), len(fresh))
        new, parts = combined(self.inner.combine, take(self._read(arrivals), fresh), groups)
        places = np.concatenate([at, groups.ids[parts.starts]])
        order = np.argsort(places, kind="stable")
        states = [
            pa.concat_arrays([old, made]) for old, made in zip(stored[: len(new)], new, strict=True)
        ]
        starts = np.flatnonzero(np.diff(places[order], prepend=-1))
        merged = self.inner.merged_states(take(states, order), Groups(starts, len(order)))
        if self.early_ms is None:
            return merged
        now = np.full(groups.count, arrivals.timestep, dtype=np.int64)
        return [*merged, from_numpy(now, TOUCHED.type)]

    def _late(
        self,
        arrivals: OperatorInput,
        owners: IntArray,
        first: IntArray,
        last: IntArray,
        times: IntArray,
    ) -> Mask:
        """Which rows could belong to a session that is gone."""
        if self.on is None:
            return np.zeros(len(times), dtype=np.bool_)
        late: Mask = times < less(arrivals.clock.before, self.lateness_us)
        doubtful = np.flatnonzero(late)
        if not len(doubtful) or not len(owners):
            return late
        # The session of the key that begins last at or before the row: sessions of a key are sorted by time.
        of = arrivals.groups.ids[doubtful]
        place = last_not_after(owners, first, of, times[doubtful])
        there = place >= np.searchsorted(owners, of)
        at = np.maximum(place, 0)
        kept = there & (times[doubtful] <= last[at] + self.gap_us)
        late[doubtful[kept]] = False
        return late

    def _late_rows(self, arrivals: OperatorInput, rows: IntArray) -> Late | None:
        if not len(rows):
            return None
        if not self.keep_late:
            return Late(count=len(rows))
        return late_rows(arrivals, rows, (self.keys, self.value_schema), self.row_schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Met:
    """Spans of time of keys, put together where they are at most a gap apart.

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
        new[1:] = (owner[1:] != owner[:-1]) | (begin[1:] > reach[:-1] + gap)
        starts = np.flatnonzero(new)
        ends = (np.append(starts[1:], len(order)) - 1)[: len(starts)]
        return cls(
            order=order,
            session=np.cumsum(new) - 1,
            owners=owner[starts],
            first=begin[starts],
            last=reach[ends],
        )
