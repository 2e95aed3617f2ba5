"""The picture of the demo: delays over the hours of a day."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from rechannel.demo.dataflow import LATE

_AGAIN, _ANEW, _MEAN = "#c2571d", "#3a6fb0", "#c9d3df"


def draw(hours: pa.Table, path: Path) -> None:
    """Write a PNG: mean delay by scheduled hour, and how likely a flight leaves late.

    hours: the state of the operator of that name.
    """
    # Not pyplot: a figure without it needs no display and leaves nothing open.
    from matplotlib.figure import Figure
    from matplotlib.ticker import PercentFormatter

    rows = sorted(hours.to_pylist(), key=lambda row: row["hour"])
    rows = [row for row in rows if row["mean_delay"] is not None]
    figure = Figure(figsize=(10, 5.2), layout="constrained")
    bars = figure.add_subplot()
    bars.bar(
        [row["hour"] for row in rows],
        [row["mean_delay"] for row in rows],
        color=_MEAN,
        label="mean delay (left axis)",
    )
    # Room for the legend above the highest bar.
    bars.set_ylim(0, 1.3 * max([1.0, *(row["mean_delay"] for row in rows)]))
    bars.set_xlabel("scheduled hour of departure, New York")
    bars.set_ylabel("mean delay at departure, minutes")
    bars.set_xticks([row["hour"] for row in rows])
    lines = bars.twinx()
    for what, late, of, colour in (
        ("the aircraft had come late", "late_again", "came_late", _AGAIN),
        ("the aircraft had come on time", "late_anew", "came_on_time", _ANEW),
    ):
        known = [row for row in rows if row[of]]
        lines.plot(
            [row["hour"] for row in known],
            [row[late] / row[of] for row in known],
            color=colour,
            marker="o",
            markersize=4,
            label=f"left late when {what}",
        )
    lines.set_ylim(0, 1)
    lines.yaxis.set_major_formatter(PercentFormatter(1.0))
    lines.set_ylabel(f"flights that left {LATE} minutes late or more")
    handles = [*bars.get_legend_handles_labels()[0], *lines.get_legend_handles_labels()[0]]
    bars.legend(handles=handles, loc="upper left", frameon=False)
    bars.set_title("Departures from New York in 2013: delays travel with the aircraft")
    for axes in (bars, lines):
        axes.spines["top"].set_visible(False)
    figure.savefig(path, dpi=130)
