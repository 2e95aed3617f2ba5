"""Which runs to merge in a timestep: a pure plan that takes the next slice of the hash space every time.

The theory. Let a timestep add B rows to a task that owns N rows, and let F be the fan. Level 0 holds what timesteps
wrote. Sweep k walks the task's hash space once every F^(k+1) timesteps and turns, slice by slice, all runs of level k
into one run of level k + 1; F runs of B * F^k rows meet in a slice of 1 / F^(k+1) of the space, so a sweep
costs about B
rows per timestep, whatever k is. The last sweep, k = L - 1 with F^L >= N / B, also takes everything older: N / F^L <= B
rows more. A timestep therefore merges about (L + 1) * B rows, the same every time: there is nothing to
spike. A key is looked up
in at most about 2 * F runs per level, most of which a bitmap answers without a search.

Small slices cost more in files than in rows, so a slice has at least `slice_rows` rows, or `slice_bytes` bytes, and is
then taken less often. What of a slice is still more than a task may hold, it merges part by part, each into a run.

State that goes with time goes run by run, unread, if what goes at different times lies in different runs. Runs of such
state are merged only if that does not spread their rows over more time: over more than the widest of them, or than
1 / APART of the time for which a row is there. So no more than about APART times the runs of a moment are there, and a
row of a window is merged with those of its own time, or not at all.

After a move, bins of different histories lie in one slice. Each is merged by its own: one old run that a sweep has
passed by must not make all that is younger, everywhere in the slice, be merged with it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rechannel.model.hashspace import Intervals
from rechannel.state.manifest import Run

BASE_LEVEL = 30
"""Level of a run below which nothing older is left: only the last sweep takes it."""

SLACK = 0.25
"""By how much more rows may be read so that fewer files are written."""

APART = 1024
"""Runs of state that goes with time which may stay unmerged because their rows go at different times."""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """fan: runs of a level that meet in a merge. slice_rows, slice_bytes: fewest rows, or bytes, worth a file of their
    own: where rows are wide, slices have fewer of them."""

    fan: int = 8
    slice_rows: int = 1 << 16
    slice_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        if self.fan < 2 or self.slice_rows < 1 or self.slice_bytes < 1:
            msg = f"merging needs a fan of at least 2 and slices of at least 1 row and 1 byte, not {self}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merge the runs with these seqs in these hashes into one run of this level.

    bottom: no older run remains below, so tombstones and expired rows can go.
    """

    seqs: tuple[int, ...]
    where: Intervals
    level: int
    bottom: bool


def plan_merges(
    runs: Sequence[Run],
    own: Intervals,
    timestep: int,
    policy: MergePolicy,
    lasts_us: int | None = None,
) -> tuple[Merge, ...]:
    """Merges of one task in one timestep. `runs`: its runs as of the timestep before, newest first, clipped
    to `own`. lasts_us: for about how long rows are there; None = for ever."""
    # What is left of a run that was partly merged says nothing of what a timestep writes: its density does.
    # A timestep that is handled in parts writes a run for each, and one hot hash may be a dense part of its own.
    fresh = [run for run in runs if run.level == 0 and run.span]
    if not fresh:
        return ()
    density = sum([run.rows for run in fresh]) / sum([run.span for run in fresh])
    batch = max(1.0, own.width * density)
    total = sum([run.expected for run in runs])
    stored = sum([run.rows for run in runs])
    width = sum([run.size for run in runs]) / stored if stored else 0.0
    sweeps = max(1, math.ceil(math.log(max(1.0, total / batch), policy.fan)))
    merges: list[Merge] = []
    for sweep in reversed(range(sweeps)):
        last = sweep == sweeps - 1
        period = policy.fan ** (sweep + 1)
        slices = _slices(total if last else batch * period, width, period, policy)
        index = _due(timestep + sweep, period, slices)
        if index is not None:
            found = _merge(
                runs, portion(own, index, slices), sweep, policy, last=last, lasts_us=lasts_us
            )
            merges = [m for m in found if not any(_meet(runs, m, one) for one in merges)] + merges
    return tuple(merges)


