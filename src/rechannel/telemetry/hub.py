"""One job's telemetry: makes events of what the driver's loop does, folds them into progress, passes them to the log.

The loop's thread calls it; the log's thread does everything slow (reading Spark's figures, writing).
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rechannel.errors import one_sentence
from rechannel.kernels.tasks.unit_report import UnitReport
from rechannel.logs import fields
from rechannel.sources.backlog import Backlog
from rechannel.telemetry.build import finished
from rechannel.telemetry.events import (
    DecisionMade,
    Event,
    JobStarted,
    JobStopped,
    Note,
    OperatorFinished,
    SinkPublished,
    StateSize,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.feed import Feed
from rechannel.telemetry.log import Complete, EventLog
from rechannel.telemetry.progress import TROUBLE, Progress
from rechannel.telemetry.recent_events import RecentEvents
from rechannel.telemetry.recent_tasks import RecentTasks, TimestepTasks
from rechannel.telemetry.totals import Sums, Totals
from rechannel.telemetry.troubles import Troubles

_LOG = logging.getLogger("rechannel")

TIMESTEP, SOURCES = "timestep", "sources"
"""Topics of troubles: a timestep that is retried, and a look at the sources that is repeated."""
STORE = "store"
"""Topic of the journal's troubles with its store."""
CONTROLLER = "controller"
"""Topic of the figures that controllers show."""


