"""A small timestep of 512 source tasks and 512 stateful tasks, against Spark's own stores with as many partitions.

What it takes is what each task costs, and each of 512 x 512 places in the exchange; there is hardly a row for each.
"""

from __future__ import annotations

from benchmarks.comparison import Ratio, compare_batches, keyed_input
from benchmarks.harness import Benchmark, Parameters, Result, Workbench
from benchmarks.keyed_state import STORES, variants_over


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure Rechannel and both stores."""
    directory = keyed_input(
        parameters,
        bench,
        name="wide",
        rows=parameters["rows"],
        keys=parameters["keys"],
        batches=parameters["batches"],
    )
    variants = [
        variant
        for variant in variants_over(directory, parameters, "")
        if variant.name in {"rechannel", *STORES}
    ]
    ratios = [Ratio(name=store, over=store, under="rechannel") for store in STORES]
    return compare_batches(
        parameters, variants, ratios, bench, title="Many tasks, few rows: seconds per batch"
    )


BENCHMARK = Benchmark(
    name="wide-exchange",
    purpose="a small timestep of 512 x 512 tasks, against both state stores with 512 partitions",
    defaults={
        "rows": 20_000,
        "keys": 10_000,
        "batches": 8,
        "warmup": 3,
        "rounds": 1,
        "cores": 2,
        "tasks": 512,
        "files": 512,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 1_200,
    },
    quick={"tasks": 32, "files": 32, "batches": 4, "warmup": 2},
    run=run,
    goals=dict.fromkeys(STORES, 1.0),
)
