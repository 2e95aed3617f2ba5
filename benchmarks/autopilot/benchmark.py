"""A Yahoo-like stream through load x3, a hot key, a slow executor, and back: with Autopilot and without."""

from __future__ import annotations

import numpy as np

from benchmarks.autopilot.events import edges_of, events_from, options_of
from benchmarks.autopilot.figures import (
    GRACE_TIMESTEPS,
    Latencies,
    core_seconds,
    counts,
    executors_over_time,
    latencies,
    taken_back,
    turns,
)
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Picture,
    Result,
    Series,
    Variant,
    Workbench,
)
from benchmarks.trials import Trials, run_trials

PILOTED, ALONE, SPARK = "autopilot", "left alone", "dynamic allocation"
VARIANTS = {
    PILOTED: "benchmarks.autopilot.side:piloted",
    ALONE: "benchmarks.autopilot.side:left_alone",
    SPARK: "benchmarks.peers.autopilot:run",
}
WITHIN = 0.95
"""Share of the time outside of ten timesteps after each event in which the target has to be kept."""


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run all sides, one after the other, on the same schedule."""
    trials = run_trials(
        [Variant(name=n, function=f, parameters=parameters) for n, f in VARIANTS.items()],
        bench,
        rounds=1,
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics = [m for name in trials.variants for m in figures(name, trials, parameters)]
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios(metrics),
        picture=picture(trials, parameters),
        failures=trials.failures,
    )


def check(variant: Variant, run: Measurement) -> None:
    """Raise ValueError for a run that has lost rows, or has counted other events than were read."""
    seen(run, variant.parameters)
    if run["views"] != run["rows"]:
        raise ValueError(f"{run['views']} of {run['rows']} events were counted")


def seen(run: Measurement, parameters: Parameters) -> Latencies:
    """Return the latencies of a run."""
    return latencies(run, events_from(options_of(parameters, run["start_ns"])))


def figures(name: str, trials: Trials, parameters: Parameters) -> list[Metric]:
    """Return what a side did."""
    (made,) = trials.of(name)
    found, edges = seen(made, parameters), edges_of(parameters)
    counted = (found.at_s >= edges[0]) & (found.at_s < edges[-1])
    above = (found.worst_ms > parameters["target_ms"]) & counted
    outside = counts(found.at_s, edges, GRACE_TIMESTEPS * parameters["interval_ms"] / 1e3)
    within = 1 - above[outside].mean() if outside.any() else 1.0
    told = [
        ("time above the target", float(above.sum()), "s"),
        ("within the target outside of events", 100 * float(within), "%"),
        ("latency, p50", float(np.percentile(found.worst_ms[counted], 50)), "ms"),
        ("latency, p99", float(np.percentile(found.worst_ms[counted], 99)), "ms"),
        ("core-seconds", core_seconds(made, edges), "s"),
        ("turns of the number of executors", float(turns(made, edges)), "turns"),
        ("changes", float(len(made["changes"])), "changes"),
        ("taken back", float(taken_back(made["decisions"])), "changes"),
    ]
    return [Metric(name=what, value=value, unit=unit, variant=name) for what, value, unit in told]


def ratios(metrics: list[Metric]) -> dict[str, float]:
    """Return bounds of the side with Autopilot, and how many times longer others are above the target."""
    value = {(metric.variant, metric.name): metric.value for metric in metrics}
    if (PILOTED, "changes") not in value:
        return {}
    within = value[PILOTED, "within the target outside of events"] / 100
    turned = value[PILOTED, "turns of the number of executors"]
    out = {"bound_within": within / WITHIN, "bound_steady": 1 / (1 + turned)}
    for other in (ALONE, SPARK):
        for what in ("time above the target", "core-seconds"):
            if (other, what) in value:
                mark = f"{what}, {other}".replace(", ", "_").replace(" ", "_")
                out[mark] = (1 + value[other, what]) / (1 + value[PILOTED, what])
    return out


def picture(trials: Trials, parameters: Parameters) -> Picture:
    """Return latency over time, and executors below."""
    above, below = [], []
    for name in trials.variants:
        (made,) = trials.of(name)
        found = seen(made, parameters)
        minutes = tuple((found.at_s / 60).tolist())
        worst = tuple(np.maximum(found.worst_ms, 1.0).tolist())
        above.append(Series(label=name, x=minutes, y=worst))
        at, many = executors_over_time(made)
        below.append(Series(label=name, x=tuple(each / 60 for each in at), y=many))
    end = edges_of(parameters)[-1] / 60
    target = (float(parameters["target_ms"]),) * 2
    above.append(Series(label="target", x=(0.0, end), y=target))
    return Picture(
        title="Load x3, a hot key, a slow executor: worst latency of each second",
        x_label="minutes",
        y_label="milliseconds",
        series=tuple(above),
        log_y=True,
        below=Picture(title="", x_label="minutes", y_label="executors", series=tuple(below)),
    )


BENCHMARK = Benchmark(
    name="autopilot",
    purpose="a stream through load x3, a hot key and a slow executor, with Autopilot, without, and Spark's allocation",
    defaults={
        "minutes": 20,
        "rate": 150,
        "most_rows": 4_500,
        "peer_most_rows": 9_000,
        "seconds": 0.006,
        "slower": 3.0,
        "campaigns": 100,
        "ads": 10,
        "partitions": 2,
        "bins": 64,
        "executors": [2, 6],
        "interval_ms": 10_000,
        "target_ms": 20_000,
        "utilisation": 0.8,
        "window": 6,
        "catch_up_seconds": 40.0,
        "steering": {"interval_s": 10.0, "warm_up_s": 10.0, "down_delay_s": 60.0},
        "ahead_seconds": 60,
        "warmup_seconds": 40,
        "durability": "process",
        "driver_memory": "1g",
        "timeout_seconds": 3_600,
    },
    quick={
        "minutes": 2,
        "interval_ms": 1_000,
        "target_ms": 2_000,
        "rate": 100,
        "most_rows": 300,
        "peer_most_rows": 600,
        "steering": {"interval_s": 3.0, "warm_up_s": 2.0, "down_delay_s": 10.0},
    },
    run=run,
    goals={"bound_within": 1.0, "bound_steady": 1.0},
)
