"""The contents of a Spark event log: tasks, stages, jobs and executors. Read line by line, once.

Bad lines are counted, named and skipped; with `strict` the first one is an error. If the
application still runs, or was killed, the last line may be incomplete: that is noted, and never an
error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from rechannel.errors import TraceError
from rechannel.profiling.model.batches import StreamBatch
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.application import Application, Executor, Job, Stage
from rechannel.profiling.spark.attempts import LATEST, Attempts
from rechannel.profiling.spark.believed import believed
from rechannel.profiling.spark.decoding import MalformedEventError, decode
from rechannel.profiling.spark.dropped import completed, ended_executions, ended_jobs
from rechannel.profiling.spark.events import (
    ApplicationEnd,
    ApplicationStart,
    LogVersion,
)
from rechannel.profiling.spark.facts import (
    Facts,
    changes,
    lost_at_the_end,
    timed_jobs,
    whole_stages,
)
from rechannel.profiling.spark.far import keep, others_of, times_of
from rechannel.profiling.spark.progress import with_intervals
from rechannel.profiling.spark.rows import TaskRows
from rechannel.profiling.spark.task_events import TaskEnd, TaskStart
from rechannel.profiling.spark.texts import shortened
from rechannel.profiling.spark.times import core_of, far_apart
from rechannel.profiling.storage.blocks import RowBlocks

NAMED_LINES = 20
"""Bad lines that are named; all are counted."""
NAMED_CHARACTERS = 200
"""Characters of the problem of such a line."""


@dataclass(slots=True)
class SparkLog:
    """What has been read so far. Times are ms."""

    strict: bool = False
    version: str = ""
    name: str = ""
    number: str = ""
    """Id of the application."""
    start: int = 0
    end: int = 0
    ended: bool = False
    """Whether the log has the end of the application."""
    over: int = 0
    """When the application ended, as the log says; 0 if it does not."""
    lines: int = 0
    attempts: Attempts = field(default_factory=Attempts)
    told: Facts = field(default_factory=Facts)
    bad: list[tuple[int, str]] = field(default_factory=list)
    """Number and problem of skipped lines, the first few."""
    bad_lines: int = 0
    far: dict[str, int] = field(default_factory=dict)
    """How many of what were left out, because their times lie far away from all others."""
    first_job: int = 0
    """The first job that the log has, if those before it are missing."""
    finished: bool = False
    """Whether `finish` was called."""

    @property
    def tasks(self) -> TaskRows:
        """All attempts of tasks that have ended."""
        return self.attempts.rows

    @property
    def open_tasks(self) -> int:
        """Number of tasks whose end is not in the log."""
        return self.attempts.open_tasks

    @property
    def stages(self) -> dict[int, Stage]:
        """The latest attempt of every stage."""
        return self.told.stages

    @property
    def jobs(self) -> dict[int, Job]:
        """Jobs by number."""
        return self.told.jobs

    @property
    def executors(self) -> dict[str, Executor]:
        """Executors by name."""
        return self.told.executors

    @property
    def cores(self) -> Mapping[str, int]:
        """Number of cores by executor."""
        return {name: each.cores for name, each in self.executors.items()}

    @property
    def removed(self) -> Mapping[str, int]:
        """When executors were removed."""
        return {name: each.removed for name, each in self.executors.items() if each.removed}

    @property
    def batches(self) -> list[StreamBatch]:
        """Batches of streams."""
        return [
            StreamBatch(query=each.query, number=each.number, start=each.start, end=each.end)
            for each in self.told.batches
        ]

    def facts(self) -> Application:
        """Return what the log says of the application."""
        self.finish()
        told = self.told
        return Application(
            name=self.name,
            number=self.number,
            version=self.version,
            start=self.start,
            end=self.end,
            ended=self.ended,
            settings=told.settings,
            executors=lost_at_the_end(told.executors.values(), self.over),
            jobs=timed_jobs(told.jobs, told.attempts),
            stages=told.attempts,
            executions=told.sql.known,
            batches=with_intervals(told.batches),
            streams=told.streams,
            exceptions=self.attempts.exceptions,
            tasks=self.tasks,
        )

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
            except (MalformedEventError, TraceError, RecursionError) as error:
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
        """Return all tasks, and close the facts: ends that the log lacks are completed (`dropped.py`),
        and what lies far away from everything else is left out (`times.py`). Lines that are read
        later do not count.
        """
        if not self.finished:
            self.finished = True
            self._leave_out_far()
            self.end = max(self.end, self.attempts.latest)
            if self.ended:
                self.told.jobs = ended_jobs(self.jobs, self.stages)
            else:
                self.end = max([self.end, *changes(self.executors.values())])
            sql = self.told.sql
            sql.known = ended_executions(sql.known, self.jobs.values())
            self.attempts.finish(self.end, self.removed, completed(self.told.attempts.values()))
            self._begin_with_first_job()
            self.told.executors = believed(self.executors, self.tasks)
            self._name_stages()
        return self.tasks.close()

    def _leave_out_far(self) -> None:
        """Leave out what lies far away from everything else."""
        told = [self.start, self.over or self.end, *self.attempts.begun, *times_of(self.told)]
        known = np.array([time for time in told if 0 < time < LATEST], dtype=np.int64)
        rows = self.tasks.close()
        facts = [time for time in (*told, *others_of(self.told)) if time]
        span = [time // MS for time in rows.span or ()]
        if all(0 < time < LATEST for time in facts) and not far_apart([*facts, *span]):
            return
        columns = (part[name] // MS for part in rows.each() for name in ("launch", "finish"))
        first, last = core_of([known, *columns]) or (0, 0)
        self.far = {
            "task": self.attempts.keep(first, last) + self.tasks.keep(first * MS, last * MS),
            **keep(self.told, first, last),
        }
        self.start = self.start if first <= self.start <= last else 0
        self.end = min(self.end, last)
        if self.ended and not first <= self.over <= last:
            self.over = self.end

    def _name_stages(self) -> None:
        """Give attempts of a stage that did not end the nodes of one that did."""
        told = self.told
        told.attempts = whole_stages(told.attempts)
        told.stages = {
            number: told.attempts.get((number, stage.attempt), stage)
            for number, stage in told.stages.items()
        }

    def _begin_with_first_job(self) -> None:
        """Begin with what the log has, if it lacks the first jobs: Spark compacted it, or it was cut."""
        if not self.lines or min(self.jobs, default=0) == 0:
            return
        self.first_job = min(self.jobs)
        begun = [job.start for job in self.jobs.values()]
        begun += [each.start for each in self.told.sql.known.values()]
        begun += [each.start for each in self.told.batches]
        begun += [time // MS for time in (self.tasks.close().span or ())[:1]]
        self.start = max(self.start, min((time for time in begun if time), default=0))

    def _skip(self, reason: str, origin: str, *, strict: bool) -> None:
        if self.strict and strict:
            told = shortened(reason, NAMED_CHARACTERS)
            msg = f"line {self.lines} of {origin}: {told}; run without --strict to skip such lines"
            raise TraceError(msg)
        self.bad_lines += 1
        if len(self.bad) < NAMED_LINES:
            self.bad.append((self.lines, shortened(reason, NAMED_CHARACTERS)))

    def _take(self, event: object) -> None:
        match event:
            case TaskEnd():
                self.attempts.ended(event)
            case TaskStart():
                self.attempts.began(event)
            case ApplicationStart():
                self.name = shortened(event.name) or self.name
                self.number = event.number or self.number
                self.start = self.start or event.time
                self.end = max(self.end, event.time)
            case ApplicationEnd():
                self.over, self.ended = event.time, True
                self.end = max(self.end, event.time)
            case LogVersion():
                self.version = event.spark
            case _:
                self.told.see(event)
                self.end = max(self.end, self.told.latest)
