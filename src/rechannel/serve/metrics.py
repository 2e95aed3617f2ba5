"""The figures of a job for Prometheus: read from the job whenever somebody looks, held nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from rechannel.running import RunningJob
from rechannel.serve.facts import open_reconfigurations, operators_of

TROUBLES = ("lease", "housekeeping", "timestep", "sources")
"""Topics of troubles that any job may have."""

QUANTILES = (0.5, 0.99)


def registry_of(job: RunningJob) -> CollectorRegistry:
    """A registry of its own: what else the process measures is not the job's."""
    registry = CollectorRegistry()
    registry.register(JobCollector(job))
    return registry


class JobCollector(Collector):
    """Looks at a job."""

    def __init__(self, job: RunningJob) -> None:
        """At this one."""
        self._job = job

    def describe(self) -> Iterable[Metric]:
        """Nothing ahead of time: a registry would otherwise look at the job to find the names."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All figures as they are now."""
        yield from _progress(self._job)
        yield from _operators(self._job)
        yield from _reconfigurations(self._job)


def _progress(job: RunningJob) -> Iterator[Metric]:
    status, recent = job.status, job.recent_progress
    yield _labelled(
        "rechannel_job_active", "Whether the job runs.", "name", {job.name: int(status["active"])}
    )
    yield _gauge(
        "rechannel_configuration_version", "Of the next timestep.", status["configuration"]
    )
    yield CounterMetricFamily(
        "rechannel_timesteps_committed",
        "Committed timesteps, those of earlier drivers of the state directory included.",
        value=status["timestep"] or 0,
    )
    yield CounterMetricFamily(
        "rechannel_retries",
        "Failures of timesteps, and of looks at sources, that were tried again since the driver started.",
        value=status["retries"],
    )
    yield _labelled(
        "rechannel_trouble",
        "1 for what goes wrong at present and is tried again, 0 for what does not.",
        "of",
        dict.fromkeys(TROUBLES, 0) | dict.fromkeys(status["troubles"], 1),
    )
    if status["timestep"] is not None:
        yield _gauge("rechannel_timestep", "The latest committed timestep.", status["timestep"])
    if not recent:
        return
    seconds = [facts["duration_ms"] / 1e3 for facts in recent]
    yield _gauge(
        "rechannel_timestep_latency_seconds",
        "From the decision of the latest timestep to its commit.",
        seconds[-1],
    )
    yield _labelled(
        "rechannel_timestep_latency_recent_seconds",
        f"Of the recent timesteps, {len(seconds)} at present.",
        "quantile",
        {str(q): float(np.quantile(seconds, q)) for q in QUANTILES},
    )
    yield _gauge("rechannel_rows_in", "Rows that the latest timestep read.", recent[-1]["rows_in"])
    yield _gauge("rechannel_rows_out", "Rows that it put out.", recent[-1]["rows_out"])


def _operators(job: RunningJob) -> Iterator[Metric]:
    configured = operators_of(job.configuration)
    measured: Mapping[str, Any] = (job.last_progress or {}).get("operators", {})
    for figure, words in (
        ("rows_in", "Rows that came in, in the latest timestep."),
        ("rows_out", "Rows that went out, in the latest timestep."),
        ("state_rows", "Rows of state."),
        ("state_bytes", "Bytes of state."),
    ):
        known = {n: facts[figure] for n, facts in measured.items() if facts[figure] is not None}
        yield _labelled(f"rechannel_operator_{figure}", words, "operator", known)
    for figure, words in (("tasks", "Tasks of a timestep."), ("bins", "Bins of state.")):
        known = {n: facts[figure] for n, facts in configured.items() if facts[figure] is not None}
        yield _labelled(f"rechannel_operator_{figure}", words, "operator", known)


def _reconfigurations(job: RunningJob) -> Iterator[Metric]:
    open_ = open_reconfigurations(job)
    yield _gauge("rechannel_reconfigurations_open", "Those that are not over.", len(open_))
    yield _labelled(
        "rechannel_reconfiguration_bins_moved",
        "Bins that an open reconfiguration has moved.",
        "id",
        {one["id"]: one["bins"] for one in open_},
    )
    yield _labelled(
        "rechannel_reconfiguration_bins_left",
        "Bins that it has still to move, once its steps are planned.",
        "id",
        {one["id"]: one["bins_left"] for one in open_},
    )


def _gauge(name: str, words: str, value: float) -> Metric:
    return GaugeMetricFamily(name, words, value=value)


def _labelled(name: str, words: str, label: str, values: Mapping[str, float]) -> Metric:
    metric = GaugeMetricFamily(name, words, labels=[label])
    for value, number in values.items():
        metric.add_metric([value], number)
    return metric
