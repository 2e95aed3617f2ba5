"""Windows that follow what an application does, instead of the clock.

A *phase* is a job, an execution of a query, a batch of a stream or a timestep. What happens in a
phase hangs together: its first task waits for the driver, its end for the last task. So the gain
of a change is exact for whole phases (`gains`), and windows are chosen by these rules:

- Batches are windows if they fill `STREAM` of the time of all phases: the application is a stream,
  and the time between batches is in no window.
- Otherwise phases that overlap are joined, and the time between them is a window, too: the
  driver's. A window of less than a second is joined with the next one, the last with the one
  before. So all of the run is in some window.
- Without phases, the run is cut into equal parts in which workers did `DEEP` things each, on
  average, or into a hundred.
- A window that lasts `DEEP` times as long as the median task, and ten seconds, is cut into equal
  parts of that length, or into a hundred: participation in a longer one is a mean over too much.
  There are never more parts than one for each `DEEP` activities and messages.
- Gains are computed on windows before that cut. A window of more than `PIECE_ROWS` rows is cut for
  them, too: a piece has to fit into memory. What a change gains in one part does not reach into the
  next.
- Before these cuts there are about `MOST` windows at most: if there were more, shorter ones are joined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

import numpy as np

from rechannel.profiling.model.batches import StreamBatch, batch_windows
from rechannel.profiling.model.landmarks import Mark, MarkKind
from rechannel.profiling.model.pieces import PIECE_ROWS, TraceSource
from rechannel.profiling.model.trace import MS, NS
from rechannel.profiling.model.windows import WindowSpans

STREAM = 0.9
"""The share of the time of all phases that batches of a stream fill."""
DEEP = 64
"""How many times as long as the median task a window is that is cut no further."""
LONG = 10 * NS
"""A window that is shorter is not cut for its length, ns."""
PARTS = 100
"""Into how many parts a window is cut for its length."""
MOST = 5_000
"""Windows of a run, before those with many rows are cut."""
SHORT = NS
"""A window that is shorter is joined with the next one, ns."""
_FINE = 16
"""Places per part at which a window may be cut."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """Windows of a run."""

    wholes: WindowSpans
    """As the application has them: for gains."""
    windows: WindowSpans
    """The same, not too long: for participation."""
    numbers: Sequence[int | None]
    """Of every one of `windows`: the batch that it is or is a part of, if it is one."""


def phases_of(marks: Sequence[Mark], end: int) -> list[tuple[int, int]]:
    """Return when jobs and executions of queries ran, ns. end: of the run, ns.

    An execution that lasts until then may have been given up: it is left out, and its jobs are not.
    """
    return [
        (mark.start, mark.end)
        for mark in marks
        if mark.what is MarkKind.JOB or (mark.what is MarkKind.EXECUTION and mark.end < end)
    ]


def fit(
    source: TraceSource,
    span: tuple[int, int],
    phases: Sequence[tuple[int, int]] = (),
    batches: Sequence[StreamBatch] = (),
    task: int = 0,
) -> Fit:
    """Return windows within a span, ns.

    phases: starts and ends, ns. batches: those of one stream, ordered, or none. task: length of the median task, ns;
    0 if unknown.
    """
    if span[1] <= span[0]:
        return Fit(wholes=[], windows=[], numbers=[])
    wholes, numbers = _wholes(span, phases, batches)
    wholes, numbers = _cut(source, wholes, numbers)
    rows = _rows(source, wholes)
    if phases or batches:
        windows = [
            _equal(*each, _parts_of(*each, task, held))
            for each, held in zip(wholes, rows, strict=True)
        ]
    else:
        deep = DEEP * max(1, len(source.names.workers))
        count = [max(1, min(PARTS // len(wholes), int(held / deep))) for held in rows]
        windows = [_equal(*each, n) for each, n in zip(wholes, count, strict=True)]
    return Fit(
        wholes=wholes,
        windows=[part for parts in windows for part in parts],
        numbers=[n for n, parts in zip(numbers, windows, strict=True) for _ in parts],
    )


def fit_batches(source: TraceSource, span: tuple[int, int], batches: Sequence[StreamBatch]) -> Fit:
    """Return one window per batch, whatever its size. batches: ordered by their start."""
    kept, windows = batch_windows(batches, *span)
    numbers = [batch.number for batch in kept]
    return Fit(wholes=_cut(source, windows, numbers)[0], windows=windows, numbers=numbers)


def joined(spans: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Join spans that overlap; those that are empty are left out."""
    found: list[tuple[int, int]] = []
    for start, end in sorted(each for each in spans if each[1] > each[0]):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((start, end))
    return found


