"""What the critical path of a running job's last timesteps is made of, as a value. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalShares:
    """Critical participation in some timesteps: what adds up to the time from their beginnings to their ends.

    What lies between timesteps does not count: a driver that waits for its interval is no part of them.
    """

    first: int
    last: int
    """Timesteps."""
    timesteps: int
    """How many of them count: those of which every event is known."""
    mean_ms: float
    """Length of a timestep."""
    kinds: Mapping[str, float] = field(default_factory=dict)
    """Share by kind of activity or message; all kinds add up to 1 if a path leads through every timestep."""
    operators: Mapping[str, float] = field(default_factory=dict)
    """Share of what tasks did, by operator, without messages."""
    tasks: Mapping[str, Mapping[int, float]] = field(default_factory=dict)
    """The same by operator and task."""
    executors: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Where each task ran last, by operator; empty without Spark's figures."""
