"""How fast rows arrive at a source, whether or not the stream keeps up. Pure.

Between the looks of two timesteps j < k at the source,

    rows that arrived = rows that the timesteps j+1, ..., k read + backlog after k - backlog after j

and their rate is that number over the time between the looks. What is read is known of every timestep, the backlog only
of those whose source told it (not in a replay). So the rate is taken between the first and the last timestep that know
it. If there are no two of these, it is the rate at which rows were read: a lower bound of what arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rechannel.telemetry.facts import TimestepProgress


@dataclass(frozen=True, slots=True, kw_only=True)
class ArrivalRate:
    """How fast rows arrived at a source."""

    rate: float
    """Rows per second."""
    backlog: int | None
    """Rows that the latest timestep which knows it has left unread; None if no timestep does."""
    exact: bool
    """Whether backlogs are part of the rate; otherwise it is what was read, and more may have arrived."""


def arrival_rate(progress: Sequence[TimestepProgress], source: str) -> ArrivalRate | None:
    """Return how fast rows arrived between the first and the last of some timesteps; None if no time passes.

    progress: timesteps in order, without gaps. The first one is only where the time begins: its rows do not count.
    """
    timed = [each for each in progress if each.now_ms is not None]
    told = [each for each in timed if each.backlog.get(source) is not None]
    latest = None if not told else told[-1].backlog[source]
    for exact, ends in ((True, told), (False, timed)):
        if len(ends) < 2:
            continue
        first, last = ends[0], ends[-1]
        passed_ms = (last.now_ms or 0) - (first.now_ms or 0)
        if passed_ms <= 0:
            continue
        between = (each for each in progress if first.timestep < each.timestep <= last.timestep)
        rows = sum(rows_read(each, source) for each in between)
        if exact:
            rows += (last.backlog[source] or 0) - (first.backlog[source] or 0)
        # A source that forgets unread rows makes the difference negative.
        return ArrivalRate(rate=max(0.0, rows * 1e3 / passed_ms), backlog=latest, exact=exact)
    return None


def rows_read(progress: TimestepProgress, source: str) -> int:
    """Return the rows that a timestep read of a source."""
    found = progress.operators.get(source)
    return 0 if found is None else found.rows_in
