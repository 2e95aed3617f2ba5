"""What every worker did, as so few spans that a page can hold them, whatever the size of the trace.

Spans that are shorter than a resolution are merged with those of the same worker that begin in the same interval of
this length; longer ones stay. The resolution is the smallest power of two, in nanoseconds, at which no more than the
allowed number is left. Intervals of a resolution lie within those of the next, so spans can be merged as they come.
Spans of the most critical workers are not merged: those are what readers zoom into.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rechannel.profiling.model.participation import Participation
from rechannel.profiling.model.pieces import Piece, Pieces
from rechannel.profiling.model.summaries import MapPieces, Profile, grouped

SPANS = {
    "worker": pl.Int32,
    "kind": pl.Int32,
    "operator": pl.Int32,
    "start": pl.Int64,
    "end": pl.Int64,
    "busy": pl.Int64,
    "count": pl.Int64,
    "path": pl.Float64,
}
"""Columns of spans.

start, end: ns. busy: ns in which the worker did something. count: number of activities. path: ns of the critical path
that it takes up, in the mean of all paths.
"""
FINEST = 1 << 10
"""The first resolution that is tried, ns."""
_SUMS = pl.sum("busy", "count", "path")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergedSpans:
    """Spans, by worker and start."""

    frame: pl.DataFrame
    """With the columns of `SPANS`."""
    resolution: int
    """Spans shorter than this were merged, ns; 0 if none was."""
    activities: int
    """Number of activities in all."""


def merged_spans(
    pieces: Pieces, most: int, each: MapPieces = map, detailed: Sequence[int] = ()
) -> MergedSpans:
    """Return the spans of a trace, at most about `most`, without those of workers in detail.

    each: applies a function to all pieces. detailed: workers whose spans are never merged.
    """
    begin = pieces.windows[0][0] if pieces.windows else 0
    edges = np.array([start for start, _ in pieces.windows], dtype=np.int64)
    last = pieces.windows[-1][1] if pieces.windows else 0
    apart = pl.col("worker").is_in(list(detailed))
    held, whole, resolution = pl.DataFrame(schema=SPANS), pl.DataFrame(schema=SPANS), 0
    waiting: list[pl.DataFrame] = []
    for made in chain(each(spans_of, pieces), [None]):
        if made is not None:
            waiting.append(made)
            if sum(map(len, waiting)) <= 4 * most:
                continue
        every = joined([held, whole, *waiting], edges)
        whole, rest = every.filter(apart), every.filter(~apart)
        held, resolution = fitted(rest, most, begin, last, resolution)
        waiting = []
    frame = pl.concat([held, whole]).sort("worker", "start")
    return MergedSpans(frame=frame, resolution=resolution, activities=int(frame["count"].sum()))


def in_detail(found: Profile, most: int) -> list[int]:
    """Return the most critical workers that have at most `most` spans together."""
    workers = found.by_worker().filter(pl.col("edges").cum_sum() <= most)
    number = {name: i for i, name in enumerate(found.names.workers)}
    return [number[name] for name in workers["worker"]]


def spans_of(piece: Piece) -> pl.DataFrame:
    """Return the spans of the windows of a piece, without waiting."""
    made = [pl.DataFrame(schema=SPANS)]
    for group in grouped(piece):
        parts = [_columns(found) for _, found in group]
        columns = {name: np.concatenate([part[name] for part in parts]) for name in SPANS}
        made.append(pl.DataFrame(columns, schema=SPANS).filter(pl.col("end") > pl.col("start")))
    return pl.concat(made)


def _columns(found: Participation) -> dict[str, npt.NDArray[Any]]:
    """Return the columns of the spans of a window."""
    graph, mine = found.graph, slice(0, found.graph.spans)
    start, end = graph.time[graph.source[mine]], graph.time[graph.target[mine]]
    return {
        "worker": graph.worker[mine],
        "kind": graph.kind[mine],
        "operator": graph.operator[mine],
        "start": start,
        "end": end,
        "busy": end - start,
        "count": np.ones(len(start), dtype=np.int64),
        "path": found.critical[mine] * (graph.end - graph.start),
    }


def joined(
    frames: Sequence[pl.DataFrame], edges: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> pl.DataFrame:
    """Return all spans, with those that were cut at the boundaries of windows in one again.

    edges: starts of windows, ns.
    """
    every = pl.concat(frames).sort("worker", "start")
    same = ["worker", "kind", "operator"]
    goes_on = (
        pl.all_horizontal(pl.col(name) == pl.col(name).shift() for name in same)
        & (pl.col("start") == pl.col("end").shift())
        & pl.col("start").is_in(pl.Series(edges).implode())
    ).fill_null(value=False)
    parts = every.with_columns(goes_on.alias("goes_on"))
    number = (~pl.col("goes_on")).cum_sum().alias("span")
    found = parts.group_by(number, maintain_order=True).agg(
        pl.first(*same),
        pl.min("start"),
        pl.max("end"),
        _SUMS,
        pl.sum("goes_on"),
    )
    count = pl.col("count") - pl.col("goes_on").cast(pl.Int64)
    return found.with_columns(count.alias("count")).select(*SPANS)


def fitted(
    frame: pl.DataFrame, most: int, begin: int, last: int, resolution: int = 0
) -> tuple[pl.DataFrame, int]:
    """Return at most `most` spans, if there are not more workers, and the resolution, ns.

    begin, last: of the trace, ns. resolution: the least.
    """
    made = merged(frame, begin, resolution) if resolution else frame
    while len(made) > most and resolution <= 2 * (last - begin):
        # Longer spans stay, so the resolution exceeds the length of all but the `most` longest.
        rest = (made["end"] - made["start"]).sort(descending=True)[most]
        resolution = max(FINEST, 2 * resolution, 1 << int(rest).bit_length())
        made = merged(made, begin, resolution)
    return made, resolution


def merged(frame: pl.DataFrame, begin: int, resolution: int) -> pl.DataFrame:
    """Merge spans that are shorter than a resolution; a merged one has the kind that it has most of."""
    length = pl.col("end") - pl.col("start")
    short, long = frame.filter(length < resolution), frame.filter(length >= resolution)
    place = ((pl.col("start") - begin) // resolution).alias("place")
    by_kind = short.group_by("worker", place, "kind", "operator").agg(
        pl.min("start"), pl.max("end"), _SUMS
    )
    order = ["worker", "place", "busy", "kind", "operator"]
    found = (
        by_kind.sort(order, descending=[False, False, True, False, False])
        .group_by("worker", "place", maintain_order=True)
        .agg(pl.first("kind", "operator"), pl.min("start"), pl.max("end"), _SUMS)
    )
    return pl.concat([long, found.select(*SPANS)])
