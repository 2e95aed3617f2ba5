"""From the runs of a changed stream to metrics, bounds and curves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import median

import numpy as np

from benchmarks.harness import Measurement, Metric, Picture, Series
from benchmarks.timeline import (
    SECOND_MS,
    WINDOW_MS,
    Floats,
    dip,
    fetched_between,
    rows_of,
    silence,
    spans_of,
)
from benchmarks.trials import MEGABYTE, Trials

CONTROL = "no_change"
P99_BOUND = MAX_BOUND = 1.5
"""Latency during the move is at most so many times that of the same span without a change."""
DIP_BOUND = 0.1
"""Largest loss of throughput of the worst ten timesteps (5 s), against the same span without a change."""
NORMAL = 1.5
"""Latency is back to normal below this multiple of the maximum before."""

STATISTICS: dict[str, Callable[[Floats], float]] = {
    "p50": lambda values: float(np.percentile(values, 50)),
    "p99": lambda values: float(np.percentile(values, 99)),
    "max": lambda values: float(values.max()),
}


def figures(trials: Trials) -> list[Metric]:
    """Medians over the runs of each variant."""
    found: list[Metric] = []
    for variant in trials.variants:
        values: dict[tuple[str, str], list[float]] = {}
        for run in trials.of(variant):
            for key, value in figures_of(run).items():
                values.setdefault(key, []).append(value)
        found.extend(
            Metric(name=name, value=median(each), unit=unit, variant=variant)
            for (name, unit), each in values.items()
        )
    return found


def figures_of(run: Measurement) -> dict[tuple[str, str], float]:
    """(name, unit) and value of everything that one run reports."""
    spans, rows = spans_of(run), rows_of(run)
    out = {
        (f"{name} {part}", "ms"): statistic(rows.between(*edges))
        for part, edges in spans.as_pairs().items()
        for name, statistic in STATISTICS.items()
    }
    during = (spans.asked, spans.settled)
    out["time to finish", "s"] = (run["done_ms"] - run["asked_ms"]) / 1e3
    out["back to normal after", "s"] = back_to_normal(run) / 1e3
    out["throughput dip, 5 s", "%"] = 100 * dip(run, spans)
    out["throughput dip, 1 s", "%"] = 100 * dip(run, spans, SECOND_MS)
    out["longest without a commit", "ms"] = silence(run, spans)
    out["fetched before", "MB"] = fetched_between(run, 0, spans.asked) / MEGABYTE
    out["fetched ahead", "MB"] = run["prefetched"] / MEGABYTE
    out["fetched during", "MB"] = fetched_between(run, *during) / MEGABYTE
    out["fetched after", "MB"] = fetched_between(run, spans.settled, np.inf) / MEGABYTE
    out["pieces fetched ahead", "pieces"] = run["pieces"]
    out["bins moved", "bins"] = run["bins"]
    out["steps", "steps"] = run["steps"]
    out["input", "rows/s"] = run["rate"]
    for name, each in run["phase_ms"].items():
        if each:
            out[f"phase {name}", "ms"] = median(each)
    return out


def back_to_normal(run: Measurement) -> float:
    """How long after the change was asked for the last row was due that waited too long, ms."""
    spans, rows = spans_of(run), rows_of(run)
    bound = NORMAL * rows.between(spans.before, spans.cut).max()
    late = rows.due[(rows.latency > bound) & (rows.due >= spans.cut)]
    return max(0.0, float(late[-1] - spans.asked)) if len(late) else 0.0


def ratios_of(trials: Trials, variant: str) -> dict[str, float]:
    """Bounds of one variant against the same span of runs without a change; none if either failed.

    Timesteps are not all alike, so a stream that is left alone dips too, and the less the longer one looks: the dip is
    that beyond the dip of the same span without a change. What it is over one second, and against the mean before
    the change whatever a stream left alone does, is reported next to it.
    """
    runs, controls = trials.of(variant), trials.of(CONTROL)
    if variant not in trials.variants or CONTROL not in trials.variants:
        return {}
    length = median(spans.settled - spans.asked for spans in map(spans_of, runs))
    changed = {name: span_median(runs, name, None) for name in STATISTICS}
    alone = {name: span_median(controls, name, length) for name in STATISTICS}
    bounds = {
        "bound_p99": P99_BOUND / (changed["p99"] / alone["p99"]),
        "bound_max": MAX_BOUND / (changed["max"] / alone["max"]),
    }
    for name, window in (("bound_dip", WINDOW_MS), ("bound_dip_1s", SECOND_MS)):
        drop = median(dip(run, spans_of(run), window) for run in runs)
        usual = median(dip(run, spans_of(run, length), window) for run in controls)
        own = (1 - drop) / (1 - DIP_BOUND)
        bounds[name] = own / (1 - usual)
        bounds[f"{name}_own_mean"] = own
    return bounds


def span_median(runs: Sequence[Measurement], name: str, length: float | None) -> float:
    """Median over runs of a statistic of the latencies during the change, or during `length` ms."""
    found = []
    for run in runs:
        spans = spans_of(run, length)
        found.append(STATISTICS[name](rows_of(run).between(spans.cut, spans.settled)))
    return median(found)


def picture_of(trials: Trials, title: str) -> Picture:
    """Per variant, over the time since the change was asked for: the slowest row of each timestep."""
    return Picture(
        title=title,
        x_label="seconds",
        y_label="ms",
        series=tuple(curve(name, trials.of(name)[0]) for name in trials.variants),
        log_y=True,
        panels=True,
    )


def curve(variant: str, run: Measurement) -> Series:
    """Latency of the first row of every timestep at its commit, from the span before on."""
    known = np.asarray(run["commits"], dtype=np.float64).reshape(-1, 3)
    at = known[:, 2] / 1e6
    latency = at - (run["since_ms"] + known[:, 0] * (1e3 / run["rate"]))
    shown = at >= run["asked_ms"] - run["before_ms"]
    return Series(
        label=variant,
        x=tuple(((at[shown] - run["asked_ms"]) / 1e3).tolist()),
        y=tuple(latency[shown].tolist()),
    )
