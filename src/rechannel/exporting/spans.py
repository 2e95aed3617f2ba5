"""Spans of a job, as a fold of its events. Pure.

Rules:

- A timestep has spans once it is committed, and if its beginning was seen; an attempt that fails has one.
- What a sink publishes is added to its timestep, also long after the commit.
- A reconfiguration has spans once the timestep of its last step has, which they are linked to: its summary comes sooner
  than the events, and sooner than the timestep if the step was made while no input came.
- If events are missing, the timesteps that were open have no spans: half of them would mislead.
"""

from __future__ import annotations

from collections.abc import Iterator

from rechannel.exporting.error_texts import ErrorText
from rechannel.exporting.reconfiguration_spans import reconfiguration_spans
from rechannel.exporting.span import Span
from rechannel.exporting.timestep_spans import (
    OpenTimestep,
    committed_spans,
    failed_span,
    published_span,
)
from rechannel.monitoring import ReconfigurationSummary
from rechannel.telemetry.events import (
    Event,
    SinkPublished,
    TimestepCommitted,
    TimestepFailed,
    TimestepStarted,
)
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished


class Spans:
    """Folds events and reconfigurations into spans. One thread tells."""

    def __init__(self, job: str, *, tasks: int, committed: int, errors: ErrorText) -> None:
        """tasks: how many of each operator have a span. committed: the last timestep that was before. errors: how much
        spans have of them.
        """
        self._job, self._most, self._errors = job, tasks, errors
        self._committed = committed
        self._open: dict[int, OpenTimestep] = {}
        self._over: list[ReconfigurationSummary] = []

    def see(self, event: Event) -> Iterator[Span]:
        """Fold an event; yield what it completes, every parent before its children."""
        match event:
            case TimestepStarted():
                self._open[event.timestep] = OpenTimestep(started=event)
            case TaskFinished() | TasksFinished():
                if (open_ := self._open.get(event.timestep)) is not None:
                    open_.see(event)
            case TimestepFailed():
                if (open_ := self._open.pop(event.timestep, None)) is not None:
                    yield failed_span(self._job, open_, event, self._errors)
            case TimestepCommitted():
                yield from self._commit(event)
            case SinkPublished():
                yield from self._publish(event)
            case _:
                pass

    def forget(self) -> None:
        """Events are missing."""
        self._open.clear()

    def reconfigured(self, summary: ReconfigurationSummary) -> Iterator[Span]:
        """Fold a reconfiguration that is over."""
        self._over.append(summary)
        yield from self._reconfigurations(self._committed)

    def finish(self) -> Iterator[Span]:
        """Yield what waits: no other event comes."""
        yield from self._reconfigurations(None)

    def _commit(self, event: TimestepCommitted) -> Iterator[Span]:
        open_ = self._open.pop(event.timestep, None)
        # Commits come in order, so whatever is older will not be heard of again.
        self._committed = event.timestep
        self._open = {t: known for t, known in self._open.items() if t > event.timestep}
        if open_ is not None:
            yield from committed_spans(self._job, open_, event, self._most)
            for published in open_.published:
                yield published_span(self._job, published)
        yield from self._reconfigurations(event.timestep)

    def _publish(self, event: SinkPublished) -> Iterator[Span]:
        open_ = self._open.get(event.timestep)
        if open_ is None:
            yield published_span(self._job, event)
        else:
            open_.published.append(event)

    def _reconfigurations(self, committed: int | None) -> Iterator[Span]:
        """Yield those whose last timestep is committed, or all."""
        for summary in list(self._over):
            last = summary.last_timestep
            if committed is None or last is None or last <= committed:
                self._over.remove(summary)
                yield from reconfiguration_spans(self._job, summary, self._errors)
