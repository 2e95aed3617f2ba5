"""Summaries of windows: critical participation by activity, worker, operator and channel, next to
the conventional profile.

A *cell* groups the edges of a window that have the same kind, operator and workers at both ends.
All summaries are sums of cells. Messages belong to channels, which are pairs of workers;
everything else belongs to one worker.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import Any, Protocol

import numpy as np
import polars as pl

from rechannel.profiling.model.participation import Participation, participation
from rechannel.profiling.model.pieces import Piece, Pieces
from rechannel.profiling.model.trace import RESERVED, Names

MapPieces = Callable[[Callable[[Piece], Any], Iterable[Piece]], Iterable[Any]]
"""Applies a function to pieces, in threads or in tasks, and returns the results in order."""

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
"""Columns of cells. critical: CP. profile: share of all time."""
WINDOWS = {
    "window": pl.Int64,
    "start": pl.Int64,
    "end": pl.Int64,
    "edges": pl.Int64,
    "paths": pl.Float64,
    "ns": pl.Int64,
    "left_out": pl.Int64,
    "batch": pl.Int64,
}
"""Columns of windows. paths: the logarithm to base 10 of their number. ns: of all edges together."""

TOGETHER = 1 << 14
"""Edges of small windows that are looked at together."""
_OF_EDGES = ("kind", "operator", "worker", "peer")


def cells(found: Sequence[tuple[int, Participation]]) -> pl.DataFrame:
    """Return the cells of numbered windows, with the columns of `CELLS`."""
    graphs = [each.graph for _, each in found]
    lengths = [len(graph.kind) for graph in graphs]
    columns = {name: [getattr(graph, name) for graph in graphs] for name in _OF_EDGES}
    columns["window"] = [np.repeat([number for number, _ in found], lengths)]
    columns["message"] = [np.arange(len(graph.kind)) >= graph.spans for graph in graphs]
    columns["ns"] = [graph.weight for graph in graphs]
    columns["critical"] = [each.critical for _, each in found]
    columns["profile"] = [each.profile for _, each in found]
    edges = pl.DataFrame({name: np.concatenate(parts) for name, parts in columns.items()})
    sums = edges.group_by("window", *_OF_EDGES, "message").agg(
        pl.len().alias("edges"), pl.sum("ns", "critical", "profile")
    )
    return sums.select(pl.col(name).cast(kind) for name, kind in CELLS.items())


def facts(window: int, found: Participation) -> dict[str, float | None]:
    """Return a row of `WINDOWS`.

    paths is minus infinity if there are none. batch is the number of the batch if the window is
    one.
    """
    total = found.paths.total
    mantissa, exponent = float(total.mantissa[0]), int(total.exponent[0])
    return {
        "window": window,
        "start": found.graph.start,
        "end": found.graph.end,
        "edges": len(found.graph.kind),
        "paths": log10(mantissa) + exponent * log10(2) if mantissa else float("-inf"),
        "ns": int(found.graph.weight.sum()),
        "left_out": len(found.paths.left_out),
        "batch": None,
    }


class CellStore(Protocol):
    """Keeps the cells of many windows, in memory or beyond it."""

    def add(self, made: pl.DataFrame) -> None:
        """Add the cells of some windows."""
        ...

    def frame(self) -> pl.LazyFrame:
        """Return all cells. The frame may read files that live no longer than the store."""
        ...


class CellsInMemory:
    """A store for cells that fit into memory."""

    def __init__(self) -> None:
        self._held = [pl.DataFrame(schema=CELLS)]

    def add(self, made: pl.DataFrame) -> None:
        """Add the cells of some windows."""
        self._held.append(made)

    def frame(self) -> pl.LazyFrame:
        """Return all cells."""
        return pl.concat(self._held).lazy()


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Profile:
    """Critical participation in all windows of a trace."""

    names: Names
    held: CellStore
    windows: pl.DataFrame
    """One row per window, with the columns of `WINDOWS`."""

    @property
    def cells(self) -> pl.LazyFrame:
        """All cells, with the columns of `CELLS`. The frame may read files that are deleted with
        this profile: collect it before.
        """
        return self.held.frame()

    @property
    def known(self) -> int:
        """Number of windows through which a path leads."""
        return len(self._known)

    def by(self, *what: str, where: pl.Expr | None = None) -> pl.DataFrame:
        """Return CP, as the mean over windows with paths by their lengths, and shares of all time in
        these windows, most critical first.

        what: columns of cells to group by. where: which cells count.
        """
        windows = self._known.with_columns((pl.col("end") - pl.col("start")).alias("length"))
        length, spent = max(1, windows["length"].sum()), max(1, windows["ns"].sum())
        known = self.cells.join(windows.lazy().select("window", "length"), on="window")
        chosen = known if where is None else known.filter(where)
        sums = chosen.group_by(*what).agg(
            ((pl.col("critical") * pl.col("length")).sum() / length).alias("critical"),
            (pl.sum("ns") / spent).alias("profile"),
            pl.sum("edges", "ns"),
        )
        named = sums.with_columns(self._named(column) for column in what if column in self._lists)
        ordered = named.sort(["critical", *what], descending=[True, *(False for _ in what)])
        return ordered.collect(engine="streaming")

    def by_activity(self) -> pl.DataFrame:
        """Summarise by kind of activity or message."""
        return self.by("kind")

    def by_worker(self) -> pl.DataFrame:
        """Summarise by worker; messages do not count."""
        return self.by("worker", where=~pl.col("message"))

    def by_operator(self) -> pl.DataFrame:
        """Summarise by operator, with the number of its workers and CP per worker; messages do not
        count.
        """
        mine = ~pl.col("message") & (pl.col("operator") >= 0)
        workers = pl.n_unique("worker").alias("workers")
        counted = self.cells.filter(mine).group_by("operator").agg(workers)
        spread = counted.with_columns(self._named("operator")).collect(engine="streaming")
        found = self.by("operator", where=mine).join(spread, on="operator", how="left")
        return found.with_columns((pl.col("critical") / pl.col("workers")).alias("per_worker"))

    def by_channel(self) -> pl.DataFrame:
        """Summarise messages by pair of workers."""
        return self.by("worker", "peer", where=pl.col("message"))

    def over_time(self, *what: str) -> pl.DataFrame:
        """Return sums by window, and by columns of cells."""
        sums = self.cells.group_by("window", *what).agg(
            pl.sum("critical", "profile", "edges", "ns")
        )
        named = sums.with_columns(self._named(column) for column in what if column in self._lists)
        return named.sort("window", *what).collect(engine="streaming")

    @property
    def _known(self) -> pl.DataFrame:
        """Windows through which a path leads."""
        return self.windows.filter(pl.col("paths") > float("-inf"))

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
        """Replace indices by names; null if there is none."""
        names = pl.Series(self._lists[column], dtype=pl.String)
        places = pl.col(column)
        return pl.lit(names).gather(pl.when(places >= 0).then(places)).alias(column)


def profiled(pieces: Pieces, each: MapPieces = map, held: CellStore | None = None) -> Profile:
    """Compute critical participation in the pieces of a trace.

    each: applies a function to all pieces. held: keeps the cells; in memory by default.
    """
    held, told = CellsInMemory() if held is None else held, [pl.DataFrame(schema=WINDOWS)]
    for made, facts_of in each(summed, pieces):
        held.add(made)
        told.append(facts_of)
    return Profile(names=pieces.source.names, held=held, windows=pl.concat(told))


def joined(profiles: Sequence[Profile], held: CellStore | None = None) -> Profile:
    """Combine the windows of several profiles; workers and operators of the same name are the
    same.

    held: keeps the cells; in memory by default.
    """
    lists = {
        what: list(dict.fromkeys(name for each in profiles for name in getattr(each.names, what)))
        for what in ("workers", "operators", "kinds")
    }
    lists["kinds"] = list(dict.fromkeys([*RESERVED, *lists["kinds"]]))
    known = {what: {name: i for i, name in enumerate(names)} for what, names in lists.items()}
    held = CellsInMemory() if held is None else held
    told, before = [pl.DataFrame(schema=WINDOWS)], 0
    for each in profiles:
        places = {
            what: [place[name] for name in getattr(each.names, what)]
            for what, place in known.items()
        }
        moved = [
            pl.col(column)
            .replace_strict({-1: -1, **dict(enumerate(places[what]))}, return_dtype=pl.Int32)
            .alias(column)
            for column, what in (
                ("kind", "kinds"),
                ("operator", "operators"),
                ("worker", "workers"),
                ("peer", "workers"),
            )
        ]
        held.add(each.cells.with_columns(*moved, pl.col("window") + before).collect())
        told.append(each.windows.with_columns(pl.col("window") + before))
        before += len(each.windows)
    return Profile(names=Names(**lists), held=held, windows=pl.concat(told))


def summed(piece: Piece) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the cells and facts of the windows of a piece."""
    made, told = [pl.DataFrame(schema=CELLS)], []
    for group in grouped(piece):
        made.append(cells(group))
        told += [facts(number, found) for number, found in group]
    return pl.concat(made), pl.DataFrame(told, schema=WINDOWS)


def grouped(piece: Piece) -> Iterator[list[tuple[int, Participation]]]:
    """Yield the participation in consecutive windows of a piece, with their numbers: frames of many small windows
    together take less time than one of each.
    """
    held, edges = list[tuple[int, Participation]](), 0
    for number, graph in piece.graphs():
        held.append((number, participation(graph)))
        edges += len(graph.kind)
        if edges >= TOGETHER:
            yield held
            held, edges = [], 0
    if held:
        yield held
