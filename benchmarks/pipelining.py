"""What running timesteps ahead gains: one timestep in flight against several."""

from __future__ import annotations

from benchmarks.comparison import MEAN, Ratio, compare_batches, keyed_input
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Parameters,
    Result,
    Variant,
    Workbench,
)
from benchmarks.ours import measure


def run_rechannel(parameters: Parameters) -> Measurement:
    """Two chained stateful operators with at most ``in_flight`` timesteps in flight."""
    return measure("pipelining", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure 1 and each other number of ``in_flight``."""
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
            name=f"in_flight_{number}",
            function="benchmarks.pipelining:run_rechannel",
            parameters={**parameters, "in_flight": number, "input": directory},
        )
        for number in (1, *parameters["in_flight"])
    ]
    ratios = [
        Ratio(
            name=f"in_flight_{number}_vs_1",
            over="in_flight_1",
            under=f"in_flight_{number}",
            of=MEAN,
        )
        for number in parameters["in_flight"]
    ]
    return compare_batches(
        parameters, variants, ratios, bench, title="Timesteps in flight: seconds per timestep"
    )


BENCHMARK = Benchmark(
    name="pipelining",
    purpose="two chained stateful operators with one timestep in flight, and with several",
    defaults={
        "in_flight": [2, 3],
        "rows": 200_000,
        "keys": 10_000,
        "batches": 30,
        "warmup": 5,
        "rounds": 3,
        "cores": 2,
        "tasks": 2,
        "files": 2,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 900,
    },
    quick={
        "in_flight": [2],
        "rows": 20_000,
        "keys": 1_000,
        "batches": 12,
        "rounds": 1,
    },
    run=run,
)
