"""What came of a change that a controller has requested itself, by the timesteps before and after it. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rechannel.control.controller import Control
from rechannel.control.library.judging import Figures, between, figures_of, saved
from rechannel.control.library.way_back import way_back
from rechannel.model.codec import Json, decode, encode
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.record import Phase, Record

Compared: TypeAlias = Callable[[Figures | None, Figures | None], float | None]

SETTLE = 2
"""Timesteps after a change that do not count: state comes to its new place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attempt:
    """A change that was requested and is not judged."""

    touched: tuple[str, ...]
    """Its operators."""
    first: int
    """The latest committed timestep when it was requested."""
    before: Figures
    """Timesteps without it."""
    base: Json
    """The Configuration without it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What came of a change."""

    text: str
    share: float | None = None
    """Of a timestep's duration that it saves; None = it was not carried out, or cannot be judged."""
    back: Change | None = None
    """The change that takes it back; None = there is none."""


def under_way(control: Control[Any]) -> bool:
    """Whether a change of anyone is being carried out; one that is scheduled for later is not."""
    return any(record.open and not record.scheduled for record in control.changes)


def attempted(control: Control[Any], touched: tuple[str, ...], before: Figures) -> Attempt:
    """Return a change that is requested now. touched: operators. before: timesteps without it."""
    base = encode(control.configuration)
    return Attempt(touched=touched, first=control.timestep, before=before, base=base)


def verdict(
    control: Control[Any], attempt: Attempt, window: int, compared: Compared = saved
) -> Verdict | None:
    """Return what came of the change; None = it is too early to say.

    window: timesteps. compared: returns the share of a timestep that was saved, from those before and after.
    """
    since = [r for r in control.changes if _took_part(r, attempt.first)]
    own = next((r for r in since if control.requested(r)), None)
    if own is None:
        return Verdict(text="the change was not carried out")
    if own.open:
        return None
    if own.phase is not Phase.DONE:
        return Verdict(text=f"{own.id} is {own.phase}: {own.reason}")
    last = own.last_timestep or 0
    after = between(control.progress, last + SETTLE - 1, control.timestep + 1)[:window]
    if len(after) < window:
        return None
    if len(since) > 1:
        return Verdict(text=f"{own.id} is not judged: something else has changed too")
    share = compared(attempt.before, figures_of(after))
    if share is None:
        why = "timesteps have far more or far fewer rows than before"
        return Verdict(text=f"{own.id} is not judged: {why}")
    base = decode(Configuration, attempt.base)
    return Verdict(
        text=f"{own.id} saves {share:.0%} of a timestep",
        share=share,
        back=way_back(base, control.configuration, attempt.touched),
    )


def _took_part(record: Record, after: int) -> bool:
    """Whether a change was carried out after a timestep, or is under way. One that is scheduled for later is not."""
    return (record.open and not record.scheduled) or (record.last_timestep or 0) > after
