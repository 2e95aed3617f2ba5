"""How often, how far and at what price a policy's advice may be followed: settings of `steering.py`, all checked."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from rechannel.errors import RefusedError

COMBINATIONS = ("max", "median")

Bounds = tuple[int, int]


JITTER = 0.98
"""Share of a length of time that counts as all of it: timesteps do not begin to the millisecond."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steering:
    """The defaults suit streams whose load changes within minutes, and whose changes take seconds."""

    interval_s: float = 10.0
    """Between two evaluations: the policy interval. DS2 has 5 to 60 s."""
    warm_up_s: float = 20.0
    """After a change, and for `AutoScale` after a start: windows that begin earlier do not count."""
    activation: int = 1
    """Evaluations in a row that must want a change before it is made; what they want is combined."""
    combine: str = "max"
    """How: "max" is safe, "median" ignores single windows that are irregular."""
    ignore_up: int = 0
    """A number that would grow by no more than this stays."""
    ignore_down: int = 0
    """A number that would shrink by no more than this stays; DS2's own manager has 1, and no delay."""
    down_delay_s: float = 300.0
    """For how long less must have been advised before anything shrinks, then to the most of that time."""
    parallelism: Bounds = (1, 100_000)
    """Least and most instances of each operator."""
    operators: Mapping[str, Bounds] = field(default_factory=dict)
    """The same by operator, in place of `parallelism`."""
    executors: Bounds = (1, 10_000)
    """Least and most executors."""
    most_changes: int = 12
    """Changes within `per_s`; a rollback is one, and is never held back."""
    per_s: float = 3600.0
    """Within how many seconds `most_changes` are counted."""
    roll_back: bool = True
    """Whether a plan that turned out worse than the one before it is taken back."""
    judged_after: int = 1
    """Windows after the warm-up from which a change is judged, by their median."""
    worse: float = 0.1
    """By which share a plan must be worse. See `judging.py`."""
    differs: float = 0.2
    """By which share the load must have changed until a plan that was taken back may be tried again."""
    barred_s: float = 1800.0
    """For how long it is not tried again at the same load."""
    horizon_s: float | None = 1800.0
    """Within which a change that saves cores must save more core-seconds than it costs; None = at any price."""

    def __post_init__(self) -> None:
        """Check the settings. Raises RefusedError that names the first that makes no sense."""
        not_negative = ("interval_s", "warm_up_s", "down_delay_s", "ignore_up", "ignore_down")
        for name in (*not_negative, "worse", "differs", "barred_s"):
            value = getattr(self, name)
            if not 0 <= value < math.inf:
                raise RefusedError(f"{name}={value}: give a number that is not negative")
        for name in ("activation", "judged_after", "most_changes", "per_s"):
            value = getattr(self, name)
            if not 1 <= value < math.inf:
                raise RefusedError(f"{name}={value}: give at least 1")
        if self.combine not in COMBINATIONS:
            raise RefusedError(f"combine={self.combine!r}: give one of {', '.join(COMBINATIONS)}")
        if self.horizon_s is not None and not self.horizon_s > 0:
            raise RefusedError(f"horizon_s={self.horizon_s}: give a time above 0, or None")
        named = {"parallelism": self.parallelism, "executors": self.executors}
        for name, (least, most) in (named | dict(self.operators)).items():
            if not 1 <= least <= most:
                raise RefusedError(f"bounds ({least}, {most}) of {name!r}: give 1 <= least <= most")

    def bounds(self, operator: str) -> Bounds:
        """Return the least and most instances of an operator."""
        return self.operators.get(operator, self.parallelism)
