"""Batches of a stream as windows of a trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rechannel.errors import TraceError
from rechannel.profiling.model.trace import MS


@dataclass(frozen=True, slots=True)
class StreamBatch:
    """One batch of a Structured Streaming query, or one timestep of a Rechannel job."""

    query: str
    """Name of the query, or its id if it has no name; the name of the job."""
    number: int
    """Batch id, or timestep."""
    start: int
    """Unix milliseconds."""
    end: int
    """Unix milliseconds."""


def choose_batches(
    batches: Sequence[StreamBatch], query: str | None, title: str
) -> list[StreamBatch]:
    """Return the batches of one stream, ordered by their start.

    query: name or id of the stream; None if there is only one. title: of the trace, for errors.
    Raises TraceError if there are no batches, or if it is not clear which stream is meant.
    """
    queries = list(dict.fromkeys(batch.query for batch in batches))
    if not queries:
        msg = f"{title} has no batches that could be windows: give the length of a window, or leave it out"
        if query is not None:
            msg = f"{title} has no stream {query!r} and no other one: leave out the query"
        raise TraceError(msg)
    if query is None and len(queries) > 1:
        msg = (
            f"{title} has batches of several streams: choose one as the query: {', '.join(queries)}"
        )
        raise TraceError(msg)
    chosen = [batch for batch in batches if query in (None, batch.query)]
    if not chosen:
        msg = f"{title} has no stream {query!r}: choose one of {', '.join(queries)}"
        raise TraceError(msg)
    return sorted(chosen, key=lambda batch: batch.start)


def batch_windows(
    batches: Sequence[StreamBatch], first: int, last: int
) -> tuple[list[StreamBatch], list[tuple[int, int]]]:
    """Return the batches within [first, last], ns, and one window for each of them.

    Windows do not overlap: a batch that starts before the previous one ends gets a window that
    starts at that end.
    """
    kept, windows, free = [], [], first
    for batch in batches:
        # Batches have whole milliseconds, so they may seem to reach beyond the first and last time.
        start, end = max(batch.start * MS, free), min(batch.end * MS, last)
        inside = batch.start * MS > first - MS and batch.end * MS < last + MS
        if inside and end > start:
            kept.append(batch)
            windows.append((start, end))
            free = end
    return kept, windows
