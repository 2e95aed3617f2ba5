"""What metrics are read from: a job at one moment. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rechannel.monitoring import ControllerStatus, JobStatus, SinkStatus
from rechannel.telemetry.totals import Sums


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenMoves:
    """Bins of a reconfiguration that is not over."""

    id: str
    moved: int
    left: int
    """Once its steps are planned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """A job at one moment."""

    job: str
    """Its name."""
    status: JobStatus
    sums: Sums
    """Since the driver started."""
    sinks: Mapping[str, SinkStatus]
    bins: Mapping[str, int]
    """By stateful operator, in the next timestep."""
    moves: Sequence[OpenMoves]
    controllers: Sequence[ControllerStatus]
