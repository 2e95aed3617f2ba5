"""What it costs to have bins at all: the same timestep over 1 bin per task, and up to 65,536 bins."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.comparison import batch_metrics, batch_picture, check_batches, keyed_input
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Result,
    Variant,
    Workbench,
)
from benchmarks.measurements import steady_seconds
from benchmarks.ours import measure
from benchmarks.trials import Trials, run_trials

ONE_PER_TASK = "one_per_task"
BOUND = 1.1
"""A timestep with bins takes at most so many times as long as with one bin per task."""
PERCENTILES = {"p50": 50.0, "p99": 99.0}


def run_rechannel(parameters: Parameters) -> Measurement:
    """Count the rows per key, over ``bins`` bins."""
    return measure("bins", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure one bin per task and every number of ``bins``."""
    directory = keyed_input(
        parameters,
        bench,
        name="all",
        rows=parameters["rows"],
        keys=parameters["keys"],
        batches=parameters["batches"],
    )
    numbers = {ONE_PER_TASK: parameters["tasks"], **{str(n): n for n in parameters["bins"]}}
    variants = [
        Variant(
            name=name if name == ONE_PER_TASK else f"bins_{name}",
            function="benchmarks.bins:run_rechannel",
            parameters={**parameters, "bins": number, "input": directory},
        )
        for name, number in numbers.items()
    ]
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check_batches,
    )
    warmup = parameters["warmup"]
    latencies = {name: percentiles(trials, name, warmup) for name in trials.variants}
    return Result(
        parameters=parameters,
        metrics=(
            *(
                Metric(name=f"latency {name}", value=value * 1e3, unit="ms", variant=variant)
                for variant, found in latencies.items()
                for name, value in found.items()
            ),
            *(metric for name in trials.variants for metric in batch_metrics(name, trials, warmup)),
            *trials.memory(),
        ),
        ratios=ratios_of(latencies, parameters["bins"]),
        picture=batch_picture("Bins: seconds per timestep", trials),
        failures=trials.failures,
    )


def percentiles(trials: Trials, variant: str, warmup: int) -> dict[str, float]:
    """Percentiles of the time of a timestep over all runs, seconds."""
    seconds = steady_seconds(trials.of(variant), warmup)
    return {name: float(np.percentile(seconds, q)) for name, q in PERCENTILES.items()}


def ratios_of(latencies: dict[str, dict[str, float]], numbers: Any) -> dict[str, float]:
    """``bound_p50_4096`` is 1 or more if 4,096 bins cost at most a tenth of one bin per task."""
    alone = latencies.get(ONE_PER_TASK, {})
    return {
        f"bound_{name}_{number}": BOUND / (latencies[f"bins_{number}"][name] / value)
        for number in numbers
        if f"bins_{number}" in latencies
        for name, value in alone.items()
    }


BENCHMARK = Benchmark(
    name="bins",
    purpose="the same timestep over 1 bin per task and over 16 to 65,536 bins",
    defaults={
        "bins": [16, 256, 4_096, 65_536],
        "rows": 200_000,
        "keys": 1_000_000,
        "batches": 60,
        "warmup": 10,
        "rounds": 5,
        "cores": 2,
        "tasks": 2,
        "files": 2,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 600,
    },
    quick={
        "bins": [4_096],
        "rows": 50_000,
        "keys": 100_000,
        "batches": 20,
        "warmup": 5,
        "rounds": 1,
    },
    run=run,
    goals={"bound_p50_4096": 1.0, "bound_p99_4096": 1.0},
)
