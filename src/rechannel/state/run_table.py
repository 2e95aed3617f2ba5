"""Many runs as columns, for operators with many tasks: what is done to all of them at once costs no Python per run.

Intervals of hashes are written with both ends included here, so that each end is a 64-bit integer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.model.hashspace import SPACE, HashArray, Intervals
from rechannel.state.run import Run

IntArray = npt.NDArray[np.int64]

_SPAN = pa.struct([("lo", pa.uint64()), ("last", pa.uint64())])
_SCHEMA = pa.schema(
    [
        ("segment", pa.string()),
        ("clip", pa.list_(_SPAN)),
        ("seq", pa.int64()),
        ("level", pa.int64()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("width", pa.uint64()),  # `Run.span` - 1, since it can be 2^64; null = 0
        ("due_first", pa.int64()),
        ("due_last", pa.int64()),
        ("awaited", pa.int64()),
        ("rings_first", pa.int64()),
        ("rings_last", pa.int64()),
        ("digest", pa.string()),
    ]
)
_LAST = np.uint64(SPACE - 1)
_ONE = np.uint64(1)


class RunTable(Sequence[Run]):
    """Runs, each of which is made when it is asked for. Equal to any sequence of the same runs."""

    __slots__ = ("_columns",)

    def __init__(self, columns: pa.RecordBatch) -> None:
        """columns: as `of` makes them."""
        self._columns = columns

    @classmethod
    def of(cls, runs: Sequence[Run]) -> RunTable:
        """Return a table of runs, in their order."""
        if isinstance(runs, RunTable):
            return runs
        spans = [span for run in runs for span in run.clip.spans]
        offsets = np.cumsum([0, *(len(run.clip.spans) for run in runs)])
        due = [run.due or (None, None) for run in runs]
        rings = [run.processing or (None, None) for run in runs]
        clip = _clips(
            offsets,
            np.array([lo for lo, _ in spans], dtype=np.uint64),
            np.array([hi - 1 for _, hi in spans], dtype=np.uint64),
        )
        plain: list[Any] = [
            [run.segment for run in runs],
            None,
            [run.seq for run in runs],
            [run.level for run in runs],
            [run.rows for run in runs],
            [run.size for run in runs],
            [run.span - 1 if run.span else None for run in runs],
            [first for first, _ in due],
            [last for _, last in due],
            [run.awaited for run in runs],
            [first for first, _ in rings],
            [last for _, last in rings],
            [run.digest for run in runs],
        ]
        arrays = [
            clip if values is None else pa.array(values, type=field.type)
            for values, field in zip(plain, _SCHEMA, strict=True)
        ]
        return cls(pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA))

    def __reduce__(self) -> tuple[type[RunTable], tuple[pa.RecordBatch]]:
        """Pickle the columns."""
        return RunTable, (self._columns,)

    def __len__(self) -> int:
        """Return the number of runs."""
        return int(self._columns.num_rows)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Run, ...]: ...

    def __getitem__(self, index: int | slice) -> Run | tuple[Run, ...]:
        """Return a run, or several."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return tuple(_runs(self._columns.slice(start, max(0, stop - start))))
            return tuple(self)[index]
        place = range(len(self))[index]
        return next(_runs(self._columns.slice(place, 1)))

    def __iter__(self) -> Iterator[Run]:
        """Yield all runs."""
        return _runs(self._columns)

    def __eq__(self, other: object) -> bool:
        """Return whether the other one has the same runs in the same order."""
        if isinstance(other, RunTable):
            return bool(self._columns.equals(other._columns))
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Return the hash of the same runs as a tuple."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Say how many there are."""
        return f"RunTable of {len(self)} runs"

    def segments(self) -> set[str]:
        """Return the keys of all segments."""
        return set(self._columns.column(0).to_pylist())

    def total(self, name: str, *, state: bool) -> int:
        """Return the sum of `rows` or `size`. state: only of runs that hold state."""
        numbers = self._numbers(name)
        return int((numbers[self._numbers("level") >= 0] if state else numbers).sum())

    def applied(
        self, retire: Sequence[tuple[tuple[int, ...], Intervals]], add: Sequence[Run]
    ) -> RunTable:
        """Return the runs, newest first, after an edit (see `Manifest.apply`)."""
        parts = [*self._without(retire), RunTable.of(add)._columns]
        columns = _joined(parts)
        ages = -columns.column(_SCHEMA.get_field_index("seq")).to_numpy()
        if len(ages) > 1 and bool((ages[1:] < ages[:-1]).any()):
            columns = columns.take(pa.array(np.argsort(ages, kind="stable")))
        return RunTable(columns)

    def within(self, where: Intervals) -> tuple[Run, ...]:
        """Return the runs that meet some hashes, clipped to them, in their order."""
        if not where:
            return ()
        cut, _ = self._cut(_Pieces.of(where))
        return tuple(_runs(cut))

    def by_owner(
        self, firsts: HashArray, owners: npt.NDArray[np.int32]
    ) -> tuple[RunTable, IntArray]:
        """Return the runs, clipped to what each owner has, owner by owner, and the owner of each.

        firsts, owners: the first hash of each piece of the hash space, and who has it. Shape (pieces,).
        """
        lasts = np.append(firsts[1:] - _ONE, _LAST)
        cut, owner = self._cut(_Pieces(firsts, lasts, owners.astype(np.int64)))
        return RunTable(cut), owner

    def _numbers(self, name: str) -> IntArray:
        numbers: IntArray = self._columns.column(_SCHEMA.get_field_index(name)).to_numpy()
        return numbers

    def _without(self, retire: Sequence[tuple[tuple[int, ...], Intervals]]) -> list[pa.RecordBatch]:
        """Return what is left of the runs. Runs of one seq keep their order, and are in one part."""
        gone: dict[int, list[tuple[int, int]]] = {}
        for seqs, where in retire:
            for seq in seqs:
                gone.setdefault(seq, []).extend(where.spans)
        if not gone or not len(self):
            return [self._columns]
        ages = self._numbers("seq")
        met = np.isin(ages, np.array(list(gone), dtype=np.int64))
        parts = [self._columns.filter(pa.array(~met))]
        for seq in np.unique(ages[met]).tolist():
            some = RunTable(self._columns.filter(pa.array(ages == seq)))
            cut, _ = some._cut(_Pieces.of(Intervals.of(gone[seq])).others())
            parts.append(cut)
        return parts

    def _cut(self, pieces: _Pieces) -> tuple[pa.RecordBatch, IntArray]:
        """Return the part of each run in the pieces of each owner, owner by owner, and the owner of each."""
        clips = self._columns.column(1)
        spans = clips.flatten()
        lo, last = spans.field(0).to_numpy(), spans.field(1).to_numpy()
        run = np.repeat(np.arange(len(self)), clips.value_lengths().to_numpy())
        begin = np.searchsorted(pieces.lasts, lo)
        count = np.searchsorted(pieces.firsts, last, side="right") - begin
        span = np.repeat(np.arange(len(lo)), count)
        piece = np.arange(len(span)) - np.repeat(np.cumsum(count) - count - begin, count)
        run, owner = run[span], pieces.owners[piece]
        lo = np.maximum(lo[span], pieces.firsts[piece])
        last = np.minimum(last[span], pieces.lasts[piece])
        order = np.lexsort((run, owner))
        run, owner, lo, last = run[order], owner[order], lo[order], last[order]
        if not len(run):
            return self._columns.slice(0, 0), owner
        other = (run[1:] != run[:-1]) | (owner[1:] != owner[:-1])
        apart = other | (last[:-1] + _ONE != lo[1:])  # one owner may have pieces that touch
        opens, closes = np.append(True, apart), np.append(apart, True)
        rows = np.flatnonzero(np.append(True, other))
        places = np.append(np.cumsum(opens)[rows] - 1, opens.sum())
        columns = self._columns.take(pa.array(run[rows])).columns
        columns[1] = _clips(places, lo[opens], last[closes])
        return pa.RecordBatch.from_arrays(columns, schema=_SCHEMA), owner[rows]


