"""Windows of event time: the key of the state is the user's key and the window.

A window is [start, start + size). It is complete when the watermark reaches its end, and gone when the watermark is
`lateness` past its end. A row is late if its window was gone in the previous timestep. A window that is gone costs
nothing: every look-up skips its state row, and merging drops it.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import fast_take, from_numpy, take
from rechannel.kernels.columnar.sparse import spread
from rechannel.kernels.protocol.bases import column_of, late_rows, some_of
from rechannel.kernels.protocol.capabilities import (
    Combining,
    EarlyEmitting,
    Emitted,
    Expiring,
    LateTelling,
    PartlyHashed,
    Revising,
    Stamping,
    Succeeded,
    Timed,
)
from rechannel.kernels.protocol.logic import (
    Late,
    OperatorInput,
    OperatorOutput,
)
from rechannel.kernels.shuffle.watermarks import MICROS, micros, need_time
from rechannel.model.buffers import IntArray, Mask, ragged
from rechannel.model.eventtime import ENDED, NEVER, Clock
from rechannel.model.hashspace import HashArray
from rechannel.operators.aggregate.logic import AggregateLogic, KeepsAggregates
from rechannel.operators.window.reduce import WindowReduceLogic

START, END = "window_start", "window_end"
COPIED_ROWS = 1 << 19
"""Rows of windows that overlap that are made at a time."""
ROWS = pa.field("_rows", pa.int64(), False)
TOUCHED = pa.field("_touched", pa.int64(), False)


@dataclass(frozen=True, kw_only=True)
class AssignWindows:
    """Adds the start of its window to every row: floor((time - offset) / size) * size + offset.

    column: of event times. A row without a time belongs to no window. every_us: where windows overlap, from one to the
    next; a row comes once for every window that holds it then. Columns of windows that rows have already make place for
    the new ones.
    """

    column: str
    size_us: int
    offset_us: int = 0
    every_us: int | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch | Iterator[pa.RecordBatch]:
        """Rows with `window_start`."""
        times, nulls = micros(batch.column(batch.schema.get_field_index(self.column)))
        kept = batch.select([name for name in batch.schema.names if name not in (START, END)])
        if self.every_us is None:
            starts = (times - self.offset_us) // self.size_us * self.size_us + self.offset_us
            return _with_starts(kept, kept.columns, starts, nulls)
        return self._copied(kept, times, nulls, self.every_us)

    def _copied(
        self, kept: pa.RecordBatch, times: IntArray, nulls: Mask | None, every: int
    ) -> Iterator[pa.RecordBatch]:
        """Rows once for each of their windows, some at a time: there are many more than came."""
        piece = max(1, COPIED_ROWS * every // self.size_us)
        for at in range(0, len(times), piece):
            mine = times[at : at + piece] - self.offset_us
            absent = None if nulls is None else nulls[at : at + piece]
            last, first = mine // every, (mine - self.size_us) // every + 1
            count = last - first + 1 if absent is None else np.where(absent, 1, last - first + 1)
            rows = np.repeat(np.arange(len(mine)), count)
            columns = [fast_take(column, rows + at) for column in kept.columns]
            starts = ragged(first, count) * every + self.offset_us
            yield _with_starts(kept, columns, starts, None if absent is None else absent[rows])

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """What passes, and the event time."""
        return (wanted - {START, END}) | {self.column}

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Columns of the rows. Raises DataflowError."""
        need_time(self.column, schema)
        kept = [field for field in schema if field.name not in (START, END)]
        return pa.schema([*kept, pa.field(START, MICROS)])


