"""Changes that the guard judges together. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from rechannel.control.controller import Control
from rechannel.control.library.judging import Figures, between, figures_of
from rechannel.control.library.way_back import way_back
from rechannel.model.codec import Json, decode, encode
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.coordination import meet
from rechannel.reconfigure.record import Record

MOST_ON_TRIAL = 8
"""Changes that are judged together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """Changes that are judged together."""

    ids: tuple[str, ...]
    touched: tuple[str, ...]
    first: int
    """The timestep of the first step."""
    before: Figures | None
    base: Json
    """The Configuration before it; None = the journal does not have it any more."""
    verdict: str = ""
    """What got worse, in words, once it is judged."""
    attempts: int = 0
    """How often its way back was requested."""
    asked: int = 0
    """The timestep of the latest such request."""
    latest_own: str = ""
    """The guard's latest change before that request."""

    def __str__(self) -> str:
        """Ids of the changes."""
        return ", ".join(self.ids)

    def takes(self, timestep: int, span: int) -> bool:
        """Whether a change that begins with a timestep still joins. span: timesteps over which changes may begin."""
        return len(self.ids) < MOST_ON_TRIAL and timestep <= self.first + span

    def joined(self, record: Record) -> Trial:
        """The trial with one more change."""
        touched = tuple(sorted({*self.touched, *record.touches}))
        return replace(self, ids=(*self.ids, record.id), touched=touched)

    def last(self, records: Iterable[Record]) -> int:
        """The timestep of the last step."""
        steps = (r.last_timestep or 0 for r in records if r.id in self.ids)
        return max(steps, default=self.first)

    def asking(self, timestep: int, latest_own: str) -> Trial:
        """The trial after its way back was requested."""
        return replace(self, attempts=self.attempts + 1, asked=timestep, latest_own=latest_own)

    def way_back(self, now: Configuration) -> Change | None:
        """The change to the previous values of what it has set; None = there is none."""
        base = None if self.base is None else decode(Configuration, self.base)
        return None if base is None else way_back(base, now, self.touched)

    def crossed_by(self, control: Control[Any]) -> str:
        """The id of a change of others that has set the same since the last step; "" = there is none."""
        touched, last = frozenset(self.touched), self.last(control.changes)
        since = (r for r in control.changes if (r.last_timestep or 0) > last)
        others = (r for r in since if r.id not in self.ids and not control.requested(r))
        return next((r.id for r in others if meet(r.touches, touched)), "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarding:
    """What the guard knows."""

    over: int = -1
    """Steps up to this timestep have been judged, or are not; -1 = it has just been installed."""
    trial: Trial | None = None


def begun(control: Control[Guarding], first: int, window: int) -> Trial:
    """Return a trial without changes yet. first: the timestep of the first step. window: timesteps before it."""
    earlier = between(control.progress, control.state.over, first)[-window:]
    base = encode(control.configuration_at(first - 1))
    return Trial(ids=(), touched=(), first=first, before=figures_of(earlier), base=base)
