"""Tasks of Spark as activities and messages. The log leaves these things open, and they are
assumed:

- The driver is a worker; so is every core of an executor. `cores.py` decides on which core a task
  ran, `driver.py` and `driver_pieces.py` what the driver did.
- A task is sent by the driver at its launch (a control message). On its core it deserialises,
  waits for shuffle blocks, processes, collects garbage, writes its shuffle output and serialises
  its result. Then a control message returns to the driver, which has it at the task's finish. If
  the driver fetched the result, it is collected with this message.
- The part of a task's time that the log does not explain is scheduler delay; a third of it lies
  before the task, as in SnailTrail's adapter, the rest after it.
- A core without a task waits.
- A task fetches shuffle blocks from the cores that ran tasks of its parent stages: it asks all of
  them when it begins to fetch (a control message of a nanosecond), and a data message of each
  arrives when fetching ends. Meanwhile it waits. If all blocks come from its own core, fetch wait
  is an activity. Executors that are gone are not asked. A parent that was skipped stands for the
  stage of the same RDD that ran, as do all stages of an adaptive query.
- A task that was killed does not answer: neither a faster attempt nor a finished job waits for it.
- An attempt that failed is `failed work`; one that could not fetch its blocks is a `fetch failure`,
  and one that was killed because another attempt of the task was faster is a `speculative copy`,
  whichever of the two was the copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import (
    CONTROL,
    DATA,
    MS,
    RESERVED,
    WAITING,
    Activities,
    Indices,
    Messages,
    Names,
    Times,
    Trace,
)
from rechannel.profiling.model.words import counted
from rechannel.profiling.spark.application import Stage
from rechannel.profiling.spark.cores import PlacedTasks, place_tasks
from rechannel.profiling.spark.driver import COLLECTING, DRIVER_KINDS, NEVER, driver_timeline
from rechannel.profiling.spark.driver_pieces import DRIVER, DriverPieces
from rechannel.profiling.spark.log import SparkLog
from rechannel.profiling.spark.rows import FAILURES, FETCHING, TASK_STEPS, fetching, leaving
from rechannel.profiling.storage.blocks import Rows

FAILED, REFUSED, BEATEN = "failed work", "fetch failure", "speculative copy"
SPARK_KINDS = (*RESERVED, *TASK_STEPS, FAILED, REFUSED, BEATEN, *DRIVER_KINDS)
MOST_FETCHES = 1 << 16
"""Messages of a part that ask for shuffle blocks; if there were more, each task asks fewer cores."""
_KIND = {name: number for number, name in enumerate(SPARK_KINDS)}
_FIRST = len(RESERVED)
_FETCH_FAILED = FAILURES.index("fetch failed")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkTrace:
    """What an application did: a `TraceSource` that makes its parts from tasks."""

    names: Names
    span: tuple[int, int]
    """Nanoseconds."""
    first: Indices
    """First worker of every executor."""
    placed: PlacedTasks = field(repr=False)
    operator: Indices = field(repr=False)
    """Operator of every stage in `placed`."""
    parents: dict[int, Indices] = field(repr=False)
    """Workers that wrote what a stage reads, by stage."""
    gone: Times = field(repr=False)
    """When the executor of every worker was removed, ns."""
    weights: Sequence[int] = field(repr=False)
    """Number of activities and messages of every block of tasks."""

    @property
    def crowded(self) -> int:
        """Number of tasks for which an executor had no core left."""
        return self.placed.cores.crowded

    @property
    def about(self) -> str:
        """The size of the trace, in words."""
        tasks = counted(len(self.placed.tasks), "task")
        return f"{counted(len(self.names.workers), 'worker')}, {tasks}"

    def before(self, times: Times) -> npt.NDArray[np.float64]:
        """Estimate how many activities and messages lie before each of some times."""
        return self.placed.tasks.before(times, self.weights) + self.placed.driver.before(times)

    def moments(self) -> Iterator[Times]:
        """Yield the times at which tasks, and what the driver did, begin or end, ns."""
        for blocks, names in (
            (self.placed.tasks, ("launch", "finish")),
            (self.placed.driver, ("start", "end")),
        ):
            for rows in blocks.each():
                yield np.concatenate([rows[name] for name in names])

    def cut(self, cuts: Times) -> SparkParts:
        """Cut the trace into parts from each time to the next."""
        return SparkParts(whole=self, cuts=cuts)

    def part(self, start: int, end: int) -> Trace:
        """Return everything that determines what happened between two times."""
        rows = self.placed.tasks.meeting(start, end)
        worker = (self.first[rows["executor"]] + rows["core"]).astype(np.int32)
        operator = self.operator[np.searchsorted(self.placed.stages, rows["stage"])]
        blocks = self._blocks(rows, worker)
        driven = self.placed.driver.meeting(start, end)
        names = ("worker", "kind", "operator", "start", "end")
        return Trace(
            names=self.names,
            # Of activities of equal length, the last one counts.
            activities=Activities.joined(
                self._idle(np.union1d(worker, blocks.source)),
                _worked(rows, worker, operator, blocks),
                Activities.lasting(*(driven[name] for name in names)),
            ),
            messages=_sent(rows, worker, operator, blocks),
        )

    def whole(self) -> Trace:
        """Return all of it, in memory."""
        return self.part(*self.span)

    def _idle(self, core: Indices) -> Activities:
        """Return waiting of cores for the whole span: tasks are activities within it. A core that
        does nothing but wait is on no path, so it is left out.
        """
        core = core[core != DRIVER]
        nothing = np.full(len(core), -1, dtype=np.int32)
        start, end = (np.full(len(core), time, dtype=np.int64) for time in self.span)
        return Activities.lasting(core, np.full_like(core, _KIND[WAITING]), nothing, start, end)

    def _blocks(self, rows: Rows, worker: Indices) -> Fetches:
        """Tasks that waited for blocks, and the other cores that ran tasks of their parents."""
        begun, _ = fetching(rows)
        waited = np.flatnonzero(rows["good"] & (rows["steps"][:, FETCHING] > 1))
        pairs = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))]
        most = max(1, MOST_FETCHES // max(1, len(waited)))
        waited = waited[np.argsort(rows["stage"][waited], kind="stable")]
        stages, begins = np.unique(rows["stage"][waited], return_index=True)
        for stage, mine in zip(stages.tolist(), np.split(waited, begins[1:]), strict=False):
            sources = self.parents.get(stage)
            if sources is None:
                continue
            step = -(-len(sources) // most)
            chosen = np.arange(0, len(sources), step) + rows["index"][mine][:, None] % step
            task, source = np.repeat(mine, chosen.shape[1]), chosen.ravel()
            task, source = task[source < len(sources)], sources[source[source < len(sources)]]
            asked = (source != worker[task]) & (begun[task] < self.gone[source])
            pairs.append((task[asked], source[asked]))
        task, source = (np.concatenate(column) for column in zip(*pairs, strict=True))
        return Fetches(task=task, source=source)


_EACH = len(TASK_STEPS) + 4
"""Activities and messages per task, without those of shuffles."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SparkParts:
    """An application that was cut."""

    whole: SparkTrace
    cuts: Times

    def __len__(self) -> int:
        return len(self.cuts) - 1

    def __getitem__(self, number: int) -> Trace:
        return self.whole.part(int(self.cuts[number]), int(self.cuts[number + 1]))


