"""Runs as columns: their schema, and what is made of them without Python per run.

Intervals of hashes are written with both ends included here, so that each end is a 64-bit integer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.model.hashspace import SPACE, HashArray, Intervals
from rechannel.model.streams import from_stream, to_stream
from rechannel.state.run import Run

IntArray = npt.NDArray[np.int64]

_SPAN = pa.struct([("lo", pa.uint64()), ("last", pa.uint64())])
SCHEMA = pa.schema(
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


CLIP = SCHEMA.get_field_index("clip")


class Part:
    """Columns, with their bytes and sums once they were asked for: tables of successive timesteps share most parts."""

    __slots__ = ("_bytes", "_size", "columns")

    def __init__(self, columns: pa.RecordBatch, data: bytes | None = None) -> None:
        """columns: of `SCHEMA`. data: their bytes, if there are any yet."""
        self.columns, self._bytes = columns, data
        self._size: tuple[int, int] | None = None

    @classmethod
    def from_bytes(cls, data: bytes) -> Part:
        """Invert `to_bytes`. Raises ValueError for anything else."""
        columns = from_stream(data)
        columns.validate(full=True)
        if not columns.schema.equals(SCHEMA):
            msg = f"runs have the columns {columns.schema.names}"
            raise ValueError(msg)
        return cls(columns, data)

    def to_bytes(self) -> bytes:
        """Return the columns as a compressed stream of Arrow's IPC format."""
        if self._bytes is None:
            self._bytes = to_stream(self.columns)
        return self._bytes

    @property
    def seqs(self) -> IntArray:
        """Seq of each run. Shape (runs,)."""
        return self._numbers("seq")

    @property
    def size(self) -> tuple[int, int]:
        """Rows of the runs that hold state, and bytes of all runs."""
        if self._size is None:
            rows, state = self._numbers("rows"), self._numbers("level") >= 0
            self._size = int(rows[state].sum()), int(self._numbers("size").sum())
        return self._size

    def _numbers(self, name: str) -> IntArray:
        figures: IntArray = self.columns.column(SCHEMA.get_field_index(name)).to_numpy()
        return figures

    def __reduce__(self) -> tuple[Callable[[bytes], Part], tuple[bytes]]:
        """Pickle the bytes."""
        return Part.from_bytes, (self.to_bytes(),)


@dataclass(frozen=True)
class Pieces:
    """Disjoint pieces of the hash space, ascending, and who has each. Shape (pieces,)."""

    firsts: HashArray
    lasts: HashArray
    owners: IntArray

    @classmethod
    def of(cls, where: Intervals) -> Pieces:
        """Return intervals, of which there is at least one, as pieces of one owner."""
        firsts = np.array([lo for lo, _ in where], dtype=np.uint64)
        lasts = np.array([hi - 1 for _, hi in where], dtype=np.uint64)
        return cls(firsts, lasts, np.zeros(len(firsts), dtype=np.int64))

    @classmethod
    def all_of(cls, firsts: HashArray, owners: npt.NDArray[np.int32]) -> Pieces:
        """Return pieces that tile the hash space."""
        return cls(firsts, np.append(firsts[1:] - _ONE, _LAST), owners.astype(np.int64))

    def others(self) -> Pieces:
        """Return the rest of the hash space as pieces of one owner. There is at least one piece."""
        inside = self.lasts != _LAST
        firsts = np.append(np.uint64(0), self.lasts[inside] + _ONE)
        lasts = np.append(self.firsts[self.firsts != 0] - _ONE, _LAST)
        if not self.firsts[0]:
            firsts = firsts[1:]
        if not inside.all():
            lasts = lasts[:-1]
        return Pieces(firsts, lasts, np.zeros(len(firsts), dtype=np.int64))


@dataclass(frozen=True)
class Cut:
    """The part of each run in the pieces of each owner, owner by owner."""

    rows: IntArray
    """Which run each is a part of. Shape (parts,)."""
    owners: IntArray
    """Who has it. Shape (parts,)."""
    places: npt.NDArray[np.int32]
    """Where the intervals of each part begin, and where those of the last one end. Shape (parts + 1,)."""
    lo: HashArray
    """First hash of each interval."""
    last: HashArray
    """Last hash of each interval."""

    @classmethod
    def of(cls, clips: pa.ListArray, pieces: Pieces) -> Cut:
        """Cut runs, given their column `clip`."""
        spans = clips.flatten()
        lo, last = spans.field(0).to_numpy(), spans.field(1).to_numpy()
        run = np.repeat(np.arange(len(clips)), clips.value_lengths().to_numpy())
        begin = np.searchsorted(pieces.lasts, lo)
        count = np.searchsorted(pieces.firsts, last, side="right") - begin
        span = np.repeat(np.arange(len(lo)), count)
        piece = np.arange(len(span)) - np.repeat(np.cumsum(count) - count - begin, count)
        run, owner = run[span], pieces.owners[piece]
        lo = np.maximum(lo[span], pieces.firsts[piece])
        last = np.minimum(last[span], pieces.lasts[piece])
        # Runs are in order already, and so are their intervals.
        order = np.argsort(owner, kind="stable")
        run, owner, lo, last = run[order], owner[order], lo[order], last[order]
        if not len(run):
            return cls(run, owner, np.zeros(1, dtype=np.int32), lo, last)
        other = (run[1:] != run[:-1]) | (owner[1:] != owner[:-1])
        apart = other | (last[:-1] + _ONE != lo[1:])  # one owner may have pieces that touch
        opens, closes = np.append(True, apart), np.append(apart, True)
        rows = np.flatnonzero(np.append(True, other))
        places = np.append(np.cumsum(opens)[rows] - 1, opens.sum()).astype(np.int32)
        return cls(run[rows], owner[rows], places, lo[opens], last[closes])

    def taken(self, columns: pa.RecordBatch) -> pa.RecordBatch:
        """Return the parts as runs of their own. columns: the runs that were cut."""
        made = columns.take(pa.array(self.rows)).columns
        made[CLIP] = clips_of(self.places, self.lo, self.last)
        return pa.RecordBatch.from_arrays(made, schema=SCHEMA)


def columns_of(runs: Sequence[Run]) -> pa.RecordBatch:
    """Return runs as columns, in their order."""
    spans = [span for run in runs for span in run.clip.spans]
    offsets = np.cumsum([0, *(len(run.clip.spans) for run in runs)])
    due = [run.due or (None, None) for run in runs]
    rings = [run.processing or (None, None) for run in runs]
    clip = clips_of(
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
        for values, field in zip(plain, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)


def clips_of(offsets: npt.NDArray[np.int32], lo: HashArray, last: HashArray) -> pa.ListArray:
    """Return a column of clips. offsets: where the intervals of each begin, and where those of the last one end."""
    spans = pa.StructArray.from_arrays([pa.array(lo), pa.array(last)], fields=list(_SPAN))
    return pa.ListArray.from_arrays(pa.array(offsets, type=pa.int32()), spans)


def joined(parts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Return several tables, of which there is at least one, as one."""
    some = [part for part in parts if part.num_rows]
    if len(some) < 2:
        return some[0] if some else parts[0].slice(0, 0)
    return pa.Table.from_batches(some).combine_chunks().to_batches()[0]


def runs_of(columns: pa.RecordBatch) -> Iterator[Run]:
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
