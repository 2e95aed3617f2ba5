"""Many runs in columns, for operators with many tasks: what is done to all of them at once costs no Python per run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import TypeAlias, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.model.hashspace import HashArray, Intervals
from rechannel.state.run import Run
from rechannel.state.run_columns import (
    CLIP,
    SCHEMA,
    Cut,
    Part,
    Pieces,
    columns_of,
    joined,
    runs_of,
)

Retired: TypeAlias = tuple[tuple[int, ...], Intervals]
"""Runs with these seqs no longer count in these hashes."""

MOST_PARTS = 16
"""Parts of a table; more are joined. A timestep adds a part, so that most copy nothing."""


class RunTable(Sequence[Run]):
    """Runs, each of which is made when it is asked for. Equal to any sequence of the same runs."""

    __slots__ = ("_parts",)

    def __init__(self, *parts: Part) -> None:
        """parts: one after the other; at least one."""
        filled = tuple(part for part in parts if part.columns.num_rows) or parts[:1]
        self._parts = filled if len(filled) <= MOST_PARTS else (_joined(filled),)

    @classmethod
    def of(cls, runs: Sequence[Run]) -> RunTable:
        """Return a table of runs, in their order."""
        return runs if isinstance(runs, RunTable) else cls(Part(columns_of(runs)))

    @classmethod
    def from_bytes(cls, data: bytes) -> RunTable:
        """Invert `to_bytes`. Raises ValueError for anything else."""
        return cls(Part.from_bytes(data))

    def to_bytes(self) -> bytes:
        """Return the columns as a compressed stream of Arrow's IPC format."""
        return self._whole.to_bytes()

    def __reduce__(self) -> tuple[type[RunTable], tuple[Part, ...]]:
        """Pickle the columns."""
        return RunTable, self._parts

    def __len__(self) -> int:
        """Return the number of runs."""
        return sum(part.columns.num_rows for part in self._parts)

    @overload
    def __getitem__(self, index: int) -> Run: ...

    @overload
    def __getitem__(self, index: slice) -> tuple[Run, ...]: ...

    def __getitem__(self, index: int | slice) -> Run | tuple[Run, ...]:
        """Return a run, or several."""
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            if step == 1:
                return tuple(runs_of(self._columns.slice(start, max(0, stop - start))))
            return tuple(self)[index]
        place = range(len(self))[index]
        return next(runs_of(self._columns.slice(place, 1)))

    def __iter__(self) -> Iterator[Run]:
        """Yield all runs."""
        for part in self._parts:
            yield from runs_of(part.columns)

    def __eq__(self, other: object) -> bool:
        """Return whether the other one has the same runs in the same order."""
        if isinstance(other, RunTable):
            if len(self) != len(other):
                return False
            mine, theirs = _joined(self._parts).columns, _joined(other._parts).columns
            return bool(mine.equals(theirs))
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        """Return the hash of the same runs as a tuple."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Say how many there are."""
        return f"RunTable of {len(self)} runs"

    @property
    def parts(self) -> tuple[Part, ...]:
        """Its parts, one after the other: tables of successive timesteps share most of them."""
        return self._parts

    def segments(self) -> set[str]:
        """Return the keys of all segments."""
        return {key for part in self._parts for key in part.columns.column(0).to_pylist()}

    @property
    def size(self) -> tuple[int, int]:
        """Rows of the runs that hold state, and bytes of all runs."""
        rows, sizes = zip(*(part.size for part in self._parts), strict=True)
        return sum(rows), sum(sizes)

    def waiting(self, after: int, until: int) -> list[str]:
        """Return the segments of the runs of state for which `Run.waits`."""
        last = pc.coalesce(self._column("awaited"), self._column("due_last"))
        return self._segments(_both(self._column("due_first"), until, last, after))

    def ringing(self, after: int, until: int) -> list[str]:
        """Return the segments of the runs of state for which `Run.rings`."""
        first, last = self._column("rings_first"), self._column("rings_last")
        return self._segments(_both(first, until, last, after))

    def changed_since(self, timestep: int, watermark: int) -> bool:
        """See `Manifest.changed_since`."""
        late = pc.and_(
            pc.greater(self._column("due_last"), watermark),
            pc.greater(self._column("seq"), timestep),
        )
        return bool(self._segments(late))

    def applied(self, retire: Sequence[Retired], add: Sequence[Run]) -> RunTable:
        """Return the runs, newest first, after an edit (see `Manifest.apply`)."""
        added = RunTable.of(add)
        if not retire and added._is_newer(self):
            return RunTable(*added._parts, *self._parts)
        made = RunTable(*self._left(retire), *added._parts)
        if _descends(made._parts):
            return made
        # Runs of one seq keep their order.
        order = np.argsort(-made._whole.seqs, kind="stable")
        return RunTable(Part(made._columns.take(pa.array(order))))

    def within(self, where: Intervals) -> tuple[Run, ...]:
        """Return the runs that meet some hashes, clipped to them, in their order."""
        if not where:
            return ()
        return self._taken(Cut.of(self._columns.column(CLIP), Pieces.of(where)))

    def by_owner(
        self, firsts: HashArray, owners: npt.NDArray[np.int32], count: int
    ) -> list[tuple[Run, ...]]:
        """Return what each owner has of the runs, by number, clipped to what it has.

        firsts, owners: the first hash of each piece of the hash space, and who has it. Shape (pieces,). count: of
        owners.
        """
        cut = Cut.of(self._columns.column(CLIP), Pieces.all_of(firsts, owners))
        starts = np.searchsorted(cut.owners, np.arange(count + 1)).tolist()
        runs = self._taken(cut)
        return [runs[start:stop] for start, stop in pairwise(starts)]

    def _taken(self, cut: Cut) -> tuple[Run, ...]:
        """Return parts of runs."""
        return tuple(runs_of(cut.taken(self._columns)))

    @property
    def _whole(self) -> Part:
        """All parts as one."""
        parts = self._parts
        if len(parts) > 1:
            parts = self._parts = (_joined(parts),)
        return parts[0]

    @property
    def _columns(self) -> pa.RecordBatch:
        return self._whole.columns

    def _column(self, name: str) -> pa.ChunkedArray:
        place = SCHEMA.get_field_index(name)
        return pa.chunked_array([part.columns.column(place) for part in self._parts])

    def _segments(self, which: pa.ChunkedArray) -> list[str]:
        """Return the segments of some runs of state. which: null counts as false."""
        state = pc.and_(which, pc.greater_equal(self._column("level"), 0))
        found: list[str] = self._column("segment").filter(state).to_pylist()
        return found

    def _is_newer(self, other: RunTable) -> bool:
        """Return whether these runs, newest first, come before those of another table."""
        if not _descends(self._parts):
            return False
        mine, theirs = self._parts[-1].seqs, other._parts[0].seqs
        return not len(mine) or not len(theirs) or bool(mine[-1] > theirs[0])

    def _left(self, retire: Sequence[Retired]) -> Iterator[Part]:
        """Yield what is left of each part. Runs of one seq keep their order."""
        alike: dict[Intervals, list[int]] = {}
        for seq, where in retired(retire).items():
            alike.setdefault(where, []).append(seq)
        gone = [(seqs, Pieces.of(where).others()) for where, seqs in alike.items() if where]
        for part in self._parts:
            ages, columns = part.seqs, part.columns
            of = [(np.isin(ages, seqs), left) for seqs, left in gone]
            of = [(met, left) for met, left in of if met.any()]
            if not of:
                yield part
                continue
            rest = ~np.logical_or.reduce([met for met, _ in of])
            if rest.any():
                yield Part(columns.filter(pa.array(rest)))
            for met, left in of:
                if len(left.firsts):
                    rows = columns.filter(pa.array(met))
                    yield Part(Cut.of(rows.column(CLIP), left).taken(rows))


def retired(retire: Sequence[Retired]) -> dict[int, Intervals]:
    """Return, by seq, the hashes in which its runs no longer count: so that each run is looked at once."""
    spans: dict[int, list[tuple[int, int]]] = {}
    for seqs, where in retire:
        for seq in seqs:
            spans.setdefault(seq, []).extend(where.spans)
    return {seq: Intervals.of(each) for seq, each in spans.items()}


def _descends(parts: Sequence[Part]) -> bool:
    """Return whether no run of some parts comes after an older one."""
    seqs = np.concatenate([part.seqs for part in parts])
    return bool((seqs[1:] <= seqs[:-1]).all())


def _both(first: pa.ChunkedArray, until: int, last: pa.ChunkedArray, after: int) -> pa.ChunkedArray:
    """Return where first <= until and last > after; null where either is."""
    return pc.and_(pc.less_equal(first, until), pc.greater(last, after))


def _joined(parts: Sequence[Part]) -> Part:
    """Return several parts as one."""
    return parts[0] if len(parts) == 1 else Part(joined([part.columns for part in parts]))
