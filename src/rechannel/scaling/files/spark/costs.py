"""What the tasks of the stages of a stream cost: a fixed part, and a part for each row.

Two lines are fitted to the tasks of the last batches (`scaling/model/fits.py`), and added: one to the time in which a
task's Java thread worked, which depends on rows and little else, and one to the rest, such as files of state, Python
and waiting. The first tells what a row costs even where the rest varies much more than that.

The rest is taken as fixed where it can be, because rows do not show in it, and at least half of it surely is. At the
end of the interval where most is fixed, no more is than the shortest tasks took, those of batches without rows among
them; where all tasks received about as many rows, nothing else bounds it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rechannel.scaling.files.spark.seen import StageSeen, StreamSeen
from rechannel.scaling.model.costs import TINY_MS
from rechannel.scaling.model.fits import ESTIMATE, FLAT, STEEP, Costs, task_costs
from rechannel.scaling.model.rates import Floats

LEAST_MS = 0.01
"""Of a task besides its work in Java."""
SMALL = 256
"""Tasks up to which stages are fitted together, however few some of them have."""
SURE = 0.5
"""Share of the time of a task besides Java that must be fixed at least, for all of it to be taken as fixed."""


def stage_costs(seen: StreamSeen) -> Costs:
    """Return what the tasks of each stage cost."""
    rows = seen.rows
    received = [_received(each, rows) for each in seen.stages]
    runs = [each.runs for each in seen.stages]
    worked = [np.concatenate([run.task_cpu_ms for run in mine]) for mine in runs]
    rest = [
        np.maximum(np.concatenate([run.task_ms for run in mine]) - cpu, LEAST_MS)
        for mine, cpu in zip(runs, worked, strict=True)
    ]
    cpu, besides = fitted(received, worked), _simplest(fitted(received, rest))
    both = Costs(
        fixed_ms=cpu.fixed_ms + besides.fixed_ms,
        row_ms=cpu.row_ms + besides.row_ms,
        known=besides.known,
        samples=besides.samples,
    )
    means = np.array([float(each.mean()) for each in received])
    return _at_most(both, np.array([each.least_ms for each in seen.stages]), means)


def _at_most(costs: Costs, least: Floats, means: Floats) -> Costs:
    """Return the same with no more fixed, where most is, than the shortest tasks took, or than the estimate.

    least, means: milliseconds of the shortest, and mean rows, shape (stages,).
    """
    fixed, each = costs.fixed_ms.copy(), costs.row_ms.copy()
    bound = np.maximum(least, fixed[ESTIMATE])
    over = np.where(means > 0, np.maximum(0.0, fixed[FLAT] - bound), 0.0)
    fixed[FLAT] -= over
    each[FLAT] += over / np.maximum(means, TINY_MS)
    return Costs(fixed_ms=fixed, row_ms=each, known=costs.known, samples=costs.samples)


def _simplest(rest: Costs) -> Costs:
    """Return the same, all fixed if it can be, and at least half of it surely is."""
    fixed, each = rest.fixed_ms.copy(), rest.row_ms.copy()
    simple = (each[FLAT] <= 0) & (fixed[STEEP] >= SURE * fixed[FLAT])
    fixed[ESTIMATE] = np.where(simple, fixed[FLAT], fixed[ESTIMATE])
    each[ESTIMATE] = np.where(simple, each[FLAT], each[ESTIMATE])
    return Costs(fixed_ms=fixed, row_ms=each, known=rest.known, samples=rest.samples)


def _received(seen: StageSeen, rows: Floats) -> Floats:
    """Return the rows of some tasks of a stage. rows: of the batches."""
    if any(run.rows for run in seen.runs):
        return np.concatenate([run.task_rows for run in seen.runs])
    return np.concatenate(
        [np.full(len(run.task_ms), rows[run.batch] / run.tasks) for run in seen.runs]
    )


def fitted(x: Sequence[Floats], y: Sequence[Floats]) -> Costs:
    """Return lines through points, one for each stage. Stages with about as many points are fitted together."""
    fixed, each = np.zeros((3, len(x))), np.zeros((3, len(x)))
    known, samples = np.zeros(len(x), dtype=bool), np.zeros(len(x), dtype=int)
    for alike in _alike([len(points) for points in x]):
        costs = _fitted_alike([x[n] for n in alike], [y[n] for n in alike])
        fixed[:, alike], each[:, alike] = costs.fixed_ms, costs.row_ms
        known[alike], samples[alike] = costs.known, costs.samples
    return Costs(fixed_ms=fixed, row_ms=each, known=known, samples=samples)


def _alike(sizes: Sequence[int]) -> Iterator[list[int]]:
    """Yield the places of numbers that differ by a factor of two at most, or are small."""
    group: list[int] = []
    for place in sorted(range(len(sizes)), key=lambda n: sizes[n]):
        if group and sizes[place] > 2 * max(sizes[group[0]], SMALL):
            yield group
            group = []
        group.append(place)
    if group:
        yield group


def _fitted_alike(x: Sequence[Floats], y: Sequence[Floats]) -> Costs:
    most = max(1, *(len(each) for each in x))
    there = np.arange(most)[None, :] < np.array([len(each) for each in x])[:, None]
    table = np.zeros((2, len(x), most))
    for place, (rows, ms) in enumerate(zip(x, y, strict=True)):
        table[0, place, : len(rows)], table[1, place, : len(ms)] = rows, ms
    return task_costs(table[0], table[1], there)
