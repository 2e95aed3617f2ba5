"""The range of a source that a timestep reads, as its event shows it: what changes from its start to its end. Pure.

Offsets are a source's own: objects of any members, nested as it likes, with one per partition as a rule. An event is
written for every timestep, so members that stay the same are left out, and there is a bound on the others. All of an
offset is in the journal.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

MOST_VALUES = 64
"""Bound on the values that an event shows of the start, and of the end, of one source."""

_ABSENT = object()

Change = tuple[tuple[str, ...], Any, Any]
"""A path in the offsets, its value at the start, and its value at the end."""


def range_of(start: Mapping[str, Any] | None, end: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return `start` and `end` where they differ, and in `left_out` the number of members beyond the bound, if any."""
    offsets: dict[str, Any] = {"start": {}, "end": {}}
    room, left_out = MOST_VALUES, 0
    for path, before, after in _changes(start or {}, end or {}, ()):
        takes = max(_values(before), _values(after))
        if takes > room:
            left_out += 1
            continue
        room -= takes
        _put(offsets["start"], path, before)
        _put(offsets["end"], path, after)
    return {**offsets, "left_out": left_out} if left_out else offsets


def _changes(
    start: Mapping[str, Any], end: Mapping[str, Any], path: tuple[str, ...]
) -> Iterator[Change]:
    for name in {**end, **start}:
        before, after = start.get(name, _ABSENT), end.get(name, _ABSENT)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            yield from _changes(before, after, (*path, name))
        elif before is _ABSENT or after is _ABSENT or before != after:
            yield (*path, name), before, after


def _values(value: Any) -> int:
    if isinstance(value, Mapping):
        return max(1, sum(map(_values, value.values())))
    if isinstance(value, list | tuple):
        return max(1, sum(map(_values, value)))
    return 1


def _put(offsets: dict[str, Any], path: tuple[str, ...], value: Any) -> None:
    if value is _ABSENT:
        return
    for name in path[:-1]:
        offsets = offsets.setdefault(name, {})
    offsets[path[-1]] = value
