"""The telemetry that a job has left in its state directory, read once: progress, tasks, decisions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from rechannel.telemetry.events import DecisionMade, JobStarted
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.progress import Progress
from rechannel.telemetry.reading import EventReader
from rechannel.telemetry.recent_tasks import MOST_TIMESTEPS, RecentTasks, TimestepTasks

MOST_DECISIONS = 5_000
_GROUP = 1_000
"""Events that are folded at a time."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SavedRun:
    """What a job has measured."""

    job: str
    """Its name; "" if its beginning is not kept."""
    progress: tuple[TimestepProgress, ...]
    """Of the latest committed timesteps, oldest first."""
    tasks: tuple[TimestepTasks, ...]
    """The same timesteps, or the latest of them if they have very many tasks."""
    decisions: tuple[DecisionMade, ...] = ()
    """What controllers decided, oldest first: the latest `MOST_DECISIONS`."""


class SavedReader:
    """Reads a directory of telemetry, and at each further call what was added meanwhile."""

    def __init__(self, directory: Path, *, bad: Callable[[str], None] | None = None) -> None:
        """bad: called with a message for every line that is no event; None = it is an error."""
        self._events = EventReader(directory, bad=bad)
        self._progress, self._tasks = Progress(keep=MOST_TIMESTEPS), RecentTasks()
        self._decisions: deque[DecisionMade] = deque(maxlen=MOST_DECISIONS)
        self._job = ""

    def read(self) -> SavedRun:
        """Return what there is. Raises NewerFormatError, DamagedStateError as `EventReader.read`."""
        events = self._events.read()
        while group := list(islice(events, _GROUP)):
            self._progress.see(*group)
            self._tasks.see(group)
            self._decisions += [each for each in group if isinstance(each, DecisionMade)]
            started = [each for each in group if isinstance(each, JobStarted)]
            self._job = started[-1].job if started else self._job
        return SavedRun(
            job=self._job,
            progress=tuple(self._progress.recent_progress),
            tasks=self._tasks.recent,
            decisions=tuple(self._decisions),
        )