@dataclass(frozen=True)
class _Pieces:
    """Disjoint pieces of the hash space, ascending, and who has each. Shape (pieces,)."""

    firsts: HashArray
    lasts: HashArray
    owners: IntArray

    @classmethod
    def of(cls, where: Intervals) -> _Pieces:
        """Return intervals as pieces of one owner."""
        firsts = np.array([lo for lo, _ in where], dtype=np.uint64)
        lasts = np.array([hi - 1 for _, hi in where], dtype=np.uint64)
        return cls(firsts, lasts, np.zeros(len(firsts), dtype=np.int64))

    def others(self) -> _Pieces:
        """Return the rest of the hash space as pieces of one owner. There is at least one piece."""
        inside = self.lasts != _LAST
        firsts = np.append(np.uint64(0), self.lasts[inside] + _ONE)
        lasts = np.append(self.firsts[self.firsts != 0] - _ONE, _LAST)
        if not self.firsts[0]:
            firsts = firsts[1:]
        if not inside.all():
            lasts = lasts[:-1]
        return _Pieces(firsts, lasts, np.zeros(len(firsts), dtype=np.int64))


def _clips(offsets: IntArray, lo: HashArray, last: HashArray) -> pa.Array:
    spans = pa.StructArray.from_arrays([pa.array(lo), pa.array(last)], fields=list(_SPAN))
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), spans)


def _joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several tables as one."""
    some = [part for part in parts if part.num_rows]
    if len(some) < 2:
        return some[0] if some else parts[0].slice(0, 0)
    return pa.Table.from_batches(some).combine_chunks().to_batches()[0]


def _runs(columns: pa.RecordBatch) -> Iterator[Run]:
    """Yield the runs of a table."""
    for segment, clip, seq, level, rows, size, width, first, last, awaited, *more in zip(
        *(column.to_pylist() for column in columns.columns), strict=True
    ):
        begins, ends, digest = more
        yield Run(
            segment=segment,
            clip=Intervals(tuple((span["lo"], span["last"] + 1) for span in clip)),
            seq=seq,
            level=level,
            rows=rows,
            size=size,
            span=0 if width is None else width + 1,
            due=None if first is None else (first, last),
            awaited=awaited,
            digest=digest,
            processing=None if begins is None else (begins, ends),
        )
