"""The same keyed count rescaled from two to four tasks, by Rechannel and by Apache Flink.

Both are fed rows that are due by the clock, on the same machine, one after the other. Flink comes
from PyPI into an environment of its own and rescales by its own best way (`peers.flink.rescale`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from statistics import median

import numpy as np

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
from benchmarks.outputs import (
    Floats,
    Span,
    latencies,
    rows_per_second,
    silences,
    spans_of,
    worst_latency,
)
from benchmarks.trials import Trials, run_trials

RECHANNEL = "rechannel"
PEER = "flink"
CURVE_MS = 100.0
STATISTICS: Mapping[str, Callable[[Floats], float]] = {
    "p50": lambda values: float(np.percentile(values, 50)),
    "p99": lambda values: float(np.percentile(values, 99)),
    "max": lambda values: float(values.max()),
}
RATIOS = {
    "silence": "longest without output during",
    "p99_during": "p99 during",
    "max_during": "max during",
    "p50_before": "p50 before",
    "p99_before": "p99 before",
}
"""Peer over Rechannel, by the metric that is compared."""


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run both sides, alternated."""
    trials = run_trials(
        [
            Variant(name=RECHANNEL, function="benchmarks.rescale_side:run", parameters=parameters),
            Variant(
                name=PEER, function="benchmarks.peers.flink.rescale:run", parameters=parameters
            ),
        ],
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics = figures(trials, parameters)
    return Result(
        parameters={**parameters, "versions": versions_of(trials)},
        metrics=(*metrics, *trials.memory()),
        ratios=ratios_of(metrics),
        picture=picture_of(trials, parameters),
        failures=trials.failures,
    )


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run whose rows did not all come out."""
    for span in spans_in(run, variant.parameters).values():
        latencies(run, span)
    str(run["version"])


def spans_in(run: Measurement, parameters: Parameters) -> dict[str, Span]:
    """Before, during and after, as long as the parameters say."""
    return spans_of(
        run,
        before_ms=parameters["before_seconds"] * 1e3,
        during_ms=parameters["during_seconds"] * 1e3,
    )


def figures(trials: Trials, parameters: Parameters) -> list[Metric]:
    """Medians over the runs of each variant."""
    found: list[Metric] = []
    for variant in trials.variants:
        runs = [figures_of(run, parameters) for run in trials.of(variant)]
        found.extend(
            Metric(
                name=name, value=median(run[name, unit] for run in runs), unit=unit, variant=variant
            )
            for name, unit in runs[0]
        )
    return found


def figures_of(run: Measurement, parameters: Parameters) -> dict[tuple[str, str], float]:
    """(name, unit) and value of everything that one run reports."""
    spans = spans_in(run, parameters)
    out = {
        (f"{name} {part}", "ms"): statistic(latencies(run, span))
        for part, span in spans.items()
        for name, statistic in STATISTICS.items()
    }
    for part, span in spans.items():
        out[f"rows {part}, mean", "rows/s"] = float(rows_per_second(run, span).mean())
        out[f"rows {part}, slowest second", "rows/s"] = float(rows_per_second(run, span).min())
    for part, span in spans.items():
        longest = float(silences(run, span).max(initial=0.0))
        out[f"longest without output {part}", "s"] = longest / 1e3
    out["without output beyond the usual", "s"] = beyond_usual(run, spans) / 1e3
    out["change took", "s"] = (run["done_ms"] - run["asked_ms"]) / 1e3
    out["put out again", "rows"] = run["repeated"]
    return out


def beyond_usual(run: Measurement, spans: Mapping[str, Span]) -> float:
    """ms without output during the change, as far as they exceed the longest silence before it."""
    usual = silences(run, spans["before"]).max(initial=0.0)
    return float(np.maximum(silences(run, spans["during"]) - usual, 0.0).sum())


def ratios_of(metrics: list[Metric]) -> dict[str, float]:
    """Peer over Rechannel; none unless both were measured."""
    value = {(metric.variant, metric.name): metric.value for metric in metrics}
    return {
        ratio: value[PEER, name] / value[RECHANNEL, name]
        for ratio, name in RATIOS.items()
        if (PEER, name) in value and value.get((RECHANNEL, name), 0.0) > 0
    }


def versions_of(trials: Trials) -> dict[str, str]:
    """What was measured, as each side says itself."""
    return {name: str(trials.of(name)[0]["version"]) for name in trials.variants}


def picture_of(trials: Trials, parameters: Parameters) -> Picture:
    """Of the first run of each variant: latency over time, and below it rows per second."""
    first = {name: trials.of(name)[0] for name in trials.variants}
    latency = [latency_curve(name, run, parameters) for name, run in first.items()]
    rows = [rows_curve(name, run, parameters) for name, run in first.items()]
    before, after = parameters["tasks"]
    seconds = "seconds since the change was asked for"
    return Picture(
        title=f"A keyed count is rescaled from {before} to {after} tasks",
        x_label=seconds,
        y_label="ms, slowest row",
        series=(*latency, mark(latency)),
        log_y=True,
        below=Picture(
            title="", x_label=seconds, y_label="rows/s", series=(*rows, mark(rows)), log_y=False
        ),
    )


def latency_curve(name: str, run: Measurement, parameters: Parameters) -> Series:
    """The slowest row of every tenth of a second, by when it was due."""
    spans = spans_in(run, parameters)
    at, worst = worst_latency(run, (spans["before"][0], run["end_ms"]), CURVE_MS)
    lost = beyond_usual(run, spans) / 1e3
    label = f"{name} ({lost:.2f} s without output beyond the usual)"
    return Series(label=label, x=seconds_of(run, at), y=tuple(np.maximum(worst, 1.0).tolist()))


def rows_curve(name: str, run: Measurement, parameters: Parameters) -> Series:
    """Rows that came out in the second that ends at each time."""
    begin = spans_in(run, parameters)["before"][0]
    rows = rows_per_second(run, (begin, run["end_ms"]), CURVE_MS)
    at = np.asarray(begin + 1e3 + np.arange(len(rows)) * CURVE_MS, dtype=np.float64)
    return Series(label=name, x=seconds_of(run, at), y=tuple(rows.tolist()))


def seconds_of(run: Measurement, at: Floats) -> tuple[float, ...]:
    """Seconds since the change was asked for."""
    return tuple(((at - run["asked_ms"]) / 1e3).tolist())


def mark(curves: list[Series]) -> Series:
    """An upright line at the change, as high as the curves."""
    heights = [y for curve in curves for y in curve.y] or [1.0]
    return Series(label="change asked for", x=(0.0, 0.0), y=(min(heights), max(heights)))


BENCHMARK = Benchmark(
    name="rescale-peer",
    purpose="a keyed count rescaled from 2 to 4 tasks while it runs, by Rechannel and by Flink",
    defaults={
        "rate": 20_000,
        "keys": 100_000,
        "tasks": [2, 4],
        "cores": 4,
        "bins_per_step": 4,
        "warmup_seconds": 20,
        "before_seconds": 20,
        "during_seconds": 10,
        "after_seconds": 20,
        "rounds": 3,
        "durability": "process",
        "driver_memory": "4g",
        "flink": {
            "package": "apache-flink",
            "version": "2.3.0",
            "settings": {
                "execution.checkpointing.interval": "1s",
                "execution.buffer-timeout.interval": "10ms",
                "pipeline.object-reuse": "true",
                "state.backend.type": "hashmap",
                "jobmanager.adaptive-scheduler.executing.cooldown-after-rescaling": "0s",
                "jobmanager.adaptive-scheduler.executing.resource-stabilization-timeout": "0s",
                "jobmanager.adaptive-scheduler.submission.resource-stabilization-timeout": "0s",
            },
        },
        "timeout_seconds": 900,
    },
    quick={"warmup_seconds": 10, "before_seconds": 8, "after_seconds": 8, "rounds": 1},
    run=run,
)
