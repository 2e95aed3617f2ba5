"""The facts of an application, collected event by event: executors, jobs, stages, executions of SQL and streams."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from sys import intern

from rechannel.errors import TraceError
from rechannel.profiling.spark.application import Batch, Executor, Job, Stage, Stream
from rechannel.profiling.spark.cached_blocks import CachedBlocks
from rechannel.profiling.spark.events import (
    BlockUpdated,
    Environment,
    ExecutorAdded,
    ExecutorExcluded,
    ExecutorRemoved,
    JobEnd,
    JobProperties,
    JobStart,
    StageCompleted,
    StageInfo,
    StageSubmitted,
    Unpersisted,
)
from rechannel.profiling.spark.executions import Executions
from rechannel.profiling.spark.plans import NOWHERE, PYTHON_RDD, Plans, stage_name
from rechannel.profiling.spark.progress import batch_of, idle, moment
from rechannel.profiling.spark.sql_events import DriverMetrics, SqlEnded, SqlPlanned, SqlStarted
from rechannel.profiling.spark.stream_events import QueryProgress, QueryStarted, QueryTerminated
from rechannel.profiling.spark.texts import first_line, shortened

_SECRET = re.compile(r"(?i)secret|password|passwd|token|credential|key")
"""Matches names of settings that are not kept."""
_WILLED = re.compile(
    r"(?i)killed by driver|explicit termination request|scale down|\bidle\b|commanded a shutdown|code 0\b"
    r"|deleted by driver|shutting down"
)
"""Matches reasons of removals that Spark wanted."""
_BROADCAST = re.compile(r"(?i)broadcast exchange \(runId")
"""Matches the description, or a tag, of a job that collects one side of a broadcast join; on EMR it has a capital."""
NO_PROPERTIES = JobProperties()


@dataclass(slots=True)
class Facts:
    """What has been read so far. Times are Unix milliseconds."""

    settings: dict[str, str] = field(default_factory=dict)
    executors: dict[str, Executor] = field(default_factory=dict)
    jobs: dict[int, Job] = field(default_factory=dict)
    stages: dict[int, Stage] = field(default_factory=dict)
    """The latest attempt of each."""
    attempts: dict[tuple[int, int], Stage] = field(default_factory=dict)
    sql: Executions = field(default_factory=Executions)
    batches: list[Batch] = field(default_factory=list)
    streams: dict[str, Stream] = field(default_factory=dict)
    latest: int = 0
    """The latest time of an event of those that are collected here."""
    _names: dict[str, str] = field(default_factory=dict)
    _plans: Plans = field(default_factory=Plans)
    _cached: CachedBlocks = field(default_factory=CachedBlocks)

    def see(self, event: object) -> None:
        """Take up an event. Raises TraceError if it contradicts itself."""
        match event:
            case StageSubmitted():
                self._stage(event.info, begins=True)
            case StageCompleted():
                self._stage(event.info)
            case JobStart():
                self._job(event)
            case JobEnd():
                self._at(event.time)
                if (job := self.jobs.get(event.number)) is not None:
                    failed = event.result.name == "JobFailed"
                    self.jobs[event.number] = replace(job, end=event.time, failed=failed)
            case SqlStarted() | SqlPlanned() | SqlEnded() | DriverMetrics():
                self._plans.see(event)
                self.sql.see(event)
                self._executed(event)
            case ExecutorAdded() | ExecutorRemoved() | ExecutorExcluded():
                self._executor(event)
            case QueryProgress() | QueryStarted() | QueryTerminated():
                self._stream(event)
            case BlockUpdated():
                self._cached.updated(event.info)
            case Unpersisted():
                self._cached.unpersisted(event.rdd)
            case Environment():
                self.settings.update(without_secrets(event.settings))

    def _at(self, time: int) -> None:
        self.latest = max(self.latest, time)

    def _executed(self, event: SqlStarted | SqlPlanned | SqlEnded | DriverMetrics) -> None:
        if isinstance(event, SqlStarted | SqlEnded):
            self._at(event.time)
        if isinstance(event, SqlStarted):
            self.settings.update(without_secrets(event.settings))

    def _executor(self, event: ExecutorAdded | ExecutorRemoved | ExecutorExcluded) -> None:
        name = event.executor
        known = self.executors.get(name, Executor(name=name, cores=0))
        match event:
            case ExecutorAdded():
                info = event.info
                known = Executor(name=name, host=info.host, cores=info.cores, added=event.time)
            case ExecutorRemoved():
                self._cached.removed(name)
                reason = first_line(event.reason)
                lost = not _WILLED.search(reason)
                known = replace(known, removed=event.time, reason=reason, lost=lost)
            case ExecutorExcluded():
                known = replace(known, excluded=known.excluded or event.time)
        self.executors[name] = known

    def _job(self, event: JobStart) -> None:
        self._at(event.time)
        told = event.properties or NO_PROPERTIES
        execution, description = _number(told.execution), told.description or ""
        root = _number(told.root)
        if root is None and execution is not None:
            root = self.sql.root(execution)
        self.jobs[event.number] = Job(
            number=event.number,
            start=event.time,
            stages=tuple(stage.number for stage in event.stages),
            execution=execution,
            root=root,
            batch=_number(told.batch),
            query=self._shared(told.query or ""),
            description=self._shared(description),
            site=self._shared("" if NOWHERE.search(told.site or "") else told.site or ""),
            group=self._shared(told.group or ""),
            broadcast=bool(_BROADCAST.search(f"{description}\n{told.tags or ''}")),
        )
        for info in event.stages:
            if info.number not in self.stages:
                self._stage(info, execution)

    def _stage(
        self, info: StageInfo, execution: int | None = None, *, begins: bool = False
    ) -> None:
        known = self.stages.get(info.number)
        found = self._plans.nodes(info)
        begun = self.attempts.get((info.number, info.attempt))
        stage = Stage(
            number=info.number,
            attempt=info.attempt,
            name=self._shared(stage_name(info, found.name)),
            parents=tuple(info.parents),
            rdd=info.rdds[0].number if info.rdds else -1,
            tasks=info.tasks,
            submitted=info.submitted,
            completed=info.completed,
            failure=first_line(info.failure),
            execution=execution if known is None else known.execution,
            nodes=found.nodes,
            details=found.details,
            functions=found.functions,
            python=not found.nodes and any(rdd.name == PYTHON_RDD for rdd in info.rdds),
            stored=self._cached.stored(info.rdds) if begun is None or begins else begun.stored,
        )
        self.stages[info.number] = self.attempts[info.number, info.attempt] = stage

    def _stream(self, event: QueryProgress | QueryStarted | QueryTerminated) -> None:
        match event:
            case QueryProgress():
                found = batch_of(event.progress)
                found = replace(found, query=self._shared(found.query))
                self._at(found.end)
                if not idle(found):
                    self.batches.append(found)
            case QueryStarted():
                start = moment(event.timestamp) if event.timestamp else self.latest
                before = self.streams.get(event.query)
                self.streams[event.query] = Stream(
                    query=event.query,
                    name=event.name or "",
                    start=start,
                    earlier=() if before is None else _runs(before, start),
                )
            case QueryTerminated():
                known = self.streams.get(event.query, Stream(query=event.query))
                failed = event.exception is not None
                self.streams[event.query] = replace(known, end=self.latest, failed=failed)

    def _shared(self, text: str) -> str:
        """Return the same object for equal texts, shortened."""
        text = shortened(text)
        return self._names.setdefault(text, text)


def _runs(stream: Stream, next_: int) -> tuple[tuple[int, int], ...]:
    """Return the runs of a stream that is started again; the last one is over by then."""
    return (*stream.earlier, (stream.start, stream.end or next_))


def without_secrets(settings: Mapping[str, str]) -> dict[str, str]:
    """Return the settings whose names do not look like those of secrets."""
    return {intern(name): value for name, value in settings.items() if not _SECRET.search(name)}


def timed_jobs(jobs: dict[int, Job], attempts: Mapping[tuple[int, int], Stage]) -> dict[int, Job]:
    """Return jobs; one without a start, as before Spark 1.3, lasts from the submission of the first of
    its stages until the end of the last.
    """
    if all(job.start for job in jobs.values()):
        return jobs
    begun: dict[int, int] = {}
    done: dict[int, int] = {}
    for stage in attempts.values():
        if stage.submitted:
            begun[stage.number] = min(stage.submitted, begun.get(stage.number, stage.submitted))
            done[stage.number] = max(stage.completed, done.get(stage.number, 0))
    return {
        number: job
        if job.start
        else replace(
            job,
            start=min((begun[each] for each in job.stages if each in begun), default=0),
            end=job.end or max((done[each] for each in job.stages if each in done), default=0),
        )
        for number, job in jobs.items()
    }


def whole_stages(attempts: Mapping[tuple[int, int], Stage]) -> dict[tuple[int, int], Stage]:
    """Return stages; an attempt of which no nodes are known, because it failed, has those of another
    attempt.
    """
    known = {stage.number: stage for stage in attempts.values() if stage.nodes}
    return {
        key: stage
        if stage.nodes or (other := known.get(stage.number)) is None
        else replace(
            stage,
            name=other.name,
            nodes=other.nodes,
            details=other.details,
            functions=other.functions,
            python=other.python,
        )
        for key, stage in attempts.items()
    }


def _number(text: str | None) -> int | None:
    """Return the whole number that a property is; None without it."""
    try:
        return None if text is None else int(text)
    except ValueError as error:
        msg = f"a property of a job is {text!r} in place of a number"
        raise TraceError(msg) from error


def changes(executors: Iterable[Executor]) -> Iterator[int]:
    """Yield when executors were added and removed; 0 is unknown."""
    for each in executors:
        yield from (each.added, each.removed)


def lost_at_the_end(executors: Iterable[Executor], end: int) -> dict[str, Executor]:
    """Return executors by name; those that were removed once the application had ended were not
    lost. end: of the application, 0 if it did not end.
    """
    return {
        each.name: replace(each, lost=False) if end and each.removed >= end else each
        for each in executors
    }
