"""Two applications of Trisk (SoCC'21) with their controllers and without: its figures 6 and 7 on streams of our own.

The stock exchange runs on Spark. Each order takes a task a fixed time in which it waits, so that tasks are what is
short and not the cores of the machine: with 100 orders per second and task as in the paper. Rates and ranks of symbols
change twice. `queue` is the same exchange in process, with latencies that follow from how many orders the busiest task
has in each second: they depend on what the controller does and not on the machine. So does F1 of the fraud detection,
which runs in process, too. See `examples/` for both.
"""

from __future__ import annotations

from statistics import mean, median
from typing import Any

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
from benchmarks.trials import run_trials

EXCHANGE, QUEUE = ("exchange_alone", "exchange"), ("queue_alone", "queue")
FRAUD = ("fraud_alone", "fraud")
"""Without the controller, and with it."""
FUNCTIONS = {
    **dict.fromkeys(EXCHANGE, "benchmarks.trisk_side:exchange"),
    **dict.fromkeys(QUEUE, "benchmarks.trisk_side:queue"),
    **dict.fromkeys(FRAUD, "benchmarks.trisk_side:fraud"),
}
PHASE_MINUTES = 20
"""From one drift to the next, as in the example."""
PUBLISHED = {
    "figure 6, latency without control, at the end": (6_400.0, "ms"),
    "figure 6, latency with control, median": (98.5, "ms"),
    "figure 6, latency with control, largest": (307.0, "ms"),
    "figure 7, F1 without control": (0.18, ""),
    "figure 7, F1 with control": (0.575, ""),
}
"""Trisk's own, on Flink and 64 cores: what it shows, not a comparison. Medians are the middle of the ranges given."""


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run both applications with and without control, by turns."""
    variants = [
        Variant(
            name=n,
            function=f,
            parameters={**parameters, "controlled": not n.endswith("_alone")},
        )
        for n, f in FUNCTIONS.items()
    ]
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics: list[Metric] = []
    series: list[Series] = []
    for name in trials.variants:
        runs = trials.of(name)
        if name not in FRAUD:
            metrics += exchange_metrics(name, runs)
            series.append(curve(name, runs[0]))
        else:
            metrics += fraud_metrics(name, runs[0])
    metrics += [
        Metric(name=name, value=value, unit=unit, variant="published")
        for name, (value, unit) in PUBLISHED.items()
    ]
    found = {name: trials.of(name) for name in trials.variants}
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=verdict(found),
        picture=Picture(
            title="Latency of the stock exchange (Trisk's figure 6)",
            x_label="phase of the load",
            y_label="milliseconds",
            series=tuple(series),
            log_y=True,
        ),
        failures=trials.failures,
    )


def phases(made: Measurement) -> list[list[float]]:
    """Latencies of each phase of the load."""
    size = len(made["latency_ms"]) // 3
    return [made["latency_ms"][begin : begin + size] for begin in range(0, 3 * size, size)]


def exchange_metrics(name: str, runs: list[Any]) -> list[Metric]:
    """Latency by phase and over all, and what was changed."""
    metrics = []
    for number, multiple in enumerate((1, 2, 0.25)):
        latency = [ms for each in runs for ms in phases(each)[number]]
        variant = f"{name}, {multiple}x"
        metrics += [
            Metric(name="p50", value=median(latency), unit="ms", variant=variant),
            Metric(name="largest", value=max(latency), unit="ms", variant=variant),
        ]
    every = [ms for each in runs for ms in each["latency_ms"]]
    return [
        *metrics,
        Metric(name="p50", value=median(every), unit="ms", variant=name),
        Metric(name="p99", value=float(np.percentile(every, 99)), unit="ms", variant=name),
        Metric(name="changes", value=mean(len(e["changes"]) for e in runs), unit="", variant=name),
        Metric(name="trades", value=float(runs[0]["trades"]), unit="", variant=name),
    ]


def fraud_metrics(name: str, made: Measurement) -> list[Metric]:
    """F1 before the first drift, and after it."""
    f1 = made["f1"]
    before, after = f1[:PHASE_MINUTES], f1[PHASE_MINUTES:]
    late = [
        f for n, f in enumerate(f1) if n >= PHASE_MINUTES and n % PHASE_MINUTES >= PHASE_MINUTES / 2
    ]
    return [
        Metric(name="F1 before drift", value=mean(before), unit="", variant=name),
        Metric(name="F1 after drift", value=mean(after), unit="", variant=name),
        Metric(
            name="F1 after drift, second half of a phase", value=mean(late), unit="", variant=name
        ),
        Metric(
            name="minutes below 0.6",
            value=float(sum(f < 0.6 for f in after)),
            unit="",
            variant=name,
        ),
    ]


def verdict(found: dict[str, list[Any]]) -> dict[str, float]:
    """How many times better with control: the largest latency at twice the load, and F1 after the drift."""
    ratios: dict[str, float] = {}
    for pair, ratio in ((EXCHANGE, "largest_latency"), (QUEUE, "largest_latency_queue")):
        if all(found.get(name) for name in pair):
            alone, controlled = (
                median(max(phases(each)[1]) for each in found[name]) for name in pair
            )
            ratios[ratio] = alone / controlled
            digests = {each["digest"] for name in pair for each in found[name]}
            kept = ratios.get("bound_equal_trades", 1.0)
            ratios["bound_equal_trades"] = min(kept, 1.0 if len(digests) == 1 else 0.0)
    if all(found.get(name) for name in FRAUD):
        alone, controlled = (mean(found[name][0]["f1"][PHASE_MINUTES:]) for name in FRAUD)
        ratios["f1"] = controlled / alone
    return ratios


def curve(name: str, made: Measurement) -> Series:
    """Latency over the phases of the load."""
    latency = made["latency_ms"]
    return Series(
        label=name,
        x=tuple(3 * n / len(latency) for n in range(len(latency))),
        y=tuple(map(float, latency)),
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a controlled run in which nothing was changed, and for one in which rows are missing."""
    controlled = variant.parameters["controlled"]
    if variant.name not in FRAUD:
        if bool(made["changes"]) != controlled:
            raise ValueError(f"{variant.name}: {len(made['changes'])} changes were made")
    elif bool(made["log"]) != controlled:
        raise ValueError(f"{variant.name}: the controller wrote {made['log']}")


BENCHMARK = Benchmark(
    name="trisk",
    purpose="a stock exchange and fraud detection with their controllers, and without",
    defaults={
        "rate": 200,
        "orders_per_second": 100,
        "interval_seconds": 1.0,
        "phase_batches": 40,
        "warmup_batches": 20,
        "seconds": 60,
        "tasks_in_process": 4,
        "minutes": 60,
        "per_minute": 400,
        "rounds": 2,
        "cores": 8,
        "tasks": 4,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 900,
    },
    quick={
        "phase_batches": 24,
        "warmup_batches": 10,
        "rounds": 1,
        "per_minute": 200,
        "tasks_in_process": 4,
    },
    run=run,
    goals={"bound_equal_trades": 1.0},
)
