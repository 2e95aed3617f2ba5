"""Shows metrics of jobs to the readers of a meter provider of OpenTelemetry.

A provider has each instrument once, for all jobs of the process: OpenTelemetry warns about a second one of its name,
and has no way to take one away. Readers ask in threads of their own, whenever they like.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from rechannel.exporting.opentelemetry import SCOPE
from rechannel.metrics.metric import Kind, Metric
from rechannel.metrics.registry import DURATIONS, METRICS
from rechannel.metrics.seen import Seen
from rechannel.telemetry.events import Event
from rechannel.telemetry.totals import BOUNDS
from rechannel.version import __version__

Look = Callable[[], Seen]
Failed = Callable[[BaseException], None]

MOST_ENDED = 64
"""Jobs that have ended and whose last figures are still shown."""


class Shown:
    """A job, looked at once for all instruments of a collection."""

    def __init__(self, look: Look, failed: Failed) -> None:
        self._look: Look | None = look
        self._failed = failed
        self._lock = threading.Lock()
        self._seen: Seen | None = None
        self._served: set[str] = set()

    def seen(self, metric: str) -> Seen | None:
        """Return what a metric is read from: the job as it was for the others, until one asks again."""
        with self._lock:
            if self._look is not None and (self._seen is None or metric in self._served):
                self._seen = self._looked(self._look)
                self._served = set()
            self._served.add(metric)
            return self._seen

    def end(self) -> None:
        """Keep the last figures instead of the job."""
        with self._lock:
            if self._look is not None:
                self._seen, self._look = self._looked(self._look), None

    def _looked(self, look: Look) -> Seen | None:
        try:
            return look()
        except Exception as error:  # the other jobs are shown
            self._failed(error)
            return None


class Metering:
    """The instruments of one meter provider."""

    def __init__(self, provider: MeterProvider) -> None:
        """Make them. Use `metering_of`."""
        meter = provider.get_meter(SCOPE, __version__)
        self._lock = threading.Lock()
        self._shown: dict[str, Shown] = {}
        self._ended: list[str] = []
        self._histograms = {
            durations.name: meter.create_histogram(
                durations.name,
                durations.unit,
                durations.words,
                explicit_bucket_boundaries_advisory=BOUNDS,
            )
            for durations in DURATIONS
        }
        for metric in METRICS:
            self._make(meter, metric)

    def begin(self, job: str, look: Look, failed: Failed) -> Shown:
        """Show a job, in the place of an earlier one of its name."""
        shown = Shown(look, failed)
        with self._lock:
            self._shown[job] = shown
            self._ended = [name for name in self._ended if name != job]
        return shown

    def end(self, job: str, shown: Shown, *, keep: bool) -> None:
        """Show a job no more. keep: show its last figures, so that a reader that comes later has them."""
        shown.end()
        with self._lock:
            if self._shown.get(job) is not shown:
                return
            if not keep:
                del self._shown[job]
                return
            self._ended.append(job)
            while len(self._ended) > MOST_ENDED:
                self._shown.pop(self._ended.pop(0), None)

    def record(self, job: str, events: Iterable[Event]) -> None:
        """Add durations to the histograms."""
        for event in events:
            for durations in DURATIONS:
                found = durations.of(event)
                if found is not None:
                    labels, seconds = found
                    attributes = durations.attributes(job, labels)
                    self._histograms[durations.name].record(max(0.0, seconds), attributes)

    def _make(self, meter: Meter, metric: Metric) -> None:
        make = (
            meter.create_observable_counter
            if metric.kind is Kind.COUNTER
            else meter.create_observable_gauge
        )
        make(metric.name, [partial(self._observed, metric)], metric.unit, metric.words)

    def _observed(self, metric: Metric, options: CallbackOptions) -> Iterator[Observation]:
        del options
        with self._lock:
            shown = list(self._shown.values())
        for each in shown:
            seen = each.seen(metric.name)
            if seen is not None:
                for labels, number in metric.read(seen):
                    yield Observation(number, metric.attributes(seen.job, labels))


_METERINGS: WeakKeyDictionary[MeterProvider, Metering] = WeakKeyDictionary()
_MAKING = threading.Lock()


def metering_of(provider: MeterProvider) -> Metering:
    """Return the instruments of a provider, which are made once."""
    with _MAKING:
        known = _METERINGS.get(provider)
        if known is None:
            known = _METERINGS[provider] = Metering(provider)
        return known
