"""What telemetry costs: the same timesteps with its event file on and off."""

from __future__ import annotations

from benchmarks.comparison import Ratio, compare_batches, keyed_input
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Parameters,
    Result,
    Variant,
    Workbench,
)
from benchmarks.ours import measure

BOUND = 1.05
"""A timestep with telemetry takes at most so many times as long as one without."""


def run_rechannel(parameters: Parameters) -> Measurement:
    """The dataflow of the keyed-state benchmark, with telemetry if ``telemetry`` is true."""
    return measure("telemetry_overhead", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure both, in alternation."""
    directory = keyed_input(
        parameters,
        bench,
        name="all",
        rows=parameters["rows"],
        keys=parameters["keys"],
        batches=parameters["batches"],
    )
    variants = [
        Variant(
            name=name,
            function="benchmarks.telemetry_overhead:run_rechannel",
            parameters={**parameters, "telemetry": telemetry, "input": directory},
        )
        for name, telemetry in (("telemetry_off", False), ("telemetry_on", True))
    ]
    ratio = Ratio(name="bound_5_percent", over="telemetry_off", under="telemetry_on", factor=BOUND)
    return compare_batches(
        parameters, variants, [ratio], bench, title="Telemetry on and off: seconds per timestep"
    )


BENCHMARK = Benchmark(
    name="telemetry-overhead",
    purpose="the same timesteps with telemetry on and off",
    defaults={
        "rows": 200_000,
        "keys": 10_000,
        "batches": 40,
        "warmup": 5,
        "rounds": 4,
        "cores": 2,
        "tasks": 2,
        "files": 2,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 900,
    },
    quick={"rows": 20_000, "keys": 1_000, "batches": 15, "rounds": 1},
    run=run,
    goals={"bound_5_percent": 1.0},
)
