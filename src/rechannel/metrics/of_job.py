"""Metrics of a job as a whole: its timesteps, its rows, what goes wrong. Pure."""

from __future__ import annotations

from rechannel.metrics.metric import Durations, Kind, Labels, Metric, of_each, of_job
from rechannel.metrics.seen import Seen
from rechannel.telemetry.events import Event, SinkPublished, TimestepCommitted

TROUBLES = ("lease", "housekeeping", "timestep", "sources")
"""Topics of troubles that every job can have."""


def _troubles(seen: Seen) -> dict[str, int]:
    return dict.fromkeys(TROUBLES, 0) | dict.fromkeys(seen.status.troubles, 1)


def _seconds(ms: int | None) -> float | None:
    return None if ms is None else ms / 1e3


METRICS = (
    Metric(
        name="rechannel.job.active",
        prometheus="rechannel_job_active",
        kind=Kind.GAUGE,
        unit="1",
        words="Whether the job runs.",
        read=of_job(lambda seen: int(seen.status.active)),
    ),
    Metric(
        name="rechannel.configuration.version",
        prometheus="rechannel_configuration_version",
        kind=Kind.GAUGE,
        words="Version of the configuration of the next timestep.",
        read=of_job(lambda seen: seen.status.configuration),
    ),
    Metric(
        name="rechannel.retries",
        prometheus="rechannel_retries",
        kind=Kind.COUNTER,
        unit="{retry}",
        words="Failures of timesteps, and of looks at sources, that were tried again.",
        read=of_job(lambda seen: seen.status.retries),
    ),
    Metric(
        name="rechannel.trouble",
        prometheus="rechannel_trouble",
        kind=Kind.GAUGE,
        unit="1",
        words="1 for what goes wrong at present and is tried again, 0 for what does not.",
        labels=("of",),
        read=of_each(_troubles, lambda current: current),
    ),
    Metric(
        name="rechannel.timestep.number",
        prometheus="rechannel_timestep",
        kind=Kind.GAUGE,
        words="Number of the latest committed timestep.",
        read=of_job(lambda seen: seen.status.timestep),
    ),
    Metric(
        name="rechannel.timestep.committed.timestamp",
        prometheus="rechannel_timestep_committed_timestamp_seconds",
        kind=Kind.GAUGE,
        unit="s",
        words="When the latest timestep was committed, in Unix time.",
        read=of_job(lambda seen: _seconds(seen.status.committed_ms)),
    ),
    Metric(
        name="rechannel.timestep.open.timestamp",
        prometheus="rechannel_timestep_open_timestamp_seconds",
        kind=Kind.GAUGE,
        unit="s",
        words="When the oldest timestep that is not committed began, or was retried, in Unix time.",
        read=of_job(lambda seen: _seconds(seen.status.open_since_ms)),
    ),
    Metric(
        name="rechannel.timesteps.committed",
        prometheus="rechannel_timesteps_committed",
        kind=Kind.COUNTER,
        unit="{timestep}",
        words="Timesteps that were committed.",
        read=of_job(lambda seen: sum(seen.sums.committed.counts)),
    ),
    Metric(
        name="rechannel.timesteps.failed",
        prometheus="rechannel_timesteps_failed",
        kind=Kind.COUNTER,
        unit="{attempt}",
        words="Attempts at a timestep that failed.",
        read=of_job(lambda seen: seen.sums.failed),
    ),
    Metric(
        name="rechannel.rows.in",
        prometheus="rechannel_rows_in",
        kind=Kind.COUNTER,
        unit="{row}",
        words="Rows that were read from sources.",
        read=of_job(lambda seen: seen.sums.rows_in),
    ),
    Metric(
        name="rechannel.rows.out",
        prometheus="rechannel_rows_out",
        kind=Kind.COUNTER,
        unit="{row}",
        words="Rows that were put out, to sinks and functions.",
        read=of_job(lambda seen: seen.sums.rows_out),
    ),
)


def _committed(event: Event) -> tuple[Labels, float] | None:
    return ((), event.duration_ms / 1e3) if isinstance(event, TimestepCommitted) else None


def _published(event: Event) -> tuple[Labels, float] | None:
    if isinstance(event, SinkPublished):
        return (event.sink,), event.duration_ms / 1e3
    return None


DURATIONS = (
    Durations(
        name="rechannel.timestep.duration",
        prometheus="rechannel_timestep_duration_seconds",
        unit="s",
        words="From the decision of a timestep to its commit.",
        read=lambda sums: [((), sums.committed)],
        of=_committed,
    ),
    Durations(
        name="rechannel.sink.publish.duration",
        prometheus="rechannel_sink_publish_duration_seconds",
        unit="s",
        words="How long a sink took to publish a timestep.",
        labels=("sink",),
        read=lambda sums: [((sink,), histogram) for sink, histogram in sums.published.items()],
        of=_published,
    ),
)
