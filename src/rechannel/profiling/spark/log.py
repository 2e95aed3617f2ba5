"""The contents of a Spark event log: tasks, stages, jobs and executors. Read line by line, once.

Bad lines are counted, named and skipped; with `strict` the first one is an error. If the
application still runs, or was killed, the last line may be incomplete: that is noted, and never an
error.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from rechannel.errors import TraceError
from rechannel.profiling.model.batches import StreamBatch
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.events import (
    Application,
    ExecutorAdded,
    ExecutorRemoved,
    JobEnd,
    JobStart,
    LogVersion,
    MalformedEventError,
    Metrics,
    QueryProgress,
    StageCompleted,
    StageInfo,
    StageSubmitted,
    StreamProgress,
    TaskEnd,
    TaskInfo,
    TaskStart,
    decode,
)
from rechannel.profiling.spark.plans import Plans, stage_name
from rechannel.profiling.spark.rows import SparkTask, TaskRows
from rechannel.profiling.storage.blocks import RowBlocks

LATEST = 1 << 43
"""Latest time that a log may contain, ms: the year 2248."""
NAMED_LINES = 20
"""Bad lines that are named; all are counted."""


@dataclass(frozen=True, slots=True)
class SparkStage:
    """A stage."""

    name: str
    """Its name for users."""
    parents: tuple[int, ...] = ()
    """Stages whose output it reads."""
    rdd: int = -1
    """The RDD that it computes; -1 if unknown."""


@dataclass(slots=True)
class SparkJob:
    """A job, ms."""

    number: int
    start: int
    end: int = 0
    """0 if the log does not say."""
    stages: tuple[int, ...] = ()
    """Ids of its stages."""
    batch: str | None = None
    query: str | None = None
    description: str | None = None


@dataclass(slots=True)
class SparkLog:
    """What has been read so far. Times are ms."""

    strict: bool = False
    version: str = ""
    name: str = ""
    start: int = 0
    end: int = 0
    lines: int = 0
    tasks: TaskRows = field(default_factory=TaskRows)
    stages: dict[int, SparkStage] = field(default_factory=dict)
    jobs: dict[int, SparkJob] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)
    """Number of cores by executor."""
    removed: dict[str, int] = field(default_factory=dict)
    """When executors were removed."""
    batches: list[StreamBatch] = field(default_factory=list)
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Number and problem of skipped lines, the first few."""
    bad_lines: int = 0
    open_tasks: int = 0
    """Number of tasks whose end is not in the log."""
    _running: dict[int, TaskStart] = field(default_factory=dict)
    _names: dict[str, str] = field(default_factory=dict)
    _plans: Plans = field(default_factory=Plans)

    def read(self, lines: Iterable[bytes], origin: str = "the log") -> SparkLog:
        """Read lines. Raises TraceError if they are no event log and, with `strict`, for any bad
        line.
        """
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
            except (MalformedEventError, TraceError) as error:
                half = not line.endswith(b"\n")
                reason = f"incomplete line: {error}" if half else str(error)
                self._skip(reason, origin, strict=not half)
            if self.bad_lines > NAMED_LINES and not events:
                msg = f"{origin} is not a Spark event log: none of its first {self.lines} lines is an event"
                raise TraceError(msg)
        if not events:
            msg = f"{origin} is not a Spark event log: it contains no event"
            raise TraceError(msg)
        return self

    def finish(self) -> RowBlocks:
        """Return all tasks. Those without an end last until the end of the log, or of their
        executor.
        """
        begun = [start.info.launch for start in self._running.values()]
        known = self.tasks.close().span
        self.end = max([self.end, *begun, *(() if known is None else (known[1] // MS,))])
        for start in self._running.values():
            info, gone = start.info, self.removed.get(start.info.executor)
            finish = max(info.launch, self.end if gone is None else gone)
            self.tasks.add(
                SparkTask(
                    number=info.number,
                    stage=start.stage,
                    index=info.index,
                    executor=info.executor,
                    launch=info.launch,
                    finish=finish,
                    metrics=Metrics(run=finish - info.launch),
                    good=gone is None,
                )
            )
        self.open_tasks += len(self._running)
        self._running.clear()
        return self.tasks.close()

    def _skip(self, reason: str, origin: str, *, strict: bool) -> None:
        if self.strict and strict:
            msg = (
                f"line {self.lines} of {origin}: {reason}; run without --strict to skip such lines"
            )
            raise TraceError(msg)
        self.bad_lines += 1
        if len(self.bad) < NAMED_LINES:
            self.bad.append((self.lines, reason))

    def _take(self, event: object) -> None:
        self._plans.see(event)
        match event:
            case TaskEnd():
                self._ended(event)
            case TaskStart():
                _check(event.info, event.stage)
                self._running[event.info.number] = event
            case StageSubmitted() | StageCompleted():
                self.stages[event.info.number] = self._stage(event.info)
            case JobStart():
                self._job(event)
            case JobEnd():
                self.end = max(self.end, event.time)
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
            case LogVersion():
                self.version = event.spark

    def _ended(self, event: TaskEnd) -> None:
        info = event.info
        self._running.pop(info.number, None)
        _check(info, event.stage)
        if info.finish < info.launch:
            msg = f"task {info.number} ends at {info.finish}, before it begins at {info.launch}"
            raise TraceError(msg)
        if event.reason.name == "Resubmitted":
            # The task had succeeded and was recorded; then its output was lost with its executor.
            self.tasks.lost.add(info.number)
            return
        self.tasks.add(
            SparkTask(
                number=info.number,
                stage=event.stage,
                index=info.index,
                executor=info.executor,
                launch=info.launch,
                finish=info.finish,
                getting=info.getting,
                # Without metrics, all that is known is that the task ran.
                metrics=event.metrics or Metrics(run=info.finish - info.launch),
                good=not (info.failed or info.killed),
                killed=info.killed,
            )
        )

    def _stage(self, info: StageInfo) -> SparkStage:
        name = stage_name(info, self._plans.nodes(info))
        rdd = info.rdds[0].number if info.rdds else -1
        return SparkStage(self._names.setdefault(name, name), tuple(info.parents), rdd)

    def _batch(self, progress: StreamProgress) -> None:
        try:
            start = round(datetime.fromisoformat(progress.timestamp).timestamp() * 1_000)
        except ValueError as error:
            msg = f"a batch begins at {progress.timestamp!r}, which is not a timestamp"
            raise TraceError(msg) from error
        end = start + progress.durations.get("triggerExecution", 0)
        self.end = max(self.end, end)
        self.batches.append(
            StreamBatch(
                query=progress.name or progress.query,
                number=progress.batch,
                start=start,
                end=end,
            )
        )

    def _job(self, event: JobStart) -> None:
        self.end = max(self.end, event.time)
        properties = event.properties or {}
        self.jobs[event.number] = SparkJob(
            number=event.number,
            start=event.time,
            stages=tuple(stage.number for stage in event.stages),
            batch=properties.get("streaming.sql.batchId"),
            query=properties.get("sql.streaming.queryId"),
            description=properties.get("spark.job.description"),
        )
        for stage in event.stages:
            if stage.number not in self.stages:
                self.stages[stage.number] = self._stage(stage)


def _check(info: TaskInfo, stage: int) -> None:
    """Raise TraceError for impossible numbers."""
    known = (
        ("id", info.number, 1 << 62),
        ("stage", stage, 1 << 31),
        ("index", info.index, 1 << 31),
        ("launch time", info.launch, LATEST),
        ("finish time", info.finish, LATEST),
    )
    for what, number, most in known:
        if not -most <= number < most:
            msg = f"the {what} of a task is {number}"
            raise TraceError(msg)
