"""All metrics of a job."""

from __future__ import annotations

from rechannel.metrics import of_changes, of_job, of_operators, of_places
from rechannel.metrics.metric import Durations, Metric

METRICS: tuple[Metric, ...] = (
    *of_job.METRICS,
    *of_operators.METRICS,
    *of_places.METRICS,
    *of_changes.METRICS,
)
DURATIONS: tuple[Durations, ...] = of_job.DURATIONS
