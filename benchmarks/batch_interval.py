"""The interval between timesteps under steps of load: found by a controller, fixed, and Structured Streaming's trigger.

Rows come into being by the clock, at 1, 2, 4 and 1 times `rate`, after a warm-up at 1. The latency of a timestep runs
from the creation of its first row to its commit. Set `rate` so that rows matter at 4 times it: `busy` of the variant
`fixed` says by how much. Timesteps get faster while the JVM warms up; a late change of the interval may follow that.
"""

from __future__ import annotations

import json
from itertools import accumulate, pairwise
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
from benchmarks.trials import run_trials

AUTO = "auto"
SETTLED_TIMESTEPS = 10
VARIANTS = {
    AUTO: "benchmarks.interval_side:auto",
    "fixed": "benchmarks.interval_side:fixed",
    "structured_streaming": "benchmarks.peers.interval:run",
}


def seconds_of(parameters: Parameters) -> list[int]:
    """How long each rate holds, the warm-up first."""
    return [parameters["warmup_seconds"], *[parameters["seconds"]] * len(parameters["steps"])]


def rates_of(parameters: Parameters) -> list[int]:
    """Rows per second, that of the warm-up first."""
    return [parameters["rate"] * factor for factor in (1, *parameters["steps"])]


def source_options(parameters: Parameters, start_ns: int) -> dict[str, Any]:
    """Options of `benchmarks.stepped_source.SteppedSource`."""
    return {
        "start_ns": start_ns,
        "rates": json.dumps(rates_of(parameters)),
        "seconds": json.dumps(seconds_of(parameters)),
        "keys": parameters["keys"],
        "partitions": parameters["partitions"],
    }


