"""What is asked of files that say what a dataflow needs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

from rechannel.errors import RefusedError
from rechannel.scaling.files.ds2 import System

MOST_CORES = 4_096
"""Cores that are advised at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What is asked of files. A field that a kind of file has no use for is None or its default."""

    system: System = "flink"
    factor: float = 0.0
    threshold: float | None = None
    topology: Path | None = None
    source_rates: Path | None = None
    operator_rates: Path | None = None
    interval_ms: float | None = None
    """Milliseconds between the starts of batches or timesteps that are to be kept; None = those that were measured."""
    rate: float | None = None
    """Rows per second that arrive; None = those that were measured."""
    utilisation: float = 0.8
    """Share of the interval that may be used."""
    query: str | None = None
    """Name of the only stream to advise; None = all."""
    executor_cores: int | None = None
    """Cores that each executor is to have; None = those that it had."""
    most_cores: int = MOST_CORES
    policy: str = "ds2-timesteps"
    """Of a job's state directory: the policy that is asked."""
    window_s: float = 10.0
    """Of a job's state directory: seconds that a window covers."""

    def __post_init__(self) -> None:
        """Check that it makes sense. Raises RefusedError."""
        interval = None if self.interval_ms is None else self.interval_ms / 1e3
        for name, value in (("interval", interval), ("rate", self.rate)):
            if value is not None and not (math.isfinite(value) and value > 0):
                raise RefusedError(f"{name}={value:g} is not possible: give a number above 0")
        if not 0 < self.utilisation <= 1:
            raise RefusedError(
                f"utilisation={self.utilisation:g} is not possible: give a share above 0, up to 1"
            )
        for name, count in (
            ("executor_cores", self.executor_cores),
            ("most_cores", self.most_cores),
        ):
            if count is not None and not 1 <= count <= MOST_CORES:
                raise RefusedError(f"{name}={count} is not possible: give 1 to {MOST_CORES}")
