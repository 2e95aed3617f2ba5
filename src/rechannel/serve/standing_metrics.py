"""Metrics of a job's status for Prometheus: its lag, state, watermarks, sinks.

They are read from what the driver knows anyway: a scrape asks no source. A figure that is not known has no sample, and
`rechannel_source_lag_known` says so, because a rule cannot tell an absent sample from a source that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

from rechannel.monitoring import JobStatus, OperatorStatus, SinkStatus, SourceLag

T = TypeVar("T")
Figures = tuple[tuple[str, str, Callable[[T], float | None]], ...]

_OF_SOURCES: Figures[SourceLag] = (
    (
        "rechannel_source_backlog_rows",
        "Rows that have arrived at a source and that the latest timestep has left unread.",
        lambda lag: lag.rows,
    ),
    (
        "rechannel_source_lag_bytes",
        "Size of what has arrived at a source and that the latest timestep has left unread.",
        lambda lag: lag.bytes,
    ),
    (
        "rechannel_source_lag_seconds",
        "For how long the oldest unread row of a source has waited.",
        lambda lag: lag.seconds,
    ),
)

_OF_OPERATORS: Figures[OperatorStatus] = (
    ("rechannel_operator_state_rows", "Rows of state.", lambda each: each.state_rows),
    ("rechannel_operator_state_bytes", "Size of state.", lambda each: each.state_bytes),
    (
        "rechannel_operator_watermark_timestamp_seconds",
        "Event time up to which it expects no more rows, in Unix time.",
        lambda each: None if each.watermark_ms is None else each.watermark_ms / 1e3,
    ),
    (
        "rechannel_operator_event_time_lag_seconds",
        "How much earlier its watermark is than the time of the driver.",
        lambda each: each.event_time_lag_s,
    ),
)


_OF_SINKS: Figures[SinkStatus] = (
    (
        "rechannel_sink_unpublished_timesteps",
        "Committed timesteps that a sink has not published.",
        lambda sink: sink.owed,
    ),
    (
        "rechannel_sink_quarantined",
        "1 while a sink is in quarantine.",
        lambda sink: int(sink.quarantine is not None),
    ),
)


_OF_JOBS: Figures[JobStatus] = (
    (
        "rechannel_timestep_committed_timestamp_seconds",
        "When the latest timestep was committed, in Unix time.",
        lambda status: None if status.committed_ms is None else status.committed_ms / 1e3,
    ),
    (
        "rechannel_timestep_open_timestamp_seconds",
        "When the oldest timestep that is not committed began, or was retried, in Unix time.",
        lambda status: None if status.open_since_ms is None else status.open_since_ms / 1e3,
    ),
)


def standing_metrics(
    job: str, status: JobStatus, sinks: Mapping[str, SinkStatus]
) -> Iterator[Metric]:
    """All of them. job: its name."""
    for name, words, figure in _OF_JOBS:
        metric = GaugeMetricFamily(name, words, labels=["job_name"])
        number = figure(status)
        if number is not None:
            metric.add_metric([job], number)
        yield metric
    yield from _figures(job, "source", status.lag, _OF_SOURCES)
    yield _known(job, status.lag)
    yield from _figures(job, "operator", status.operators, _OF_OPERATORS)
    yield from _figures(job, "sink", sinks, _OF_SINKS)


def _figures(
    job: str, label: str, values: Mapping[str, T], figures: Figures[T]
) -> Iterator[Metric]:
    for name, words, figure in figures:
        metric = GaugeMetricFamily(name, words, labels=["job_name", label])
        for of, value in values.items():
            number = figure(value)
            if number is not None:
                metric.add_metric([job, of], number)
        yield metric


def _known(job: str, lags: Mapping[str, SourceLag]) -> Metric:
    metric = GaugeMetricFamily(
        "rechannel_source_lag_known",
        "1 for figures of a source's lag that are known, 0 for those that the source cannot tell.",
        labels=["job_name", "source", "figure"],
    )
    for source, lag in lags.items():
        for figure in ("rows", "bytes", "seconds"):
            metric.add_metric([job, source, figure], int(getattr(lag, figure) is not None))
    return metric
