"""Rows of a key that are at least a distance apart in event time, taken in the order in which they arrived.

The first row passes. Then a row passes if it is not earlier than *until*: the time of the last row that passed, plus
the distance. So `until` only grows, and each row that passes is later than all previous rows of its key. Only such
records matter, and their times ascend: the next one to pass is found by one search per record, for all at once. The
rows that pass are those that are reached from the first ones, in jumps that double in length.
"""

from __future__ import annotations

import numpy as np

from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import ENDED


def until_after(times: IntArray, distance: int) -> IntArray:
    """Return the time from which a row passes after rows of these times; ENDED where none can."""
    return np.where(times > ENDED - distance, ENDED, np.minimum(times, ENDED - distance) + distance)


def spaced(owners: IntArray, times: IntArray, untils: IntArray, distance: int) -> Mask:
    """Which rows pass. Shape (rows,).

    owners: number of each row's key, ascending; rows of a key as they came. untils: of every key, from which time on
    rows of it pass. distance: > 0.
    """
    passing = np.zeros(len(owners), dtype=np.bool_)
    left = np.flatnonzero((times >= untils[owners]) & (untils[owners] < ENDED))
    first = _firsts(owners[left])
    passing[left[first]] = True
    # Mostly all others are near the first one.
    sizes = np.diff(np.append(first, len(left)))
    until = np.repeat(until_after(times[left[first]], distance), sizes)
    left = left[(times[left] >= until) & (until < ENDED)]
    passing[left[_apart(owners[left], times[left], distance)]] = True
    return passing


def _apart(owners: IntArray, times: IntArray, distance: int) -> IntArray:
    """Rows that pass, where the first one of every key does. They do not ascend."""
    values, ranks = np.unique(times, return_inverse=True)
    width = len(values) + 1
    places = owners * width + ranks
    rows = _firsts(np.maximum.accumulate(places))
    owners, places = owners[rows], places[rows]
    until = until_after(times[rows], distance)
    behind = np.where(until < ENDED, np.searchsorted(values, until), len(values))
    after = np.searchsorted(places, owners * width + behind)
    end = len(rows)
    jump = np.append(np.where(np.append(owners, -1)[after] == owners, after, end), end)
    reached = _firsts(owners)
    while len(further := jump[reached]) and bool((further < end).any()):
        reached = np.concatenate([reached, further[further < end]])
        jump = jump[jump]
    return rows[reached]


def _firsts(values: IntArray) -> IntArray:
    """Where other values than before begin."""
    return np.flatnonzero(np.diff(values, prepend=-1))
