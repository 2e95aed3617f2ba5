"""What users give beside a change, checked where they give it: their slips never reach the driver's thread. Pure."""

from __future__ import annotations

from datetime import datetime
from types import FunctionType

from rechannel.errors import RefusedError
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.strategies import AllAtOnce, Batched, Fluid, Optimized, Strategy

MOST_TIMESTEP = 2**53
"""No stream lives so long."""


def strategy_of(given: object) -> Strategy:
    """The strategy; None = all at once. Raises RefusedError for what is none, saying what to write."""
    if given is None:
        return AllAtOnce()
    if isinstance(given, AllAtOnce | Batched | Fluid | Optimized):
        return given
    if isinstance(given, FunctionType):
        msg = f"{given.__name__} is a function: write rc.strategies.{given.__name__}()"
        raise RefusedError(msg)
    msg = f"a strategy is wanted, as rc.strategies.fluid(bins=2), not {given!r}"
    raise RefusedError(msg)


def check_at(at: object) -> None:
    """Refuse what is no moment at which a change could hold."""
    if isinstance(at, bool) or not isinstance(at, int | datetime | EventMoment | None):
        msg = f"at is a timestep's number, a datetime or rc.changes.watermark(...), not {at!r}"
        raise RefusedError(msg)
    if isinstance(at, int) and abs(at) > MOST_TIMESTEP:
        msg = f"at is a timestep's number, at most {MOST_TIMESTEP}"
        raise RefusedError(msg)
    if isinstance(at, datetime) and at.tzinfo is None:
        msg = f"at={at.isoformat()} needs a time zone: give it `tzinfo=datetime.UTC`, for example"
        raise RefusedError(msg)


def check_words(words: object, what: str) -> None:
    """Refuse what the history cannot keep as words. what: the argument's name."""
    if not isinstance(words, str):
        msg = f"{what} is a text, which the history keeps, not {words!r}"
        raise RefusedError(msg)