def ends_at(parameters: Parameters, start_ns: int) -> int:
    """When the last step is over, ns since 1970."""
    return start_ns + sum(seconds_of(parameters)) * 1_000_000_000


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure all variants; the picture has the interval over time."""
    trials = run_trials(
        [Variant(name=n, function=f, parameters=parameters) for n, f in VARIANTS.items()],
        bench,
        rounds=1,
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    for name in trials.variants:
        (made,) = trials.of(name)
        found = by_step(made, parameters)
        metrics += step_metrics(name, found, parameters)
        metrics += whole_metrics(name, found, parameters)
        if name == AUTO:
            ratios = verdict(found)
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="Interval between timesteps, 1, 2, 4 and 1 times the load",
            x_label="seconds",
            y_label="milliseconds",
            series=tuple(curve(name, trials.of(name)[0]) for name in trials.variants),
        ),
        failures=trials.failures,
    )


def by_step(made: Measurement, parameters: Parameters) -> list[dict[str, Any]]:
    """Timesteps and changes of the interval by step of load, without the warm-up."""
    from benchmarks.stepped_source import Stepped

    rows = Stepped(
        start_ns=made["start_ns"],
        rate=0,
        partitions=1,
        keys=1,
        rates=tuple(rates_of(parameters)),
        seconds=tuple(seconds_of(parameters)),
    )
    edges = [made["start_ns"] / 1e6 + 1e3 * at for at in accumulate(seconds_of(parameters))]
    out: list[dict[str, Any]] = []
    for factor, (begin, end) in zip(parameters["steps"], pairwise(edges), strict=True):
        here = [t for t in made["timesteps"] if begin <= t[1] < end]
        numbers = [t[0] for t in here]
        created = rows.created(np.array([t[4] for t in here], dtype=np.int64)) / 1e6
        changes = [c for c in made["changes"] if c[0] in numbers]
        before = [c[1] for c in made["changes"] if numbers and c[0] < numbers[0]]
        out.append(
            {
                "load": factor,
                "timesteps": here,
                "latency_ms": [t[2] - at for t, at in zip(here, created, strict=True)],
                "intervals": [before[-1] if before else made["first_interval"]]
                + [c[1] for c in changes],
                "settled": max((numbers.index(c[0]) + 1 for c in changes), default=0),
                "seconds": (end - begin) / 1e3,
            }
        )
    return out


def turns(intervals: list[int]) -> int:
    """How often the interval changes its direction."""
    signs = [b > a for a, b in pairwise(intervals) if a != b]
    return sum(a != b for a, b in pairwise(signs))


def verdict(found: list[dict[str, Any]]) -> dict[str, float]:
    """1 or more: at most one change of direction per step of load, settled within 10 timesteps."""
    most = max(turns(step["intervals"]) for step in found)
    slowest = max(step["settled"] for step in found)
    return {
        "bound_turns": 1 / max(1, most),
        "bound_settled": SETTLED_TIMESTEPS / max(1, slowest),
    }


def step_metrics(name: str, found: list[dict[str, Any]], parameters: Parameters) -> list[Metric]:
    """What each step of load came to."""
    metrics = []
    for number, step in enumerate(found, 1):
        variant = f"{name}, step {number} ({step['load']}x)"
        busy = sum(t[3] for t in step["timesteps"]) / 10 / step["seconds"]
        figures = [
            ("interval", float(step["intervals"][-1]), "ms"),
            ("turns", float(turns(step["intervals"])), ""),
            ("settled after", float(step["settled"]), "timesteps"),
            ("busy", busy, "%"),
            ("latency p50", median(step["latency_ms"]), "ms"),
            ("within target", within(step["latency_ms"], parameters), "%"),
        ]
        metrics += [Metric(name=n, value=v, unit=u, variant=variant) for n, v, u in figures]
    return metrics


def whole_metrics(name: str, found: list[dict[str, Any]], parameters: Parameters) -> list[Metric]:
    """Latency of all steps."""
    latency = [ms for step in found for ms in step["latency_ms"]]
    return [
        Metric(name="p50", value=median(latency), unit="ms", variant=name),
        Metric(name="p99", value=float(np.percentile(latency, 99)), unit="ms", variant=name),
        Metric(name="within target", value=within(latency, parameters), unit="%", variant=name),
    ]


def within(latency: list[float], parameters: Parameters) -> float:
    """Share of timesteps within the target, per cent."""
    target: float = parameters["latency_ms"]
    return 100 * sum(ms <= target for ms in latency) / len(latency)


def curve(name: str, made: Measurement) -> Series:
    """The interval that each timestep began with, over time."""
    at: list[tuple[float, float]] = []
    value: float = made["first_interval"]
    changes = {timestep: interval for timestep, interval in made["changes"]}  # noqa: C416 - lists, of JSON
    for timestep in made["timesteps"]:
        value = changes.get(timestep[0], value)
        at.append(((timestep[1] - made["start_ns"] / 1e6) / 1e3, value))
    return Series(label=name, x=tuple(x for x, _ in at), y=tuple(y for _, y in at))


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run in which a step has no timesteps, or rows are missing."""
    for one, other in pairwise(made["timesteps"]):
        if one[5] != other[4]:
            raise ValueError(f"{variant.name}: rows {one[5]} to {other[4]} are in no timestep")
    if any(not step["timesteps"] for step in by_step(made, variant.parameters)):
        raise ValueError(f"{variant.name}: a step of load has no timesteps")


BENCHMARK = Benchmark(
    name="batch-interval",
    purpose="the interval between timesteps under steps of load: found, fixed, processingTime",
    defaults={
        "rate": 100_000,
        "steps": [1, 2, 4, 1],
        "seconds": 45,
        "warmup_seconds": 30,
        "latency_ms": 3_000,
        "share": 0.8,
        "interval_ms": 1_000,
        "keys": 100_000,
        "partitions": 2,
        "cores": 2,
        "tasks": 2,
        "durability": "process",
        "driver_memory": "2g",
        "timeout_seconds": 1_200,
    },
    quick={"seconds": 15, "warmup_seconds": 25},
    run=run,
    goals={"bound_turns": 1.0, "bound_settled": 1.0},
)
