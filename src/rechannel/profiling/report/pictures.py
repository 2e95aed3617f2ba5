"""Pictures of a profile: workers over time, activities by window, channels."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from rechannel.profiling.model.participation import participation
from rechannel.profiling.model.trace import NS, WAITING
from rechannel.profiling.model.window_graph import window_graph
from rechannel.profiling.report.colours import colour_of, in_order

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rechannel.profiling.model.analysis import Analysis

Floats = npt.NDArray[np.float64]

WORKERS, SPANS, KINDS = 40, 20_000, 8
"""Upper bounds of what is drawn."""


def pictures(made: Analysis) -> Iterator[tuple[str, str, bytes]]:
    """Yield title, caption and PNG of every picture for which there is data."""
    from matplotlib import use

    if not len(made.profile.windows):
        return
    use("Agg")
    yield (
        "Activities by window",
        f"Top: share of the critical path. Bottom: share of all time that workers spent on them. The {KINDS} most"
        " critical activities at most; time between windows is empty.",
        _png(activities(made)),
    )
    yield (
        "Workers by window",
        f"Share of the critical path by worker: a straggler shows as a row, a phase as a column. The {WORKERS} most"
        " critical workers at most; time between windows is empty.",
        _png(workers(made)),
    )
    found = _detail(made)
    if found is not None:
        yield (
            "One window in detail",
            "Every activity of the window with the most paths; the darker, the more critical for its length. Waiting"
            " is grey.",
            _png(found),
        )
    if len(made.profile.by_channel().filter(pl.col("critical") > 0)):
        yield (
            "Channels",
            "Share of the critical path of the messages from one worker (row) to another (column).",
            _png(_channels(made)),
        )


def write_pictures(made: Analysis, directory: str | Path) -> list[Path]:
    """Write all pictures into a directory. Returns their files, named by their titles."""
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    written = []
    for title, _, png in pictures(made):
        written.append(place / f"{title.lower().replace(' ', '-')}.png")
        written[-1].write_bytes(png)
    return written


def _png(figure: Figure) -> bytes:
    held = BytesIO()
    figure.savefig(held, format="png", dpi=110)
    return held.getvalue()


def _figure(height: float, rows: int = 1) -> tuple[Figure, Any]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, height), layout="constrained")
    return figure, figure.subplots(rows, 1, sharex=True)


def _stepped(values: Floats) -> Floats:
    """Return what values by window are from the start and from the end of each window on: nothing is between them."""
    return np.column_stack([values, np.zeros(len(values))]).ravel()


def _grid(windows: pl.DataFrame, values: Floats) -> tuple[Floats, Floats]:
    """Return the edges of columns, seconds from the first window, and values by row and column, which are nan
    between windows. values: by row and window.
    """
    edges = np.unique(np.append(windows["start"], windows["end"]))
    columns = np.full((len(values), len(edges) - 1), np.nan)
    columns[:, np.searchsorted(edges, windows["start"])] = values
    return (edges - edges[0]) / NS, columns


def activities(made: Analysis) -> Figure:
    """Draw the shares of activities by window, on top of each other."""
    found = made.profile
    kinds = found.by_activity()["kind"].head(KINDS).to_list()
    kinds = [kinds[i] for i in in_order(kinds)]
    by_window = found.over_time("kind")
    at = found.windows.select("start", "end").to_numpy().ravel()
    at = (at - at[0]) / NS
    figure, axes = _figure(5.5, 2)
    for ax, of, label in zip(
        axes,
        ("critical", "profile"),
        ("share of the critical path", "share of all time"),
        strict=True,
    ):
        below = np.zeros(len(found.windows))
        for kind in kinds:
            mine = by_window.filter(pl.col("kind") == kind)
            above = below.copy()
            above[mine["window"].to_numpy()] += mine[of].to_numpy()
            low, high, colour = _stepped(below), _stepped(above), colour_of(kind)
            ax.fill_between(at, low, high, step="post", label=kind, color=colour, linewidth=0)
            below = above
        ax.set_ylabel(label)
        ax.set_ylim(0, 1)
    axes[1].set_xlabel("seconds")
    axes[0].legend(loc="upper left", bbox_to_anchor=(1, 1), frameon=False)
    return figure


def workers(made: Analysis) -> Figure:
    """Draw the critical participation of workers by window."""
    found = made.profile
    names = found.by_worker()["worker"].head(WORKERS).to_list()
    share = np.zeros((len(names), len(found.windows)))
    place = {name: i for i, name in enumerate(names)}
    mine = (
        found.cells.filter(~pl.col("message"))
        .group_by("window", "worker")
        .agg(pl.sum("critical"))
        .collect()
    )
    for window, worker, critical in mine.iter_rows():
        row = place.get(made.profile.names.workers[worker])
        if row is not None:
            share[row, window] = critical
    figure, ax = _figure(1.2 + 0.28 * max(3, len(names)))
    edges, columns = _grid(found.windows, share)
    rows = np.arange(len(names) + 1) - 0.5
    image = ax.pcolormesh(edges, rows, columns, cmap="Reds", vmin=0)
    ax.invert_yaxis()
    ax.set_yticks(range(len(names)), names)
    ax.set_xlabel("seconds")
    figure.colorbar(image, ax=ax, label="share of the critical path")
    return figure


def _detail(made: Analysis) -> Figure | None:
    """Draw every activity of the window with the most paths; None if there is no window, or too
    much in it.
    """
    known = made.profile.windows.filter(pl.col("paths").is_finite() & (pl.col("edges") <= SPANS))
    if not len(known):
        return None
    window, start, end, *_ = known.sort("paths", descending=True).row(0)
    piece = made.pieces.of_window(window)
    line = piece.line
    found = participation(window_graph(line, piece.trace.messages, start, end))
    graph = found.graph
    density = found.critical / np.maximum(graph.weight, 1) * (end - start)
    sums = np.bincount(graph.worker[: graph.spans], found.critical[: graph.spans], minlength=1)
    shown = np.argsort(-sums, kind="stable")[:WORKERS]
    shown = shown[np.isin(shown, graph.worker)]
    figure, ax = _figure(1.2 + 0.28 * max(3, len(shown)))
    _bars(ax, made, line, start, end, shown)
    for row, worker in enumerate(shown):
        mine = np.flatnonzero(graph.worker[: graph.spans] == worker)
        begins = (graph.time[graph.source[mine]] - start) / NS
        lengths = graph.weight[mine] / NS
        ax.broken_barh(
            list(zip(begins, lengths, strict=True)),
            (row - 0.4, 0.8),
            facecolors=[(0.8, 0.1, 0.1, float(min(1, max(0.06, d)))) for d in density[mine]],
        )
    ax.set_yticks(range(len(shown)), [made.profile.names.workers[i] for i in shown])
    ax.set_ylim(len(shown) - 0.5, -0.5)
    ax.set_xlim(0, (end - start) / NS)
    ax.set_xlabel("seconds of the window")
    return figure


def _bars(ax: Axes, made: Analysis, line: Any, start: int, end: int, shown: Any) -> None:
    """Draw waiting in light grey."""
    waiting = made.profile.names.kind(WAITING)
    for row, worker in enumerate(shown):
        mine = (
            (line.worker == worker)
            & (line.kind == waiting)
            & (line.end > start)
            & (line.start < end)
        )
        begins = (np.maximum(line.start[mine], start) - start) / NS
        lengths = (np.minimum(line.end[mine], end) - start) / NS - begins
        ax.broken_barh(
            list(zip(begins, lengths, strict=True)), (row - 0.4, 0.8), facecolors="#eeeeee"
        )


def _channels(made: Analysis) -> Figure:
    found = made.profile.by_channel()
    sums = pl.concat(
        [
            found.select(pl.col("worker").alias("name"), "critical"),
            found.select(pl.col("peer").alias("name"), "critical"),
        ]
    )
    order = (
        sums.group_by("name")
        .agg(pl.sum("critical"))
        .sort(["critical", "name"], descending=[True, False])
    )
    names = order["name"].head(WORKERS).to_list()
    place = {name: i for i, name in enumerate(names)}
    share = np.zeros((len(names), len(names)))
    for source, target, critical in found.select("worker", "peer", "critical").iter_rows():
        if source in place and target in place:
            share[place[source], place[target]] = critical
    figure, ax = _figure(1.8 + 0.28 * max(4, len(names)))
    image = ax.imshow(share, cmap="Reds", vmin=0)
    ax.set_yticks(range(len(names)), names)
    ax.set_xticks(range(len(names)), names, rotation=90)
    figure.colorbar(image, ax=ax, label="share of the critical path")
    return figure
