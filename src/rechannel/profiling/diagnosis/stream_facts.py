"""What a stream did in each batch: its time, the tasks' time, and the longest tasks of its stages."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rechannel.profiling.diagnosis.capacity import Capacity
from rechannel.profiling.diagnosis.driver_time import DriverTime
from rechannel.profiling.diagnosis.stream_pace import pace, stream_of
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Application, Batch, Stage
from rechannel.profiling.spark.busy import Floats
from rechannel.profiling.spark.driver import BATCH, COLLECTING, COMMIT, PROGRAM, SCHEDULING
from rechannel.profiling.spark.rows import leaving
from rechannel.profiling.spark.stage_tasks import stages_of
from rechannel.profiling.storage.blocks import Rows

Key = tuple[str, int]
"""Name of a stream, and number of a batch."""
HOT = 2.0
"""How many times as long, and as large, as the median the longest task of a skewed stage is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Excess:
    """By how much a stage of a batch is longer than if its tasks had equally many rows."""

    ms: float
    times: float
    """How many times as many rows as the median the largest task read."""
    stage: Stage


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamFacts:
    """The batches of a stream that had rows. Figures are ms, shape (batches,)."""

    query: str
    batches: Sequence[Batch]
    lasted: Floats
    on_core: Floats
    """In which at least one task ran."""
    core: Floats
    """Summed over tasks."""
    sink: Floats
    """Of the driver after the last task of a job, without writing the offsets: that is the sink."""
    excess: Sequence[Excess | None]
    """The most skewed stage of every batch."""

    @property
    def back_to_back(self) -> float:
        """Share of the stream's time in which a batch runs."""
        return pace(self.batches)

    def settled(self) -> StreamFacts:
        """Return the same without the first batch, in which code is compiled, if there are three."""
        if len(self.batches) < 3:
            return self
        return StreamFacts(
            query=self.query,
            batches=self.batches[1:],
            lasted=self.lasted[1:],
            on_core=self.on_core[1:],
            core=self.core[1:],
            sink=self.sink[1:],
            excess=self.excess[1:],
        )

    def phase(self, *names: str) -> Floats:
        """Return the ms of phases, by batch."""
        return np.array(
            [sum(batch.phases.get(name, 0) for name in names) for batch in self.batches],
            dtype=np.float64,
        )


def stream_facts(time: DriverTime) -> list[StreamFacts]:
    """Return the facts of every stream with at least two batches that had rows."""
    app = time.app
    of: dict[str, list[Batch]] = {}
    counted = any(batch.rows for batch in app.batches)
    for batch in sorted(app.batches, key=lambda each: each.start):
        if (batch.rows > 0 or not counted) and batch.end > batch.start:
            of.setdefault(batch.query, []).append(batch)
    kept = {query: mine for query, mine in of.items() if len(mine) >= 2}
    if not kept:
        return []
    batch_of = batch_of_jobs(app)
    core, excess = _by_batch(time, batch_of)
    sink = _sinks(time, batch_of)
    found = []
    for query, mine in kept.items():
        starts = np.array([batch.start for batch in mine], dtype=np.float64)
        ends = np.array([batch.end for batch in mine], dtype=np.float64)
        keys = [(query, batch.number) for batch in mine]
        found.append(
            StreamFacts(
                query=query,
                batches=mine,
                lasted=ends - starts,
                on_core=time.on_core.within(starts, ends),
                core=np.array([core.get(key, 0.0) for key in keys]),
                sink=np.array(
                    [
                        max(0.0, sink.get(key, 0.0) - batch.phases.get("commitOffsets", 0))
                        for key, batch in zip(keys, mine, strict=True)
                    ]
                ),
                excess=[excess.get(key) for key in keys],
            )
        )
    return found


def batch_of_jobs(app: Application) -> dict[int, Key]:
    """Return the batches that jobs belong to: as their properties say, or else by their time."""
    found = {}
    batches = sorted(app.batches, key=lambda each: each.start)
    starts = [batch.start for batch in batches]
    for job in app.jobs.values():
        if job.batch is not None:
            found[job.number] = stream_of(app, job), job.batch
        elif (place := bisect_right(starts, job.start) - 1) >= 0:
            batch = batches[place]
            if job.end <= batch.end:
                found[job.number] = batch.query, batch.number
    return found


def _sinks(time: DriverTime, batch_of: Mapping[int, Key]) -> Mapping[Key, float]:
    """Return the ms of the driver after the last job of every batch; of the program between the jobs
    of one, and of the results that these bring to the driver (a function of `foreachBatch`).
    """
    found: dict[Key, float] = {}
    for span, alone, fetching in time.measured():
        if span.batch is None or span.job is None or batch_of.get(span.job) != span.batch:
            continue
        last = span.next_job is None or batch_of.get(span.next_job) != span.batch
        if span.kind == PROGRAM or (last and span.kind in {COMMIT, COLLECTING, BATCH}):
            found[span.batch] = found.get(span.batch, 0.0) + alone
        elif span.kind == SCHEDULING and not time.app.jobs[span.job].broadcast:
            found[span.batch] = found.get(span.batch, 0.0) + fetching
    return found


def _by_batch(
    time: DriverTime, batch_of: Mapping[int, Key]
) -> tuple[dict[Key, float], dict[Key, Excess]]:
    """Return the core ms of the tasks of batches, and their most skewed stages."""
    app = time.app
    of_stage = {stage: key for job, key in batch_of.items() for stage in app.jobs[job].stages}
    core: dict[Key, float] = {}
    excess: dict[Key, Excess] = {}
    for (number, attempt), rows in stages_of(app):
        key = of_stage.get(number)
        if key is None:
            continue
        lasted = (leaving(rows) - rows["launch"]) / MS
        core[key] = core.get(key, 0.0) + float(lasted.sum())
        ms, times = _skewed(rows, time.capacity)
        known = excess.get(key)
        if ms > 0 and (known is None or ms > known.ms):
            stage = app.stages.get((number, attempt), Stage(number=number, attempt=attempt))
            excess[key] = Excess(ms=ms, times=times, stage=stage)
    return core, excess


def _skewed(rows: Rows, capacity: Capacity) -> tuple[float, float]:
    """Return by how many ms a stage is longer than with equally large tasks, and how many times as
    large as the median the largest task is; 0 if it is not skewed.
    """
    good = rows[rows["good"]]
    if len(good) < 2:
        return 0.0, 0.0
    lasted = (leaving(good) - good["launch"]) / MS
    size = (good["read_rows"] + good["in_rows"]).astype(np.float64)
    if not size.any():
        size = good["read_bytes"].astype(np.float64)
    if not size.any():
        return 0.0, 0.0
    place = int(np.argmax(lasted))
    others = np.delete(np.arange(len(good)), place)
    usual, typical = float(np.median(lasted[others])), float(np.median(size[others]))
    if lasted[place] < HOT * usual or size[place] < HOT * typical:
        return 0.0, 0.0
    cores = capacity.mean(int(good["launch"].min()) / MS, int(leaving(good).max()) / MS)
    even = max(float(lasted.sum()) / min(len(good), cores), usual)
    return max(0.0, float(lasted[place]) - even), float(size[place]) / max(1.0, typical)
