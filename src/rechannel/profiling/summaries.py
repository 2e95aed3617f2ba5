"""What windows come to: critical participation by activity, worker, operator and channel, beside the usual profile.

A *cell* is what edges of a window have in common: kind, operator, and the workers of both ends. All summaries are sums
of cells. Messages belong to channels, pairs of workers; whatever else a worker did is its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import log10

import numpy as np
import polars as pl

from rechannel.kernels.collect import ranges
from rechannel.profiling.participation import Participation, participation
from rechannel.profiling.snapshot import Snapshot, snapshot
from rechannel.profiling.timeline import Timeline, timeline
from rechannel.profiling.trace import Names, Times, Trace

CELLS = {
    "window": pl.Int64,
    "kind": pl.Int32,
    "operator": pl.Int32,
    "worker": pl.Int32,
    "peer": pl.Int32,
    "message": pl.Boolean,
    "edges": pl.Int64,
    "ns": pl.Int64,
    "critical": pl.Float64,
    "profile": pl.Float64,
}
WINDOWS = {
    "window": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "edges": pl.Int64,
    "paths": pl.Float64,
    "left_out": pl.Int64,
}


def cells(window: int, found: Participation) -> pl.DataFrame:
    """Cells of a window, with the columns of `CELLS`."""
    graph = found.graph
    edges = pl.DataFrame(
        {
            "kind": graph.kind,
            "operator": graph.operator,
            "worker": graph.worker,
            "peer": graph.peer,
            "message": np.arange(len(graph.kind)) >= graph.spans,
            "ns": graph.weight,
            "critical": found.critical,
            "profile": found.profile,
        }
    )
    by = ["kind", "operator", "worker", "peer", "message"]
    sums = edges.group_by(by).agg(
        pl.len().cast(pl.Int64).alias("edges"), pl.sum("ns", "critical", "profile")
    )
    return sums.with_columns(pl.lit(window, pl.Int64).alias("window")).select(
        pl.col(name).cast(kind) for name, kind in CELLS.items()
    )


def facts(window: int, found: Participation) -> dict[str, float]:
    """A row of `WINDOWS`. paths: the logarithm to base 10 of their number, minus infinity for none."""
    total = found.paths.total
    mantissa, exponent = float(total.mantissa[0]), int(total.exponent[0])
    return {
        "window": window,
        "start": found.graph.start,
        "end": found.graph.end,
        "edges": len(found.graph.kind),
        "paths": log10(mantissa) + exponent * log10(2) if mantissa else float("-inf"),
        "left_out": len(found.paths.left_out),
    }


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """All windows of a trace. cells, windows: frames with the columns of `CELLS` and `WINDOWS`."""

    names: Names
    cells: pl.DataFrame
    windows: pl.DataFrame

    @property
    def known(self) -> int:
        """Windows through which a path leads."""
        return int((self.windows["paths"] > float("-inf")).sum())

    def by(self, *what: str, where: pl.Expr | None = None) -> pl.DataFrame:
        """Mean CP and share of the profile over windows with paths, by columns of cells; the most critical first."""
        windows = self.windows.filter(pl.col("paths") > float("-inf")).select("window")
        known = self.cells.join(windows, on="window", how="semi")
        chosen = known if where is None else known.filter(where)
        count = max(1, self.known)
        sums = chosen.group_by(*what).agg(
            (pl.sum("critical") / count).alias("critical"),
            (pl.sum("profile") / count).alias("profile"),
            pl.sum("edges", "ns"),
        )
        named = sums.with_columns(self._named(column) for column in what if column in self._lists)
        return named.sort(["critical", *what], descending=[True, *(False for _ in what)])

    def by_activity(self) -> pl.DataFrame:
        """By kind of activity and message."""
        return self.by("kind")

    def by_worker(self) -> pl.DataFrame:
        """By worker, of what it did itself."""
        return self.by("worker", where=~pl.col("message"))

    def by_operator(self) -> pl.DataFrame:
        """By operator, of what workers did for it; with the number of workers, and CP per worker."""
        mine = ~pl.col("message") & (pl.col("operator") >= 0)
        spread = (
            self.cells.filter(mine).group_by("operator").agg(pl.n_unique("worker").alias("workers"))
        )
        spread = spread.with_columns(self._named("operator"))
        found = self.by("operator", where=mine).join(spread, on="operator", how="left")
        return found.with_columns((pl.col("critical") / pl.col("workers")).alias("per_worker"))

    def by_channel(self) -> pl.DataFrame:
        """By pair of workers, of messages."""
        return self.by("worker", "peer", where=pl.col("message"))

    def over_time(self, *what: str) -> pl.DataFrame:
        """Sums by window."""
        sums = self.cells.group_by("window", *what).agg(
            pl.sum("critical", "profile", "edges", "ns")
        )
        named = sums.with_columns(self._named(column) for column in what if column in self._lists)
        return named.sort("window", *what)

    @property
    def _lists(self) -> Mapping[str, list[str]]:
        workers = list(self.names.workers)
        return {
            "kind": list(self.names.kinds),
            "operator": list(self.names.operators),
            "worker": workers,
            "peer": workers,
        }

    def _named(self, column: str) -> pl.Expr:
        """Names for places; null for none."""
        names = pl.Series(self._lists[column], dtype=pl.String)
        places = pl.col(column)
        return pl.lit(names).gather(pl.when(places >= 0).then(places)).alias(column)


def windows_of(trace: Trace, length: int) -> list[tuple[int, int]]:
    """Windows of `length` ns from the begin of a trace to its end; the last one may be shorter."""
    begin, end = trace.span
    return [(at, min(at + length, end)) for at in range(begin, end, length)]


def graphs(trace: Trace, line: Timeline, length: int) -> Iterator[Snapshot]:
    """Graphs of the windows of a trace."""
    begin, _ = trace.span
    windows = windows_of(trace, length)
    spans = _Cut.of(line.start, line.end, begin, length, len(windows))
    went = trace.messages
    sent = _Cut.of(went.sent, went.received, begin, length, len(windows))
    for number, (start, end) in enumerate(windows):
        yield snapshot(
            line.take(spans.of_window(number)), went.take(sent.of_window(number)), start, end
        )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Cut:
    """Which intervals meet which windows. places: of intervals, by window; first: of every window, and the end."""

    places: Times
    first: Times

    @classmethod
    def of(cls, start: Times, end: Times, begin: int, length: int, windows: int) -> _Cut:
        """Intervals in the order that they have. One that ends where a window begins is in the one before, too."""
        one = np.minimum((start - begin) // length, windows - 1)
        last = np.minimum((end - begin) // length, windows - 1)
        count = last - one + 1
        places = np.repeat(np.arange(len(start)), count)
        window = ranges(one, count)
        order = np.argsort(window, kind="stable")
        first = np.searchsorted(window[order], np.arange(windows + 1))
        return cls(places=places[order], first=first)

    def of_window(self, number: int) -> Times:
        """Intervals that meet a window."""
        return self.places[self.first[number] : self.first[number + 1]]


def profile(trace: Trace, line: Timeline | None = None, *, window: int) -> Profile:
    """Critical participation of a trace that is in memory. line: of the trace, if it is known. window: ns."""
    line = timeline(trace) if line is None else line
    made, told = [pl.DataFrame(schema=CELLS)], []
    for number, graph in enumerate(graphs(trace, line, window)):
        found = participation(graph)
        made.append(cells(number, found))
        told.append(facts(number, found))
    return Profile(
        names=trace.names,
        cells=pl.concat(made),
        windows=pl.DataFrame(told, schema=WINDOWS),
    )
