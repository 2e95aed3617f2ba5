"""What the batches of a stream did: their stages, and the tasks of these, out of the facts of an event log.

Only batches count that had rows and lie after the warm-up, in which code is compiled and caches are filled; of these,
the last ones. A stage is the same in two batches if it is in the same place: in the job with the same place in the
batch, after as many other stages of that job, with the same nodes of a plan.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

import numpy as np

from rechannel.profiling.diagnosis.stream_facts import Key, batch_of_jobs
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Application, Batch, Job, Stage
from rechannel.profiling.spark.stage_tasks import stages_of
from rechannel.profiling.storage.blocks import Rows
from rechannel.scaling.model.rates import Floats

WARM_UP_MS = 20_000
"""From the start of the first batch."""
MOST_LEFT_OUT = 0.5
"""Share of the batches that are left out as warm-up, at most."""
LEAST_BATCHES = 3
"""That count, if there are as many."""
MOST_BATCHES = 256
"""The last batches that count."""
MOST_SAMPLES = 256
"""Tasks of a stage of a batch to which a cost is fitted, the same distance apart."""


class Place(NamedTuple):
    """Where a stage is in its batch."""

    job: int
    depth: int
    """Stages of the job that it waits for, one after the other."""
    nodes: tuple[str, ...]
    """Of its plan; its name if there are none."""
    number: int
    """Of those with the same place otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageRun:
    """A stage in one batch."""

    batch: int
    """Place in `StreamSeen.batches`."""
    tasks: int
    rows: float
    """That it received; 0 if the log does not say."""
    tasks_ms: float
    """Of all its tasks together."""
    cpu_ms: float
    heaviest: float
    """Rows of its heaviest task."""
    start: float
    end: float
    """Unix ms, of its tasks."""
    task_rows: Floats
    task_ms: Floats
    task_cpu_ms: Floats
    """Of some of its tasks."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StageSeen:
    """The same stage in all batches that count."""

    place: Place
    reads: bool
    """Whether it reads a source, and not the output of other stages."""
    least_ms: float
    """The median task of the batch in which that was the shortest, of all batches, with and without rows: more is not
    fixed of a task."""
    runs: tuple[StageRun, ...]

    @property
    def name(self) -> str:
        """Return the nodes that tell it apart."""
        nodes = self.place.nodes
        return nodes[0] if len(nodes) == 1 else f"{nodes[0]} ... {nodes[-1]}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StreamSeen:
    """A stream."""

    query: str
    batches: tuple[Batch, ...]
    """Those that count, in order of time."""
    left_out: int
    """Batches with rows before these."""
    empty: int
    """Batches without rows."""
    stages: tuple[StageSeen, ...]
    """In the order in which they run."""

    @property
    def lasted_ms(self) -> Floats:
        """Return how long each batch took."""
        return np.array([each.end - each.start for each in self.batches], dtype=np.float64)

    @property
    def rows(self) -> Floats:
        """Return how many rows each batch had."""
        return np.array([each.rows for each in self.batches], dtype=np.float64)


def streams_seen(app: Application) -> list[StreamSeen]:
    """Return all streams of an application that had batches, by name."""
    of: dict[str, list[Batch]] = {}
    for batch in sorted(app.batches, key=lambda each: each.start):
        of.setdefault(batch.query, []).append(batch)
    of = {query: _latest_run(app, mine) for query, mine in of.items()}
    chosen = {query: _counting(mine) for query, mine in sorted(of.items())}
    at = {
        (query, batch.number): place
        for query, mine in chosen.items()
        for place, batch in enumerate(mine)
    }
    stages, least = _stages(
        app, at, {query: (mine[0].start, mine[-1].end) for query, mine in of.items()}
    )
    return [
        StreamSeen(
            query=query,
            batches=tuple(mine),
            left_out=sum(each.rows > 0 for each in of[query]) - len(mine),
            empty=sum(not each.rows for each in of[query]),
            stages=tuple(
                StageSeen(
                    place=place,
                    reads=found.reads,
                    least_ms=least[query, place.nodes],
                    runs=tuple(found.runs),
                )
                for place, found in sorted(stages.get(query, {}).items())
            ),
        )
        for query, mine in chosen.items()
    ]


def _latest_run(app: Application, batches: Sequence[Batch]) -> list[Batch]:
    """Return the batches of the latest run of a query that had enough of them; without any such, of the latest.

    What it did before it was started again says nothing of its rate.
    """
    query = batches[-1].query
    streams = [each for each in app.streams.values() if query in {each.name, each.query}]
    starts = sorted(
        start for each in streams for start in (each.start, *(e[0] for e in each.earlier))
    )
    runs: list[list[Batch]] = []
    before: Batch | None = None
    for batch in batches:
        begun = before is None or batch.number <= before.number
        if (
            before is None
            or begun
            or bisect_right(starts, before.end) < bisect_right(starts, batch.end)
        ):
            runs.append([])
        runs[-1].append(batch)
        before = batch
    enough = (run for run in reversed(runs) if sum(b.rows > 0 for b in run) >= LEAST_BATCHES)
    return next(enough, runs[-1])


def _counting(batches: Sequence[Batch]) -> Sequence[Batch]:
    """Return the batches of a stream that count."""
    full = [each for each in batches if each.rows > 0 and each.end > each.start]
    if not full:
        return []
    begun = full[0].start + WARM_UP_MS
    warm = sum(each.start < begun for each in full)
    most = min(int(MOST_LEFT_OUT * len(full)), max(0, len(full) - LEAST_BATCHES))
    return full[min(warm, most) :][-MOST_BATCHES:]


@dataclass(slots=True)
class _Found:
    reads: bool
    runs: list[StageRun] = field(default_factory=list)


Shortest: TypeAlias = Mapping[tuple[str, tuple[str, ...]], float]
"""The least of the medians of batches, ms, by query and nodes of the stage."""


def _stages(
    app: Application, at: Mapping[Key, int], spans: Mapping[str, tuple[int, int]]
) -> tuple[Mapping[str, Mapping[Place, _Found]], Shortest]:
    """Return the stages of batches. at: places of the batches that count. spans: when the run of each query
    began and ended, ms."""
    places = {
        stage: (key, place, reads)
        for key, jobs in _jobs(app, spans).items()
        for stage, place, reads in _placed(app, jobs)
    }
    found: dict[str, dict[Place, _Found]] = {}
    least: dict[tuple[str, tuple[str, ...]], float] = {}
    for (number, attempt), rows in stages_of(app):
        good = rows[rows["good"]]
        if number not in places or attempt or not len(good):
            continue
        key, place, reads = places[number]
        like = key[0], place.nodes
        middle = float(np.median(good["finish"] - good["launch"])) / MS
        least[like] = min(middle, least.get(like, middle))
        if key in at:
            known = found.setdefault(key[0], {}).setdefault(place, _Found(reads))
            share = app.tasks.stages[number, attempt].tasks / len(rows)
            known.runs.append(_run(good, at[key], share))
    return found, least


def _jobs(app: Application, spans: Mapping[str, tuple[int, int]]) -> Mapping[Key, Sequence[Job]]:
    """Return the jobs of each batch, in their order."""
    found: dict[Key, list[Job]] = {}
    for number, key in sorted(batch_of_jobs(app).items()):
        job, (first, last) = app.jobs[number], spans.get(key[0], (0, 0))
        if first <= job.start <= last:
            found.setdefault(key, []).append(job)
    return found


def _placed(app: Application, jobs: Sequence[Job]) -> Iterator[tuple[int, Place, bool]]:
    """Yield the stages of a batch: number, place, and whether it reads a source."""
    seen: dict[tuple[int, int, tuple[str, ...]], int] = {}
    done: set[int] = set()
    for order, job in enumerate(jobs):
        depths: dict[int, int] = {}
        for number in sorted(job.stages):
            stage = app.stages.get((number, 0), Stage(number=number))
            if not stage.submitted or number in done:
                continue
            done.add(number)
            depths[number] = 1 + max((depths.get(each, 0) for each in stage.parents), default=0)
            like = (order, depths[number], stage.nodes or (stage.name or "stage",))
            seen[like] = seen.get(like, 0) + 1
            yield number, Place(*like, seen[like]), not stage.parents


def _run(rows: Rows, batch: int, share: float) -> StageRun:
    """Return what the tasks of a stage did. share: how many tasks there were for each row."""
    lasted = (rows["finish"] - rows["launch"]) / MS
    received = (rows["in_rows"] + rows["read_rows"]).astype(np.float64)
    some = slice(None, None, -(-len(rows) // MOST_SAMPLES))
    return StageRun(
        batch=batch,
        tasks=round(share * len(rows)),
        rows=share * float(received.sum()),
        tasks_ms=share * float(lasted.sum()),
        cpu_ms=share * float(rows["cpu"].sum()) / MS,
        heaviest=float(received.max()),
        start=float(rows["launch"].min()) / MS,
        end=float(rows["finish"].max()) / MS,
        task_rows=received[some],
        task_ms=lasted[some],
        task_cpu_ms=np.minimum(rows["cpu"] / MS, lasted)[some],
    )
