"""Whether an offset has gone backwards, because a replica lags or a topic was recreated. Pure.

An offset is a data source's own JSON, so only its numbers can be compared, each with the one at
the same place:

- If a mapping has numbers as keys and as values, these are partitions, and each one counts by
  itself: one that went back is enough, and others may be added or removed.
- Anywhere else (a file and a line, a day and an hour), one number may restart while something else
  advances. What advances need not be a number: a file's name, a date, a cursor. So an offset in
  which anything but numbers changed, or a member was added or removed, cannot be compared and has
  not gone backwards. Otherwise it has if something decreased and nothing increased.

Texts are not compared, except for whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum, auto
from typing import Any


class _Change(Enum):
    """What happened to one place of an offset."""

    GREW = auto()
    SHRANK = auto()
    PARTITION_SHRANK = auto()
    OTHER = auto()
    """It is not known which of the two comes first."""


def went_back(now: Any, before: Any) -> bool:
    """Return whether an offset is before an earlier one, as far as their numbers tell."""
    changes = set(_changes(now, before))
    if _Change.OTHER in changes:
        return False
    return _Change.PARTITION_SHRANK in changes or (
        _Change.SHRANK in changes and _Change.GREW not in changes
    )


def _changes(now: Any, before: Any) -> Iterator[_Change]:
    one, other = _number(now), _number(before)
    if one is not None and other is not None:
        if one < other:
            yield _Change.SHRANK
        elif one > other:
            yield _Change.GREW
    elif _are_partitions(now) and _are_partitions(before):
        for key in now.keys() & before.keys():
            if _Change.SHRANK in _changes(now[key], before[key]):
                yield _Change.PARTITION_SHRANK
    elif isinstance(now, dict) and isinstance(before, dict):
        for key in now.keys() & before.keys():
            yield from _changes(now[key], before[key])
        both = {**before, **now}
        if not all(_are_partitions(both[key]) for key in now.keys() ^ before.keys()):
            yield _Change.OTHER
    elif isinstance(now, list) and isinstance(before, list) and len(now) == len(before):
        for pair in zip(now, before, strict=True):
            yield from _changes(*pair)
    elif now != before:
        yield _Change.OTHER


def _are_partitions(value: Any) -> bool:
    """Return whether a member has one number per partition."""
    return isinstance(value, dict) and all(
        key.isdecimal() and _number(number) is not None for key, number in value.items()
    )


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if value.isdecimal() else None
    return value if isinstance(value, int | float) else None
