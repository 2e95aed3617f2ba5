"""What a stream needs: the least cores that keep its interval, and the partitions of the shortest batch on them."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from rechannel.profiling.diagnosis.stream_pace import BUSY, pace
from rechannel.profiling.model.words import counted
from rechannel.scaling.files.request import Request
from rechannel.scaling.files.spark.advice import Origin, Predicted, QueryAdvice, StageCost
from rechannel.scaling.files.spark.batches import FARTHEST, BatchModel, StageModel
from rechannel.scaling.files.spark.cluster import Cluster
from rechannel.scaling.files.spark.seen import StreamSeen
from rechannel.scaling.model.cores import ALMOST
from rechannel.scaling.model.fits import ESTIMATE, FLAT, STEEP
from rechannel.scaling.model.optimal import SLACK

GAIN = 0.9
"""Other partitions are advised if the batch takes at most this share of what it takes without the change."""
STATE_GAIN = 0.5
"""The same of a stream with state whose partitions keep the interval: others cost it its checkpoint."""
WIDE = 0.2
"""Share of a batch from which on an interval is wide."""
MOST_POINTS = 100
"""Tasks of a stage that are shown."""
OTHERS = 6
"""Other numbers of cores that are shown, at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a stream is to keep."""

    rate: float
    """Rows per second."""
    rate_from: Origin
    interval_ms: float
    interval_from: Origin
    rows: float
    """Of a batch."""
    utilisation: float
    most_cores: int

    @property
    def room_ms(self) -> float:
        """That a batch may take."""
        return self.utilisation * self.interval_ms


def wanted(seen: StreamSeen, model: BatchModel, asked: Request) -> Wanted:
    """Return what a stream with batches that count is to keep.

    Without a trigger interval, that is the time from one batch to the next. Where each began as soon as the one before
    was done, and the rate is what they processed, they may take all of it: with what it had, the stream just keeps up.
    """
    rate = asked.rate if asked.rate is not None else measured_rate(seen)
    interval, utilisation = asked.interval_ms, asked.utilisation
    interval_from: Origin = "given"
    if interval is None and seen.batches[-1].interval:
        interval, interval_from = float(seen.batches[-1].interval), "measured"
    lasted = float(np.median(seen.lasted_ms))
    rows = rate * (interval or lasted) / 1e3
    if interval is None:
        interval, interval_from = lasted, "assumed"
        if pace(seen.batches) < BUSY:
            interval = float(np.median(np.diff([each.start for each in seen.batches])))
            rows = rate * interval / 1e3
        elif asked.rate is None:
            interval = max(lasted, model.batch_ms(rows, model.cores, model.partitions)[0])
            utilisation = 1.0
    return Wanted(
        rate=rate,
        rate_from="measured" if asked.rate is None else "given",
        interval_ms=interval,
        interval_from=interval_from,
        rows=rows,
        utilisation=utilisation,
        most_cores=asked.most_cores,
    )


def measured_rate(seen: StreamSeen) -> float:
    """Return the rows per second that batches brought: those of a batch came since the one before began."""
    starts = [each.start for each in seen.batches]
    apart = (starts[-1] - starts[0]) / 1e3
    if apart > 0:
        return float(seen.rows[1:].sum()) / apart
    only = seen.batches[-1]
    return only.input_rate or only.rows / max(1e-3, (only.end - only.start) / 1e3)


def query_advice(
    seen: StreamSeen, model: BatchModel, asked: Request, cluster: Cluster
) -> QueryAdvice:
    """Return what a stream needs. It must have batches that count."""
    want, state = wanted(seen, model, asked), _stateful(seen)
    search = Search(
        model=model,
        want=want,
        cluster=cluster,
        executor_cores=asked.executor_cores,
        stateful=state,
    )
    cores = search.least_cores()
    advised = search.best(cores)
    return QueryAdvice(
        name=seen.query,
        rate=want.rate,
        rate_from=want.rate_from,
        interval_ms=want.interval_ms,
        interval_from=want.interval_from,
        utilisation=want.utilisation,
        batches=len(seen.batches),
        left_out=seen.left_out,
        measured_ms=float(np.median(seen.lasted_ms)),
        measured_rows=float(np.median(seen.rows)),
        driver_ms=model.driver.value,
        phases_ms=_phases(seen),
        stages=tuple(_cost(each, want.rows) for each in model.stages),
        now=search.predicted(model.cores, model.partitions),
        advised=advised,
        hangs_on=search.hangs_on(advised),
        others=tuple(search.best(each) for each in search.around(cores)),
        state_partitions=model.partitions if state else None,
        notes=tuple(_notes(seen, want, search, advised)),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Search:
    """Numbers of cores and partitions, and what they would do."""

    model: BatchModel
    want: Wanted
    cluster: Cluster
    executor_cores: int | None
    stateful: bool

    def ms(self, cores: int, partitions: int) -> float:
        """Return how long a batch takes."""
        return self.model.batch_ms(self.want.rows, cores, partitions)[0]

    def partitions(self, cores: int) -> int:
        """Return the partitions of a batch that is hardly longer than the shortest: what there are, or the cores."""
        now = self.model.partitions
        if all(each.kind != "shuffle" for each in self.model.stages):
            return now
        best, room = cores, self.want.room_ms * (1 + SLACK)
        for other in (2 * cores, 1):
            if self.ms(cores, other) < GAIN * self.ms(cores, best):
                best = other
        took, shortest = self.ms(cores, now), self.ms(cores, best)
        if took > room >= shortest:
            return best
        keeps = self.stateful and took <= room
        return best if shortest < (STATE_GAIN if keeps else GAIN) * took else now

    def least_cores(self) -> int:
        """Return the least cores that keep the interval; if none do, the least with which the batch is hardly longer
        than with any number.
        """
        most = self.want.most_cores

        def took(cores: int) -> float:
            return self.ms(cores, self.partitions(cores))

        room = self.want.room_ms * (1 + SLACK)
        shortest = took(most)
        room = room if shortest <= room else shortest * ALMOST
        return 1 + bisect_left(range(1, most), x=True, key=lambda cores: took(cores) <= room)

    def best(self, cores: int) -> Predicted:
        """Return what a number of cores does."""
        return self.predicted(cores, self.partitions(cores))

    def predicted(self, cores: int, partitions: int) -> Predicted:
        """Return what a number of cores does with some partitions."""
        batch, low, high = self.model.batch_ms(self.want.rows, cores, partitions)
        parts = {
            "driver": self.model.driver.value,
            **self.model.stage_ms(self.want.rows, cores, partitions, ESTIMATE),
        }
        return Predicted(
            cores=cores,
            executors=self.cluster.executors_for(cores, self.executor_cores),
            partitions=partitions,
            batch_ms=batch,
            low_ms=low,
            high_ms=high,
            used=batch / self.want.interval_ms,
            keeps=batch <= self.want.room_ms * (1 + SLACK),
            binds=max(parts, key=lambda name: parts[name]),
        )

    def hangs_on(self, told: Predicted) -> str:
        """Return the stage that leaves most of a wide interval open."""
        if told.high_ms - told.low_ms <= WIDE * told.batch_ms:
            return ""
        flat, steep = (
            self.model.stage_ms(self.want.rows, told.cores, told.partitions, supposed)
            for supposed in (FLAT, STEEP)
        )
        apart = {
            name: abs(flat.get(name, 0.0) - steep.get(name, 0.0)) for name in {**flat, **steep}
        }
        most = max(apart, key=lambda name: apart[name], default="")
        return most if apart.get(most, 0.0) > WIDE / 2 * told.batch_ms else ""

    def around(self, cores: int) -> list[int]:
        """Return other numbers of cores to show: powers of 2, up to twice as many as are advised or there were."""
        top = 2 * max(cores, self.model.cores)
        powers = [2**each for each in range(math.ceil(math.log2(top)) + 1)]
        shown = {min(each, self.want.most_cores) for each in powers} - {cores}
        return sorted(sorted(shown)[-OTHERS:])


def _stateful(seen: StreamSeen) -> bool:
    kept = any(each.state_rows or each.state_commit_ms for each in seen.batches)
    return kept or any("StateStore" in node for each in seen.stages for node in each.place.nodes)


def _phases(seen: StreamSeen) -> dict[str, float]:
    names = dict.fromkeys(name for each in seen.batches for name in each.phases)
    return {
        name: float(np.median([each.phases.get(name, 0) for each in seen.batches]))
        for name in names
    }


def _cost(stage: StageModel, rows: float) -> StageCost:
    runs = stage.seen.runs
    fixed, each = stage.costs.fixed_ms[:, stage.place], stage.costs.row_ms[:, stage.place]
    ran = sum(run.tasks_ms for run in runs)
    return StageCost(
        name=stage.seen.name,
        kind=stage.kind,
        tasks=stage.tasks,
        rows=stage.rows(rows),
        fixed_ms=float(fixed[ESTIMATE]),
        fixed_low_ms=float(min(fixed[STEEP], fixed[ESTIMATE])),
        fixed_high_ms=float(max(fixed[FLAT], fixed[ESTIMATE])),
        row_ms=float(each[ESTIMATE]),
        heaviest=1 + stage.above * stage.tasks,
        samples=int(stage.costs.samples[stage.place]),
        tasks_ms=float(np.median([run.tasks_ms for run in runs])),
        busy=min(1.0, sum(run.cpu_ms for run in runs) / ran) if ran else 0.0,
        points=_points(stage),
    )


def _points(stage: StageModel) -> tuple[tuple[float, float], ...]:
    """Return some tasks, the same distance apart."""
    rows = np.concatenate([run.task_rows for run in stage.seen.runs])
    ms = np.concatenate([run.task_ms for run in stage.seen.runs])
    some = slice(None, None, -(-len(rows) // MOST_POINTS))
    return tuple(zip(rows[some].tolist(), ms[some].tolist(), strict=True))


def _notes(seen: StreamSeen, want: Wanted, search: Search, advised: Predicted) -> Iterator[str]:
    if want.interval_from == "assumed":
        yield from _assumed(seen, want)
    if not advised.keeps:
        yield _why_not(want, search, advised)
    if search.model.beyond:
        yield (
            f"stages took more than {FARTHEST:g} times as long as their tasks account for, or less than a quarter of"
            " it: what is predicted of other cores is rough"
        )
    if seen.empty:
        yield f"{counted(seen.empty, 'batch', 'batches')} without rows not counted"
    backlogs = [each.source_backlog for each in seen.batches if each.source_backlog is not None]
    if len(backlogs) > 1 and backlogs[-1] > 2 * backlogs[0] and want.rate_from == "measured":
        yield (
            f"the backlog of the source grew from {backlogs[0]:,} to {backlogs[-1]:,} offsets: more arrives than was"
            " read; give the rate"
        )


def _assumed(seen: StreamSeen, want: Wanted) -> Iterator[str]:
    every = f"{want.interval_ms / 1e3:,.1f} s"
    if pace(seen.batches) < BUSY:
        yield (
            f"the log shows no trigger interval: batches began when rows came, every {every} in the median, and the"
            " advice keeps that; give the interval of the trigger"
        )
        return
    yield (
        "the log shows no trigger interval, because batches began one right after the other: the advice keeps one every"
        f" {every}; give the interval of the trigger"
    )
    if want.rate_from == "measured":
        yield "the rate is what was processed; if more arrives than that, give the rate"


def _why_not(want: Wanted, search: Search, advised: Predicted) -> str:
    binds = next((e for e in search.model.stages if e.seen.name == advised.binds), None)
    interval, room = f"{want.interval_ms / 1e3:,.1f} s", f"{want.utilisation:.0%}"
    least = (
        f"no number of cores keeps the interval of {interval} at {room}: the batch takes at least"
    )
    least += f" {advised.batch_ms / 1e3:,.1f} s"
    if binds is None:
        return f"{least}, most of it in the driver; a longer interval is needed"
    if binds.kind == "source":
        tasks = counted(binds.tasks, "task")
        return (
            f"{least}, because {binds.seen.name} has {tasks}: read the source with more partitions"
        )
    if binds.kind == "own":
        return f"{least}, because {binds.seen.name} has {counted(binds.tasks, 'task')} in any case"
    return f"{least}, because of {binds.seen.name}: its tasks have a fixed cost, or its heaviest task too many rows"
