"""Which runs to merge in a timestep: a pure plan that takes the next slice of the hash space every time.

The theory. Let a timestep add B rows to a task that owns N rows, and let F be the fan. Level 0 holds what timesteps
wrote. Sweep k walks the task's hash space once every F^(k+1) timesteps and turns, slice by slice, all runs of level k
into one run of level k + 1; F runs of B * F^k rows meet in a slice of 1 / F^(k+1) of the space, so a sweep
costs about B
rows per timestep, whatever k is. The last sweep, k = L - 1 with F^L >= N / B, also takes everything older: N / F^L <= B
rows more. A timestep therefore merges about (L + 1) * B rows, the same every time: there is nothing to
spike. A key is looked up
in at most about 2 * F runs per level, most of which a bitmap answers without a search.

Small slices cost more in files than in rows, so a slice has at least `slice_rows` rows and is then taken less often.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rechannel.model.hashspace import Intervals
from rechannel.state.manifest import Run

BASE_LEVEL = 30
"""Level of a run below which nothing older is left: only the last sweep takes it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergePolicy:
    """fan: runs of a level that meet in a merge. slice_rows: fewest rows worth a file of their own."""

    fan: int = 8
    slice_rows: int = 1 << 16

    def __post_init__(self) -> None:
        """Refuse numbers that cannot work."""
        if self.fan < 2 or self.slice_rows < 1:
            msg = f"merging needs a fan of at least 2 and slices of at least 1 row, not {self}"
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

    def to_json(self) -> list[Any]:
        """Plain JSON values."""
        spans = [[str(lo), str(hi)] for lo, hi in self.where]
        return [list(self.seqs), spans, self.level, self.bottom]

    @classmethod
    def from_json(cls, data: list[Any]) -> Merge:
        """Invert `to_json`."""
        seqs, spans, level, bottom = data
        where = Intervals(tuple((int(lo), int(hi)) for lo, hi in spans))
        return cls(seqs=tuple(seqs), where=where, level=level, bottom=bottom)


def plan_merges(
    runs: Sequence[Run], own: Intervals, timestep: int, policy: MergePolicy
) -> tuple[Merge, ...]:
    """Merges of one task in one timestep. `runs`: its runs as of the timestep before, newest first, clipped
    to `own`."""
    # What is left of a run that was partly merged says nothing of what a timestep writes: its density does.
    fresh = [run.rows / run.span for run in runs if run.level == 0 and run.span]
    if not fresh:
        return ()
    batch = max(1.0, own.width * sum(fresh) / len(fresh))
    total = sum(run.rows_in(own) for run in runs)
    sweeps = max(1, math.ceil(math.log(max(1.0, total / batch), policy.fan)))
    merges: list[Merge] = []
    for sweep in range(sweeps):
        last = sweep == sweeps - 1
        period = policy.fan ** (sweep + 1)
        slices = _slices(total if last else batch * period, period, policy)
        index = _due(timestep + sweep, period, slices)
        if index is not None:
            merge = _merge(runs, portion(own, index, slices), sweep, last=last)
            merges.extend([merge] if merge else [])
    return tuple(merges)


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


def _slices(rows: float, period: int, policy: MergePolicy) -> int:
    """Slices of a sweep: the whole period, or a power of two, which seldom changes as batches grow and shrink."""
    wanted = int(max(1, rows // policy.slice_rows))
    return min(period, 1 << (wanted.bit_length() - 1))


def _due(timestep: int, period: int, slices: int) -> int | None:
    """Slice number to take at a timestep, or None: `slices` of every `period` timesteps are due, evenly."""
    phase = timestep % period
    index = phase * slices // period
    return index if phase == 0 or index != (phase - 1) * slices // period else None


def _merge(runs: Sequence[Run], where: Intervals, sweep: int, *, last: bool) -> Merge | None:
    met = [(run, run.clip.intersect(where)) for run in runs]
    met = [(run, clip) for run, clip in met if clip]
    taken = {run.seq for run, _ in met if run.level == sweep or (last and run.level >= sweep)}
    if len(taken) < 2:
        return None
    # Where bins of different histories meet in one task, levels do not tell which run is newer. All that lies
    # between two runs in age goes with them, or what is merged would overtake it.
    met_seqs = {run.seq for run, _ in met}
    seqs = sorted((s for s in met_seqs if min(taken) <= s <= max(taken)), reverse=True)
    bottom = min(taken) == min(met_seqs)
    return Merge(
        seqs=tuple(seqs), where=where, level=BASE_LEVEL if bottom else sweep + 1, bottom=bottom
    )
