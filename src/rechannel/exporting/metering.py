"""Shows metrics of jobs to the readers of a meter provider of OpenTelemetry.

A provider has each instrument once, for all jobs of the process: OpenTelemetry warns about a second one of its name,
and has no way to take one away. Readers ask in threads of their own, whenever they like.

The provider's resource (`service.instance.id`), which the program sets, tells streams of one process from those of
another. Within a process, `counters.py` sees to it that no counter goes back.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

from rechannel.exporting.counters import Counters
from rechannel.exporting.opentelemetry import SCOPE
from rechannel.metrics.metric import Kind, Labels, Metric
from rechannel.metrics.registry import DURATIONS, METRICS
from rechannel.metrics.seen import Seen
from rechannel.telemetry.events import Event
from rechannel.telemetry.totals import BOUNDS
from rechannel.version import __version__

Look = Callable[[], Seen]
Failed = Callable[[BaseException], None]

COUNTERS = tuple(metric.name for metric in METRICS if metric.kind is Kind.COUNTER)

MOST_ENDED = 64
"""Jobs that have ended and whose last figures are still shown."""

MOST_COUNTED = 1_000
"""Names of jobs whose counters go on with the next job of the name. A longer list would outgrow the SDK's own limit of
2,000 sets of attributes per instrument."""

Numbers = Sequence[tuple[Labels, float]]


class Shown:
    """A job, looked at once for all instruments of a collection."""

    def __init__(self, look: Look, failed: Failed, run: object, counters: Counters) -> None:
        """Take the zero of the counters. run: tells the run of a driver from others of its job."""
        self._look: Look | None = look
        self._failed = failed
        self.run = run
        self.replaced = False
        """Whether the same run is exported anew: then what it does is recorded there."""
        self._counters = counters
        self._lock = threading.Lock()
        self._seen: tuple[str, dict[str, Numbers]] | None = None
        self._served: set[str] = set()
        counters.begin()
        self._looked(look)

    def numbers(self, metric: Metric) -> tuple[str, Numbers] | None:
        """Return the job's name and a metric: of the moment of the other metrics, until one is asked for again."""
        with self._lock:
            if self._look is not None and (self._seen is None or metric.name in self._served):
                self._seen = self._looked(self._look)
                self._served = set()
            self._served.add(metric.name)
            return None if self._seen is None else (self._seen[0], self._seen[1][metric.name])

    def end(self) -> None:
        """Keep the last figures instead of the job."""
        with self._lock:
            if self._look is not None:
                self._seen, self._look = self._looked(self._look), None

    def _looked(self, look: Look) -> tuple[str, dict[str, Numbers]] | None:
        """Read all metrics. Counters are counted in the order of the looks, or an older look would be a fall."""
        try:
            seen = look()
            read: dict[str, Numbers] = {each.name: list(each.read(seen)) for each in METRICS}
        except Exception as error:  # the other jobs are shown
            self._failed(error)
            return None
        counted = self._counters.see(
            {(name, labels): number for name in COUNTERS for labels, number in read[name]}
        )
        for name in COUNTERS:
            read[name] = [(labels, counted[name, labels]) for labels, _ in read[name]]
        return seen.job, read


class Metering:
    """The instruments of one meter provider."""

    def __init__(self, provider: MeterProvider) -> None:
        """Make them. Use `metering_of`."""
        meter = provider.get_meter(SCOPE, __version__)
        self._lock = threading.Lock()
        self._shown: dict[str, Shown] = {}
        self._ended: list[str] = []
        self._counters: OrderedDict[str, Counters] = OrderedDict()
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

    def begin(self, job: str, look: Look, failed: Failed, run: object) -> Shown:
        """Show a job, in the place of an earlier one of its name, whose counters it continues.

        run: what tells the run of a driver from others. A run that is shown already is recorded by the new export only.
        """
        with self._lock:
            earlier = self._shown.get(job)
            if earlier is not None:
                earlier.end()
                earlier.replaced = earlier.run is run
            counters = self._counters.pop(job, None) or Counters()
            self._counters[job] = counters
            while len(self._counters) > MOST_COUNTED:
                self._counters.popitem(last=False)
            shown = self._shown[job] = Shown(look, failed, run, counters)
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

    def record(self, job: str, shown: Shown, events: Iterable[Event]) -> None:
        """Add durations to the histograms."""
        for event in () if shown.replaced else events:
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
            found = each.numbers(metric)
            if found is not None:
                job, numbers = found
                for labels, number in numbers:
                    yield Observation(number, metric.attributes(job, labels))


_METERINGS: WeakKeyDictionary[MeterProvider, Metering] = WeakKeyDictionary()
_MAKING = threading.Lock()


def metering_of(provider: MeterProvider) -> Metering:
    """Return the instruments of a provider, which are made once."""
    with _MAKING:
        known = _METERINGS.get(provider)
        if known is None:
            known = _METERINGS[provider] = Metering(provider)
        return known
