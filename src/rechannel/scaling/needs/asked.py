"""What is asked about a stream, with its defaults. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from rechannel.errors import RefusedError
from rechannel.scaling.policies.dhalion import NO_PRESSURE, Dhalion
from rechannel.scaling.policies.policy import Policy
from rechannel.scaling.policies.registry import policy_named
from rechannel.scaling.policies.timesteps import TimestepDs2

LEAST_MS = 0.001
"""Of an interval."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """By which policy, and for which load and interval, a stream is to be advised."""

    policy: str = "ds2-timesteps"
    utilisation: float = 0.8
    """Share of the interval, or of an instance's time, that may be used."""
    window_s: float = 10.0
    """Seconds that a window covers."""
    interval_ms: float | None = None
    """Between timesteps; None = that of the stream."""
    rate: float | None = None
    """Rows per second that arrive at all sources together, without a backlog; None = what was measured."""
    cores_per_executor: int | None = None
    """None = as many as tasks were seen on."""

    def __post_init__(self) -> None:
        """Check the numbers, and that there is such a policy. Raises RefusedError."""
        if isinstance(policy_named(self.policy), Dhalion):
            raise RefusedError(NO_PRESSURE)
        if not 0 < self.utilisation <= 1:
            raise RefusedError(f"utilisation={self.utilisation}: give a share above 0, at most 1")
        for name in ("window_s", "interval_ms", "rate", "cores_per_executor"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise RefusedError(f"{name}={value}: give a number above 0")
        if self.interval_ms is not None and self.interval_ms < LEAST_MS:
            raise RefusedError(f"interval_ms={self.interval_ms}: give {LEAST_MS:g} at least")

    def made(self) -> Policy:
        """Return the policy, at the utilisation if it has one."""
        policy = policy_named(self.policy)
        if isinstance(policy, TimestepDs2):
            return replace(policy, utilisation=self.utilisation)
        if hasattr(policy, "utilisation"):
            changed: Policy = replace(policy, utilisation=self.utilisation)  # type: ignore[type-var]
            return changed
        return policy
