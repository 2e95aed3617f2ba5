"""Counters of one job that never go back, whatever the numbers do that they are read from. Pure.

OpenTelemetry takes a monotonic sum to be what happened since its start time, and its API has no way to begin one anew:
the SDK gives each set of attributes one start time for good. But the numbers of a job begin again:

- The sums of a driver begin at 0 with every driver, and a process can have several drivers of a job, one after the
  other.
- Controllers count since they were installed. The journal keeps that, so the first look at them finds what earlier
  processes have exported already.

So a counter has what was added while the job was exported: the first look of an export is its zero, and what is counted
goes on from export to export. A number that falls in between has begun again at 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from rechannel.metrics.metric import Labels

Key: TypeAlias = tuple[str, Labels]
"""Name of a metric and values of its labels."""


class Counters:
    """What was counted, by metric and labels. One thread at a time calls it."""

    def __init__(self) -> None:
        self._counted: dict[Key, float] = {}
        self._bases: dict[Key, float] = {}
        """What to add to a number."""
        self._read: dict[Key, float] = {}
        """The numbers of the latest look."""
        self._first = True

    def begin(self) -> None:
        """Take the next look as the first one of an export."""
        self._first = True

    def see(self, numbers: Mapping[Key, float]) -> dict[Key, float]:
        """Take the numbers of a look, and return what was counted. A number that is missing is 0 so far."""
        if self._first:
            self._first = False
            self._read = {}
            self._bases = dict(self._counted)
            for key, number in numbers.items():
                self._bases[key] = self._counted.get(key, 0) - number
        for key, number in numbers.items():
            before = self._counted.get(key, 0)
            if number < self._read.get(key, number):
                self._bases[key] = before
            self._read[key] = number
            # A base that is a difference of floats may be off by the last bit.
            self._counted[key] = max(before, self._bases.get(key, 0) + number)
        return {key: self._counted[key] for key in numbers}