class Hub:
    """Telemetry of one job. directory: where event files go; None = progress only."""

    def __init__(
        self,
        started: JobStarted,
        *,
        directory: Path | None,
        complete: Complete | None,
        clock: Callable[[], float],
        keep: int = 100,
    ) -> None:
        """Open the log with `started`. keep: timesteps that `recent_progress` shows."""
        self._job = started.job
        self._clock = clock
        self._progress = Progress(keep=keep)
        self._totals = Totals()
        self.troubles = Troubles(self._troubled)
        self._tasks = RecentTasks()
        self._events = RecentEvents()
        self._feeds: tuple[Feed, ...] = ()
        self._folding = threading.Lock()
        self.told: Callable[[], None] = lambda: None
        """Called when `recent_tasks` has another timestep, in the thread of the log if there is one."""
        self._log = None
        if directory is not None:
            self._log = EventLog(directory, complete=complete, seen=self._completed)
        self._see(started)
        _LOG.info(
            "job %r has started (%s); its next timestep is %d",
            started.job,
            started.engine,
            started.timestep,
            extra=fields("job_started", timestep=started.timestep),
        )

    @property
    def last_progress(self) -> TimestepProgress | None:
        """Facts of the last committed timestep."""
        return self._progress.last_progress

    @property
    def recent_progress(self) -> list[TimestepProgress]:
        """Facts of the last timesteps, oldest first."""
        return self._progress.recent_progress

    @property
    def open_since_ms(self) -> int | None:
        """When the oldest timestep in flight began, or began again; None if there is none."""
        return self._progress.open_since_ms

    @property
    def recent_tasks(self) -> tuple[TimestepTasks, ...]:
        """Tasks of the last committed timesteps, oldest first; with a log, up to a second late."""
        return self._tasks.recent

    @property
    def now_ms(self) -> float:
        """The present time, Unix milliseconds."""
        return self._clock()

    def recent_events(self, timesteps: int) -> tuple[Event, ...]:
        """Return events of the last committed timesteps, oldest first; with a log, up to a second late."""
        return self._events.recent(timesteps)

    def follow(self) -> Feed:
        """Return a feed of all events from now on, until `leave`; with a log, they come up to a second late."""
        feed = Feed()
        with self._folding:
            self._feeds = (*self._feeds, feed)
        return feed

    def leave(self, feed: Feed) -> None:
        """Tell a feed no more."""
        with self._folding:
            self._feeds = tuple(each for each in self._feeds if each is not feed)

    @property
    def totals(self) -> Sums:
        """Sums since the driver started."""
        return self._totals.sums

    def started(
        self,
        timestep: int,
        *,
        stream_ms: int,
        at_ms: float,
        offsets: Mapping[str, Any],
        configuration: int,
        backlog: Mapping[str, Backlog],
        inline: bool,
    ) -> None:
        """A timestep was decided.

        backlog: what it leaves unread, by source that can tell; empty in a replay. inline: whether the driver runs it.
        """
        self._see(
            TimestepStarted(
                timestep=timestep,
                now_ms=stream_ms,
                at_ms=int(at_ms),
                offsets=offsets,
                configuration=configuration,
                backlog=backlog,
                inline=inline,
            )
        )

    def operator(self, timestep: int, operator: str, at_ms: float) -> None:
        """All tasks of an operator are done with a timestep."""
        self._see(OperatorFinished(timestep=timestep, operator=operator, at_ms=int(at_ms)))

    def committed(
        self,
        timestep: int,
        *,
        reports: Sequence[UnitReport],
        began_ms: float,
        at_ms: float,
        phases: Mapping[str, float],
        state: Mapping[str, tuple[int, int]],
        watermarks: Mapping[str, int],
        sources: frozenset[str],
    ) -> None:
        """A timestep is in the journal.

        state: (rows, bytes) by operator. watermarks: Unix milliseconds by operator. sources: stages that read sources.
        """
        tasks = [each for report in reports for each in finished(report)]
        self._see(
            *tasks,
            TimestepCommitted(
                timestep=timestep,
                at_ms=int(at_ms),
                duration_ms=max(0.0, at_ms - began_ms),  # the clock may have been set back
                phases={name: max(0.0, ms) for name, ms in phases.items()},
                rows_in=sum(task.rows_in for task in tasks if task.operator in sources),
                rows_out=sum(task.rows_kept for task in tasks),
                state={name: StateSize(rows=r, bytes=b) for name, (r, b) in state.items()},
                watermarks=watermarks,
            ),
        )

    def published(self, timestep: int, sink: str, *, duration_ms: float, again: bool) -> None:
        """A sink published a timestep."""
        self._see(
            SinkPublished(
                timestep=timestep,
                sink=sink,
                at_ms=int(self._clock()),
                duration_ms=duration_ms,
                again=again,
            )
        )

    def failed(
        self, timestep: int | None, error: BaseException, *, again_ms: float | None = None
    ) -> None:
        """A timestep failed, or (None) a look at the sources. again_ms: until it is retried; None = it is not."""
        if again_ms is not None:
            self.troubles(SOURCES if timestep is None else TIMESTEP, error)
        if timestep is None:
            return
        self._see(
            TimestepFailed(
                timestep=timestep,
                at_ms=int(self._clock()),
                error=type(error).__name__,
                message=str(error),
                again_ms=again_ms,
            )
        )

    def well(self) -> None:
        """What failed before has succeeded."""
        for topic in (SOURCES, TIMESTEP):
            self.troubles(topic, None)

    def shown(
        self,
        controller: str,
        timestep: int | None,
        metrics: Mapping[str, Mapping[str, float | None]],
    ) -> None:
        """A controller shows figures, by name and operator; None takes one away. timestep: the latest committed one."""
        data = {"controller": controller, "metrics": {n: dict(of) for n, of in metrics.items()}}
        self._see(
            Note(
                at_ms=int(self._clock()),
                topic=CONTROLLER,
                text=f"controller {controller} shows {', '.join(sorted(metrics))}",
                timestep=timestep,
                data=data,
            )
        )

    def decided(self, event: DecisionMade) -> None:
        """A controller has decided something, or says what became of it."""
        self._see(event)

    def close(self, error: BaseException | None = None) -> None:
        """Record the end of the job, and write what is waiting."""
        text = None if error is None else str(error)
        self._see(JobStopped(job=self._job, at_ms=int(self._clock()), error=text))
        if error is None:
            how = "job %r has ended as it was asked to"
            _LOG.info(how, self._job, extra=fields("job_ended", reason=None))
        else:
            reason = one_sentence(error)
            _LOG.error(
                "job %r has failed: %s", self._job, reason, extra=fields("job_ended", reason=reason)
            )
        if self._log is not None:
            self._log.close()

    def _troubled(self, topic: str, text: str | None) -> None:
        said = f"{topic} works again" if text is None else f"{topic} failed: {text}"
        self._see(
            Note(
                at_ms=int(self._clock()),
                topic=TROUBLE,
                text=said,
                data={"of": topic, "error": text},
            )
        )

    def _see(self, *events: Event) -> None:
        self._progress.see(*events)
        self._totals.see(*events)
        if self._log is None:
            self._completed(events)
        else:
            self._log.append(*events)

    def _completed(self, events: Sequence[Event]) -> None:
        """Fold events that have Spark's figures."""
        with self._folding:  # without a log, threads of sinks and the driver's come here
            before = self._tasks.recent
            self._tasks.see(events)
            self._events.see(events)
            for feed in self._feeds:
                feed.see(events)
            new = self._tasks.recent is not before
        if new:
            self.told()
