"""The picture of a result, as PNG."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.harness import Picture

SIZE_INCHES = (8.0, 4.5)
DOTS_PER_INCH = 150


def draw(picture: Picture, path: Path) -> None:
    """Draw every series of `picture` as a line and write it to `path`."""
    with mpl.rc_context({"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=SIZE_INCHES, layout="constrained")
        axes = figure.add_subplot()
        for series in picture.series:
            axes.plot(series.x, series.y, label=series.label, linewidth=1.5)
        axes.set(title=picture.title, xlabel=picture.x_label, ylabel=picture.y_label)
        axes.set_xscale("log" if picture.log_x else "linear")
        axes.set_yscale("log" if picture.log_y else "linear")
        axes.grid(visible=True, alpha=0.3)
        if picture.series:
            axes.legend(frameon=False)
        figure.savefig(path, dpi=DOTS_PER_INCH)
