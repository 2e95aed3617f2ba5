"""Batches of streams, out of their progress."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from itertools import pairwise
from statistics import median
from typing import Any

from rechannel.errors import TraceError
from rechannel.profiling.spark.application import Batch
from rechannel.profiling.spark.stream_events import Figure, SourceProgress, StreamProgress

LEAST_TRIGGERS = 3
"""Triggers that were waited for, from which on their interval is known."""
SPREAD = 0.1
"""How far these may be apart, as a share of the interval."""


def batch_of(progress: StreamProgress) -> Batch:
    """Return a batch. Raises TraceError if its time is not a timestamp."""
    start, states = moment(progress.timestamp), progress.states
    return Batch(
        query=progress.name or progress.query,
        number=progress.batch,
        start=start,
        end=start + progress.durations.get("triggerExecution", 0),
        rows=sum(each.rows for each in progress.sources),
        input_rate=sum(_finite(each.input_rate) for each in progress.sources),
        process_rate=sum(_finite(each.process_rate) for each in progress.sources),
        phases=progress.durations,
        state_rows=sum(each.rows for each in states),
        state_bytes=sum(each.size for each in states),
        state_commit_ms=sum(each.commit for each in states),
        watermark=_watermark(progress.event_time.watermark),
        late_rows=sum(each.late for each in states),
        source_backlog=_backlog(progress.sources),
    )


def idle(batch: Batch) -> bool:
    """Return whether a trigger only looked for offsets, and found no new ones: it made no batch."""
    looked = any(phase in batch.phases for phase in ("latestOffset", "getOffset"))
    return looked and not any(phase in batch.phases for phase in ("addBatch", "walCommit"))


def moment(timestamp: str) -> int:
    """Return Unix milliseconds. timestamp: ISO 8601, UTC if it names no zone. Raises TraceError."""
    try:
        told = datetime.fromisoformat(timestamp)
        return round((told if told.tzinfo else told.replace(tzinfo=UTC)).timestamp() * 1_000)
    except (ValueError, OverflowError, OSError) as error:
        msg = f"a stream tells the time {timestamp!r}, which is not a timestamp"
        raise TraceError(msg) from error


def _watermark(timestamp: str | None) -> int:
    """Return Unix milliseconds; 0 if it is unknown, or lies before 1970 or the year 1."""
    try:
        return max(0, moment(timestamp)) if timestamp else 0
    except TraceError:
        return 0


def with_intervals(batches: Sequence[Batch]) -> list[Batch]:
    """Return the batches with the interval between the triggers of their stream.

    The log does not have it. Where a batch ended and the next one waited for its trigger, their
    starts are one interval apart; it is known if `LEAST_TRIGGERS` of such distances agree.
    """
    of: dict[str, list[Batch]] = {}
    for each in batches:
        of.setdefault(each.query, []).append(each)
    found = {query: _interval(mine) for query, mine in of.items()}
    return [replace(each, interval=found[each.query]) for each in batches]


def _interval(batches: Iterable[Batch]) -> int:
    mine = sorted(batches, key=lambda each: each.start)
    apart = [
        after.start - before.start
        for before, after in pairwise(mine)
        if after.start - before.end > SPREAD * (after.start - before.start)
    ]
    if len(apart) < LEAST_TRIGGERS:
        return 0
    middle = median(apart)
    agree = [each for each in apart if abs(each - middle) <= SPREAD * middle]
    return round(middle) if len(agree) > len(apart) / 2 and len(agree) >= LEAST_TRIGGERS else 0


def _finite(figure: Figure) -> float:
    """Return a rate; 0 for one that is unknown or infinite."""
    return float(figure) if isinstance(figure, int | float) and math.isfinite(figure) else 0.0


def _backlog(sources: Sequence[SourceProgress]) -> int | None:
    """Return how many offsets are left to read; None if no source says it."""
    known = [left for each in sources if (left := _apart(each.latest, each.end)) is not None]
    return sum(known) if known else None


def _apart(latest: Any, end: Any) -> int | None:
    """Return by how much an offset is later than another, summed over partitions; None if they are
    not numbers.
    """
    latest, end = _parsed(latest), _parsed(end)
    if isinstance(latest, dict) and isinstance(end, dict):
        parts = [_apart(latest[name], end[name]) for name in latest if name in end]
        known = [part for part in parts if part is not None]
        return sum(known) if known else None
    if isinstance(latest, bool) or isinstance(end, bool):
        return None
    if isinstance(latest, int) and isinstance(end, int):
        return max(0, latest - end)
    return None


def _parsed(offset: Any) -> Any:
    """Return an offset; texts are JSON, mostly."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return None
