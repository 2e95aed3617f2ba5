"""Tasks of Spark as activities and messages. The assumptions, which the log does not tell:

- The driver is a worker; so is every core of an executor. A task takes the core of its executor that was freed last
  before the task came there, as SnailTrail's adapter does; if all are busy, one more (`SparkTrace.crowded`).
- A task's time is: sent by the driver at its launch (a control message), then on its core deserialisation, waiting for
  blocks of a shuffle, processing, collection of garbage, writing of a shuffle, serialisation of the result; then a
  control message back, which the driver has at the finish. A result that the driver fetched is a data message.
- What the log does not explain of a task's time is scheduler delay; a third of it (`SHIPPING`) lies before the task,
  as in SnailTrail's adapter, the rest behind it.
- A core without a task waits.
- The driver waits if it goes on with the finish of a task. Otherwise it schedules while a job is there. Between jobs it
  runs the program; of Structured Streaming it plans (and commits) within a batch, and is idle between batches.
- A task fetches the blocks of a shuffle from the cores that ran tasks of its parent stages: it asks all of them when it
  begins to fetch (a control message of a nanosecond), and a data message of each arrives when the fetching is over.
  Meanwhile it waits. What comes from its own core alone is an activity, fetch wait. Executors that have gone are not
  asked. A parent that was skipped is the stage of the same RDD that ran: so every stage of an adaptive query is.
- A task that was killed does not answer: nobody waits for it, neither a faster attempt nor a job that is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numba as nb
import numpy as np
import numpy.typing as npt

from rechannel.profiling.spark_log import SparkLog, Task, stage_name
from rechannel.profiling.trace import (
    CONTROL,
    DATA,
    RESERVED,
    WAITING,
    Activities,
    Messages,
    Names,
    Places,
    Times,
    Trace,
)

SHIPPING = 0.33
MS = 1_000_000

DESERIALISE, FETCH, PROCESS, GC, WRITE, SERIALISE, FAILED = range(len(RESERVED), len(RESERVED) + 7)
SCHEDULE, PROGRAM, PLAN, IDLE = range(FAILED + 1, FAILED + 5)
KINDS = (
    *RESERVED,
    "deserialization",
    "fetch wait",
    "processing",
    "garbage collection",
    "shuffle write",
    "serialization",
    "failed work",
    "scheduling",
    "driver program",
    "batch planning",
    "idle",
)
DRIVER = 0
NEVER = 1 << 43
"""ms"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Columns of tasks, ns, by launch. Shapes (tasks,). steps: lengths of what a task does on its core, (tasks, 6)."""

    executor: Places
    operator: Places
    stage: Times
    launch: Times
    finish: Times
    arrive: Times
    steps: npt.NDArray[np.int64]
    getting: npt.NDArray[np.bool_]
    good: npt.NDArray[np.bool_]
    killed: npt.NDArray[np.bool_]

    @property
    def fetching(self) -> Times:
        """When they began to fetch blocks."""
        return self.arrive + self.steps[:, 0]

    @property
    def fetched(self) -> Times:
        """When they had them."""
        return self.fetching + self.steps[:, FETCH - DESERIALISE]

    @property
    def leave(self) -> Times:
        """When they left their core."""
        left: Times = self.arrive + self.steps.sum(axis=1)
        return left


def columns_of(tasks: Sequence[Task], executors: Sequence[str], operators: Sequence[int]) -> Tasks:
    """Columns. executors: ids. operators: number of each task's operator."""
    rows = np.array(
        [
            (
                t.launch,
                t.finish,
                t.getting,
                t.metrics.deserialise,
                t.metrics.run,
                t.metrics.gc,
                t.metrics.serialise,
                t.metrics.read.fetch_wait,
                t.stage,
            )
            for t in tasks
        ],
        dtype=np.int64,
    ).reshape(-1, 9)
    write = np.array([t.metrics.write.time for t in tasks], dtype=np.int64)
    launch, finish, getting, deserialise, run, gc, serialise, fetch = (
        rows[:, i] * MS for i in range(8)
    )
    # What came out of rounding, or of clocks, must not be more than there was.
    lasted = finish - launch
    back = np.where(getting > 0, np.clip(finish - getting, 0, lasted), 0)
    deserialise = np.minimum(deserialise, lasted - back)
    run = np.minimum(run, lasted - back - deserialise)
    serialise = np.minimum(serialise, lasted - back - deserialise - run)
    delay = lasted - back - deserialise - run - serialise
    fetch = np.minimum(fetch, run)
    write = np.minimum(write, run - fetch)
    gc = np.minimum(gc, run - fetch - write)
    place = {name: i for i, name in enumerate(executors)}
    order = np.argsort(launch, kind="stable")
    return Tasks(
        executor=np.array([place[t.executor] for t in tasks], dtype=np.int32)[order],
        operator=np.asarray(operators, dtype=np.int32)[order],
        stage=rows[order, 8],
        launch=launch[order],
        finish=finish[order],
        arrive=(launch + (delay * SHIPPING).astype(np.int64))[order],
        steps=np.column_stack([deserialise, fetch, run - fetch - gc - write, gc, write, serialise])[
            order
        ],
        getting=(getting > 0)[order],
        good=np.array([t.good for t in tasks], dtype=np.bool_)[order],
        killed=np.array([t.killed for t in tasks], dtype=np.bool_)[order],
    )


