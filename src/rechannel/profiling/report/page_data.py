"""What the page shows, as JSON values whose size has a bound, whatever the size of the trace."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import polars as pl

from rechannel.profiling.model.analysis import Analysis
from rechannel.profiling.model.landmarks import Mark, MarkKind
from rechannel.profiling.model.summaries import MapPieces
from rechannel.profiling.model.trace import NS
from rechannel.profiling.model.words import counted, seconds
from rechannel.profiling.report.channels import channels
from rechannel.profiling.report.colours import colour_of, in_order
from rechannel.profiling.report.operators import operator_graph
from rechannel.profiling.report.over_time import kinds_over_time
from rechannel.profiling.report.record import about
from rechannel.profiling.report.rows import Row, cut, rows_of
from rechannel.profiling.report.sights import sight
from rechannel.profiling.report.spans import in_detail, merged_spans

BILLION = 1_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class PageLimits:
    """Upper bounds of what a page holds."""

    spans: int = 80_000
    workers: int = 4_000
    windows: int = 500
    marks: int = 1_500
    """Of each kind."""
    operators: int = 40
    """In the graph."""
    names: int = 2_000
    """Of operators."""
    channels: int = 4_000
    findings: int = 200


PAGE = PageLimits()
NOTEBOOK = PageLimits(
    spans=12_000, workers=1_000, windows=200, marks=300, names=500, channels=1_000, findings=50
)
"""Of a page in a notebook, which is kept with it."""


def page_data(made: Analysis, limits: PageLimits = PAGE, each: MapPieces = map) -> dict[str, Any]:
    """Return what the page shows. Times are ns from the beginning of the first window.

    each: applies a function to all pieces of the trace. What is left out is listed, in words, in `left_out`.
    """
    found = made.profile
    begin = made.pieces.windows[0][0] if made.pieces.windows else 0
    end = made.pieces.windows[-1][1] if made.pieces.windows else 0
    left_out: list[str] = []
    shares = _by_worker(made)
    chosen = _chosen(shares["critical"], limits.workers)
    if len(chosen) < len(shares["critical"]):
        left = counted(len(shares["critical"]) - len(chosen), "worker")
        left_out.append(f"{left} with the least critical participation: not shown as rows")
    rows = rows_of(found.names.workers, made.landmarks.hosts, chosen)
    marks = _marks(made.landmarks.marks, begin, end, limits.marks, left_out)
    graph = operator_graph(found, made.landmarks.links, limits.operators)
    if graph.left_out:
        left_out.append(
            f"{counted(graph.left_out, 'operator')} with the least critical participation: not in the graph"
        )
    return {
        "title": cut(made.title),
        "about": about(made),
        "begin": begin,
        "length": end - begin,
        "kinds": _kinds(found.names.kinds),
        "order": in_order(list(found.names.kinds)),
        "operators": [cut(name) for name in found.names.operators[: limits.names]],
        "rows": [[row.name, row.parent, row.worker] for row in rows],
        "shares": {name: [round(one, 6) for one in column] for name, column in shares.items()},
        "spans": _spans(made, begin, chosen, limits, each, left_out),
        "windows": kinds_over_time(made.profile, begin, limits.windows, left_out),
        "marks": [_mark(mark, begin) for mark in marks],
        "findings": _findings(made, rows, begin, limits),
        "graph": graph.record(),
        "channels": channels(found, rows, limits.channels),
        "left_out": left_out,
    }


def _kinds(names: Sequence[str]) -> list[dict[str, str]]:
    return [{"name": cut(name), "colour": colour_of(name)} for name in names]


def _by_worker(made: Analysis) -> dict[str, list[float]]:
    """Return shares of the critical path and of all time, by number of the worker."""
    number = {name: i for i, name in enumerate(made.profile.names.workers)}
    shares = {what: [0.0] * len(number) for what in ("critical", "profile")}
    frame = made.profile.by_worker().select("worker", "critical", "profile")
    for name, critical, profile in frame.iter_rows():
        shares["critical"][number[name]] += critical
        shares["profile"][number[name]] += profile
    return shares


def _chosen(critical: Sequence[float], most: int) -> list[int]:
    """Return the most critical workers, in order of their numbers."""
    return sorted(sorted(range(len(critical)), key=lambda i: (-critical[i], i))[:most])


def _spans(
    made: Analysis,
    begin: int,
    chosen: Sequence[int],
    limits: PageLimits,
    each: MapPieces,
    left_out: list[str],
) -> dict[str, Any]:
    """Return columns of spans, by worker and start.

    busy: thousandths of the length. critical: billionths of the critical path. path: percent of the span that lies on
    the critical path, in the mean of all paths.
    """
    detailed = in_detail(made.profile, limits.spans // 2)
    found = merged_spans(made.pieces, limits.spans // 2, each, detailed)
    frame = found.frame
    if len(chosen) < len(made.profile.names.workers):
        frame = frame.filter(pl.col("worker").is_in(list(chosen)))
    if found.resolution:
        left_out.append(
            f"{found.activities:,} activities are shown as {len(frame):,} spans: those of the"
            f" {counted(len(detailed), 'most critical worker')} one by one, those of others merged where they are"
            f" shorter than {seconds(found.resolution / NS)}"
        )
    known = _known(made)
    length = pl.col("end") - pl.col("start")
    operator = pl.col("operator")
    columns = frame.select(
        "worker",
        "kind",
        pl.when(operator < limits.names).then(operator).otherwise(-1).alias("operator"),
        (pl.col("start") - begin).alias("start"),
        length.alias("length"),
        (1_000 * pl.col("busy") / length).round().cast(pl.Int64).alias("busy"),
        "count",
        (BILLION * pl.col("path") / known).round().cast(pl.Int64).alias("critical"),
        (100 * pl.col("path") / pl.col("busy")).round().clip(0, 100).cast(pl.Int64).alias("path"),
    )
    return {
        **columns.to_dict(as_series=False),
        "resolution": found.resolution,
        "activities": found.activities,
    }


def _known(made: Analysis) -> int:
    """Return the length of all windows through which a path leads, ns; at least 1."""
    windows = made.profile.windows.filter(pl.col("paths") > float("-inf"))
    return max(1, int((windows["end"] - windows["start"]).sum()))


def _marks(
    marks: Sequence[Mark], begin: int, end: int, most: int, left_out: list[str]
) -> list[Mark]:
    """Return the longest marks of each kind within the time that is shown, by start."""
    kept: list[Mark] = []
    for what in MarkKind:
        mine = [m for m in marks if m.what == what and m.end > begin and m.start < end]
        longest = sorted(mine, key=lambda mark: (mark.start - mark.end, mark.start))[:most]
        if len(longest) < len(mine):
            shown = f"of {len(mine):,} {_plural(what)}, the {len(longest):,} longest are marked"
            left_out.append(shown)
        kept += sorted(longest, key=lambda mark: (mark.start, mark.end, mark.number))
    return kept


def _plural(what: MarkKind) -> str:
    return f"{what}es" if what == MarkKind.BATCH else f"{what}s"


def _mark(mark: Mark, begin: int) -> list[Any]:
    """Return kind, number, start, end, name and attempt."""
    start, end = mark.start - begin, mark.end - begin
    return [str(mark.what), mark.number, start, end, cut(mark.name), mark.attempt]


def _findings(
    made: Analysis, rows: Sequence[Row], begin: int, limits: PageLimits
) -> list[dict[str, Any]]:
    names, marks = made.profile.names, made.landmarks.marks
    return [
        {"cause": finding.cause, "at": sight(finding, marks, rows, names, begin)}
        for finding in islice(made.findings, limits.findings)
    ]
