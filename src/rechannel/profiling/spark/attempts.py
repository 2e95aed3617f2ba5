"""Attempts of tasks, from their launch to their end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rechannel.errors import TraceError
from rechannel.profiling.model.trace import MS
from rechannel.profiling.spark.rows import FAILURES, SparkTask, TaskRows
from rechannel.profiling.spark.task_events import Metrics, TaskEnd, TaskInfo, TaskStart

LATEST = 1 << 43
"""Latest time that a log may contain, ms: the year 2248."""
MOST_RUNNING = 1 << 18
"""Attempts without an end that are held, about 450 bytes each: the oldest is dropped for one more."""
COPIES = 100_000
"""Speculative copies that are remembered, so that the attempt that they beat is known as beaten."""
CLASSES = 100
"""Classes of exceptions that are counted."""

_FAILED = {
    "ExceptionFailure": FAILURES.index("exception"),
    "FetchFailed": FAILURES.index("fetch failed"),
    "ExecutorLostFailure": FAILURES.index("executor lost"),
    "TaskKilled": FAILURES.index("killed"),
    "TaskCommitDenied": FAILURES.index("commit denied"),
}
"""Codes of the reasons that Spark gives."""
_LOST, _KILLED, _OTHER = (FAILURES.index(name) for name in ("executor lost", "killed", "other"))


@dataclass(slots=True)
class Attempts:
    """What has been read of attempts so far."""

    rows: TaskRows = field(default_factory=TaskRows)
    """Those that ended."""
    exceptions: dict[str, int] = field(default_factory=dict)
    """Number of attempts that failed, by class of exception."""
    open_tasks: int = 0
    """Number of those whose end is not in the log; known once it has been read."""
    _running: dict[int, TaskStart] = field(default_factory=dict)
    _copies: dict[tuple[int, int, int], None] = field(default_factory=dict)
    """Stage, attempt and index of tasks that have a speculative copy."""

    @property
    def latest(self) -> int:
        """The latest launch or finish, Unix milliseconds; 0 if there are none."""
        span = self.rows.close().span
        return max([*self.begun, *(() if span is None else (span[1] // MS,))], default=0)

    @property
    def begun(self) -> list[int]:
        """When attempts without an end were launched, Unix milliseconds."""
        return [start.info.launch for start in self._running.values()]

    def keep(self, first: int, last: int) -> int:
        """Drop attempts without an end that were not launched within [first, last], Unix
        milliseconds; returns how many they are.
        """
        before = len(self._running)
        self._running = {
            number: start
            for number, start in self._running.items()
            if first <= start.info.launch <= last
        }
        return before - len(self._running)

    def began(self, event: TaskStart) -> None:
        """Take up a launch. Raises TraceError for impossible numbers."""
        info = event.info
        _check(info, event.stage, event.attempt)
        self._running[info.number] = event
        if len(self._running) > MOST_RUNNING:
            del self._running[next(iter(self._running))]
            self.open_tasks += 1
        if info.speculative:
            self._copies[event.stage, event.attempt, info.index] = None
            if len(self._copies) > COPIES:
                del self._copies[next(iter(self._copies))]

    def ended(self, event: TaskEnd) -> None:
        """Take up an end. Raises TraceError for impossible numbers."""
        info = event.info
        self._running.pop(info.number, None)
        _check(info, event.stage, event.attempt)
        if info.finish < info.launch:
            msg = f"task {info.number} ends at {info.finish}, before it begins at {info.launch}"
            raise TraceError(msg)
        if event.reason.name == "Resubmitted":
            # The task had succeeded and was recorded; then its output was lost with its executor.
            self.rows.lost.add(info.number)
            return
        failed, beaten = 0, False
        if info.failed or info.killed:
            failed = _KILLED if info.killed else _FAILED.get(event.reason.name, _OTHER)
            beaten = info.killed and self._beaten(event)
            self._count(event.reason.error)
        self.rows.add(
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
                good=not failed,
                killed=info.killed,
                failed=failed,
                beaten=beaten,
                attempt=event.attempt,
                speculative=info.speculative,
            )
        )

    def finish(
        self, end: int, removed: Mapping[str, int], completed: Mapping[tuple[int, int], int]
    ) -> None:
        """Add attempts without an end: they last until the end of their stage, of their executor, or of the log.

        Times are Unix milliseconds. removed: when executors were removed, by name. completed: when
        attempts of stages were, by number and attempt.
        """
        for start in self._running.values():
            info, gone = start.info, removed.get(start.info.executor)
            over = completed.get((start.stage, start.attempt), 0)
            if over >= info.launch and (gone is None or over <= gone):
                last, gone = over, None
            else:
                last = end if gone is None else gone
            finish = max(info.launch, last)
            self.rows.add(
                SparkTask(
                    number=info.number,
                    stage=start.stage,
                    index=info.index,
                    executor=info.executor,
                    launch=info.launch,
                    finish=finish,
                    metrics=Metrics(run=finish - info.launch),
                    good=gone is None,
                    failed=0 if gone is None else _LOST,
                    attempt=start.attempt,
                    speculative=info.speculative,
                )
            )
        self.open_tasks += len(self._running)
        self._running.clear()

    def _beaten(self, event: TaskEnd) -> bool:
        """Return whether an attempt was killed because another one of the same task was faster."""
        task = event.stage, event.attempt, event.info.index
        return (
            event.info.speculative
            or task in self._copies
            or "another attempt succeeded" in event.reason.kill
        )

    def _count(self, error: str) -> None:
        if error and (error in self.exceptions or len(self.exceptions) < CLASSES):
            self.exceptions[error] = self.exceptions.get(error, 0) + 1


def _check(info: TaskInfo, stage: int, attempt: int) -> None:
    """Raise TraceError for impossible numbers."""
    if (
        0 <= stage < 1 << 31
        and 0 <= attempt < 1 << 31
        and 0 <= info.index < 1 << 31
        and 0 <= info.launch < LATEST
        and 0 <= info.finish < LATEST
        and 0 <= info.number < 1 << 62
    ):
        return
    known = (
        ("id", info.number, 1 << 62),
        ("stage", stage, 1 << 31),
        ("attempt of the stage", attempt, 1 << 31),
        ("index", info.index, 1 << 31),
        ("launch time", info.launch, LATEST),
        ("finish time", info.finish, LATEST),
    )
    for what, number, most in known:
        if not 0 <= number < most:
            msg = f"the {what} of a task is {number}"
            raise TraceError(msg)
