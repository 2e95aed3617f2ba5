"""`top`: the rows of every key that come first in an order, with their ranks.

State: a row for every rank. What comes is put in order together with what was there; ranks whose row is another one
then are written, and shown: a reader that keeps the latest row of every key and rank has the table. In windows, all
ranks of a window are shown when it is complete.

Of rows that are alike in the order, the one that came first (or last) is in front; so the order is total, and the
result is that of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns, columns_of
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.ranking import codes_of, ordered
from rechannel.kernels.columnar.sorting import Stacked, from_numpy, group_rows, sort_index, take
from rechannel.kernels.protocol.bases import ManyRows, held_by, late_rows
from rechannel.kernels.protocol.capabilities import (
    Emitted,
    Expiring,
    LateTelling,
    Projecting,
    Pruned,
    Pruning,
    Revising,
    Timed,
    Viewed,
)
from rechannel.kernels.protocol.logic import Changed, Late, OperatorInput, OperatorOutput
from rechannel.kernels.shuffle.watermarks import MICROS, micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import HashArray
from rechannel.operators.window.logic import END, ROWS, completes

RANK = pa.field("_rank", pa.int64(), False)
THIN = 1.5
"""Rows of a key, on average, from which on it pays to look which of them need to travel."""

ROW_NUMBER, RANK_WITH_GAPS, DENSE_RANK = "row_number", "rank", "dense_rank"
RANKINGS = (ROW_NUMBER, RANK_WITH_GAPS, DENSE_RANK)
"""Of rows that are alike, each has a number of its own; or all have the first one's; or that without gaps: as SQL."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TopLogic(ManyRows, Projecting, Pruning, Viewed, Expiring, Timed, LateTelling, Revising):
    """The first `n` rows of every key (None = all): a `StatefulLogic`.

    keys: key columns; the last one is the start of a window where there are windows. rows: the other columns. by: which
    columns they are ordered by, and whether the largest comes first. latest: of rows that are alike, the one that came
    last is in front. ties: rows that are alike to the last one are in as well. ranking: how rows that are
    alike are numbered, see `RANKINGS`; other than `row_number` in windows only. rank: what the rank is called; None =
    it is not shown. window_us: length of the windows; offset_us: one begins there, None = anywhere. row_schema: the
    stream's columns. keep_late: late rows are read.
    """

    keys: pa.Schema
    rows: pa.Schema
    row_schema: pa.Schema
    by: tuple[tuple[str, bool], ...]
    n: int | None
    latest: bool = False
    ties: bool = False
    ranking: str = ROW_NUMBER
    rank: str | None = "rank"
    window_us: int | None = None
    offset_us: int | None = None
    keep_late: bool = False

    @property
    def key_schema(self) -> pa.Schema:
        """Keys and rank."""
        return self.keys.append(RANK)

    @property
    def value_schema(self) -> pa.Schema:
        """All columns that are not keys; in windows also for how many rows one stands, should they be late."""
        return self.rows.append(ROWS) if self._counted else self.rows

    @property
    def _counted(self) -> bool:
        """Whether a row may stand for others, whose number matters."""
        return self.window_us is not None and not self.keep_late

    @property
    def reads(self) -> tuple[str, ...]:
        """All columns that are not keys."""
        return tuple(self.rows.names)

    def values_of(self, batch: pa.RecordBatch) -> Columns:
        """By their names; every row stands for itself."""
        ones = [from_numpy(np.ones(batch.num_rows, dtype=np.int64), ROWS.type)]
        return [*columns_of(batch, self.rows), *(ones if self._counted else [])]

    def prune(self, values: Sequence[pa.Array], groups: Groups) -> Pruned | None:
        """The first rows of every key: none of the others can get a rank."""
        if self.keep_late or self.n is None or groups.rows < THIN * groups.count:
            return None
        none = np.empty(0, dtype=np.int64)
        rows = np.sort(self._ranked(values, groups.ids, none, None)[0])
        if not self._counted:
            return rows, {}
        # The first of a key that is sent stands for those that are not.
        of = groups.ids[rows]
        first = np.flatnonzero(np.diff(of, prepend=-1))
        stands = np.ones(len(rows), dtype=np.int64)
        stands[first] += groups.sizes - np.diff(np.append(first, len(rows)))
        return rows, {len(self.rows): from_numpy(stands, ROWS.type)}

    @property
    def state_schema(self) -> pa.Schema:
        """The row of a rank."""
        return self.rows

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, the end of the window, the rank, the other columns."""
        ends = [] if self.window_us is None else [pa.field(END, MICROS, False)]
        ranks = [] if self.rank is None else [RANK.with_name(self.rank)]
        return pa.schema([*self.keys, *ends, *ranks, *self.rows])

    @property
    def table_key(self) -> int:
        """The keys, and the rank where it is shown."""
        return len(self.keys) + (self.rank is not None)

    # Time -------------------------------------------------------------------------------------------------------

    @property
    def lag_us(self) -> int:
        """Rows of a window leave when it is complete."""
        return self.window_us or 0

    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Ends of the windows."""
        return None if self.window_us is None else self._ends(keys)[0]

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Windows that are not complete."""
        if self.window_us is None:
            return None
        ends, nulls = self._ends(keys)
        alive: Mask = ends > clock.watermark
        return alive if nulls is None else alive & ~nulls

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether windows that end then are complete."""
        return timer <= clock.watermark

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Windows that have become complete."""
        if self.window_us is None or not completes(clock, self.window_us, self.offset_us):
            return None
        return clock.before, clock.watermark

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """The complete windows."""
        return self.finish(keys, state), hashes

    def _ends(self, keys: Columns) -> tuple[IntArray, Mask | None]:
        times, nulls = micros(keys[len(self.keys) - 1])
        return times + (self.window_us or 0), nulls

    # Rows -------------------------------------------------------------------------------------------------------

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Ranks whose row is another one now."""
        late = self._late(arrivals)
        held = held_by(arrivals)
        count = len(held.owners)
        columns = Stacked(held.state, arrivals.values[: len(self.rows)], count)
        owners = np.concatenate([held.owners, arrivals.groups.ids])
        there = self.row_order(held.keys)
        rows, ranks = self._ranked(columns, owners, there, late)
        was = np.zeros(len(owners), dtype=np.int64)
        was[:count] = there
        kept = np.bincount(owners[rows], minlength=arrivals.groups.count)
        gone = np.flatnonzero(there > kept[held.owners])
        changed = was[rows] != ranks
        rows, ranks = rows[changed], ranks[changed]
        hashes = arrivals.hashes[owners[rows]]
        whole = [
            *take(arrivals.keys, owners[rows]),
            from_numpy(ranks, RANK.type),
            *columns.take(rows),
        ]
        written = self._written(arrivals, gone, whole, hashes)
        width, now = len(self.key_schema), slice(None if self.window_us is None else 0)
        whole = [column[now] for column in whole]
        return OperatorOutput(
            state=[],
            dropped=None,
            output=self.finish(whole[:width], whole[width:]),
            output_hashes=hashes[now],
            late=None if late is None else self._late_rows(arrivals, late),
            changed=written,
        )

    def _written(
        self,
        arrivals: OperatorInput,
        gone: IntArray,
        whole: Columns,
        hashes: HashArray,
    ) -> Changed:
        """Ranks that changed, and tombstones of those that no row has any more."""
        held = held_by(arrivals)
        owners = held.owners[gone]
        ended = [*take(arrivals.keys, owners), *take([held.keys[-1], *held.state], gone)]
        count, width = len(whole[0]), len(self.keys)
        hashes = np.concatenate([hashes, arrivals.hashes[owners]])
        ranks = np.concatenate(
            [self.row_order([column]) for column in (whole[width], ended[width])]
        )
        order = sort_index(hashes, ranks)
        columns = whole
        if len(gone):
            columns = [pa.concat_arrays([one, end]) for one, end in zip(whole, ended, strict=True)]
        dropped = order >= count if len(gone) else None
        return Changed(hashes=hashes[order], columns=take(columns, order), dropped=dropped)

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Keys, the end of the window, the rank, the other columns: of whole keys, by hash and row number."""
        ends = []
        if self.window_us is not None:
            ends = [from_numpy(self._ends(keys)[0], pa.int64()).cast(MICROS)]
        ranks = [] if self.rank is None else [self._numbered(keys, state)]
        columns = [*keys[: len(self.keys)], *ends, *ranks, *state]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)

    @property
    def view_schema(self) -> pa.Schema:
        """State is shown as it is emitted."""
        return self.output_schema

    def _numbered(self, keys: Columns, state: Columns) -> pa.Array:
        """Ranks of the rows of whole keys."""
        if self.ranking == ROW_NUMBER or not len(keys[-1]):
            return keys[-1]
        own = keys[: self.hashed]
        hashes = hash_columns(own)
        order = sort_index(hashes)
        groups, untangled = group_rows(hashes[order], take(own, order))
        order = order if untangled is None else order[untangled]
        alike = np.diff(groups.ids, prepend=-1) == 0
        for column, descending in self.by:
            codes = codes_of(state[self.rows.get_field_index(column)], descending=descending)
            alike &= np.diff(codes.values[order].view(np.int64), prepend=-1) == 0
        places = np.empty(len(order), dtype=np.int64)
        places[order] = _measured(groups.ids, alike, self.ranking)
        return from_numpy(places, RANK.type)

    def _ranked(
        self,
        columns: Sequence[pa.Array],
        owners: IntArray,
        there: IntArray,
        late: Mask | None,
    ) -> tuple[IntArray, IntArray]:
        """Rows that have a rank, by key and rank, and their ranks. there: ranks of those that had one."""
        count, every = len(there), len(owners)
        # Of equal rows, stored ones come first, by their ranks; or, if the last one is wanted, new ones come first, in
        # reverse order, and stored ones after them.
        places = np.arange(every, dtype=np.int64)
        if self.latest:
            places = np.where(places < count, places + every - count, every - 1 - places)
        names = self.rows.names
        by = [
            codes_of(columns[names.index(column)], descending=descending)
            for column, descending in self.by
        ]
        rows, alike = ordered(owners, by, places)
        if late is not None:
            timely = (rows < count) | ~late[np.maximum(rows - count, 0)]
            rows, alike = rows[timely], alike[timely]
        of = owners[rows]
        first = np.flatnonzero(np.diff(of, prepend=-1))
        ranks = np.arange(len(of)) - np.repeat(first, np.diff(np.append(first, len(of)))) + 1
        if self.n is not None:
            shared = DENSE_RANK if self.ranking == DENSE_RANK else RANK_WITH_GAPS
            kept = (_measured(of, alike, shared) if self.ties else ranks) <= self.n
            rows, ranks = rows[kept], ranks[kept]
        return rows, ranks

    def _late(self, arrivals: OperatorInput) -> Mask | None:
        """Which rows are of a window that was complete."""
        if self.window_us is None:
            return None
        ends, nulls = self._ends(arrivals.keys)
        gone = ends <= arrivals.clock.before
        gone = gone if nulls is None else gone | nulls
        late: Mask = gone[arrivals.groups.ids]
        return late if late.any() else None

    def _late_rows(self, arrivals: OperatorInput, late: Mask) -> Late:
        rows = np.flatnonzero(late)
        if not self.keep_late:
            counts = arrivals.values[-1].to_numpy(zero_copy_only=False)
            return Late(count=int(counts[rows].sum()))
        return late_rows(arrivals, rows, (self.keys, self.rows), self.row_schema)


def _measured(owners: IntArray, alike: Mask, ranking: str) -> IntArray:
    """Ranks of rows by key and order; those that are alike to the one before share its rank. See `RANKINGS`."""
    first = np.flatnonzero(np.diff(owners, prepend=-1))
    sizes = np.diff(np.append(first, len(owners)))
    numbers: IntArray = np.cumsum(~alike, dtype=np.int64)
    if ranking != DENSE_RANK:
        numbers = np.maximum.accumulate(np.where(alike, 0, np.arange(len(owners))))
    ranks: IntArray = numbers - np.repeat(numbers[first], sizes) + 1
    return ranks