@nb.njit(cache=True)
def _cores(
    executor: Any, arrive: Any, leave: Any, known: Any
) -> Any:  # pragma: no cover - compiled
    """Which core of its executor every task takes, and whether it had to be one more than there are."""
    count, most = len(executor), 0
    for i in range(len(known)):
        most = max(most, known[i])
    room = most + 64
    free = np.full((len(known), room), -(1 << 62), dtype=np.int64)
    used = np.zeros(len(known), dtype=np.int64)
    core = np.empty(count, dtype=np.int64)
    extra = np.zeros(count, dtype=np.bool_)
    order = np.argsort(arrive, kind="mergesort")
    for at in range(count):
        i = order[at]
        e = executor[i]
        best, soonest = -1, 0
        for c in range(used[e]):
            if free[e, c] <= arrive[i] and (best < 0 or free[e, c] > free[e, best]):
                best = c
            if free[e, c] < free[e, soonest]:
                soonest = c
        if best < 0:
            if used[e] < room:
                best = used[e]
                used[e] += 1
                extra[i] = best >= known[e]
            else:
                best = soonest
                extra[i] = True
        core[i] = best
        free[e, best] = leave[i]
    return core, extra, used


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTrace:
    """A trace, and what it says too little of. crowded: tasks for which an executor had no core left."""

    trace: Trace
    crowded: int


def spark_trace(log: SparkLog) -> SparkTrace:
    """What an application did."""
    found = log.finish()
    executors = sorted({t.executor for t in found}, key=lambda name: (len(name), name))
    names: dict[str, int] = {}
    of_stage: dict[int, int] = {}
    for task in found:
        if task.stage not in of_stage:
            stage = log.stages.get(task.stage)
            name = stage_name(stage) if stage is not None else f"stage {task.stage}"
            of_stage[task.stage] = names.setdefault(name, len(names))
    tasks = columns_of(found, executors, [of_stage[t.stage] for t in found])
    known = np.array([max(1, log.cores.get(name, 1)) for name in executors], dtype=np.int64)
    core, extra, used = _cores(tasks.executor, tasks.arrive, tasks.leave, known)
    first = np.cumsum(used) - used + 1
    worker = (
        (first[tasks.executor] + core).astype(np.int32) if len(found) else core.astype(np.int32)
    )
    workers = ["driver"] + [
        f"executor {name} core {c + 1}"
        for name, n in zip(executors, used, strict=True)
        for c in range(n)
    ]
    gone = [log.removed.get(name, NEVER) * MS for name in executors]
    blocks = _blocks(tasks, worker, np.repeat(np.array([NEVER * MS, *gone]), [1, *used]), log)
    trace = Trace(
        names=Names(workers=workers, operators=list(names), kinds=KINDS),
        activities=_together(
            _worked(tasks, worker, blocks), _driven(tasks, log), _idle(len(workers), tasks, log)
        ),
        messages=_sent(tasks, worker, blocks),
    )
    return SparkTrace(trace=trace, crowded=int(extra.sum()))


def _worked(tasks: Tasks, worker: Places, blocks: Blocks) -> Activities:
    """What cores did."""
    count, steps = tasks.steps.shape
    ends = tasks.arrive[:, None] + np.cumsum(tasks.steps, axis=1)
    starts = ends - tasks.steps
    kinds = np.tile(np.arange(DESERIALISE, DESERIALISE + steps, dtype=np.int32), (count, 1))
    kinds[~tasks.good] = FAILED
    kinds[blocks.task, FETCH - DESERIALISE] = RESERVED.index(WAITING)
    return _lasting(
        np.repeat(worker, steps),
        kinds.ravel(),
        np.repeat(tasks.operator, steps),
        starts.ravel(),
        ends.ravel(),
    )


def _driven(tasks: Tasks, log: SparkLog) -> Activities:
    """What the driver did."""
    jobs = [(job.start * MS, (job.end or log.end) * MS) for job in log.jobs.values()]
    batches = [(start * MS, end * MS) for start, end in log.batches]
    borders = [log.start * MS, log.end * MS, *(time for pair in (*jobs, *batches) for time in pair)]
    known = np.array([time for time in borders if time], dtype=np.int64)
    answers = tasks.finish[~tasks.killed]
    times = np.unique(np.concatenate([tasks.launch, answers, known]))
    if len(times) < 2:
        return Activities.of([])
    between = np.where(_within(times[:-1], batches), PLAN, IDLE if batches else PROGRAM)
    kind = np.where(_within(times[:-1], jobs), SCHEDULE, between)
    kind = np.where(np.isin(times[1:], answers), RESERVED.index(WAITING), kind)
    count = len(kind)
    nobody = np.full(count, -1, dtype=np.int32)
    driver = np.full(count, DRIVER, dtype=np.int32)
    return _lasting(driver, kind.astype(np.int32), nobody, times[:-1], times[1:])


