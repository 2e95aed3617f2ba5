"""What a controller has decided, with its evidence and with what became of it; the same value for every controller.

A controller whose state has `decisions`, a tuple of `Decided`, oldest first, shows them: in `job.advice()`, over HTTP,
on the command line and as events of the telemetry. Nothing else is asked of it. Its state is in the journal, so
decisions are there after a restart too, and without the program. A decision is known by its timestep and its time: one
of the same two that says something else has taken the place of the earlier one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rechannel.model.codec import Json, decode
from rechannel.model.facts import Facts

DECISIONS = "decisions"
"""Name of the member of a state that holds them."""
MOST_SHOWN = 100
"""Decisions of one controller that are read, the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided(Facts):
    """One decision of a controller."""

    timestep: int
    """The last one that it was made from."""
    at_ms: int
    """Unix milliseconds."""
    outcome: str
    """In a word or two, such as "changed", "rolled back" or "enough"."""
    why: str
    """A sentence: what was measured, and what follows from it."""
    parallelism: Mapping[str, int] = field(default_factory=dict)
    """Tasks by operator that were wanted, where they are others."""
    executors: int | None = None
    """Executors that were wanted, if others."""
    changes: tuple[str, ...] = ()
    """Other changes that were wanted, in words."""
    evidence: Mapping[str, Json] = field(default_factory=dict)
    """The figures that it follows from, such as rates, fits, target and what binds."""
    remedies: Mapping[str, str] = field(default_factory=dict)
    """By operator whose rows are skewed, the change that helps: "rebalance", "split" or "spread"."""
    became: str = ""
    """What became of it: the changes that were made, or why none was."""

    def __post_init__(self) -> None:
        """Check the timestep. Raises ValueError."""
        if self.timestep < 0:
            raise ValueError(f"Decided(timestep={self.timestep}): give the number of a timestep")

    @property
    def wants(self) -> bool:
        """Whether it wanted any change of the stream."""
        return bool(self.parallelism or self.executors is not None or self.changes)


def decisions_in(state: Json) -> tuple[Decided, ...]:
    """Return the decisions in a controller's state as the journal has it, oldest first; () if it shows none."""
    return tuple(made for each in _listed(state) if (made := _decided(each)) is not None)


def decisions_since(before: Json, after: Json) -> tuple[Decided, ...]:
    """Return the decisions of a state that the state before did not have, or had with other words."""
    known = _listed(before)
    return decisions_in({DECISIONS: [each for each in _listed(after) if each not in known]})


def story(decisions: Iterable[Decided]) -> tuple[Decided, ...]:
    """Return the latest `MOST_SHOWN` decisions, oldest first. decisions: in the order in which they were recorded.

    One that was recorded again is as it was recorded last. Of those in a row that want nothing and have the same
    outcome, the last stays.
    """
    told = {(each.timestep, each.at_ms): each for each in decisions}
    kept: list[Decided] = []
    for each in sorted(told.values(), key=lambda made: (made.timestep, made.at_ms)):
        if kept and kept[-1].outcome == each.outcome and not (kept[-1].wants or each.wants):
            kept.pop()
        kept.append(each)
    return tuple(kept[-MOST_SHOWN:])


def finite(figures: Mapping[str, Any]) -> dict[str, Any]:
    """Return evidence as JSON can hold it: what is infinite, or not a number, is not known."""
    return {name: _finite(value) for name, value in figures.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, Mapping):
        return finite(value)
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _listed(state: Json) -> Sequence[Json]:
    found = state.get(DECISIONS) if isinstance(state, Mapping) else None
    return found[-MOST_SHOWN:] if isinstance(found, list) else ()


def _decided(each: Json) -> Decided | None:
    """Return a decision; None for a value of another shape, which a controller may keep under the same name."""
    try:
        return decode(Decided, each)
    except (KeyError, TypeError, ValueError):
        return None
