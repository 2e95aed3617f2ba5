"""Which times of a log belong to the application.

Clocks jump, fields hold 0 instead of a time, and a stream may report the progress of an earlier
life. One such time would make an application last for years. The rule: the days on which something
happens fall into groups wherever more than `FAR` days pass without anything. The group with most
events is the application, the first one of several. Everything else is left out, and noted. An
application that idles for a month, or for a year, is one group.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from rechannel.profiling.model.trace import Times
from rechannel.profiling.model.words import counted

DAY = 86_400_000
"""Milliseconds."""
FAR = 400
"""Days without any event between the times of one application."""


def core_of(times: Iterable[Times]) -> tuple[int, int] | None:
    """Return the first and the last time of the application; None if there is no time.

    times: all times that the log has, ms, in parts and in any order. Memory: there are some
    100,000 days at most.
    """
    days: dict[int, tuple[int, int, int]] = {}
    for part in times:
        ordered = np.sort(part)
        day, begin, count = np.unique(ordered // DAY, return_index=True, return_counts=True)
        found = (day, count, ordered[begin], ordered[begin + count - 1])
        for each, many, first, last in zip(*(c.tolist() for c in found), strict=True):
            known = days.get(each, (0, first, last))
            days[each] = (known[0] + many, min(known[1], first), max(known[2], last))
    return _largest(days)


def far_apart(times: Sequence[int]) -> bool:
    """Return whether times, ms, can belong to different groups."""
    return bool(times) and max(times) - min(times) > FAR * DAY


def _largest(days: Mapping[int, tuple[int, int, int]]) -> tuple[int, int] | None:
    """Return the span of the largest group. days: number of times, first and last of each."""
    best: tuple[int, int] | None = None
    begun = most = total = 0
    before: int | None = None
    for each in sorted(days):
        many, first, last = days[each]
        if before is None or each - before > FAR:
            begun, total = first, 0
        before, total = each, total + many
        if total > most:
            best, most = (begun, last), total
    return best


def left_out(far: Mapping[str, int]) -> list[str]:
    """Return a note on what is left out. far: how many of what; each word forms its plural with s."""
    told = [counted(count, what) for what, count in far.items() if count]
    if not told:
        return []
    verbs = ("lies", "was") if sum(far.values()) == 1 else ("lie", "were")
    return [
        f"{' and '.join(told)} {verbs[0]} more than {FAR} days away from everything else in the log"
        f" and {verbs[1]} left out"
    ]
