"""What the driver of an application does at each time, as far as jobs, executions of SQL, batches and
executors tell. Tasks are not looked at here: `cores.py` knows when the driver waits for one.

Of the following, the last one that applies counts:

- `driver program`: none of the others. The user's code runs between jobs, or inside `foreachBatch`.
- `idle`: a stream is running, and has no batch; or a shell has neither job nor execution for
  `PAUSE_MS`. In logs that do not say when streams began, there may be one all the time.
- `batch planning`: a batch of a stream, outside its jobs and executions: offsets and their log,
  planning, commits.
- `starting up`: until the first executor has registered; not if none is requested before there is a
  job, and not in a shell whose first job came before any executor.
- `collecting results`: after the last job of an execution that does not write, until it ends.
- `planning`: an execution before its last job begins: analysis, optimisation, code generation, and
  adaptive planning between jobs. An execution without a job is nothing else. Jobs may begin after
  the end of their execution, when a program asks for one partition after the other: what it does
  between them is its own.
- `commit`: after the last job of an execution that writes, until it ends.
- `broadcast building`: after a job that collects one side of a broadcast join, until the next job
  of that execution: the table is built and sent.
- `scheduling`: a job is running. `listing files`: it lists files, as its description says.
- `waiting for executors`: a job is running, and no executor is there.

An execution that is a part of another one counts with both. The jobs of the parts are those of the
whole, too.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import numpy.typing as npt

from rechannel.profiling.model.trace import MS, Times, within
from rechannel.profiling.spark.application import Application, Execution, Job

SCHEDULING, LISTING, WAITS = "scheduling", "listing files", "waiting for executors"
SPECULATING = "waiting for a copy"
STARTING, PLANNING, BROADCAST = "starting up", "planning", "broadcast building"
COLLECTING, COMMIT, BATCH = "collecting results", "commit", "batch planning"
PROGRAM, IDLE = "driver program", "idle"
DRIVER_KINDS = (
    *(SCHEDULING, LISTING, WAITS, SPECULATING, STARTING, PLANNING, BROADCAST),
    *(COLLECTING, COMMIT, BATCH, PROGRAM, IDLE),
)
"""Everything that a driver does, besides waiting for tasks."""

NEVER = 1 << 43
"""A time that is never reached, ms."""
PAUSE_MS = 10_000
"""A shell is idle if it does nothing for so long: otherwise the user's code may run."""
_SHELL = re.compile(
    r"(?i)pysparkshell|spark shell|sparkr\b|zeppelin|databricks shell|thrift|livy-session|sparksql::|jupyter"
)
"""Matches names of applications that wait for what a user asks next."""
_CELL = re.compile(r"<stdin>|<console>|<ipython-input|ipykernel|<cell line|<command-")
"""Matches call sites in what a user types."""
_INITIAL = (
    "spark.dynamicAllocation.initialExecutors",
    "spark.dynamicAllocation.minExecutors",
    "spark.executor.instances",
)
"""How many executors are requested at the start, if allocation is dynamic: the most of these."""
_LISTING = re.compile(r"(?i)listing leaf files")
"""Matches the description of a job that lists files."""

Span = tuple[int, int]
Spans = list[Span]


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverTimeline:
    """What the driver does from each time to the next, unless it waits for a task. Columns have the
    shape (times,).
    """

    times: Times
    """Nanoseconds; the first one is 0."""
    kinds: npt.NDArray[np.int32]
    """Indices into `DRIVER_KINDS`."""
    jobs: npt.NDArray[np.bool_]
    """Whether a job is running."""
    slots: npt.NDArray[np.int64]
    """How many tasks the executors that are there can run at once; -1 if the log does not say."""

    def at(self, times: Times) -> Times:
        """Return the rows that hold at some times."""
        found: Times = np.searchsorted(self.times, times, side="right") - 1
        return found


def driver_timeline(app: Application) -> DriverTimeline:
    """Return what the driver of an application did."""
    spans = _spans_by_kind(app)
    executors = _lives(app)
    edges = {app.start, app.end, *(time for each in spans.values() for one in each for time in one)}
    edges |= {time for added, removed, _ in executors for time in (added, removed)}
    inside = sorted(edge for edge in edges if max(1, app.start) <= edge <= min(app.end, NEVER))
    times = np.array([0, *inside], dtype=np.int64) * MS
    kinds = np.full(len(times), DRIVER_KINDS.index(PROGRAM), dtype=np.int32)
    for kind, each in spans.items():
        kinds[within(times, _array(each))] = DRIVER_KINDS.index(kind)
    jobs = within(times, _array(spans[SCHEDULING]))
    slots = _slots(times, executors)
    kinds[jobs & (slots == 0)] = DRIVER_KINDS.index(WAITS)
    return DriverTimeline(times=times, kinds=kinds, jobs=jobs, slots=slots)


def _spans_by_kind(app: Application) -> dict[str, Spans]:
    """Return when the driver does what, ms; later kinds take precedence."""
    jobs = [(job.start, job.end or app.end) for job in app.jobs.values()]
    listing = [(job.start, job.end or app.end) for job in app.jobs.values() if lists_files(job)]
    of_sql = _of_executions(app)
    return {
        IDLE: _idle(app, jobs),
        BATCH: [(batch.start, batch.end) for batch in app.batches],
        PROGRAM: of_sql[PROGRAM],
        STARTING: _starting(app),
        COLLECTING: of_sql[COLLECTING],
        PLANNING: of_sql[PLANNING],
        COMMIT: of_sql[COMMIT],
        BROADCAST: of_sql[BROADCAST],
        SCHEDULING: jobs,
        LISTING: listing,
    }


