"""Telemetry of a Rechannel job as activities and messages. Telemetry leaves these things open, and
they are assumed:

- The driver is a worker, and so is the publisher, the thread that hands rows to sinks. So is every
  task of every operator: `counts task 3` does one timestep after the other, wherever it runs, and
  is what a user can split, move or scale. Cores are unknown. Source tasks of several timesteps may
  run at once: the second is `flights task 0 (2)`.
- A task does one phase after the other, in the order of `PHASES`, each as long as it took in
  total. The part of its time that the task did not name is `other`, at the end. Waiting for rows
  is `read` in a source task and `receive` in an operator with state. After its function, a task
  writes what it sends to Spark's shuffle files.
- Its launch is a control message from the driver, its finish one back. If Spark measured neither,
  a task is launched when it begins, and the driver has its report when it ends.
- A task that receives rows asks, for every operator that sends to it, the task that finished last
  (a control message of a nanosecond); the data message that answers arrives when it has all rows.
  Meanwhile it waits. It does not wait for rows before it runs: an exchange is read when it is
  complete, and the driver knows when that is.
- The driver plans (and journals the intent), commits (and stages sinks) and releases, as it
  reports. In between it waits if it continues with the finish of a task, and schedules otherwise.
  While a task runs that had failed earlier, and in a timestep that failed, it does failed work.
  Without a timestep it is idle, or waits if it may begin none because sinks lag too far: it
  continues when the publisher has published another timestep.
- The publisher publishes a timestep when it is committed and the previous one is published.
- Times of workers are those of their clocks. A task that ended before its driver launched it, or
  after its timestep, is moved to where it can have been (`JobTrace.moved`).
- Nothing is known about the time between two drivers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.profiling.job.log import PHASES, TASK_COLUMNS, TIMESTEP_COLUMNS, Floats, JobLog
from rechannel.profiling.model.placement import TaskSeat
from rechannel.profiling.model.trace import (
    CONTROL,
    DATA,
    MS,
    NONE,
    RESERVED,
    UNKNOWN,
    WAITING,
    Activities,
    Indices,
    Messages,
    Names,
    Times,
    Trace,
    within,
)

JOB_KINDS = (
    *RESERVED,
    "read",
    "receive",
    *PHASES[1:],
    "other",
    "shuffle write",
    "planning",
    "scheduling",
    "commit",
    "release",
    "publish",
    "failed work",
    "idle",
)
READ, RECEIVE, DESERIALISE = (JOB_KINDS.index(name) for name in ("read", "receive", "deserialise"))
PLAN, SCHEDULE, COMMIT, RELEASE, PUBLISH, FAILED, IDLE = range(len(JOB_KINDS) - 7, len(JOB_KINDS))
DRIVER, PUBLISHER = 0, 1
_WAITING = RESERVED.index(WAITING)

Spans = npt.NDArray[np.int64]
"""Starts and ends. Shape (spans, 2)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTrace:
    """The trace of a job, and what it lacks."""

    trace: Trace
    moved: int
    """Number of tasks whose clock contradicts the driver's."""
    seats: Mapping[str, TaskSeat]
    """Where workers ran last."""

    @property
    def notes(self) -> list[str]:
        """Problems, as sentences."""
        if not self.moved:
            return []
        return [
            f"the clocks of {self.moved} tasks contradict the driver's: these tasks were moved to a time at which they"
            " can have run"
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobTasks:
    """Columns of tasks, ns. Shapes (tasks,)."""

    worker: Indices
    operator: Indices
    receives: npt.NDArray[np.bool_]
    """Whether the task receives rows of other tasks."""
    again: npt.NDArray[np.bool_]
    """Whether an earlier attempt failed."""
    launch: Times
    begin: Times
    finish: Times
    lengths: Spans
    """Duration of every phase, of `other`, and of the shuffle write. Shape (tasks, phases + 2)."""

    @property
    def had(self) -> Times:
        """When tasks had their rows."""
        return self.begin + self.lengths[:, 0]

    @property
    def end(self) -> Times:
        """When the last work of tasks was done."""
        ended: Times = self.begin + self.lengths.sum(axis=1)
        return ended


def job_trace(log: JobLog) -> JobTrace:
    """Return the trace of a job. log: closed."""
    steps = nanoseconds(log.steps)
    tasks, names, moved = _placed(log.tasks, steps, log)
    shown = _shown(log, steps)
    blocked, until = _blocked(log, steps, shown)
    asks = log.asked
    asks = asks[tasks.lengths[asks[:, 0], 0] > 1]
    workers = ["driver", "publisher", *names]
    acted = Activities.joined(
        # Of activities of equal length, the last one counts.
        _idle(len(workers), _spans(log.drivers)),
        _worked(tasks, asks),
        _driven(log, steps, tasks, blocked),
        _published(shown),
    )
    trace = Trace(
        names=Names(workers=workers, operators=list(log.operators), kinds=JOB_KINDS),
        activities=acted,
        messages=_sent(tasks, asks, _handed(steps, shown), until),
    )
    seats = {
        f"{operator} task {task}": TaskSeat(operator, task, executor, operator in log.stateful)
        for (operator, task), executor in log.executors.items()
    }
    return JobTrace(trace=trace, moved=moved, seats=seats)


def nanoseconds(ms: Floats) -> Spans:
    """Return Unix milliseconds in nanoseconds. A plain product has errors of up to 128 ns: more than floats hold."""
    whole = np.floor(ms)
    found: Spans = whole.astype(np.int64) * MS + np.rint((ms - whole) * MS).astype(np.int64)
    return found


def _placed(rows: Floats, steps: Spans, log: JobLog) -> tuple[JobTasks, list[str], int]:
    """Return when and by which worker tasks ran, the names of workers, and how many tasks were
    moved.
    """
    of = {name: rows[:, i] for i, name in enumerate(TASK_COLUMNS)}
    step = of["step"].astype(np.int64)
    measured = of["launch"] >= 0
    started, over = nanoseconds(of["started"]), nanoseconds(of["finished"])
    least = np.where(
        measured, nanoseconds(of["launch"]), steps[step, TIMESTEP_COLUMNS.index("began")]
    )
    most = np.where(measured, nanoseconds(of["finish"]), steps[step, TIMESTEP_COLUMNS.index("ran")])
    most = np.maximum(least, most)
    lasted = np.clip(over - started, 0, most - least)
    begin = np.clip(started, least, most - lasted)
    end = begin + lasted
    finish = np.where(measured, most, end)
    named = rows[:, TASK_COLUMNS.index(PHASES[0]) :]
    ends = np.minimum(np.cumsum(named, axis=1), (lasted / MS)[:, None])
    ends = np.minimum(nanoseconds(ends), lasted[:, None])
    lengths = np.diff(ends, axis=1, prepend=0)
    shuffle = np.minimum(nanoseconds(of["shuffle"]), finish - end)
    slot = of["slot"].astype(np.int64)
    worker, names = _workers(slot, begin, end, list(log.slots))
    tasks = JobTasks(
        worker=worker,
        operator=of["operator"].astype(np.int32),
        receives=of["stateful"] > 0,
        again=of["attempt"] > 0,
        launch=np.where(measured, least, begin),
        begin=begin,
        finish=finish,
        lengths=np.column_stack([lengths, lasted - ends[:, -1], shuffle]),
    )
    return tasks, names, int((np.abs(begin - started) > MS).sum())


def _workers(
    slot: Times, begin: Times, end: Times, slots: Sequence[tuple[str, int]]
) -> tuple[Indices, list[str]]:
    """Return the worker of each task: its slot, or an extra one if that is busy; and the names of
    workers.
    """
    lane = np.zeros(len(slot), dtype=np.int64)
    order = np.lexsort((begin, slot))
    same = slot[order][1:] == slot[order][:-1]
    # Only slots with overlapping tasks are examined one by one.
    crossing = np.unique(slot[order][1:][same & (begin[order][1:] < end[order][:-1])])
    for each in crossing.tolist():
        free: list[int] = []
        for i in order[slot[order] == each].tolist():
            lane[i] = next((n for n, at in enumerate(free) if at <= begin[i]), len(free))
            free[lane[i] : lane[i] + 1] = [int(end[i])]
    firsts = {name: i for i, name in enumerate(dict.fromkeys(name for name, _ in slots))}
    pairs = sorted(
        set(zip(slot.tolist(), lane.tolist(), strict=True)),
        key=lambda pair: (firsts[slots[pair[0]][0]], slots[pair[0]][1], pair[1]),
    )
    place = {(s, n): i + PUBLISHER + 1 for i, (s, n) in enumerate(pairs)}
    worker = [place[key] for key in zip(slot.tolist(), lane.tolist(), strict=True)]
    names = [f"{slots[s][0]} task {slots[s][1]}" + (f" ({n + 1})" if n else "") for s, n in pairs]
    return np.array(worker, dtype=np.int32), names


def _worked(tasks: JobTasks, asks: Spans) -> Activities:
    """Return what tasks did."""
    count, phases = tasks.lengths.shape
    ends = tasks.begin[:, None] + np.cumsum(tasks.lengths, axis=1)
    kinds = np.tile(
        np.arange(DESERIALISE - 1, DESERIALISE - 1 + phases, dtype=np.int32), (count, 1)
    )
    kinds[:, 0] = np.where(tasks.receives, RECEIVE, READ)
    kinds[asks[:, 0], 0] = _WAITING
    return Activities.lasting(
        np.repeat(tasks.worker, phases),
        kinds.ravel(),
        np.repeat(tasks.operator, phases),
        (ends - tasks.lengths).ravel(),
        ends.ravel(),
    )


def _driven(log: JobLog, steps: Spans, tasks: JobTasks, blocked: Spans) -> Activities:
    """Return what the driver did: its time is cut at everything that is known to have happened."""
    drivers, failed = _spans(log.drivers), _spans(log.failed)
    under = np.concatenate([steps[:, [0, 3]], _spans(log.under_way)])
    known = (steps, drivers, failed, under, blocked, tasks.launch, tasks.finish)
    times = np.unique(np.concatenate([each.ravel() for each in known]))
    if len(times) < 2:
        return Activities.of([])
    at, to = times[:-1], times[1:]
    kind = np.full(len(at), IDLE, dtype=np.int32)
    kind[within(at, failed)] = FAILED
    kind[within(at, blocked)] = _WAITING
    kind[within(at, under)] = SCHEDULE
    kind[np.isin(to, tasks.launch[tasks.again])] = FAILED
    kind[np.isin(to, tasks.finish)] = _WAITING
    for column, what in ((0, PLAN), (2, COMMIT), (3, RELEASE)):
        kind[within(at, steps[:, column : column + 2])] = what
    kind[~within(at, drivers)] = RESERVED.index(UNKNOWN)
    driver, nobody = np.full(len(at), DRIVER), np.full(len(at), NONE)
    return Activities.lasting(driver.astype(np.int32), kind, nobody.astype(np.int32), at, to)


def _shown(log: JobLog, steps: Spans) -> Spans:
    """Return publications by their start: row of the timestep (-1 if unknown), sink, start, end.

    Shape (publications, 4).
    """
    row = {number: i for i, number in enumerate(log.numbers.tolist())}
    step = np.array([row.get(number, -1) for number, *_ in log.published], dtype=np.int64)
    sink = np.array([sink for _, sink, *_ in log.published], dtype=np.int64)
    times, known = _spans([(begin, end) for *_, begin, end in log.published]), step >= 0
    # Their times are whole milliseconds, and they did not begin before the commit.
    times[known, 0] = np.maximum(
        times[known, 0], steps[step[known], TIMESTEP_COLUMNS.index("committed")]
    )
    found = np.column_stack([step, sink, times[:, 0], times.max(axis=1)])
    ordered: Spans = found[np.lexsort((found[:, 3], found[:, 2]))]
    return ordered


def _published(shown: Spans) -> Activities:
    count = len(shown)
    return Activities.lasting(
        np.full(count, PUBLISHER, dtype=np.int32),
        np.full(count, PUBLISH, dtype=np.int32),
        shown[:, 1].astype(np.int32),
        shown[:, 2],
        shown[:, 3],
    )


def _handed(steps: Spans, shown: Spans) -> Spans:
    """Return what the driver handed to an idle publisher: when it was sent and received. Shape
    (messages, 2).
    """
    busy = np.concatenate([np.zeros(1, dtype=np.int64), np.maximum.accumulate(shown[:, 3])])[:-1]
    known = shown[:, 0] >= 0
    commit = steps[shown[known, 0], TIMESTEP_COLUMNS.index("committed")]
    idle = busy[known] <= commit
    return np.column_stack([commit[idle], shown[known, 2][idle]])


def _blocked(log: JobLog, steps: Spans, shown: Spans) -> tuple[Spans, Spans]:
    """Return when the driver could begin nothing because sinks lagged, and when the publisher
    released it.

    Shapes (times, 2). The driver begins no timestep while more than `JobLog.backlog` timesteps are
    committed and not published.
    """
    none = np.empty((0, 2), dtype=np.int64)
    known = shown[shown[:, 0] >= 0]
    if log.backlog is None or not len(known):
        return none, none
    done = np.zeros(len(steps), dtype=np.int64)
    np.maximum.at(done, known[:, 0], known[:, 3])
    committed = np.sort(steps[done > 0, TIMESTEP_COLUMNS.index("committed")])
    done = np.sort(done[done > 0])
    order = np.argsort(steps[:, 0], kind="stable")
    free = np.maximum.accumulate(steps[order, TIMESTEP_COLUMNS.index("released")])[:-1]
    began = steps[order, 0][1:]
    behind = np.searchsorted(committed, free, "right") - np.searchsorted(done, free, "right")
    sign = done[np.maximum(np.searchsorted(done, began, "right") - 1, 0)]
    full = (behind > log.backlog) & (free < sign) & (sign <= began)
    return np.column_stack([free[full], began[full]]), np.column_stack([sign[full], began[full]])


def _sent(tasks: JobTasks, asks: Spans, handed: Spans, until: Spans) -> Messages:
    """Return launches and finishes of tasks, requests and rows, and messages between driver and
    publisher.
    """
    # A task without duration would lead the driver back to the same time.
    real = np.flatnonzero(tasks.finish > tasks.launch)
    worker, operator = tasks.worker[real], tasks.operator[real]
    child, parent = tasks.worker[asks[:, 0]], tasks.worker[asks[:, 1]]
    served, asked = tasks.operator[asks[:, 0]], tasks.begin[asks[:, 0]]
    rows = np.concatenate(
        [
            _rows(DRIVER, worker, CONTROL, operator, tasks.launch[real], tasks.begin[real]),
            _rows(worker, DRIVER, CONTROL, operator, tasks.end[real], tasks.finish[real]),
            _rows(child, parent, CONTROL, served, asked, asked + 1),
            _rows(parent, child, DATA, served, asked + 1, tasks.had[asks[:, 0]]),
            _rows(DRIVER, PUBLISHER, CONTROL, NONE, *handed.T),
            _rows(PUBLISHER, DRIVER, CONTROL, NONE, *until.T),
        ]
    )
    places = [rows[:, i].astype(np.int32) for i in range(4)]
    return Messages(
        source=places[0],
        target=places[1],
        kind=places[2],
        operator=places[3],
        sent=rows[:, 4],
        received=rows[:, 5],
    )


def _rows(
    source: Indices | int,
    target: Indices | int,
    kind: str,
    operator: Indices | int,
    sent: Times,
    received: Times,
) -> Spans:
    """Return messages as rows. Shape (messages, 6)."""
    columns = (source, target, RESERVED.index(kind), operator, sent, received)
    return np.column_stack(np.broadcast_arrays(*columns)).astype(np.int64)


def _idle(workers: int, drivers: Spans) -> Activities:
    """Return waiting of every worker except the driver for the whole time: their work lies within
    it.
    """
    if not len(drivers):
        return Activities.of([])
    begin, end = int(drivers.min()), int(drivers.max())
    return Activities.of([(i, _WAITING, NONE, begin, end) for i in range(PUBLISHER, workers)])


def _spans(found: Sequence[tuple[float, float]]) -> Spans:
    return nanoseconds(np.array(found, dtype=np.float64).reshape(-1, 2))