def _meet(runs: Sequence[Run], one: Merge, other: Merge) -> bool:
    """Whether two merges take the same run at the same hashes.

    Those of two sweeps may, where levels do not follow ages. What both wrote would hold the same rows, and one of them
    might bring back what the other one has let go.
    """
    shared = set(one.seqs) & set(other.seqs)
    where = one.where.intersect(other.where) if shared else Intervals.nothing()
    return bool(where) and any(
        run.seq in shared and bool(run.clip.intersect(where)) for run in runs
    )


def portion(own: Intervals, index: int, count: int) -> Intervals:
    """Part `index` of `count` parts of equal width of a set of hashes."""
    lo, hi = own.width * index // count, own.width * (index + 1) // count
    out, passed = [], 0
    for start, stop in own:
        first = start + max(0, lo - passed)
        last = start + min(stop - start, hi - passed)
        if first < last:
            out.append((first, last))
        passed += stop - start
    return Intervals.of(out)


def _slices(rows: float, width: float, period: int, policy: MergePolicy) -> int:
    """Slices of a sweep: the whole period, or a power of two, which seldom changes as batches grow and shrink.

    width: bytes of a row.
    """
    wanted = int(max(1, rows // policy.slice_rows, rows * width // policy.slice_bytes))
    return min(period, 1 << (wanted.bit_length() - 1))


def _due(timestep: int, period: int, slices: int) -> int | None:
    """Slice number to take at a timestep, or None: `slices` of every `period` timesteps are due, evenly."""
    phase = timestep % period
    index = phase * slices // period
    return index if phase == 0 or index != (phase - 1) * slices // period else None


def _merge(
    runs: Sequence[Run],
    where: Intervals,
    sweep: int,
    policy: MergePolicy,
    *,
    last: bool,
    lasts_us: int | None,
) -> tuple[Merge, ...]:
    """Merges of one sweep in one slice: one, or as many as there are histories in it that have little in common."""
    met = [(run, run.clip.intersect(where)) for run in runs]
    met = [(run, clip) for run, clip in met if clip]
    wanted = np.array([run.level == sweep or (last and run.level >= sweep) for run, _ in met])
    if wanted.sum() < 2:
        return ()
    cells: _Cells | None = None
    merges: list[Merge] = []
    for alike in _of_like_time([run for run, _ in met], lasts_us):
        if wanted[alike].sum() < 2:
            continue
        cells = cells or _Cells.of(met)
        some = np.zeros_like(wanted)
        some[alike] = wanted[alike]
        groups = cells.groups(some)
        if len(groups) > 1:
            groups = _joined(cells, groups, policy, alike)
        merges += [cells.merge(group, sweep + 1) for group in groups]
    return tuple(merges)


def _of_like_time(runs: Sequence[Run], lasts_us: int | None) -> list[slice]:
    """Runs, newest first, cut where merging would spread what waits for one time over more time."""
    if lasts_us is None:
        return [slice(0, len(runs))]
    cuts, span, widest = [0], None, lasts_us // APART
    for place, run in enumerate(runs):
        if run.due is None:
            continue
        both = run.due if span is None else (min(span[0], run.due[0]), max(span[1], run.due[1]))
        width = max(widest, run.due[1] - run.due[0])
        if both[1] - both[0] <= width:
            span, widest = both, width
        else:
            cuts.append(place)
            span, widest = run.due, max(lasts_us // APART, run.due[1] - run.due[0])
    return [slice(*pair) for pair in pairwise([*cuts, len(runs)])]


@dataclass(frozen=True)
class _Group:
    """Cells whose runs with oldest <= seq <= newest are to be merged; bottom: no older run holds any of them."""

    bottom: bool
    newest: int
    oldest: int
    cells: IntArray


@dataclass(frozen=True, eq=False)
class _Cells:
    """A slice, cut wherever a run begins or ends.

    Where bins of different histories meet in one task, neither levels nor ages of runs are alike everywhere. Within a
    cell they are: what is merged there are the runs wanted and all that lie between them in age, or what is merged
    would overtake those.

    edges: of cells, ascending; cell i is [edges[i], edges[i + 1]). runs: newest first. held: shape (runs, cells),
    whether a run holds a cell.
    """

    edges: list[int]
    runs: list[Run]
    held: npt.NDArray[np.bool_]

    @classmethod
    def of(cls, met: Sequence[tuple[Run, Intervals]]) -> _Cells:
        """Of runs and where they count."""
        edges = sorted({edge for _, clip in met for span in clip for edge in span})
        place = {edge: i for i, edge in enumerate(edges)}
        steps = np.zeros((len(met), len(edges)), dtype=np.int8)
        for number, (_, clip) in enumerate(met):
            steps[number, [place[lo] for lo, _ in clip]] += 1
            steps[number, [place[hi] for _, hi in clip]] -= 1
        held = np.cumsum(steps, axis=1, dtype=np.int8)[:, :-1] > 0
        return cls(edges=edges, runs=[run for run, _ in met], held=held)

    @cached_property
    def seqs(self) -> IntArray:
        """Of the runs."""
        return np.array([run.seq for run in self.runs], dtype=np.int64)

    @cached_property
    def rows(self) -> npt.NDArray[np.float64]:
        """How many rows of a run lie in a cell: shape (runs, cells)."""
        density = np.array([run.rows / run.span if run.span else 0.0 for run in self.runs])
        widths = np.array([float(hi - lo) for lo, hi in pairwise(self.edges)])
        return np.asarray(self.held * density[:, None] * widths)

    def groups(self, wanted: npt.NDArray[np.bool_]) -> list[_Group]:
        """Cells in which at least two wanted runs meet, those of like history together, newest first."""
        taken, seqs = self.held[wanted], self.seqs[wanted]
        newest = seqs[taken.argmax(axis=0)]
        oldest = seqs[::-1][taken[::-1].argmax(axis=0)]
        bottom = oldest == self.seqs[::-1][self.held[::-1].argmax(axis=0)]
        cells: dict[tuple[bool, int, int], list[int]] = {}
        for cell in np.flatnonzero(taken.sum(axis=0) >= 2).tolist():
            key = (bool(bottom[cell]), int(newest[cell]), int(oldest[cell]))
            cells.setdefault(key, []).append(cell)
        return [_Group(*key, np.array(cells[key])) for key in sorted(cells, reverse=True)]

    def cost(self, group: _Group) -> float:
        """Rows that merging a group reads."""
        return float(self.rows[np.ix_(self._between(group), group.cells)].sum())

    def within(self, group: _Group, alike: slice) -> bool:
        """Whether a group has no runs in its cells but some of these."""
        met = self._between(group)
        met[alike] = False
        return not bool(self.held[np.ix_(met, group.cells)].any())

    def merge(self, group: _Group, level: int) -> Merge:
        """The merge of a group."""
        between = self._between(group)
        met = between & self.held[:, group.cells].any(axis=1)
        spans = ((self.edges[cell], self.edges[cell + 1]) for cell in group.cells.tolist())
        return Merge(
            seqs=tuple(sorted({int(seq) for seq in self.seqs[met]}, reverse=True)),
            where=Intervals.of(spans),
            level=BASE_LEVEL if group.bottom else level,
            bottom=group.bottom,
        )

    def _between(self, group: _Group) -> npt.NDArray[np.bool_]:
        return (self.seqs >= group.oldest) & (self.seqs <= group.newest)


def _joined(
    cells: _Cells, groups: Sequence[_Group], policy: MergePolicy, alike: slice
) -> list[_Group]:
    """Groups, joined with the one before where that reads few rows more: each writes a file of its own.

    alike: the runs that they are of. A timestep that is handled in parts writes runs of one seq that may be alike with
    others each: what is joined takes in none of those, which have merges of their own.
    """
    out: list[tuple[_Group, float]] = []
    for group in groups:
        cost = cells.cost(group)
        if out and out[-1][0].bottom == group.bottom:
            before, known = out[-1]
            both = _Group(
                group.bottom,
                max(before.newest, group.newest),
                min(before.oldest, group.oldest),
                np.concatenate([before.cells, group.cells]),
            )
            joined = cells.cost(both)
            few = joined <= (1 + SLACK) * (known + cost) + policy.slice_rows // 8
            if few and cells.within(both, alike):
                out[-1] = (both, joined)
                continue
        out.append((group, cost))
    return [group for group, _ in out]
