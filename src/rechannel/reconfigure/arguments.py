"""The arguments beside a change, checked in the caller's thread: a wrong one never reaches the driver's. Pure."""

from __future__ import annotations

from datetime import datetime

from rechannel.errors import RefusedError
from rechannel.model.text import iso
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.strategies import AllAtOnce, Strategy

MOST_TIMESTEP = 2**53
"""More timesteps than any stream has."""


def strategy_of(given: object) -> Strategy:
    """The strategy; all at once for None. Raises RefusedError for anything else."""
    if given is None:
        return AllAtOnce()
    if isinstance(given, Strategy):
        return given
    if isinstance(given, type) and issubclass(given, Strategy):
        msg = f"strategy is rc.strategies.{given.kind} itself: call it, as rc.strategies.{given.kind}()"
        raise RefusedError(msg)
    msg = f"expected a strategy, such as rc.strategies.fluid(bins=2), got {given!r}"
    raise RefusedError(msg)


def check_at(at: object) -> None:
    """Raise RefusedError unless `at` has a valid type, is in range and, as a datetime, has a time zone."""
    if isinstance(at, bool) or not isinstance(at, int | datetime | EventMoment | None):
        msg = f"at must be the number of a timestep, a datetime or rc.changes.watermark(...), not {at!r}"
        raise RefusedError(msg)
    if isinstance(at, int) and abs(at) > MOST_TIMESTEP:
        msg = f"at is out of range: the number of a timestep is at most {MOST_TIMESTEP}"
        raise RefusedError(msg)
    if isinstance(at, datetime) and at.tzinfo is None:
        msg = f"at={iso(at)} has no time zone: add one, such as `tzinfo=datetime.UTC`"
        raise RefusedError(msg)


def check_words(words: object, what: str) -> None:
    """Raise RefusedError unless the argument `what` is a text, which the history keeps."""
    if not isinstance(words, str):
        msg = f"{what} must be a string, not {words!r}"
        raise RefusedError(msg)
