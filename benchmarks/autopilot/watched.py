"""Follows a run: makes one executor slow when it is time, counts executors, and says when all rows are due."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypedDict

from benchmarks.autopilot.events import PHASES, SECOND, edges_of
from benchmarks.autopilot.waiting import SIGN
from benchmarks.harness import Parameters
from benchmarks.variant import report

POLL_SECONDS = 0.25


class PilotMeasurement(TypedDict):
    """One run.

    commits: (first row, row after the last, ns since 1970). executors: (ns since 1970, how many). changes: (timestep,
    ns since 1970 of its commit, in words). decisions: as the controller's state has them. views: events that were
    counted at the end, of so many rows that were read.
    """

    start_ns: int
    commits: Sequence[tuple[int, int, int]]
    executors: Sequence[tuple[int, int]]
    changes: Sequence[tuple[int, int, str]]
    decisions: Sequence[Any]
    views: int
    rows: int


@dataclass
class Watch:
    """Looks at a run until its rows are due."""

    parameters: Parameters
    start_ns: int
    executors: Callable[[], Sequence[str]]
    """Ids of those that are there."""
    alive: Callable[[], None]
    """Raises what the stream failed with."""
    counts: list[tuple[int, int]] = field(default_factory=list)

    def follow(self) -> None:
        """Return when the last phase is over."""
        edges = edges_of(self.parameters)
        while (now := time.time_ns()) < self.start_ns + edges[-1] * SECOND:
            self.alive()
            ids = sorted(self.executors(), key=int)
            self.counts.append((now, len(ids)))
            self._sign(edges, (now - self.start_ns) / SECOND, ids)
            report(f"{(now - self.start_ns) / SECOND:.0f} s, {len(ids)} executors")
            time.sleep(POLL_SECONDS)

    def _sign(self, edges: Sequence[int], at_s: float, ids: Sequence[str]) -> None:
        """Say which executor is slow, if one is."""
        place = Path(self.parameters["scratch"]) / SIGN
        slow = any(
            phase.slow and first <= at_s < last
            for phase, first, last in zip(PHASES, edges, edges[1:], strict=False)
        )
        if slow and not place.exists() and ids:
            made = place.with_suffix(".new")
            made.write_text(ids[0], encoding="utf-8")
            made.rename(place)
        elif not slow:
            place.unlink(missing_ok=True)
