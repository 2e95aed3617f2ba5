"""Whether an offset has gone backwards: a replica that lags, a topic that was made anew. Pure.

An offset is a data source's own JSON, so only its numbers can be compared, each with the one at the same place:

- Where a mapping has numbers as keys, these are partitions, and each one counts for itself: one that went back is
  enough.
- Anywhere else (a file and a line, a day and an hour) one number may start again while another one grows: only an
  offset in which something shrank and nothing grew is behind.

Texts are not compared, but for those that are whole numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def is_behind(now: Any, before: Any) -> bool:
    """Whether an offset is behind another one, as far as their numbers tell."""
    signs = list(_signs(now, before, of_partition=False))
    shrank = any(sign < 0 for sign, _ in signs)
    grew = any(sign > 0 for sign, _ in signs)
    return any(sign < 0 and partition for sign, partition in signs) or (shrank and not grew)


def _signs(now: Any, before: Any, *, of_partition: bool) -> Iterator[tuple[int, bool]]:
    """Of every number at a place that both have: -1, 0 or 1, and whether it is that of a partition."""
    if isinstance(now, dict) and isinstance(before, dict):
        partitions = bool(before) and all(key.isdecimal() for key in before)
        for key in now.keys() & before.keys():
            yield from _signs(now[key], before[key], of_partition=partitions)
    elif isinstance(now, list) and isinstance(before, list):
        for one, other in zip(now, before, strict=False):
            yield from _signs(one, other, of_partition=False)
    else:
        one, other = _number(now), _number(before)
        if one is not None and other is not None:
            yield (one > other) - (one < other), of_partition


def _number(value: Any) -> float | int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return int(value) if value.isdecimal() else None
    return value if isinstance(value, int | float) else None
