"""What the saved events of a job tell: a bounded fold of them, read on as they are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from rechannel.telemetry.events import Event, JobStarted, JobStopped, TimestepFailed
from rechannel.telemetry.progress import Progress
from rechannel.telemetry.recent_events import RecentEvents
from rechannel.telemetry.recent_tasks import RecentTasks
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished
from rechannel.telemetry.totals import Totals

KEPT = 1_000
"""Timesteps whose progress is shown."""

_GROUP = 1_000
"""Events that are folded at a time."""


@dataclass(slots=True)
class Told:
    """What the events of a job tell. One thread folds, any may read."""

    progress: Progress = field(default_factory=lambda: Progress(keep=KEPT))
    tasks: RecentTasks = field(default_factory=RecentTasks)
    events: RecentEvents = field(default_factory=RecentEvents)
    totals: Totals = field(default_factory=Totals)
    error: str | None = None
    """What stopped the latest driver; None if nothing did, or it runs."""
    failures: int = 0
    """Failures of timesteps since it started."""
    at_ms: int | None = None
    """When the newest event happened, Unix milliseconds; None without events."""

    def see(self, events: Iterator[Event]) -> None:
        """Fold events, in the order in which they happened."""
        while group := list(islice(events, _GROUP)):
            self._see(group)

    def _see(self, events: Sequence[Event]) -> None:
        for event in events:
            match event:
                case JobStarted():
                    self.error, self.failures, self.totals = None, 0, Totals()
                case JobStopped():
                    self.error = event.error
                case TimestepFailed():
                    self.failures += 1
            self.totals.see(event)
        times = [
            event.at_ms for event in events if not isinstance(event, TaskFinished | TasksFinished)
        ]
        self.at_ms = max((self.at_ms, *times), key=lambda ms: ms or 0)
        self.progress.see(*events)
        self.tasks.see(events)
        self.events.see(events)
