"""Bins (contiguous ranges of the hash space) and the routing table bin -> task.

The number of bins is not fixed: a bin is a range, so it can be split and merged. Routing is a
value; a change of placement is another value, which holds from a later timestep on. A bin belongs to
one task; several tasks may share the rows of a bin that is *spread* (`spread`).
"""

from __future__ import annotations

import json
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from rechannel.model.codec import Json, decode, encode, form
from rechannel.model.hashspace import SPACE, HashArray, Intervals
from rechannel.model.spread import SpreadBin


def even_starts(bins: int) -> tuple[int, ...]:
    """Return the first hash of each of `bins` ranges of (nearly) equal width."""
    return tuple(i * SPACE // bins for i in range(bins))


@dataclass(frozen=True, kw_only=True)
class Routing:
    """Which task owns which hashes."""

    starts: tuple[int, ...]
    """First hash of each bin, ascending; the first is 0."""
    owners: tuple[int, ...]
    """Task of each bin, in [0, tasks)."""
    tasks: int
    """Number of tasks of the operator; a task may own no bin."""
    spreads: tuple[SpreadBin, ...] = ()
    """Bins that several tasks share, ascending."""

    def __post_init__(self) -> None:
        """Check that the bins tile the space and that every owner exists."""
        if not self.starts or self.starts[0] != 0 or len(self.starts) != len(self.owners):
            msg = "routing needs at least one bin, the first at hash 0, and one owner per bin"
            raise ValueError(msg)
        if any(a >= b for a, b in zip(self.starts, self.starts[1:], strict=False)):
            msg = "bin starts must ascend"
            raise ValueError(msg)
        if self.starts[-1] >= SPACE or min(self.owners) < 0 or max(self.owners) >= self.tasks:
            msg = f"every bin must lie in the hash space and belong to one of {self.tasks} tasks"
            raise ValueError(msg)
        for spread in self.spreads:
            self._check_spread(spread)

    def _check_spread(self, spread: SpreadBin) -> None:
        """Check that a spread bin is a bin, and belongs to the first of its tasks."""
        number = self.bin_of(spread.lo)
        if self.span(number) != (spread.lo, spread.hi):
            msg = f"hashes {spread.lo} to {spread.hi}, which tasks {list(spread.tasks)} share, are not one bin"
            raise ValueError(msg)
        if self.owners[number] != spread.tasks[0] or max(spread.tasks) >= self.tasks:
            msg = (
                f"bin {number}, which tasks {list(spread.tasks)} share, must belong to the first of them, and all"
                f" of them must be among the {self.tasks} tasks"
            )
            raise ValueError(msg)

    @classmethod
    def even(cls, *, bins: int, tasks: int) -> Routing:
        """Return bins of equal width; each task owns one contiguous range of them."""
        owners = tuple(i * tasks // bins for i in range(bins))
        return cls(starts=even_starts(bins), owners=owners, tasks=tasks)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as compact JSON; a worker rebuilds the same routing once."""
        return (_routing_from, (self._text,))

    @cached_property
    def _text(self) -> str:
        return json.dumps(_compact(self))

    @property
    def bins(self) -> int:
        """Number of bins."""
        return len(self.starts)

    @cached_property
    def _runs(self) -> tuple[HashArray, npt.NDArray[np.int32]]:
        """Neighbouring bins of one owner, joined: (first hash, owner) of each. A spread bin is by itself."""
        owners = np.asarray(self.owners, dtype=np.int32)
        begins = np.concatenate(([True], owners[1:] != owners[:-1], [False]))
        for number in map(self.bin_of, (spread.lo for spread in self.spreads)):
            begins[number : number + 2] = True
        first = np.flatnonzero(begins[:-1])
        return np.asarray(self.starts, dtype=np.uint64)[first], owners[first]

    @property
    def pieces(self) -> tuple[HashArray, npt.NDArray[np.int32]]:
        """Neighbouring bins of one owner, joined: the first hash and the owner of each, ascending."""
        return self._runs

    def task_of(self, hashes: HashArray) -> npt.NDArray[np.int32]:
        """Return the owner of every hash. Shape (rows,) -> (rows,)."""
        first, owners = self._runs
        return owners[np.searchsorted(first, hashes, side="right") - 1]

    def cuts(self, ordered: HashArray) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Cut an ascending hash array where the owner changes. Returns offsets with both ends, and
        the owner of each piece.
        """
        first, owners = self._runs
        inner = np.searchsorted(ordered, first[1:])
        return np.concatenate(([0], inner, [len(ordered)])).astype(np.int64), owners

    @cached_property
    def shared_pieces(self) -> Mapping[int, SpreadBin]:
        """The spread bins, by the number of their piece among those of `cuts`."""
        first, _ = self._runs
        return {int(np.searchsorted(first, np.uint64(s.lo))): s for s in self.spreads}

    def spread_at(self, number: int) -> SpreadBin | None:
        """Return how a bin is spread; None if it is not."""
        lo = self.starts[number]
        return next((spread for spread in self.spreads if spread.lo == lo), None)

    @cached_property
    def _owned(self) -> dict[int, Intervals]:
        """Hashes of every task that owns any; computed once, for all timesteps under this routing."""
        first, owners = self._runs
        starts = [int(start) for start in first]
        spans: dict[int, list[tuple[int, int]]] = {}
        for lo, hi, owner in zip(starts, [*starts[1:], SPACE], owners.tolist(), strict=True):
            spans.setdefault(owner, []).append((lo, hi))
        return {owner: Intervals.of(mine) for owner, mine in spans.items()}

    @cached_property
    def _pieces(self) -> tuple[list[int], list[int]]:
        first, owners = self._runs
        return first.tolist(), owners.tolist()

    def tasks_in(self, where: Intervals) -> set[int]:
        """Return the tasks that own any of some hashes."""
        first, owners = self._pieces
        return {
            owner
            for lo, hi in where
            for owner in owners[bisect_right(first, lo) - 1 : bisect_left(first, hi)]
        }

    def intervals_of(self, task: int) -> Intervals:
        """Return the hashes that a task owns."""
        return self._owned.get(task, Intervals.nothing())

    @cached_property
    def edges(self) -> HashArray:
        """First hash of every bin, as an array. Shape (bins,)."""
        return np.asarray(self.starts, dtype=np.uint64)

    def span(self, number: int) -> tuple[int, int]:
        """Return the hashes [lo, hi) of a bin."""
        following = number + 1
        return self.starts[number], self.starts[following] if following < self.bins else SPACE

    def bin_of(self, lo: int) -> int:
        """Return the bin that contains a hash."""
        return bisect_right(self.starts, lo) - 1

    def bins_of(self, task: int) -> tuple[int, ...]:
        """Return the bins that a task owns, ascending."""
        return tuple(number for number, owner in enumerate(self.owners) if owner == task)

    def with_owners(self, moved: Mapping[int, int]) -> Routing:
        """Return the same bins, some of them (bin -> task) with other owners. Raises ValueError for a spread bin."""
        owners = list(self.owners)
        for number, task in moved.items():
            owners[number] = task
        return replace(self, owners=tuple(owners))

    def with_starts(self, starts: Sequence[int]) -> Routing:
        """Return other bins with the same owners. Raises ValueError if a new bin would have two
        owners, or if a spread bin were cut or joined with others.
        """
        if tuple(starts) == self.starts:
            return self
        ends = (*starts[1:], SPACE)
        owners = []
        for lo, hi in zip(starts, ends, strict=True):
            first, last = self.bin_of(lo), self.bin_of(hi - 1)
            found = set(self.owners[first : last + 1]) if last > first else ()
            if len(found) > 1:
                msg = (
                    f"hashes {lo} to {hi} belong to tasks {sorted(found)}: move them together first"
                )
                raise ValueError(msg)
            owners.append(self.owners[first])
        return replace(self, starts=tuple(starts), owners=tuple(owners))

    def with_spreads(self, spreads: Sequence[SpreadBin]) -> Routing:
        """Return the same bins with the same owners, of which these are spread."""
        return replace(self, spreads=tuple(sorted(spreads, key=lambda spread: spread.lo)))

    def rows_per_bin(self, ordered: HashArray) -> npt.NDArray[np.int64]:
        """Count the rows of an ascending hash array in every bin. Shape (bins,)."""
        edges = np.searchsorted(ordered, self.edges)
        return np.diff(np.append(edges, len(ordered)))


def _compact(routing: Routing) -> Json:
    """Write even bins as their number, and owners by the first bin of each run of bins."""
    owners = routing.owners
    first = [0, *(i for i in range(1, routing.bins) if owners[i] != owners[i - 1])]
    even = routing.starts == even_starts(routing.bins)
    spreads = {"spreads": list(map(encode, routing.spreads))} if routing.spreads else {}
    return {
        "tasks": routing.tasks,
        "bins": routing.bins if even else [str(s) for s in routing.starts],
        "owners": [[i, owners[i]] for i in first],
        **spreads,
    }


def _from_compact(data: Json) -> Routing:
    bins = data["bins"]
    starts = even_starts(bins) if isinstance(bins, int) else tuple(int(s) for s in bins)
    runs = [(int(i), int(owner)) for i, owner in data["owners"]]
    ends = [i for i, _ in runs[1:]] + [len(starts)]
    owners = [o for (i, o), end in zip(runs, ends, strict=True) for _ in range(end - i)]
    return Routing(
        starts=starts,
        owners=tuple(owners),
        tasks=int(data["tasks"]),
        spreads=tuple(decode(SpreadBin, each) for each in data.get("spreads", ())),
    )


form(Routing, encode=_compact, decode=_from_compact)


@lru_cache(maxsize=64)
def _routing_from(text: str) -> Routing:
    return _from_compact(json.loads(text))
