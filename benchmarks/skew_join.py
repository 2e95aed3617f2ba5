"""A join with one hot key, without and with `rc.control.library.SkewJoin`: the skew-aware join of Chi (VLDB'18).

Orders meet the quotes of their product of the last seconds; one product has `shares` per cent of the orders. The stream
runs without and with the controller by turns, in one job, so that a machine that drifts treats both alike: first at
full speed, then by the clock, at `loads` per cent of what it sustains without the controller. What all turns of a job
have emitted is compared, row for row, with what plain Spark joins in one batch.

There are two kinds of `work`. With `wait`, each pair takes `us_per_pair` microseconds, for which its task waits, as it
would for a service: four tasks are four slots then, however many cores the machine has. With `compute`, an order meets
so many quotes that joining them is the work: tasks share the cores, and a gain needs a core that would be idle.
"""

from __future__ import annotations

from statistics import median
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
from benchmarks.ours import measure_skew_join
from benchmarks.trials import run_trials

CHI_THROUGHPUT, CHI_LATENCY = 1.26, 0.39
"""Published: throughput +26 %, latency -61 %."""


def run_share(parameters: Parameters) -> Measurement:
    """See `benchmarks.skew_join_side.run`."""
    return measure_skew_join(parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure every share of the hot key."""
    variants = [
        Variant(
            name=f"{work}_{share}",
            function="benchmarks.skew_join:run_share",
            parameters={**parameters, **sizes, "share": share},
        )
        for work, sizes in parameters["work"].items()
        for share in parameters["shares"]
    ]
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
        for found in trials.of(name):
            metrics += full_metrics(name, found)
            ratios[f"throughput_{name}"] = throughput_gain(found["full"]["turns"])
            for load, phase in found["loads"].items():
                metrics += load_metrics(f"{name}, {load} % load", phase["turns"])
                p50, p99 = (latency_ratio(phase["turns"], at) for at in (50, 99))
                ratios |= {f"p50_{name}_at_{load}": p50, f"p99_{name}_at_{load}": p99}
            series += curves(name, found["full"]["turns"])
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="A join with one hot key, without and with SkewJoin, by turns",
            x_label="turn",
            y_label="orders per second",
            series=tuple(series),
        ),
        failures=trials.failures,
    )


def of(turns: list[dict[str, Any]], name: str, *, spread: bool) -> list[Any]:
    """One figure of the turns without or with the controller."""
    return [turn[name] for turn in turns if turn["spread"] is spread]


def throughput_gain(turns: list[dict[str, Any]]) -> float:
    """Rows per second with the controller over those without: the median of the pairs of turns."""
    pairs = zip(*(of(turns, "rows_per_second", spread=each) for each in (True, False)), strict=True)
    return float(median(with_ / without for with_, without in pairs))


def latency_ratio(turns: list[dict[str, Any]], at: int) -> float:
    """A percentile of the latencies without the controller over that with it: the median of the pairs of turns."""
    pairs = zip(*(of(turns, "latencies", spread=each) for each in (False, True)), strict=True)
    return median(float(np.percentile(a, at) / np.percentile(b, at)) for a, b in pairs)


def full_metrics(name: str, found: Measurement) -> list[Metric]:
    """Throughput, timesteps, and what part of the join's work the busiest of its tasks has, at full speed."""
    turns = found["full"]["turns"]
    metrics = [
        Metric(name="quotes per order", value=found["quotes_per_order"], unit="", variant=name),
        Metric(
            name="pairs compared",
            value=float(sum(p["pairs"] for p in [found["full"], *found["loads"].values()])),
            unit="rows",
            variant=name,
        ),
        Metric(
            name="throughput, Chi +26",
            value=100 * (throughput_gain(turns) - 1),
            unit="%",
            variant=name,
        ),
    ]
    for spread, word in ((False, "without"), (True, "with")):
        durations = [ms for turn in of(turns, "duration_ms", spread=spread) for ms in turn]
        parts = [part for turn in of(turns, "busiest_task", spread=spread) for part in turn]
        rates = of(turns, "rows_per_second", spread=spread)
        figures = [
            ("throughput", median(rates), "rows/s"),
            ("timestep p50", median(durations), "ms"),
            ("timestep p99", float(np.percentile(durations, 99)), "ms"),
            ("busiest task", 100 * median(parts), "% of the join's time"),
        ]
        variant = f"{name}, {word}"
        metrics += [Metric(name=n, value=v, unit=u, variant=variant) for n, v, u in figures]
    took = of(turns, "timesteps_to_change", spread=True)
    metrics.append(
        Metric(name="until it is spread", value=median(took), unit="timesteps", variant=name)
    )
    return metrics


def load_metrics(name: str, turns: list[dict[str, Any]]) -> list[Metric]:
    """Latencies at a load, and by how much the controller changes them."""
    metrics = []
    for spread, word in ((False, "without"), (True, "with")):
        values = [ms for turn in of(turns, "latencies", spread=spread) for ms in turn]
        durations = [ms for turn in of(turns, "duration_ms", spread=spread) for ms in turn]
        figures = {
            "latency p50": np.percentile(values, 50),
            "latency p99": np.percentile(values, 99),
            "timestep p50": np.percentile(durations, 50),
            "timestep p99": np.percentile(durations, 99),
        }
        metrics += [
            Metric(name=n, value=float(v), unit="ms", variant=f"{name}, {word}")
            for n, v in figures.items()
        ]
    for at in (50, 99):
        change = 100 * (1 / latency_ratio(turns, at) - 1)
        metrics.append(Metric(name=f"latency p{at}, Chi -61", value=change, unit="%", variant=name))
    return metrics


def curves(name: str, turns: list[dict[str, Any]]) -> list[Series]:
    """Throughput over the turns."""
    out = []
    for spread, word in ((False, "without"), (True, "with")):
        rates = of(turns, "rows_per_second", spread=spread)
        x = tuple(float(number) for number in range(1, len(rates) + 1))
        out.append(Series(label=f"{name}, {word}", x=x, y=tuple(rates)))
    return out


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run whose pairs are not those of a batch, or with a turn in which nothing happened."""
    for name, phase in {"full": made["full"], **made["loads"]}.items():
        if phase["missing"] or phase["surplus"] or not phase["pairs"]:
            msg = (
                f"{variant.name}, {name}: of {phase['pairs']:,} pairs of the batch, {phase['missing']:,} are missing,"
                f" and {phase['surplus']:,} others are there"
            )
            raise ValueError(msg)
        if not all(turn["duration_ms"] and turn["busiest_task"] for turn in phase["turns"]):
            raise ValueError(f"{variant.name}, {name}: a turn has no timesteps")


BENCHMARK = Benchmark(
    name="skew-join",
    purpose="a join with one hot key, without and with rc.control.library.SkewJoin",
    defaults={
        "work": {
            "wait": {"us_per_pair": 100, "rows": 2_000, "quotes_per_second": 50},
            "compute": {"us_per_pair": 0, "rows": 10_000, "quotes_per_second": 500},
        },
        "shares": [50, 80],
        "loads": [70, 90],
        "products": 50,
        "seconds": 10,
        "warmup": 15,
        "turns": 3,
        "turn_seconds": 6,
        "turn_timesteps": 6,
        "settle_seconds": 2,
        "settle_timesteps": 2,
        "rounds": 1,
        "cores": 4,
        "tasks": 4,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 3_600,
    },
    quick={"shares": [80], "loads": [70], "turns": 1, "turn_seconds": 5, "warmup": 10},
    run=run,
    goals={},
)