def lists_files(job: Job) -> bool:
    """Return whether a job lists the files of a table."""
    return bool(_LISTING.search(job.description) or _LISTING.search(job.site))


def _of_executions(app: Application) -> Mapping[str, Spans]:
    jobs: dict[int, list[Job]] = {}
    for job in sorted(app.jobs.values(), key=lambda each: each.start):
        for number in {job.execution, job.root}:
            if number is not None:
                jobs.setdefault(number, []).append(job)
    whole = {each.root for each in app.executions.values()}
    found: dict[str, Spans] = {
        kind: [] for kind in (PROGRAM, COLLECTING, PLANNING, COMMIT, BROADCAST)
    }
    for execution in app.executions.values():
        if execution.start:
            parts = execution.number in whole
            for kind, span in _of_one(
                execution, jobs.get(execution.number, ()), app.end, parts=parts
            ):
                found[kind].append(span)
    return found


def _of_one(
    execution: Execution, jobs: Sequence[Job], end: int, *, parts: bool
) -> Iterator[tuple[str, Span]]:
    """Yield what the driver does in an execution. jobs: in the order of their start. parts: whether
    other executions are parts of it.
    """
    over = execution.end or end
    if parts and not execution.writes:
        # The function of `foreachBatch`, or a command that asks queries of its own.
        yield PROGRAM, (execution.start, over)
        return
    if not jobs:
        yield PLANNING, (execution.start, over)
        return
    yield PLANNING, (execution.start, min(jobs[-1].start, over))
    last = max(job.end or over for job in jobs)
    yield COMMIT if execution.writes else COLLECTING, (last, over)
    starts = [job.start for job in jobs]
    for job in jobs:
        if job.broadcast and job.end:
            after = bisect_left(starts, job.end)
            yield BROADCAST, (job.end, starts[after] if after < len(starts) else over)


def _starting(app: Application) -> Spans:
    """Return the time until the first executor, if the log has it, and if that is what the
    application waited for.
    """
    added = min((each.added for each in app.executors.values() if each.added), default=0)
    first = min((job.start for job in app.jobs.values()), default=added)
    if not app.start or not _asks_first(app) or (first < added and attended(app)):
        return []
    return [(app.start, added)]


def _asks_first(app: Application) -> bool:
    """Return whether an application asks for executors before it has a job."""
    if not app.dynamic:
        return True
    asked = (app.settings.get(name, "0") for name in _INITIAL)
    return any(number.strip("0") for number in asked)


def _idle(app: Application, jobs: Spans) -> Spans:
    """Return when there was nothing to do, unless there was something else."""
    if app.batches:
        known = {each.name or each.query for each in app.streams.values() if each.start}
        if not {batch.query for batch in app.batches} <= known:
            return [(app.start, app.end)]
    idle = [
        (start, end or app.end)
        for each in app.streams.values()
        for start, end in (*each.earlier, (each.start, each.end))
        if start
    ]
    if attended(app):
        busy = [*jobs, *((each.start, each.end or app.end) for each in app.executions.values())]
        idle += _pauses(busy, app.start, app.end)
    return idle


def attended(app: Application) -> bool:
    """Return whether a user decides what comes next."""
    sites = (job.site for job in app.jobs.values())
    names = (stage.name for stage in app.stages.values())
    return bool(_SHELL.search(app.name)) or any(map(_CELL.search, chain(sites, names)))


def _pauses(busy: Iterable[Span], start: int, end: int) -> Spans:
    """Return the parts of a span of `PAUSE_MS` and more in which nothing was busy."""
    found, free = [], start
    for begun, over in [*sorted(busy), (end, end)]:
        if begun - free >= PAUSE_MS:
            found.append((free, begun))
        free = max(free, over)
    return found


def _lives(app: Application) -> list[tuple[int, int, int]]:
    """Return when executors came and went, ms, and how many tasks each can run; none if the log does
    not say of all.
    """
    executors = list(app.executors.values())
    unknown = set(app.tasks.executors) - set(app.executors)
    if unknown or not all(each.added for each in executors):
        return []
    cpus = task_cpus(app)
    return [(each.added, each.removed or NEVER, max(0, each.cores) // cpus) for each in executors]


def task_cpus(app: Application) -> int:
    """Return how many cores a task takes."""
    asked = app.settings.get("spark.task.cpus", "")
    return max(1, int(asked)) if re.fullmatch(r"[0-9]{1,4}", asked) else 1


def _slots(times: Times, executors: Sequence[tuple[int, int, int]]) -> npt.NDArray[np.int64]:
    """Return how many tasks can run at once from each time on; -1 if it is not known."""
    if not executors:
        return np.full(len(times), -1, dtype=np.int64)
    lives = np.array(executors, dtype=np.int64)
    edges = np.clip(np.concatenate([lives[:, 0], lives[:, 1]]), 0, NEVER) * MS
    change = np.concatenate([lives[:, 2], -lives[:, 2]])
    order = np.argsort(edges, kind="stable")
    running = np.concatenate([[0], np.cumsum(change[order])])
    found: npt.NDArray[np.int64] = running[np.searchsorted(edges[order], times, side="right")]
    return found


def _array(spans: Spans) -> Times:
    """Return starts and ends in ns. Shape (spans, 2)."""
    return np.clip(np.array(spans, dtype=np.int64).reshape(-1, 2), 0, NEVER) * MS
