"""What a Spark event log says of an application: tasks, stages, jobs and executors. Read line by line, once.

Bad lines are counted and named, and skipped; with `strict` the first one ends it. The last line of an application that
still runs, or was killed, may be half a line: that is told, and never an error of the log.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from rechannel.errors import TraceError
from rechannel.profiling.spark_events import (
    Application,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStart,
    MalformedError,
    Metrics,
    QueryProgress,
    StageInfo,
    StageSubmitted,
    StreamProgress,
    TaskEnd,
    TaskStart,
    Version,
    decode,
)

SHOWN = 20
"""Bad lines that are named; all are counted."""


@dataclass(frozen=True, slots=True)
class Task:
    """An attempt of a task, ms. stage: id. over: whether its end is in the log; good: whether it was of use.

    killed: nobody waited for its end, for another attempt was faster, or its result was not wanted any more.
    """

    stage: int
    executor: str
    launch: int
    finish: int
    getting: int
    metrics: Metrics
    over: bool
    good: bool
    killed: bool = False


@dataclass(slots=True)
class Job:
    """A job, ms. end: 0 where the log does not say. stages: their ids."""

    number: int
    start: int
    end: int = 0
    stages: tuple[int, ...] = ()
    batch: str | None = None
    query: str | None = None
    description: str | None = None


@dataclass(slots=True)
class SparkLog:
    """What has been read so far. bad: lines that were skipped.

    cores: of executors. removed: when executors went, ms. batches: begin and end, ms.
    """

    strict: bool = False
    version: str = ""
    name: str = ""
    start: int = 0
    end: int = 0
    lines: int = 0
    tasks: list[Task] = field(default_factory=list)
    stages: dict[int, StageInfo] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)
    removed: dict[str, int] = field(default_factory=dict)
    batches: list[tuple[int, int]] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    bad_lines: int = 0
    _running: dict[int, TaskStart] = field(default_factory=dict)

    def read(self, lines: Iterable[bytes], origin: str = "the log") -> SparkLog:
        """Read lines. Raises TraceError for what is no event log, and, if `strict`, for any bad line."""
        events = 0
        for line in lines:
            self.lines += 1
            text = line.strip()
            if not text:
                continue
            try:
                event = decode(text)
                if event is not None:
                    self._take(event)
                events += 1
            except (MalformedError, TraceError) as error:
                half = not line.endswith(b"\n")
                self._skip(f"half a line: {error}" if half else str(error), origin, strict=not half)
            if self.bad_lines > SHOWN and not events:
                msg = f"{origin} is not an event log of Spark: none of its first {self.lines} lines is an event"
                raise TraceError(msg)
        if not events:
            msg = f"{origin} is not an event log of Spark: it has no event"
            raise TraceError(msg)
        return self

    def finish(self) -> list[Task]:
        """All tasks; those whose end is not in the log last until the end of what is, or of their executor."""
        last = max(
            [
                self.end,
                *(t.finish for t in self.tasks),
                *(s.info.launch for s in self._running.values()),
            ],
            default=0,
        )
        self.end = max(self.end, last)
        return [*self.tasks, *(self._open(start) for start in self._running.values())]

    def _open(self, start: TaskStart) -> Task:
        launch, gone = start.info.launch, self.removed.get(start.info.executor)
        finish = max(launch, self.end if gone is None else gone)
        return Task(
            stage=start.stage,
            executor=start.info.executor,
            launch=launch,
            finish=finish,
            getting=0,
            metrics=Metrics(run=finish - launch),
            over=False,
            good=gone is None,
        )

    def _skip(self, reason: str, origin: str, *, strict: bool) -> None:
        if self.strict and strict:
            msg = f"line {self.lines} of {origin}: {reason}; leave --strict away to skip such lines"
            raise TraceError(msg)
        self.bad_lines += 1
        if len(self.bad) < SHOWN:
            self.bad.append((self.lines, reason))

    def _take(self, event: object) -> None:
        match event:
            case TaskEnd():
                self._ended(event)
            case TaskStart():
                self._running[event.info.number] = event
            case StageSubmitted():
                self.stages[event.info.number] = event.info
            case JobStart():
                self._job(event)
            case JobEnd():
                if event.number in self.jobs:
                    self.jobs[event.number].end = event.time
            case ExecutorAdded():
                self.cores[event.executor] = event.info.cores
            case ExecutorRemoved():
                self.removed[event.executor] = event.time
            case Application():
                self.name = event.name or self.name
                self.start = self.start or event.time
                self.end = max(self.end, event.time)
            case QueryProgress():
                self._batch(event.progress)
            case Version():
                self.version = event.spark

    def _ended(self, event: TaskEnd) -> None:
        info = event.info
        self._running.pop(info.number, None)
        if info.finish < info.launch:
            msg = f"task {info.number} ends at {info.finish}, before it begins at {info.launch}"
            raise TraceError(msg)
        ended = Task(
            stage=event.stage,
            executor=info.executor,
            launch=info.launch,
            finish=info.finish,
            getting=info.getting,
            # Without figures all that is known is that it ran.
            metrics=event.metrics or Metrics(run=info.finish - info.launch),
            over=True,
            good=not (info.failed or info.killed),
            killed=info.killed,
        )
        if event.reason.name == "Resubmitted":
            self._lose(ended)
        else:
            self.tasks.append(ended)

    def _lose(self, told: Task) -> None:
        """The output of a task that had ended is lost: its work was of no use, and is not done twice."""
        same = (told.stage, told.executor, told.launch, told.finish)
        for place in range(len(self.tasks) - 1, -1, -1):
            task = self.tasks[place]
            if task.good and (task.stage, task.executor, task.launch, task.finish) == same:
                self.tasks[place] = replace(task, good=False)
                return

    def _batch(self, progress: StreamProgress) -> None:
        try:
            start = round(datetime.fromisoformat(progress.timestamp).timestamp() * 1_000)
        except ValueError as error:
            msg = f"a batch begins at {progress.timestamp!r}, which is no time"
            raise TraceError(msg) from error
        self.batches.append((start, start + progress.durations.get("triggerExecution", 0)))

    def _job(self, event: JobStart) -> None:
        said = event.properties or {}
        self.jobs[event.number] = Job(
            number=event.number,
            start=event.time,
            stages=tuple(stage.number for stage in event.stages),
            batch=said.get("streaming.sql.batchId"),
            query=said.get("sql.streaming.queryId"),
            description=said.get("spark.job.description"),
        )
        for stage in event.stages:
            self.stages.setdefault(stage.number, stage)


def stage_name(stage: StageInfo) -> str:
    """What a user calls a stage: its SQL nodes, or the names of its RDDs, and where in the program it was asked for."""
    nodes = [_scope(rdd.scope) for rdd in sorted(stage.rdds, key=lambda rdd: rdd.number)]
    shown = list(dict.fromkeys(node for node in nodes if node))
    if not shown:
        shown = list(dict.fromkeys(rdd.name for rdd in stage.rdds if rdd.name))
    return f"{' > '.join(shown)} ({stage.name})" if shown else stage.name


def _scope(text: str) -> str:
    try:
        return str(json.loads(text)["name"]).strip() if text else ""
    except (ValueError, KeyError, TypeError):
        return ""
