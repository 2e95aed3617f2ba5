"""Metrics of sources and sinks. Pure.

They are read from what the driver knows anyway: nothing asks a source for them. A figure that is not known has no
number, and `rechannel.source.lag.known` says so, because a rule cannot tell an absent one from a source that is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rechannel.metrics.metric import Kind, Labels, Metric, of_each
from rechannel.metrics.seen import Seen
from rechannel.monitoring import SinkStatus, SourceLag


def _source(
    name: str, prometheus: str, unit: str, words: str, figure: Callable[[SourceLag], float | None]
) -> Metric:
    return Metric(
        name=f"rechannel.source.{name}",
        prometheus=f"rechannel_source_{prometheus}",
        kind=Kind.GAUGE,
        unit=unit,
        words=words,
        labels=("source",),
        read=of_each(lambda seen: seen.status.lag, figure),
    )


def _sink(
    name: str, prometheus: str, unit: str, words: str, figure: Callable[[SinkStatus], float]
) -> Metric:
    return Metric(
        name=f"rechannel.sink.{name}",
        prometheus=f"rechannel_sink_{prometheus}",
        kind=Kind.GAUGE,
        unit=unit,
        words=words,
        labels=("sink",),
        read=of_each(lambda seen: seen.sinks, figure),
    )


def _known(seen: Seen) -> Iterator[tuple[Labels, float]]:
    for source, lag in seen.status.lag.items():
        for figure in ("rows", "bytes", "seconds"):
            yield (source, figure), int(getattr(lag, figure) is not None)


METRICS = (
    _source(
        "backlog",
        "backlog_rows",
        "{row}",
        "Rows that have arrived at a source and that the latest timestep has left unread.",
        lambda lag: lag.rows,
    ),
    _source(
        "lag.size",
        "lag_bytes",
        "By",
        "Size of what has arrived at a source and that the latest timestep has left unread.",
        lambda lag: lag.bytes,
    ),
    _source(
        "lag.time",
        "lag_seconds",
        "s",
        "For how long the oldest unread row of a source has waited.",
        lambda lag: lag.seconds,
    ),
    Metric(
        name="rechannel.source.lag.known",
        prometheus="rechannel_source_lag_known",
        kind=Kind.GAUGE,
        unit="1",
        words="1 for figures of a source's lag that are known, 0 for those that the source cannot tell.",
        labels=("source", "figure"),
        read=_known,
    ),
    _sink(
        "unpublished",
        "unpublished_timesteps",
        "{timestep}",
        "Committed timesteps that a sink has not published.",
        lambda sink: sink.owed,
    ),
    _sink(
        "quarantined",
        "quarantined",
        "1",
        "1 while a sink is in quarantine.",
        lambda sink: int(sink.quarantine is not None),
    ),
)
