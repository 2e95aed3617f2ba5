"""The picture of a result, as PNG."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.harness import Picture

SIZE_INCHES = (8.0, 4.5)
DOTS_PER_INCH = 150
BELOW_INCHES = 2.5

PANEL_INCHES = (4.0, 1.9)
PANELS_PER_ROW = 3


def draw(picture: Picture, path: Path) -> None:
    """Draw every series of `picture` as a line and write it to `path`."""
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure = panels(picture) if picture.panels and picture.series else together(picture)
        figure.savefig(path, dpi=DOTS_PER_INCH)


def together(picture: Picture) -> Figure:
    """All series in the same axes; those of the picture below in axes below."""
    shown = [picture] if picture.below is None else [picture, picture.below]
    size = (SIZE_INCHES[0], SIZE_INCHES[1] + BELOW_INCHES * (len(shown) - 1))
    figure = Figure(figsize=size, layout="constrained")
    heights = [SIZE_INCHES[1], BELOW_INCHES][: len(shown)]
    grid = figure.subplots(len(shown), 1, sharex=True, squeeze=False, height_ratios=heights)
    for each, axes in zip(shown, grid.flat, strict=True):
        for series in each.series:
            axes.plot(series.x, series.y, label=series.label, linewidth=1.5)
        axes.set(title=each.title, ylabel=each.y_label)
        scale(each, axes)
        if each.series:
            axes.legend(frameon=False)
    grid.flat[-1].set_xlabel(shown[-1].x_label)
    return figure


def panels(picture: Picture) -> Figure:
    """Each series in axes of its own; all axes have the same scales."""
    columns = min(PANELS_PER_ROW, len(picture.series))
    rows = -(-len(picture.series) // columns)
    size = (PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows + 0.5)
    figure = Figure(figsize=size, layout="constrained")
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    for number, axes in enumerate(grid.flat):
        if number >= len(picture.series):
            axes.set_visible(False)
            continue
        series = picture.series[number]
        axes.plot(series.x, series.y, linewidth=1.0, marker=".", markersize=3.0)
        axes.set_title(series.label, fontsize="medium")
        scale(picture, axes)
    figure.suptitle(picture.title)
    figure.supxlabel(picture.x_label)
    figure.supylabel(picture.y_label)
    return figure


def scale(picture: Picture, axes: Axes) -> None:
    """Linear or logarithmic axes, with a grid."""
    axes.set_xscale("log" if picture.log_x else "linear")
    axes.set_yscale("log" if picture.log_y else "linear")
    axes.grid(visible=True, alpha=0.3)
