"""Whether a change has made a stream worse. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Any

from rechannel.profiling.model.words import seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """A window of timesteps."""

    timesteps: int
    latency_ms: float
    """Median duration of a timestep."""
    rows: float
    """Mean rows of a timestep."""
    rows_per_second: float
    """While timesteps run."""
    failures: float
    """Mean failures of a timestep before it succeeded."""


def between(progress: Sequence[Any], after: int, before: int) -> list[Any]:
    """Return the timesteps after one and before another, from `TimestepProgress`."""
    return [p for p in progress if after < p.timestep < before]


def figures_of(progress: Sequence[Any]) -> Figures | None:
    """Return the figures of timesteps, from `TimestepProgress`; None without any."""
    if not progress:
        return None
    rows, busy = sum(p.rows_in for p in progress), sum(p.duration_ms for p in progress)
    return Figures(
        timesteps=len(progress),
        latency_ms=median(p.duration_ms for p in progress),
        rows=rows / len(progress),
        rows_per_second=rows / busy * 1e3 if busy else 0.0,
        failures=fmean(p.failures for p in progress),
    )


def saved(before: Figures | None, after: Figures | None, tolerance: float = 0.25) -> float | None:
    """Return the share of a timestep's duration that was saved; None if nothing can be compared.

    tolerance: how much more or fewer rows timesteps may have than before, as a share.
    """
    if before is None or after is None or not before.latency_ms:
        return None
    if not (1 - tolerance) * before.rows <= after.rows <= (1 + tolerance) * before.rows:
        return None
    return 1 - after.latency_ms / before.latency_ms


def worse(before: Figures, after: Figures, tolerance: float) -> str:
    """Return what got worse by more than a tolerance, in words; "" if nothing did.

    Latency counts unless timesteps have more rows than before, throughput unless they have fewer: a load that has
    changed is no effect of a change.
    """
    more, fewer = 1 + tolerance, 1 - tolerance
    found = []
    if after.latency_ms > more * before.latency_ms and after.rows <= more * before.rows:
        was, now = seconds(before.latency_ms / 1e3), seconds(after.latency_ms / 1e3)
        found.append(f"latency {was} -> {now}")
    slower = after.rows_per_second < fewer * before.rows_per_second
    if slower and after.rows >= fewer * before.rows:
        found.append(f"{before.rows_per_second:,.0f} -> {after.rows_per_second:,.0f} rows/s")
    if after.failures > before.failures + tolerance:
        found.append(f"{before.failures:.2g} -> {after.failures:.2g} failures per timestep")
    return ", ".join(found)
