"""What control operations cost a stream: Chi's figures 8 (latency by load and rate) and 9 (number of source tasks).

A stream runs alone and with a controller by turns, in one job, so that a machine that drifts treats both alike. The
load is the share of time for which the stream is busy: timesteps have a fixed number of rows, and the interval between
them is what a timestep takes when none waits, over the load.
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
from benchmarks.ours import measure_control
from benchmarks.trials import run_trials

BOUNDS = {"1": 1.015, "each": 1.05}
"""How many times as long a timestep may take, with one operation per second and with one per timestep."""

FEW = 10
"""With fewer operations there is no figure of what one adds."""


def run_loads(parameters: Parameters) -> Measurement:
    """See `benchmarks.control_side.loads`."""
    return measure_control("loads", parameters)


def run_widths(parameters: Parameters) -> Measurement:
    """See `benchmarks.control_side.widths`."""
    return measure_control("widths", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure every query at every load, then the widths."""
    variants = [
        Variant(
            name=name,
            function="benchmarks.control:run_loads",
            parameters={**parameters, "query": name, "rows": rows},
        )
        for name, rows in parameters["queries"].items()
    ]
    variants.append(
        Variant(name=WIDTHS, function="benchmarks.control:run_widths", parameters=parameters)
    )
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    series: list[Series] = []
    for name in trials.variants:
        runs = trials.of(name)
        if name == WIDTHS:
            found, series = width_metrics(runs[0]), [slope_series(runs[0])]
        else:
            found, own = load_metrics(name, [turn for each in runs for turn in each["turns"]])
            ratios |= own
        metrics += found
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="A control operation over all source tasks, in process",
            x_label="source tasks",
            y_label="milliseconds",
            series=tuple(series),
        ),
        failures=trials.failures,
    )


WIDTHS = "source_tasks"


def load_metrics(name: str, turns: list[dict[str, Any]]) -> tuple[list[Metric], dict[str, float]]:
    """Increase of the mean duration, and the time of an operation, by load and probe."""
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    factors: dict[str, list[float]] = {}
    for load, probe in dict.fromkeys((turn["load"], turn["probe"]) for turn in turns):
        mine = [t for t in turns if (t["load"], t["probe"]) == (load, probe)]
        found = [mean(t["controlled"]) / mean(t["alone"]) for t in mine]
        took = [ms for t in mine for ms in t["took_ms"]]
        alone = median(ms for t in mine for ms in t["alone"])
        factors.setdefault(probe, []).extend(found)
        variant = f"{name}, {load} % load, {probe}"
        error = float(np.std(found, ddof=1) / len(found) ** 0.5) if len(found) > 1 else 0.0
        metrics += [
            Metric(name="increase", value=100 * (median(found) - 1), unit="%", variant=variant),
            Metric(name="standard error", value=100 * error, unit="%", variant=variant),
            Metric(name="timestep alone", value=alone, unit="ms", variant=variant),
            Metric(name="operation", value=median(took), unit="ms", variant=variant),
            Metric(name="operations", value=float(len(took)), unit="", variant=variant),
        ]  # fmt: skip
    for probe, values in factors.items():
        rate = probe.partition("-")[0]
        if rate in BOUNDS:
            ratios[f"bound_{name}_{probe}"] = BOUNDS[rate] / median(values)
    for kind in dict.fromkeys(turn["probe"].partition("-")[2] for turn in turns):
        found, own = beside_metrics(name, kind, turns)
        metrics += found
        ratios |= own
    return metrics, ratios


