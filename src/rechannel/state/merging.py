"""Which runs to merge in a timestep: a pure plan that takes the next slice of the hash space every
time.

The theory. Let a timestep add B rows to a task that owns N rows, and let F be the fan. Level 0
holds what timesteps wrote. Sweep k walks the task's hash space once every F^(k+1) timesteps and
turns, slice by slice, all runs of level k into one run of level k + 1. F runs of B * F^k rows meet
in a slice of 1 / F^(k+1) of the space, so a sweep costs about B rows per timestep, whatever k is.
The last sweep, k = L - 1 with F^L >= N / B, also takes everything older: N / F^L <= B more rows. A
timestep therefore merges about (L + 1) * B rows, the same every time, so there are no spikes. A
key is looked up in at most about 2 * F runs per level, and a bitmap answers most of these look-ups
without a search.

Small slices cost more in files than in rows. So a slice has at least `slice_rows` rows, or
`slice_bytes` bytes, and is taken less often if that makes it larger. A slice that exceeds what a
task may hold is merged in parts, each into its own run.

State that expires with time is dropped run by run, unread, if rows that expire at different times
are in different runs. Runs of such state are merged only if that does not spread their rows over
more time: over more than the widest of them, or than 1 / APART of the time for which a row is
kept. So at most about APART times the runs of one moment exist, and a row of a window is merged
with rows of its own time, or not at all.

After a move, bins of different histories share a slice. Each history is merged separately: one old
run that a sweep has already passed must not force everything younger in the slice to be merged
with it.
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
from rechannel.state.run import Run

BASE_LEVEL = 30
"""Level of a run below which nothing older remains: only the last sweep takes it."""

SLACK = 0.25
"""Fraction of additional rows that may be read so that fewer files are written."""

APART = 1024
"""Number of runs of expiring state that may stay unmerged because their rows expire at different
times.
"""

IntArray = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """When runs are worth merging."""

    fan: int = 8
    """Number of runs of a level that meet in a merge."""
    slice_rows: int = 1 << 16
    """Smallest number of rows that are worth a file of their own."""
    slice_bytes: int = 64 << 20
    """The same in bytes: if rows are wide, slices have fewer of them."""

    def __post_init__(self) -> None:
        """Check the numbers. Raises ValueError."""
        if self.fan < 2 or self.slice_rows < 1 or self.slice_bytes < 1:
            msg = f"merging needs a fan of at least 2 and slices of at least 1 row and 1 byte, not {self}"
            raise ValueError(msg)


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """Merge the runs with these seqs in these hashes into one run of this level."""

    seqs: tuple[int, ...]
    where: Intervals
    level: int
    bottom: bool
    """Whether no older run remains below, so that tombstones and expired rows can be dropped."""


def plan_merges(
    runs: Sequence[Run],
    own: Intervals,
    timestep: int,
    policy: MergePolicy,
    lasts_us: int | None = None,
) -> tuple[Merge, ...]:
    """Return the merges of one task in one timestep.

    runs: its runs as of the previous timestep, newest first, clipped to `own`. lasts_us:
    approximate time for which rows are kept; None means for ever.
    """
    # The remaining width of a partly merged run does not show what a timestep writes: its density does.
    # A timestep that is processed in parts writes a run for each, and a hot hash may be a dense part.
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
    """Return whether two merges take the same run at the same hashes.

    Merges of two sweeps may do so if levels do not follow ages. Both outputs would contain the
    same rows, and one might bring back what the other dropped.
    """
    shared = set(one.seqs) & set(other.seqs)
    where = one.where.intersect(other.where) if shared else Intervals.nothing()
    return bool(where) and any(
        run.seq in shared and bool(run.clip.intersect(where)) for run in runs
    )


def portion(own: Intervals, index: int, count: int) -> Intervals:
    """Return part `index` of `count` parts of equal width of a set of hashes."""
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
    """Return the number of slices of a sweep: the whole period, or a power of two, which seldom
    changes.

    width: bytes of a row.
    """
    wanted = int(max(1, rows // policy.slice_rows, rows * width // policy.slice_bytes))
    return min(period, 1 << (wanted.bit_length() - 1))


def _due(timestep: int, period: int, slices: int) -> int | None:
    """Return the slice to take at a timestep, or None: `slices` of every `period` timesteps take
    one, evenly.
    """
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
    """Return the merges of one sweep in one slice: one per history that has little in common with
    the others.
    """
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
    """Cut runs, newest first, where merging would spread rows that expire together over more time."""
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
    """Cells whose runs with oldest <= seq <= newest are to be merged."""

    bottom: bool
    """Whether no older run contains any of the cells."""
    newest: int
    oldest: int
    cells: IntArray


@dataclass(frozen=True, eq=False)
class _Cells:
    """A slice, cut wherever a run begins or ends.

    Where bins of different histories meet in one task, neither levels nor ages of runs are the
    same everywhere. Within a cell they are. A merge there takes the wanted runs and all runs
    between them in age; otherwise its output would overtake those.
    """

    edges: list[int]
    """Edges of cells, ascending; cell i is [edges[i], edges[i + 1])."""
    runs: list[Run]
    """Newest first."""
    held: npt.NDArray[np.bool_]
    """Whether a run contains a cell. Shape (runs, cells)."""

    @classmethod
    def of(cls, met: Sequence[tuple[Run, Intervals]]) -> _Cells:
        """Build from runs and where they count."""
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
        """Seqs of the runs."""
        return np.array([run.seq for run in self.runs], dtype=np.int64)

    @cached_property
    def rows(self) -> npt.NDArray[np.float64]:
        """Number of rows of a run in a cell. Shape (runs, cells)."""
        density = np.array([run.rows / run.span if run.span else 0.0 for run in self.runs])
        widths = np.array([float(hi - lo) for lo, hi in pairwise(self.edges)])
        return np.asarray(self.held * density[:, None] * widths)

    def groups(self, wanted: npt.NDArray[np.bool_]) -> list[_Group]:
        """Return the cells in which at least two wanted runs meet, grouped by history, newest
        first.
        """
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
        """Return how many rows merging a group reads."""
        return float(self.rows[np.ix_(self._between(group), group.cells)].sum())

    def within(self, group: _Group, alike: slice) -> bool:
        """Return whether the cells of a group contain only runs of the given ones."""
        met = self._between(group)
        met[alike] = False
        return not bool(self.held[np.ix_(met, group.cells)].any())

    def merge(self, group: _Group, level: int) -> Merge:
        """Return the merge of a group."""
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
    """Join a group with the previous one if that reads few additional rows: each group writes a
    file.

    alike: the runs that the groups are made of. A timestep that is processed in parts writes
    several runs of one seq, and each may belong with other runs: a joined group must not include
    any of those, which have merges of their own.
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
