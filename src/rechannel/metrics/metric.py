"""What a metric is: its names, its unit, its labels, and how it is read from a job. Pure.

Every metric has two names. Prometheus wants the unit at the end of a name, OpenTelemetry wants it beside the name, in
the form of UCUM (`s`, `By`, `{row}`). The labels are those of Prometheus; `ATTRIBUTES` has what OpenTelemetry calls
them, in metrics, and in spans too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias, TypeVar

from rechannel.metrics.seen import Seen
from rechannel.telemetry.events import Event
from rechannel.telemetry.totals import Histogram, Sums

T = TypeVar("T")

JOB = "job_name"
"""The label that every metric has first. (`job` is the one that Prometheus gives to its target.)"""

ATTRIBUTES: Mapping[str, str] = {
    JOB: "rechannel.job.name",
    "activity": "rechannel.task.activity",
    "controller": "rechannel.controller.name",
    "expectation": "rechannel.expectation.name",
    "figure": "rechannel.source.figure",
    "id": "rechannel.reconfiguration.id",
    "name": "rechannel.controller.figure",
    "of": "rechannel.trouble.topic",
    "operator": "rechannel.operator.name",
    "sink": "rechannel.sink.name",
    "source": "rechannel.source.name",
}
"""By label: the attribute of OpenTelemetry."""

Labels: TypeAlias = tuple[str, ...]
"""Values of the labels after the job's name."""


class Kind(StrEnum):
    """How a number behaves."""

    COUNTER = "counter"
    """It only grows: from 0 at the start of the driver, or since its controller was installed."""
    GAUGE = "gauge"


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """What every metric has."""

    name: str
    """For OpenTelemetry."""
    prometheus: str
    """For Prometheus, without `_total`."""
    words: str
    """What it says, as a sentence."""
    unit: str = ""
    """UCUM; empty for a mere number."""
    labels: tuple[str, ...] = ()
    """After the job's name."""

    def __post_init__(self) -> None:
        """Check that OpenTelemetry has a name for each label."""
        unknown = set(self.labels) - ATTRIBUTES.keys()
        if unknown:
            msg = f"{self.name} has labels without an attribute: {sorted(unknown)}"
            raise ValueError(msg)

    def attributes(self, job: str, labels: Labels) -> dict[str, str]:
        """Return the labels as attributes of OpenTelemetry."""
        pairs = zip((JOB, *self.labels), (job, *labels), strict=True)
        return {ATTRIBUTES[label]: value for label, value in pairs}


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric(Named):
    """A number per job, or per combination of labels."""

    kind: Kind
    read: Callable[[Seen], Iterable[tuple[Labels, float]]]
    """What is not known has no number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Durations(Named):
    """A histogram of durations, in seconds."""

    read: Callable[[Sums], Iterable[tuple[Labels, Histogram]]]
    """Since the driver started."""
    of: Callable[[Event], tuple[Labels, float] | None]
    """The duration that an event adds; None if it adds none."""


def of_job(
    figure: Callable[[Seen], float | None],
) -> Callable[[Seen], Iterable[tuple[Labels, float]]]:
    """Read one number of the job."""

    def read(seen: Seen) -> Iterable[tuple[Labels, float]]:
        number = figure(seen)
        if number is not None:
            yield (), number

    return read


def of_each(
    values: Callable[[Seen], Mapping[str, T]], figure: Callable[[T], float | None]
) -> Callable[[Seen], Iterable[tuple[Labels, float]]]:
    """Read one number of each value: an operator, a source, a sink."""

    def read(seen: Seen) -> Iterable[tuple[Labels, float]]:
        for name, value in values(seen).items():
            number = figure(value)
            if number is not None:
                yield (name,), number

    return read