@dataclass(frozen=True, slots=True, kw_only=True)
class Fetches:
    """Which tasks fetched from which cores. Shapes (pairs,)."""

    task: Times
    source: Indices


def spark_trace(log: SparkLog) -> SparkTrace:
    """Return the trace of an application."""
    tasks, cores, removed = log.finish(), log.cores, log.removed
    number = log.tasks.executors
    executors = sorted(number, key=lambda name: (len(name), name))
    driver = DriverPieces(
        timeline=driver_timeline(log.facts()),
        waiting=_KIND[WAITING],
        first=_KIND[DRIVER_KINDS[0]],
    )
    done = place_tasks(log.tasks, [max(1, cores.get(name, 1)) for name in number], driver)
    first, workers, gone = np.zeros(len(executors), dtype=np.int32), ["driver"], [NEVER * MS]
    for name in executors:
        first[number[name]] = len(workers)
        used = int(done.cores.used[number[name]])
        workers += [f"executor {name} core {core + 1}" for core in range(used)]
        gone += [removed.get(name, NEVER) * MS] * used
    known = [
        log.stages.get(stage, Stage(number=stage, name=f"stage {stage}"))
        for stage in done.stages.tolist()
    ]
    parents = _parents(done, log.stages, first)
    names: dict[str, int] = {}
    operator = [names.setdefault(stage.name, len(names)) for stage in known]
    return SparkTrace(
        names=Names(workers=workers, operators=list(names), kinds=SPARK_KINDS),
        span=_span(tasks.span, log),
        first=first,
        placed=done,
        operator=np.array(operator, dtype=np.int32),
        parents=parents,
        weights=[_weight(rows, parents) for rows in done.tasks.each()],
        gone=np.array(gone, dtype=np.int64),
    )


