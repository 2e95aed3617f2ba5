"""How long a batch of a stream takes with other cores, shuffle partitions or rows.

A batch is what the driver does while no stage runs (planning, offsets, commits), D, and its stages. A task over n rows
takes  f + b n  milliseconds (`costs.py`). A stage receives  a + s n  rows of a batch of n, fitted in the same way:
partial aggregates hardly grow with the batch. p tasks on C cores take

    S = max(f + b n_heaviest, ceil(p / C) (f + b n / p))

The heaviest task has the rows that it had above the mean, also with another p. Stages that wait for the same ones run
side by side: they take what the longest of them takes, or all their tasks on C cores, if that is more. Then

    batch = D + c (sum of S)

where c is how many times as long as S the stages took with the cores and partitions that there were: what the model
leaves out, such as tasks that wait for others of the application, is supposed to go on.

A stage that reads a source keeps the tasks that it had, and so does one whose tasks the program has fixed: one task for
an aggregate without keys, or `repartition(10)`. All others have as many as there are shuffle partitions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from rechannel.scaling.files.spark.advice import StageKind
from rechannel.scaling.files.spark.costs import fitted, stage_costs
from rechannel.scaling.files.spark.seen import Place, StageRun, StageSeen, StreamSeen
from rechannel.scaling.model.costs import ERRORS, NORMAL
from rechannel.scaling.model.fits import ESTIMATE, Costs
from rechannel.scaling.model.rates import Floats

SUPPOSITIONS = 3
"""The estimate, and the ends of the intervals of what tasks cost: `fits.ESTIMATE`, `FLAT`, `STEEP`."""
MEDIAN_ERROR = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, of normal values."""
USUAL_PARTITIONS = 200
"""Of a shuffle, unless something else is set."""
FARTHEST = 4.0
"""How many times as long as computed the stages are supposed to take, at most; and the inverse at least."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Middle:
    """A median, and its standard error."""

    value: float
    error: float

    @classmethod
    def of(cls, values: Floats) -> Middle:
        """Return the median of at least one value."""
        middle = float(np.median(values))
        spread = NORMAL * float(np.median(np.abs(values - middle)))
        return cls(value=middle, error=MEDIAN_ERROR * spread / math.sqrt(len(values)))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageModel:
    """What a stage costs."""

    seen: StageSeen
    kind: StageKind
    tasks: int
    """That it had."""
    rows_fixed: float
    rows_each: float
    """Rows that it receives: a fixed number, and for each row of the batch."""
    share: float
    """Of the batches, in which it ran."""
    above: float
    """Rows of the heaviest task above the mean, over all rows of the stage."""
    costs: Costs
    place: int
    """In `costs`."""

    def rows(self, rows: float) -> float:
        """Return how many rows it receives from a batch of some rows."""
        return self.rows_fixed + self.rows_each * rows

    def tasks_with(self, partitions: int) -> int:
        """Return the tasks that it has with a number of shuffle partitions."""
        return partitions if self.kind == "shuffle" else self.tasks

    def task_ms(self, rows: float, tasks: int, supposed: int) -> tuple[float, float]:
        """Return what a task takes, and the heaviest."""
        received = self.rows(rows)
        fixed = float(self.costs.fixed_ms[supposed, self.place])
        each = float(self.costs.row_ms[supposed, self.place])
        mean = received / tasks
        heaviest = min(received, mean + (self.above * received if tasks > 1 else 0.0))
        return fixed + each * mean, fixed + each * heaviest


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BatchModel:
    """What a batch costs."""

    stages: tuple[StageModel, ...]
    driver: Middle
    """Milliseconds without a stage."""
    times: tuple[Middle, ...]
    """By supposition: how many times as long as computed the stages took."""
    cores: int
    partitions: int
    """That there were."""

    @property
    def beyond(self) -> bool:
        """Whether the stages took longer, or less long, than any factor that is supposed makes of what was computed."""
        return any(not 1 / FARTHEST < each.value < FARTHEST for each in self.times)

    def stage_ms(self, rows: float, cores: int, partitions: int, supposed: int) -> dict[str, float]:
        """Return how long the stages take, one after the other; of those side by side, the longest."""
        found: dict[str, float] = {}
        times = self.times[supposed].value
        for side in _sides(self.stages):
            longest, took = _together(side, rows, cores, partitions, supposed)
            found[longest] = found.get(longest, 0.0) + times * took
        return found

    def batch_ms(self, rows: float, cores: int, partitions: int) -> tuple[float, float, float]:
        """Return how long a batch takes, and the ends of its interval."""
        each = []
        for supposed, times in enumerate(self.times):
            stages = sum(self.stage_ms(rows, cores, partitions, supposed).values())
            error = math.hypot(self.driver.error, stages * times.error / times.value)
            whole = self.driver.value + stages
            each.append((whole, whole - ERRORS * error, whole + ERRORS * error))
        return each[ESTIMATE][0], max(0.0, min(e[1] for e in each)), max(e[2] for e in each)


def _sides(stages: Sequence[StageModel]) -> list[list[StageModel]]:
    """Return the stages that run side by side, in order of time."""
    ordered = sorted(stages, key=lambda each: each.seen.place)
    return [list(side) for _, side in groupby(ordered, key=lambda each: each.seen.place[:2])]


def _together(
    side: Sequence[StageModel], rows: float, cores: int, partitions: int, supposed: int
) -> tuple[str, float]:
    """Return the longest stage of some that run side by side, and how long all of them take."""
    took, work = [], 0.0
    for each in side:
        tasks = each.tasks_with(partitions)
        mean, heaviest = each.task_ms(rows, tasks, supposed)
        took.append((each.share * max(heaviest, math.ceil(tasks / cores) * mean), each.seen.name))
        work += each.share * tasks * mean
    ms, longest = max(took)
    return longest, max(ms, work / cores)


def batch_model(seen: StreamSeen, cores: int, given: int | None = None) -> BatchModel:
    """Return what the batches of a stream cost.

    It must have batches that count. given: shuffle partitions as they are set; None if the log does not say.
    """
    partitions, follow = _partitions(seen, given)
    stages = _stage_models(seen, follow)
    spans = _spans(seen)
    lasted = seen.lasted_ms
    plain = BatchModel(
        stages=stages,
        driver=Middle.of(np.maximum(0.0, lasted - spans)),
        times=(Middle(value=1.0, error=0.0),) * SUPPOSITIONS,
        cores=cores,
        partitions=partitions,
    )
    times = tuple(_times(plain, seen.rows, spans, each) for each in range(SUPPOSITIONS))
    return BatchModel(
        stages=stages, driver=plain.driver, times=times, cores=cores, partitions=partitions
    )


def _partitions(seen: StreamSeen, given: int | None) -> tuple[int, set[Place]]:
    """Return the shuffle partitions that there were, and the stages that have as many tasks.

    Those are the stages with as many as are set. If there are none, the checkpoint, adaptive execution or the program
    has chosen others: then the most that any has after a shuffle.
    """
    counts = {each.place: _tasks(each) for each in seen.stages if not each.reads}
    for follow in (
        {place for place, tasks in counts.items() if tasks == given},
        {place for place, tasks in counts.items() if tasks > 1},
        set(counts) if given is None else set(),
    ):
        if follow:
            return max(counts[place] for place in follow), follow
    return given or USUAL_PARTITIONS, set()


def _tasks(seen: StageSeen) -> int:
    return max(1, round(_median([run.tasks for run in seen.runs])))


def _times(plain: BatchModel, rows: Floats, spans: Floats, supposed: int) -> Middle:
    """Return how many times as long as computed the stages took."""
    computed = np.array(
        [
            sum(plain.stage_ms(each, plain.cores, plain.partitions, supposed).values())
            for each in rows.tolist()
        ]
    )
    known = (computed > 0) & (spans > 0)
    if not known.any():
        return Middle(value=1.0, error=0.0)
    return Middle.of(np.clip(spans[known] / computed[known], 1 / FARTHEST, FARTHEST))


def _stage_models(seen: StreamSeen, follow: Collection[Place]) -> tuple[StageModel, ...]:
    rows = seen.rows
    received = [np.array([run.rows for run in each.runs]) for each in seen.stages]
    of_batch = [rows[[run.batch for run in each.runs]] for each in seen.stages]
    # A stage whose log does not say what it received shares the rows of its batch.
    received = [
        mine if mine.any() else whole for mine, whole in zip(received, of_batch, strict=True)
    ]
    lines = fitted(of_batch, received)
    costs = stage_costs(seen)
    return tuple(
        StageModel(
            seen=each,
            kind="source" if each.reads else "shuffle" if each.place in follow else "own",
            tasks=_tasks(each),
            rows_fixed=float(lines.fixed_ms[ESTIMATE, place]),
            rows_each=float(lines.row_ms[ESTIMATE, place]),
            share=len(each.runs) / len(seen.batches),
            above=_median([_above(run) for run in each.runs]),
            costs=costs,
            place=place,
        )
        for place, each in enumerate(seen.stages)
    )


def _above(run: StageRun) -> float:
    return max(0.0, run.heaviest / run.rows - 1 / run.tasks) if run.rows > 0 else 0.0


def _spans(seen: StreamSeen) -> Floats:
    """Return for how long at least one stage of each batch ran, in milliseconds."""
    found = np.zeros(len(seen.batches))
    until = np.zeros(len(seen.batches))
    runs = sorted((run for each in seen.stages for run in each.runs), key=lambda run: run.start)
    for run in runs:
        begun = max(run.start, until[run.batch])
        found[run.batch] += max(0.0, run.end - begun)
        until[run.batch] = max(until[run.batch], run.end)
    return found


def _median(values: Sequence[float]) -> float:
    return float(np.median(values))