def _wholes(
    span: tuple[int, int], phases: Sequence[tuple[int, int]], batches: Sequence[StreamBatch]
) -> tuple[WindowSpans, list[int | None]]:
    """Return the windows before any cut, and the batches that they are."""
    first, last = span
    kept, batched = batch_windows(batches, first, last)
    named = [*phases, *((each.start * MS, each.end * MS) for each in batches)]
    known = joined([(max(first, start), min(last, end)) for start, end in named])
    whole, streams = (sum(b - a for a, b in spans) for spans in (known, batched))
    if 0 < len(kept) <= MOST and streams >= STREAM * whole:
        return batched, [batch.number for batch in kept]
    edges = {first, last, *(edge for each in known for edge in each)}
    windows = _joined_short(sorted(edges), SHORT)
    if len(windows) > MOST:
        windows = _joined_short(sorted(edges), (last - first) // MOST)
    return windows, [None] * len(windows)


def _joined_short(edges: Sequence[int], least: int) -> list[tuple[int, int]]:
    """Return windows from edge to edge of at least that length, or a single one."""
    windows: list[tuple[int, int]] = []
    start = edges[0]
    for edge in edges[1:]:
        if edge - start >= least or edge == edges[-1]:
            windows.append((start, edge))
            start = edge
    if len(windows) > 1 and windows[-1][1] - windows[-1][0] < least:
        (begin, _), (_, end) = windows[-2:]
        windows[-2:] = [(begin, end)]
    return windows


def _parts_of(start: int, end: int, task: int, rows: float) -> int:
    """Return into how many parts a window is cut because it is long for its tasks: none is empty on average."""
    long = ceil((end - start) / max(LONG, DEEP * task)) if task else 1
    return max(1, min(PARTS, long, int(rows / DEEP)))


def _equal(start: int, end: int, count: int) -> list[tuple[int, int]]:
    """Cut a window into equal parts."""
    edges = [start + (end - start) * i // count for i in range(count + 1)]
    return list(pairwise(edges))


def _cut(
    source: TraceSource, windows: WindowSpans, numbers: Sequence[int | None]
) -> tuple[WindowSpans, list[int | None]]:
    """Cut windows into parts of about `PIECE_ROWS` rows at most."""
    found: list[tuple[int, int]] = []
    whose: list[int | None] = []
    for (start, end), inside, number in zip(windows, _rows(source, windows), numbers, strict=True):
        count = ceil(inside / PIECE_ROWS)
        parts = [(start, end)] if count < 2 else _parts(source, start, end, count)
        found += parts
        whose += [number] * len(parts)
    return found, whose


def _rows(source: TraceSource, windows: WindowSpans) -> list[float]:
    """Estimate the number of rows in every window."""
    held = source.before(np.array(windows, dtype=np.int64).ravel())
    found: list[float] = np.diff(held)[::2].tolist()
    return found


def _parts(source: TraceSource, start: int, end: int, count: int) -> list[tuple[int, int]]:
    """Cut a window into so many parts with about as many rows each."""
    steps = _FINE * count
    # Integers: a float cannot hold nanoseconds since 1970 exactly.
    places = np.unique([start + (end - start) * i // steps for i in range(steps + 1)])
    held = source.before(places)
    part = np.floor((held - held[0]) * count / max(1.0, held[-1] - held[0])).astype(np.int64)
    starts = places[:-1][np.flatnonzero(np.diff(part[:-1], prepend=-1))].tolist()
    return list(pairwise([*starts, end]))
