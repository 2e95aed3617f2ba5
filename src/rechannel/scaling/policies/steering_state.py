"""What steering remembers, decides and pays, as values. See `steering.py`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rechannel.scaling.policies.damping import Peaks, Plan
from rechannel.scaling.policies.judging import Failed, Health
from rechannel.scaling.policies.policy import Advice, Memory, Seen

OUTCOMES = (
    "changed",
    "rolled back",
    "enough",
    "wait",
    "interval",
    "warm-up",
    "judging",
    "activation",
    "delay",
    "hysteresis",
    "cap",
    "failed",
    "price",
)
"""What an evaluation can end with: the first two lead to a change, "enough" needs none, for "wait" the policy wants to
see one more window, the rest held one back."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What a change costs."""

    delay_s: float = 0.0
    """Seconds for which the stream stands still; its cores are paid meanwhile."""
    core_s: float = 0.0
    """Core-seconds of its own: state that is moved or read again, executors that start."""


FREE = Price()

PriceOf = Callable[[Seen, Advice], Price]


def free(_seen: Seen, _advice: Advice) -> Price:
    """Return the price of a change that costs nothing."""
    return FREE


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What one evaluation came to."""

    at_s: float
    outcome: str
    """One of `OUTCOMES`."""
    why: str
    """A sentence for people."""
    present: Plan = field(default_factory=dict)
    plan: Plan = field(default_factory=dict)
    """What was wanted, after bounds, activation and delay; empty if the policy was not asked."""
    advice: Advice | None = None
    """What the policy said."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """A change that has yet to prove itself."""

    plan: Plan
    before: Plan
    was: Health
    windows: tuple[Health, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Steered:
    """What is remembered from one evaluation to the next."""

    memory: Memory = None
    """The policy's own."""
    evaluated_s: float | None = None
    changed_s: float | None = None
    """When the last change was complete."""
    wanted: tuple[Plan, ...] = ()
    """Plans of the last evaluations in a row that wanted a change."""
    peaks: Peaks = field(default_factory=dict)
    trial: Trial | None = None
    changes: tuple[float, ...] = ()
    """When changes were made, within the time that the cap counts."""
    failed: tuple[Failed, ...] = ()
    decision: Decision | None = None
    """The last one."""
