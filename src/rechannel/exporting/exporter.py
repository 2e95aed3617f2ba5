"""The listener that exports a job: it folds events into spans, and passes them and durations on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rechannel.errors import RechannelError
from rechannel.exporting.error_texts import ErrorText
from rechannel.exporting.health import METRICS, TRACES, Health
from rechannel.exporting.opentelemetry import SCOPE, OpenTelemetry
from rechannel.exporting.span import Span
from rechannel.exporting.spans import Spans
from rechannel.metrics.seen import Seen
from rechannel.monitoring import JobListener, JobStatus, ReconfigurationSummary
from rechannel.telemetry.events import Event
from rechannel.telemetry.troubles import Trouble
from rechannel.version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rechannel.exporting.metering import Metering
    from rechannel.exporting.tracing import Tracing


class Exporter(JobListener):
    """Exports a job. What fails becomes a trouble; its calls come from one thread, for which nothing waits."""

    def __init__(
        self,
        job: str,
        look: Callable[[], Seen],
        spans: Spans,
        *,
        tracing: Tracing | None,
        metering: Metering | None,
        health: Health,
        run: object,
    ) -> None:
        """Begin to show the job's metrics. tracing, metering: None = without. run: of the driver."""
        self._job, self._spans = job, spans
        self._tracing, self._metering = tracing, metering
        self._health = health
        self._over = False
        self._shown = None if metering is None else metering.begin(job, look, health.failed, run)
        health.begin()

    def on_events(self, events: Sequence[Event], missed: int) -> None:
        """Export what has happened."""
        if self._metering is not None and self._shown is not None:
            with self._tried():
                self._metering.record(self._job, self._shown, events)
        if missed:
            self._spans.forget()
        for event in events:
            self._trace(self._spans.see(event))
        if missed:
            msg = (
                f"{missed} events were not exported: passing spans on takes longer than the timesteps. Use a"
                " BatchSpanProcessor, or sample fewer traces"
            )
            self._health.failed(RechannelError(msg))

    def on_reconfigured(self, summary: ReconfigurationSummary) -> None:
        """Export a reconfiguration."""
        self._trace(self._spans.reconfigured(summary))

    def on_terminated(self, status: JobStatus) -> None:
        """Export what is left."""
        self._trace(self._spans.finish())
        self._over = True

    def close(self) -> None:
        """Nothing comes any more: show the last figures of a job that has ended, and hear no more of the SDK."""
        if self._metering is not None and self._shown is not None:
            self._metering.end(self._job, self._shown, keep=self._over)
        self._health.end()

    def look(self) -> None:
        """Let time pass: what has failed may be over while nothing happens."""
        self._health.look()

    def _trace(self, spans: Iterable[Span]) -> None:
        if self._tracing is None:
            return
        with self._tried():
            for span in spans:
                with self._health.passing_on():
                    if self._tracing.make(span):
                        self._health.passed_on()

    @contextmanager
    def _tried(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # the stream and the other events do not suffer for it
            self._health.failed(error)


def exporter_of(
    to: OpenTelemetry, job: str, look: Callable[[], Seen], trouble: Trouble, run: object
) -> Exporter:
    """Make the listener. look: at the job, from any thread. trouble: takes what fails. run: tells drivers apart."""
    from opentelemetry.metrics import get_meter_provider
    from opentelemetry.trace import get_tracer_provider

    from rechannel.exporting.metering import metering_of
    from rechannel.exporting.tracing import Tracing

    signals = {TRACES: to.traces, METRICS: to.metrics}
    health = Health(trouble, signals=frozenset(name for name, used in signals.items() if used))
    tracing = metering = None
    if to.traces:
        provider = to.tracer_provider or get_tracer_provider()
        tracing = Tracing(provider.get_tracer(SCOPE, __version__))
    if to.metrics:
        metering = metering_of(to.meter_provider or get_meter_provider())
    spans = Spans(
        job, tasks=to.tasks, committed=look().status.timestep, errors=ErrorText(to.errors)
    )
    return Exporter(job, look, spans, tracing=tracing, metering=metering, health=health, run=run)