def _with_starts(
    kept: pa.RecordBatch, columns: Columns, starts: IntArray, nulls: Mask | None
) -> pa.RecordBatch:
    column = pa.array(starts, pa.int64(), mask=nulls).cast(MICROS)
    schema = kept.schema.append(pa.field(START, MICROS))
    return pa.RecordBatch.from_arrays([*columns, column], schema=schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowLogic(
    Combining,
    Stamping,
    PartlyHashed,
    Expiring,
    Timed,
    EarlyEmitting,
    LateTelling,
    Succeeded,
    Revising,
    KeepsAggregates,
):
    """Aggregates of the rows of a key in a window: a `StatefulLogic`."""

    inner: AggregateLogic | WindowReduceLogic
    """Over the user's keys and, last, the window's start."""
    row_schema: pa.Schema
    """Columns of the stream, as late rows have them."""
    size_us: int
    """Length of a window."""
    offset_us: int | None = None
    """A window begins at this time after 1970; None = windows begin at other times too."""
    lateness_us: int = 0
    """For how long, in event time, a complete window takes rows."""
    on_close: bool = True
    """Emit a window when it is complete, and when it gets rows after that; else with every change."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""
    processing: bool = False
    """Windows go by the time of timesteps, not by times of rows."""
    early_ms: int | None = None
    """Interval at which incomplete windows are emitted; state then has the timestep of their last rows."""

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
        """The user's keys and the window's start."""
        return self.inner.key_schema

    @property
    def sent(self) -> int:
        """Windows of processing time are known when rows arrive."""
        return len(self.key_schema) - self.processing

    def stamped(self, keys: Columns, clock: Clock) -> Columns:
        """With the window of processing time, which all rows of a timestep share."""
        if not self.processing:
            return keys
        offset = self.offset_us or 0
        start = (clock.stream_ms * 1_000 - offset) // self.size_us * self.size_us + offset
        return [*keys, pa.repeat(pa.scalar(start, pa.int64()).cast(MICROS), len(keys[0]))]

    def row_order(self, keys: Columns) -> IntArray | None:
        """Windows of one hash are rare, but for those of processing time."""
        return micros(keys[-1])[0] if self.processing else None

    @property
    def state_schema(self) -> pa.Schema:
        """As of the aggregates, and the timestep of the last rows where windows are shown early."""
        kept = self.inner.state_schema
        return kept if self.early_ms is None else kept.append(TOUCHED)

    @property
    def output_schema(self) -> pa.Schema:
        """Keys, start and end of the window, aggregates."""
        keys = len(self.key_schema)
        fields = list(self.inner.output_schema)
        return pa.schema([*fields[:keys], pa.field(END, MICROS, False), *fields[keys:]])

    @property
    def table_key(self) -> int:
        """The user's keys and the window's start."""
        return len(self.key_schema)

    @property
    def on_close_only(self) -> bool:
        """Whether a window gets into the table when it is complete: unless it is shown before."""
        return self.on_close and self.early_ms is None

    @property
    def hashed(self) -> int:
        """Windows of a key are anywhere: no task has all rows of a hot key. Those of processing time are not known."""
        return self.sent

    @property
    def value_schema(self) -> pa.Schema:
        """What the aggregates read, or all that a late row is made of."""
        if not self.keep_late:
            return self.inner.value_schema
        return pa.schema([f for f in self.row_schema if f.name not in self.key_schema.names])

    @property
    def combinable(self) -> bool:
        """Late rows that are read must arrive uncombined."""
        return self.inner.combinable and not self.keep_late

    @property
    def ordered(self) -> bool:
        """Whether an aggregate needs the rows of a key in stream order."""
        return self.inner.ordered

    @property
    def combined_schema(self) -> pa.Schema:
        """States with the number of rows that they are of."""
        return self.inner.state_schema.append(ROWS)

    def combine(self, values: Columns, groups: Groups) -> Columns:
        """Partial states of raw rows, and how many rows they are of."""
        return [*self.inner.combine(values, groups), from_numpy(groups.sizes, ROWS.type)]

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Merge what is in time into the state. Where windows are shown when complete, `due_range` says which are."""
        late = self._gone(arrivals.keys[-1], arrivals.clock.before)
        if not late.any():
            state = self._touched(self.inner.merged(self._inner(arrivals)), arrivals.timestep)
            return self._applied(arrivals.keys, arrivals.hashes, state, state)
        stay = np.flatnonzero(~late)
        timely = _select(arrivals, stay)
        state = self._touched(self.inner.merged(self._inner(timely)), arrivals.timestep)
        whole = [spread(column, stay, len(late)) for column in state]
        applied = self._applied(timely.keys, timely.hashes, state, whole)
        return replace(applied, untouched=late, late=self._late_rows(arrivals, late))

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask:
        """Windows that are not gone."""
        return ~self._gone(keys[-1], clock.watermark)

    def timer_of(self, keys: Columns, state: Columns) -> IntArray:
        """Ends of the windows."""
        return self._ends(keys[-1])[0]

    def span_of(self, keys: Columns) -> tuple[int, int] | None:
        """Ends of the first and the last window."""
        ends, nulls = self._ends(keys[-1])
        ends = ends if nulls is None else ends[~nulls]
        return (int(ends.min()), int(ends.max())) if len(ends) else None

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether windows that end at `timer` have been removed."""
        return timer + self.lateness_us <= clock.watermark

    @property
    def lasts_us(self) -> int:
        """Return the time from the start of a window until it is removed, microseconds."""
        return self.size_us + self.lateness_us

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Windows that have become complete, where they are shown then."""
        if not self.on_close or (not self.lateness_us and not self._completes(clock)):
            return None
        return clock.before, clock.watermark

    def _completes(self, clock: Clock) -> bool:
        """Whether a window may become complete: else none has to be looked for."""
        return completes(clock, self.size_us, self.offset_us)

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """The complete windows themselves, and those that are shown early."""
        if clock.since is not None:
            touched = state[-1].to_numpy(zero_copy_only=False)
            shown = np.flatnonzero(
                (self.timer_of(keys, state) <= clock.watermark) | (touched > clock.since)
            )
            keys, state, hashes = take(keys, shown), take(state, shown), hashes[shown]
        return self.finish(keys, state), hashes

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys, start and end of the windows, finished aggregates."""
        inner = self.inner.finish(keys, state[: len(self.inner.state_schema)])
        ends = from_numpy(self._ends(keys[-1])[0], pa.int64()).cast(MICROS)
        columns = [*inner.columns[: len(keys)], ends, *inner.columns[len(keys) :]]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    def _applied(
        self, keys: Columns, hashes: HashArray, shown: Columns, state: Columns
    ) -> OperatorOutput:
        output = _nothing(self.output_schema) if self.on_close else self.finish(keys, shown)
        hashes = hashes[: output.num_rows]
        return OperatorOutput(state=state, dropped=None, output=output, output_hashes=hashes)

    def _touched(self, state: Columns, timestep: int) -> Columns:
        """Return state with the number of its timestep, if that is kept."""
        if self.early_ms is None:
            return state
        return [*state, from_numpy(np.full(len(state[0]), timestep, dtype=np.int64), TOUCHED.type)]

    def _ends(self, starts: pa.Array) -> tuple[IntArray, Mask | None]:
        times, nulls = micros(starts)
        return times + self.size_us, nulls

    def _gone(self, starts: pa.Array, watermark: int) -> Mask:
        """Whether windows are gone by a watermark; one that begins nowhere always is."""
        ends, nulls = self._ends(starts)
        # No overflow: an end plus the lateness stays far below the largest number, a watermark need not.
        gone: Mask = ends + self.lateness_us <= watermark
        return gone if nulls is None else gone | nulls

    def _inner(self, arrivals: OperatorInput) -> OperatorInput:
        """As the aggregates expect them."""
        old = arrivals.old[: len(self.inner.state_schema)]
        if arrivals.combined:
            return replace(arrivals, old=old, values=arrivals.values[:-1])
        if not self.keep_late:
            return replace(arrivals, old=old)
        values = values_read(
            arrivals, (self.key_schema, self.value_schema), self.inner.value_schema
        )
        return replace(arrivals, old=old, values=values)

    def _late_rows(self, arrivals: OperatorInput, late: Mask) -> Late:
        groups = arrivals.groups
        if arrivals.combined:
            counts = arrivals.values[-1].to_numpy(zero_copy_only=False)
            return Late(count=int(counts[late[groups.ids]].sum()))
        rows = np.flatnonzero(late[groups.ids])
        if not self.keep_late:
            return Late(count=len(rows))
        return late_rows(arrivals, rows, (self.key_schema, self.value_schema), self.row_schema)


def values_read(
    arrivals: OperatorInput,
    columns: tuple[pa.Schema, pa.Schema],
    wanted: pa.Schema,
) -> Columns:
    """What aggregates read of rows of which all columns travelled. columns: (keys, others)."""
    return [column_of(name, arrivals, columns) for name in wanted.names]


def completes(clock: Clock, size_us: int, offset_us: int | None) -> bool:
    """Whether a window of this size that begins at an offset may become complete. offset_us: None = not known."""
    if offset_us is None:
        return True
    if clock.before == NEVER or clock.watermark in (NEVER, ENDED):
        return clock.watermark != NEVER
    before, now = (at - offset_us for at in (clock.before, clock.watermark))
    return now // size_us > before // size_us


def _nothing(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], f.type) for f in schema], schema=schema)


def _select(arrivals: OperatorInput, keys: IntArray) -> OperatorInput:
    """Some of the keys with their rows."""
    groups = arrivals.groups
    chosen = np.zeros(groups.count, dtype=np.bool_)
    chosen[keys] = True
    rows = np.flatnonzero(chosen[groups.ids])
    sizes = groups.sizes[keys]
    starts = np.cumsum(sizes) - sizes
    return some_of(arrivals, keys, rows, Groups(starts=starts, rows=len(rows)))
