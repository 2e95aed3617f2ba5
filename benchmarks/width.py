"""What the driver itself does for a timestep of many operators of many tasks.

Everything but the tasks is real: the loop, its journal in memory, the state of operators as manifests, telemetry with
its log on disk, and the reports, which are read as they come from Spark. What tasks would have reported is made up
(`simulated_tasks.py`), and the time for that does not count. Figures are processor time of the driver's process, all
of its threads together, from one commit to the next.
"""

from __future__ import annotations

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

BOUND_MS = 50.0
"""Processor time of a timestep of the largest size, on average: what several timesteps share, such as the writing of
their telemetry, counts too."""


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure each size, in alternation."""
    sizes = {
        f"{operators}_x_{tasks}": (operators, tasks) for operators, tasks in parameters["sizes"]
    }
    trials = run_trials(
        [
            Variant(
                name=name,
                function="benchmarks.width_side:measure",
                parameters={**parameters, "operators": operators, "tasks": tasks},
            )
            for name, (operators, tasks) in sizes.items()
        ],
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    found = {
        name: np.concatenate([each["took_ms"][parameters["warmup"] :] for each in trials.of(name)])
        for name in trials.variants
    }
    metrics = [
        metric
        for name, took in found.items()
        for metric in (
            Metric(name="p50", value=float(np.median(took)), unit="ms", variant=name),
            Metric(name="mean", value=float(took.mean()), unit="ms", variant=name),
            Metric(name="max", value=float(took.max()), unit="ms", variant=name),
            Metric(
                name="per task, mean",
                value=1e3 * float(took.mean()) / np.prod(sizes[name]),
                unit="us",
                variant=name,
            ),
            Metric(
                name="runs of a task",
                value=float(np.median([each["runs_per_task"] for each in trials.of(name)])),
                unit="",
                variant=name,
            ),
        )
    ]
    largest = f"{parameters['sizes'][-1][0]}_x_{parameters['sizes'][-1][1]}"
    ratios = {"bound_50_ms": BOUND_MS / float(found[largest].mean())} if largest in found else {}
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="The driver's own work",
            x_label="timestep",
            y_label="milliseconds of processor time",
            series=tuple(
                Series(label=name, x=tuple(map(float, range(len(took)))), y=tuple(took.tolist()))
                for name, took in found.items()
            ),
        ),
        failures=trials.failures,
    )


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run that measured nothing after the warm-up."""
    if len(run["took_ms"]) <= variant.parameters["warmup"]:
        raise ValueError(f"{variant.name}: no timestep came after the warm-up")


BENCHMARK = Benchmark(
    name="width",
    purpose="the driver's own work for a timestep of many operators of many tasks",
    defaults={
        "sizes": [[5, 250], [20, 1_000]],
        "timesteps": 25,
        "warmup": 8,
        "rows": 1_000,
        "stored": 1_000_000,
        "rounds": 1,
        "timeout_seconds": 1_200,
    },
    quick={"sizes": [[3, 20], [5, 100]], "timesteps": 20, "warmup": 4},
    run=run,
    goals={"bound_50_ms": 1.0},
)
