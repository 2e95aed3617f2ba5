"""Metrics of a job for Prometheus, read from the job at every request and stored nowhere else.

Counters and histograms count since the driver started; gauges show the present state. Names end in their unit, and
every metric has the job's name as a label. (`job` itself is the label that Prometheus gives to its target.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import accumulate

from prometheus_client import CollectorRegistry
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from rechannel.monitoring import JobStatus
from rechannel.running import RunningJob
from rechannel.serve.answers import open_reconfigurations, operators_of, statuses_of
from rechannel.serve.control_metrics import control_metrics
from rechannel.serve.standing_metrics import standing_metrics
from rechannel.telemetry.totals import BOUNDS, Histogram, Sums

JOB = "job_name"

TROUBLES = ("lease", "housekeeping", "timestep", "sources")
"""Topics of troubles that every job can have."""

_OF_OPERATORS = (
    ("rows_in", "rechannel_operator_rows_in", "Rows that came in."),
    ("rows_out", "rechannel_operator_rows_out", "Rows that went out."),
    ("rows_late", "rechannel_operator_rows_late", "Rows that came too late for their window."),
    ("rows_dead", "rechannel_operator_rows_dead", "Rows that left as dead letters."),
    ("bytes_in", "rechannel_operator_received_bytes", "Bytes that its tasks were given."),
    ("bytes_out", "rechannel_operator_sent_bytes", "Bytes that its tasks gave on."),
)


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

    def describe(self) -> Iterable[Metric]:
        """Nothing: otherwise the registry would collect once to find the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics at present."""
        status = self._job.status
        yield from _state(self._job, status)
        for family in (_totals, _durations, _work, bad_rows):
            yield from family(self._job.name, self._job.totals)
        yield from _operators(self._job)
        yield from standing_metrics(self._job.name, status, self._job.sinks)
        yield from _reconfigurations(self._job)
        yield from control_metrics(self._job.name, statuses_of(self._job))


def _state(job: RunningJob, status: JobStatus) -> Iterator[Metric]:
    yield _gauge(job, "rechannel_job_active", "Whether the job runs.", int(status.active))
    yield _gauge(
        job,
        "rechannel_configuration_version",
        "Version of the configuration of the next timestep.",
        status.configuration,
    )
    retries = CounterMetricFamily(
        "rechannel_retries",
        "Failures of timesteps, and of looks at sources, that were tried again.",
        labels=[JOB],
    )
    retries.add_metric([job.name], status.retries)
    yield retries
    yield _labelled(
        job,
        "rechannel_trouble",
        "1 for what goes wrong at present and is tried again, 0 for what does not.",
        "of",
        dict.fromkeys(TROUBLES, 0) | dict.fromkeys(status.troubles, 1),
    )
    yield _gauge(
        job,
        "rechannel_timestep",
        "Number of the latest committed timestep.",
        status.timestep,
    )


def _totals(name: str, sums: Sums) -> Iterator[Metric]:
    for metric, words, value in (
        (
            "rechannel_timesteps_committed",
            "Timesteps that were committed.",
            sum(sums.committed.counts),
        ),
        ("rechannel_timesteps_failed", "Attempts at a timestep that failed.", sums.failed),
        ("rechannel_rows_in", "Rows that were read from sources.", sums.rows_in),
        ("rechannel_rows_out", "Rows that were put out, to sinks and functions.", sums.rows_out),
    ):
        counter = CounterMetricFamily(metric, words, labels=[JOB])
        counter.add_metric([name], value)
        yield counter


def _durations(name: str, sums: Sums) -> Iterator[Metric]:
    durations = HistogramMetricFamily(
        "rechannel_timestep_duration_seconds",
        "From the decision of a timestep to its commit.",
        labels=[JOB],
    )
    _add(durations, [name], sums.committed)
    yield durations
    published = HistogramMetricFamily(
        "rechannel_sink_publish_duration_seconds",
        "How long a sink took to publish a timestep.",
        labels=[JOB, "sink"],
    )
    for sink, histogram in sums.published.items():
        _add(published, [name, sink], histogram)
    yield published


def _work(name: str, sums: Sums) -> Iterator[Metric]:
    for member, metric, words in _OF_OPERATORS:
        counter = CounterMetricFamily(metric, words, labels=[JOB, "operator"])
        for operator, totals in sums.operators.items():
            counter.add_metric([name, operator], getattr(totals, member))
        yield counter
    seconds = CounterMetricFamily(
        "rechannel_operator_task_seconds",
        "Time of its tasks, by what they did.",
        labels=[JOB, "operator", "activity"],
    )
    for operator, totals in sums.operators.items():
        for activity, spent in totals.seconds.items():
            seconds.add_metric([name, operator, activity], spent)
    yield seconds


def bad_rows(name: str, sums: Sums) -> Iterator[Metric]:
    """Yield the counts of operators that have dead letters or expectations; nothing if there are none."""
    if not sums.judged:
        return
    for member, metric, words in (
        (
            "rows",
            "rechannel_judged_rows",
            "Rows of operators that have dead letters or expectations.",
        ),
        (
            "bad",
            "rechannel_bad_rows",
            "Those of them that are dead letters, or do not meet an expectation.",
        ),
    ):
        counter = CounterMetricFamily(metric, words, labels=[JOB, "operator"])
        for operator, judged in sums.judged.items():
            counter.add_metric([name, operator], getattr(judged, member))
        yield counter
    failed = CounterMetricFamily(
        "rechannel_expectation_failed_rows",
        "Rows that do not meet an expectation.",
        labels=[JOB, "operator", "expectation"],
    )
    for operator, judged in sums.judged.items():
        for expectation, rows in judged.failed.items():
            failed.add_metric([name, operator, expectation], rows)
    yield failed


def _operators(job: RunningJob) -> Iterator[Metric]:
    configured = operators_of(job.configuration)
    for figure, words in (("tasks", "Tasks of the next timestep."), ("bins", "Bins of state.")):
        known = {n: each[figure] for n, each in configured.items() if each[figure] is not None}
        yield _labelled(job, f"rechannel_operator_{figure}", words, "operator", known)


def _reconfigurations(job: RunningJob) -> Iterator[Metric]:
    open_ = open_reconfigurations(job)
    yield _gauge(
        job, "rechannel_reconfigurations_open", "Reconfigurations that are not over.", len(open_)
    )
    for figure, member, words in (
        ("moved", "bins", "Bins that an open reconfiguration has moved."),
        ("left", "bins_left", "Bins that it has still to move, once its steps are planned."),
    ):
        values = {one["id"]: one[member] for one in open_}
        yield _labelled(job, f"rechannel_reconfiguration_bins_{figure}", words, "id", values)


def _add(family: HistogramMetricFamily, labels: list[str], histogram: Histogram) -> None:
    ends = [*map(floatToGoString, BOUNDS), "+Inf"]
    below = list(zip(ends, accumulate(histogram.counts), strict=True))
    family.add_metric(labels, buckets=below, sum_value=histogram.total)


def _gauge(job: RunningJob, name: str, words: str, value: float) -> Metric:
    metric = GaugeMetricFamily(name, words, labels=[JOB])
    metric.add_metric([job.name], value)
    return metric


def _labelled(
    job: RunningJob, name: str, words: str, label: str, values: Mapping[str, float]
) -> Metric:
    metric = GaugeMetricFamily(name, words, labels=[JOB, label])
    for value, number in values.items():
        metric.add_metric([job.name, value], number)
    return metric
