"""Metrics of a job for Prometheus, read from the job at every request and stored nowhere else.

What there is to know is in `rechannel.metrics`. Counters and histograms count since the driver started; gauges show the
present state. Names end in their unit, and every metric has the job's name as a label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)
from prometheus_client.core import Metric as Family
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from rechannel.metrics.metric import JOB, Kind
from rechannel.metrics.registry import DURATIONS, METRICS
from rechannel.metrics.seen import Seen
from rechannel.running import RunningJob
from rechannel.running.seen import seen_of
from rechannel.telemetry.totals import BOUNDS, Histogram

_FAMILIES: Mapping[Kind, Callable[..., CounterMetricFamily | GaugeMetricFamily]] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
}


def registry_of(job: RunningJob) -> CollectorRegistry:
    """A registry of its own, without the other metrics of the process."""
    registry = CollectorRegistry()
    registry.register(JobCollector(job))
    return registry


class JobCollector(Collector):
    """Reads the metrics of a job."""

    def __init__(self, job: RunningJob) -> None:
        """Read this job."""
        self._job = job

    def describe(self) -> Iterable[Family]:
        """Nothing: otherwise the registry would collect once to find the names."""
        return ()

    def collect(self) -> Iterator[Family]:
        """All metrics at present."""
        return families(seen_of(self._job))


def families(seen: Seen) -> Iterator[Family]:
    """Yield all metrics of a job at one moment; one of which nothing is known has no samples."""
    for metric in METRICS:
        family = _FAMILIES[metric.kind](
            metric.prometheus, metric.words, labels=[JOB, *metric.labels]
        )
        for labels, number in metric.read(seen):
            family.add_metric([seen.job, *labels], number)
        yield family
    for durations in DURATIONS:
        histogram = HistogramMetricFamily(
            durations.prometheus, durations.words, labels=[JOB, *durations.labels]
        )
        for labels, counted in durations.read(seen.sums):
            _add(histogram, [seen.job, *labels], counted)
        yield histogram


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    ends = [*map(floatToGoString, BOUNDS), "+Inf"]
    below = list(zip(ends, accumulate(histogram.counts), strict=True))
    family.add_metric(labels, buckets=below, sum_value=histogram.total)
