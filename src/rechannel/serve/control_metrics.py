"""Metrics of a job's controllers for Prometheus, from their status."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from rechannel.monitoring import ControllerStatus

_COUNTS = (
    ("operations", "rechannel_controller_operations", "Control operations that it has sent."),
    ("requests", "rechannel_controller_requests", "Changes that it has requested."),
    ("failed", "rechannel_controller_failures", "Callbacks of it that have failed."),
)


def control_metrics(job: str, statuses: Sequence[ControllerStatus]) -> Iterator[Metric]:
    """All of them. They count since the controller was installed. job: its name."""
    labels = ["job_name", "controller"]
    for member, metric, words in _COUNTS:
        counter = CounterMetricFamily(metric, words, labels=labels)
        for status in statuses:
            counter.add_metric([job, status.name], getattr(status, member))
        yield counter
    active = GaugeMetricFamily(
        "rechannel_controller_active",
        "1 while it may begin operations; 0 while it is paused, suspended or absent.",
        labels=labels,
    )
    suspended = GaugeMetricFamily(
        "rechannel_controller_suspended",
        "1 while it is paused because its callbacks have failed.",
        labels=labels,
    )
    own = GaugeMetricFamily(
        "rechannel_controller_value",
        "What the controller shows with control.metric.",
        labels=[*labels, "name", "operator"],
    )
    for status in statuses:
        active.add_metric([job, status.name], int(status.running and status.paused is None))
        suspended.add_metric([job, status.name], int(status.suspended))
        for name, values in status.metrics.items():
            for operator, value in values.items():
                own.add_metric([job, status.name, name, operator], value)
    yield from (active, suspended, own)