def beside_metrics(
    name: str, kind: str, turns: list[dict[str, Any]]
) -> tuple[list[Metric], dict[str, float]]:
    """What an operation adds to its timestep, beside the timesteps before and after it, over all loads and rates.

    From that, the increase with one operation per second and with one per timestep. It settles what the difference of
    turns does not: of that the error is several per cent on a machine that others use.
    """
    mine = [turn for turn in turns if turn["probe"].partition("-")[2] == kind]
    added = [ms for turn in mine for ms in turn["added"]]
    if len(added) < FEW:
        return [], {}
    alone = mean(ms for turn in mine for ms in turn["alone"])
    error = float(np.std(added, ddof=1) / len(added) ** 0.5)
    # Every operation is in one timestep, and in a second there are as many as the interval allows.
    rates = {"1": mean(share_of(t) for t in mine if t["probe"].startswith("1-")), "each": 1.0}
    metrics = [
        Metric(name="an operation adds", value=mean(added), unit="ms", variant=f"{name}, {kind}"),
        Metric(name="standard error", value=error, unit="ms", variant=f"{name}, {kind}"),
        Metric(name="operations compared", value=len(added), unit="", variant=f"{name}, {kind}"),
    ]
    ratios: dict[str, float] = {}
    for rate, share in rates.items():
        increase, about = share * mean(added) / alone, share * error / alone
        variant = f"{name}, {rate}-{kind}, by timesteps beside"
        metrics += [
            Metric(name="increase", value=100 * increase, unit="%", variant=variant),
            Metric(name="standard error", value=100 * about, unit="%", variant=variant),
        ]
        ratios[f"bound_{name}_{rate}-{kind}_beside"] = BOUNDS[rate] / (1 + increase)
    return metrics, ratios


def share_of(turn: dict[str, Any]) -> float:
    """Return which part of the timesteps of a controlled turn carried an operation."""
    return min(1.0, len(turn["took_ms"]) / len(turn["controlled"]))


def width_metrics(found: Measurement) -> list[Metric]:
    """What an operation adds to a timestep, by the number of source tasks, and the slope."""
    metrics = [
        Metric(name=what, value=value, unit=unit, variant=f"{width} source tasks")
        for width, each in found.items()
        for what, value, unit in (
            ("timestep alone", median(each["alone"]), "ms"),
            ("operation adds", added(each), "ms"),
            ("replies to the driver", float(max(each["replies"])), ""),
        )
    ]
    slope, power = fitted(found)
    metrics.append(Metric(name="slope", value=1_000 * slope, unit="us per task", variant=WIDTHS))
    metrics.append(Metric(name="power", value=power, unit="", variant=WIDTHS))
    return metrics


def added(each: dict[str, Any]) -> float:
    """Milliseconds that an operation adds to a timestep."""
    return float(median(each["controlled"]) - median(each["alone"]))


def fitted(found: Measurement) -> tuple[float, float]:
    """Milliseconds per source task, and the power of the number of source tasks that fits best (1: linear)."""
    widths = np.array([int(width) for width in found], dtype=float)
    times = np.maximum([added(each) for each in found.values()], 0.01)
    if len(widths) == 1:
        return float(times[0] / widths[0]), 1.0
    slope = float(np.polyfit(widths, times, 1)[0])
    return slope, float(np.polyfit(np.log(widths), np.log(times), 1)[0])


def slope_series(found: Measurement) -> Series:
    """What an operation adds, over the number of source tasks."""
    return Series(
        label="operation adds",
        x=tuple(float(width) for width in found),
        y=tuple(added(each) for each in found.values()),
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run in which operations are missing, or replies to the driver grow."""
    if variant.name == WIDTHS:
        replies = {count for each in made.values() for count in each["replies"]}
        if replies != {variant.parameters["consumers"]}:
            msg = f"the driver received {sorted(replies)} replies, not one per task of the last operator"
            raise ValueError(msg)
        return
    for turn in made["turns"]:
        if not turn["alone"] or not turn["controlled"] or not turn["took_ms"]:
            msg = (
                f"{variant.name}: nothing happened in a turn of {turn['probe']} at {turn['load']} %"
            )
            raise ValueError(msg)


BENCHMARK = Benchmark(
    name="control",
    purpose="a stream with control operations, by load and rate, and by the number of source tasks",
    defaults={
        "queries": {"yahoo": 20_000, "q5": 20_000},
        "event_rate": 100_000,
        "loads": [50, 75, 90],
        "rates": [1, 10, 0],
        "turns": 4,
        "seconds": 8,
        "warmup_seconds": 20,
        "widths": [256, 512, 1_024, 2_048, 4_096, 8_192],
        "timesteps": 3,
        "consumers": 4,
        "rounds": 1,
        "cores": 2,
        "tasks": 2,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 7_200,
    },
    quick={
        "loads": [50],
        "rates": [1, 0],
        "turns": 2,
        "seconds": 5,
        "warmup_seconds": 8,
        "widths": [64, 128, 256],
    },
    run=run,
    goals={},
)