def _within(times: Times, intervals: Sequence[tuple[int, int]]) -> npt.NDArray[np.bool_]:
    """Whether times are in any of some intervals, ends exclusive."""
    starts = np.sort(np.array([start for start, _ in intervals], dtype=np.int64))
    ends = np.sort(np.array([end for _, end in intervals], dtype=np.int64))
    begun: npt.NDArray[np.bool_] = np.searchsorted(starts, times, side="right") > np.searchsorted(
        ends, times, side="right"
    )
    return begun


def _sent(tasks: Tasks, worker: Places, blocks: Blocks) -> Messages:
    """Tasks on their way out and back; what asks for blocks of shuffles, and these."""
    count, asked = len(worker), len(blocks.task)
    control, data = RESERVED.index(CONTROL), RESERVED.index(DATA)
    driver = np.full(count, DRIVER, dtype=np.int32)
    back = np.flatnonzero(~tasks.killed)
    child, served = worker[blocks.task], tasks.operator[blocks.task]
    asks = tasks.fetching[blocks.task]
    kinds = (
        np.full(count, control),
        np.where(tasks.getting[back], data, control),
        np.full(asked, control),
        np.full(asked, data),
    )
    return Messages(
        source=np.concatenate([driver, worker[back], child, blocks.source]),
        target=np.concatenate([worker, driver[back], blocks.source, child]),
        kind=np.concatenate(kinds).astype(np.int32),
        operator=np.concatenate([tasks.operator, tasks.operator[back], served, served]),
        sent=np.concatenate([tasks.launch, tasks.leave[back], asks, asks + 1]),
        received=np.concatenate(
            [tasks.arrive, tasks.finish[back], asks + 1, tasks.fetched[blocks.task]]
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Blocks:
    """Which tasks fetched from which cores. Shapes (pairs,)."""

    task: Times
    source: Places


def _blocks(tasks: Tasks, worker: Places, gone: Times, log: SparkLog) -> Blocks:
    """Tasks of a stage, and the other cores that ran tasks of its parents. gone: when workers went."""
    fetching = np.flatnonzero(tasks.good & (tasks.steps[:, FETCH - DESERIALISE] > 1))
    cores = {
        int(stage): np.unique(worker[(tasks.stage == stage) & tasks.good])
        for stage in np.unique(tasks.stage)
    }
    ran = {rdd: stage for stage in cores if (rdd := _rdd(log, stage)) >= 0}
    pairs = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32))]
    for stage in np.unique(tasks.stage[fetching]).tolist():
        info = log.stages.get(stage)
        known = info.parents if info is not None else ()
        told = [parent if parent in cores else ran.get(_rdd(log, parent)) for parent in known]
        parents = [cores[parent] for parent in told if parent is not None]
        if not parents:
            continue
        sources = np.unique(np.concatenate(parents)).astype(np.int32)
        mine = fetching[tasks.stage[fetching] == stage]
        task, source = np.repeat(mine, len(sources)), np.tile(sources, len(mine))
        asked = (source != worker[task]) & (tasks.fetching[task] < gone[source])
        pairs.append((task[asked], source[asked]))
    task, source = (np.concatenate(column) for column in zip(*pairs, strict=True))
    return Blocks(task=task, source=source)


def _rdd(log: SparkLog, stage: int) -> int:
    """The RDD that a stage computes, the same one if it is skipped; -1 if that is not known."""
    info = log.stages.get(stage)
    return info.rdds[0].number if info is not None and info.rdds else -1


def _lasting(
    worker: Places, kind: Places, operator: Places, start: Times, end: Times
) -> Activities:
    kept = np.flatnonzero(end > start)
    return Activities(
        worker=worker[kept],
        kind=kind[kept],
        operator=operator[kept],
        start=start[kept],
        end=end[kept],
    )


def _idle(workers: int, tasks: Tasks, log: SparkLog) -> Activities:
    """Every core waits all the time: tasks are activities within that."""
    if not len(tasks.launch):
        return Activities.of([])
    begin = min(int(tasks.launch.min()), (log.start or NEVER) * MS)
    end = max(int(tasks.finish.max()), log.end * MS)
    waiting = RESERVED.index(WAITING)
    return Activities.of([(core, waiting, -1, begin, end) for core in range(1, workers)])


def _together(*parts: Activities) -> Activities:
    names = ("worker", "kind", "operator", "start", "end")
    return Activities(**{n: np.concatenate([getattr(part, n) for part in parts]) for n in names})
