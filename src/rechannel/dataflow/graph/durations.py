"""Lengths of time as users write them."""

from __future__ import annotations

import re
from datetime import timedelta
from decimal import Decimal

from rechannel.errors import DataflowError

Duration = timedelta | str | int
"""A timedelta, a text such as "10 seconds", "200 ms" or "1 hour 30 minutes", or whole milliseconds."""

_UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": 86_400_000_000,
    "week": 604_800_000_000,
}
_SHORT = {"us": "microsecond", "ms": "millisecond", "s": "second", "min": "minute", "h": "hour"}
MOST = 10_000 * 366 * _UNITS["day"]
"""Event times have years of four digits: keeping anything longer is the same as keeping it for ever."""
_NAMES = {
    **_UNITS,
    **{f"{name}s": length for name, length in _UNITS.items()},
    **{short: _UNITS[name] for short, name in _SHORT.items()},
}
_LEAST = {1: " of more than nothing", 1_000: " of at least 1"}
_PART = re.compile(r"\s*(\d{1,18}(?:\.\d{1,9})?)\s*([a-z]+)(?:\s+|$)")


def microseconds(given: Duration, what: str, *, least: int = 1) -> int:
    """A length of time in microseconds. what: what messages call it. Raises DataflowError."""
    found = _microseconds(given)
    if found is None or found < least:
        msg = (
            f"{what} must be a timedelta, a string such as '10 seconds', or whole milliseconds"
            f"{_LEAST.get(least, '')}, not {given!r}"
        )
        raise DataflowError(msg)
    if found > MOST:
        msg = f"{what} must be at most 10,000 years, not {given!r}"
        raise DataflowError(msg)
    return found


def milliseconds(given: Duration | None, what: str = "timeout") -> int | None:
    """Return a length of time in whole milliseconds, of at least one. what, Errors: as of `microseconds`."""
    return None if given is None else microseconds(given, what, least=1_000) // 1_000


def _microseconds(given: object) -> int | None:
    if isinstance(given, timedelta):
        return given // timedelta(microseconds=1)
    if isinstance(given, str):
        return _parse(given)
    if isinstance(given, int) and not isinstance(given, bool):
        return given * 1_000
    return None


def _parse(text: str) -> int | None:
    total, at = 0, 0
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part[2] not in _NAMES:
            return None
        total += round(Decimal(part[1]) * _NAMES[part[2]])
        at = part.end()
    return total if at else None