def _weight(rows: Rows, parents: Mapping[int, Indices]) -> int:
    """Estimate the number of activities and messages of tasks."""
    waited = rows["stage"][rows["good"] & (rows["steps"][:, FETCHING] > 1)]
    stages, counts = np.unique(waited, return_counts=True)
    pairs: int = sum(
        len(parents.get(stage, ())) * count
        for stage, count in zip(stages.tolist(), counts.tolist(), strict=True)
    )
    return _EACH * len(rows) + 2 * pairs


def _span(of_tasks: tuple[int, int] | None, log: SparkLog) -> tuple[int, int]:
    times = [time * MS for time in (log.start, log.end) if time] + list(of_tasks or ())
    return (min(times), max(times)) if times else (0, 0)


def _parents(done: PlacedTasks, stages: Mapping[int, Stage], first: Indices) -> dict[int, Indices]:
    """Return, by stage, the cores that wrote what it reads; nothing for a stage of which none is known."""
    wrote = done.wrote
    worker = first[wrote[:, 1]] + wrote[:, 2]
    begin = np.searchsorted(wrote[:, 0], done.stages)
    end = np.searchsorted(wrote[:, 0], done.stages, side="right")
    place = {stage: i for i, stage in enumerate(done.stages.tolist())}
    ran = {stages[stage].rdd: stage for stage in place if stage in stages}
    found = {}
    for stage in place:
        parents = stages[stage].parents if stage in stages else ()
        known = [each if each in place else _same(stages, ran, each) for each in parents]
        parts = [worker[begin[place[p]] : end[place[p]]] for p in known if p is not None]
        if any(map(len, parts)):
            found[stage] = np.unique(np.concatenate(parts)).astype(np.int32)
    return found


def _same(stages: Mapping[int, Stage], ran: Mapping[int, int], skipped: int) -> int | None:
    """Return the stage that ran in place of a skipped one."""
    rdd = stages[skipped].rdd if skipped in stages else -1
    return ran.get(rdd) if rdd >= 0 else None


def _worked(rows: Rows, worker: Indices, operator: Indices, blocks: Fetches) -> Activities:
    """Return what cores did."""
    steps = rows["steps"]
    count, each = steps.shape
    ends = rows["arrive"][:, None] + np.cumsum(steps, axis=1)
    kinds = np.tile(np.arange(_FIRST, _FIRST + each, dtype=np.int32), (count, 1))
    kinds[~rows["good"]] = _KIND[FAILED]
    kinds[rows["failed"] == _FETCH_FAILED] = _KIND[REFUSED]
    kinds[rows["beaten"]] = _KIND[BEATEN]
    kinds[blocks.task, FETCHING] = _KIND[WAITING]
    return Activities.lasting(
        np.repeat(worker, each),
        kinds.ravel(),
        np.repeat(operator, each),
        (ends - steps).ravel(),
        ends.ravel(),
    )


def _sent(rows: Rows, worker: Indices, operator: Indices, blocks: Fetches) -> Messages:
    """Return launches and results of tasks, and requests and blocks of shuffles."""
    count, asked = len(worker), len(blocks.task)
    control, data, collecting = _KIND[CONTROL], _KIND[DATA], _KIND[COLLECTING]
    driver = np.full(count, DRIVER, dtype=np.int32)
    child, served = worker[blocks.task], operator[blocks.task]
    begun, had = fetching(rows)
    asks = begun[blocks.task]
    back = np.flatnonzero(~rows["killed"])
    kinds = (
        np.full(count, control),
        np.where(rows["getting"][back], collecting, control),
        np.full(asked, control),
        np.full(asked, data),
    )
    return Messages(
        source=np.concatenate([driver, worker[back], child, blocks.source]),
        target=np.concatenate([worker, driver[back], blocks.source, child]),
        kind=np.concatenate(kinds).astype(np.int32),
        operator=np.concatenate([operator, operator[back], served, served]),
        sent=np.concatenate([rows["launch"], leaving(rows)[back], asks, asks + 1]),
        received=np.concatenate([rows["arrive"], rows["finish"][back], asks + 1, had[blocks.task]]),
    )
