"""The same small timestep over a state of one million to a hundred million keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from benchmarks.comparison import MEDIAN, SLOWEST, Ratio, by_variant, compare_batches, keyed_input
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Parameters,
    Result,
    Variant,
    Workbench,
)
from benchmarks.ours import measure

GROWTH_BOUND = 2.0
"""A timestep over the largest state takes at most so many times as long as over the smallest."""
SPIKE_BOUND = 3.0
"""No timestep takes more than this multiple of the median."""


def run_rechannel(parameters: Parameters) -> Measurement:
    """Load a state of ``keys`` keys in bulk, then count and sum the batches below ``input``."""
    return measure("state_growth", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure each size of ``sizes`` (keys), smallest first."""
    sizes = sorted(parameters["sizes"])
    variants: list[Variant] = []
    for keys in sizes:
        directory = keyed_input(
            parameters,
            bench,
            name=short(keys),
            rows=parameters["rows"],
            keys=keys,
            batches=parameters["batches"],
        )
        own: dict[str, Any] = {k: v for k, v in parameters.items() if k != "sizes"}
        variants.append(
            Variant(
                name=f"keys_{short(keys)}",
                function="benchmarks.state_growth:run_rechannel",
                parameters={**own, "keys": keys, "input": directory},
            )
        )
    ratios = [
        Ratio(
            name=f"bound_{short(keys)}_vs_{short(sizes[0])}",
            over=f"keys_{short(sizes[0])}",
            under=f"keys_{short(keys)}",
            factor=GROWTH_BOUND,
        )
        for keys in sizes[1:]
    ]
    result = compare_batches(
        parameters, variants, ratios, bench, title="The same timestep over a growing state"
    )
    return replace(result, ratios={**result.ratios, **spike(result)})


def short(keys: int) -> str:
    """``1m`` for a million, ``10k`` for ten thousand."""
    for unit, mark in ((1_000_000, "m"), (1_000, "k")):
        if keys % unit == 0:
            return f"{keys // unit}{mark}"
    return str(keys)


def spike(result: Result) -> dict[str, float]:
    """``bound_slowest``: 1 or more if no timestep of any size is above three times its median."""
    medians = by_variant(result.metrics, MEDIAN)
    slowest = by_variant(result.metrics, SLOWEST)
    if not medians:
        return {}
    return {"bound_slowest": min(SPIKE_BOUND * medians[v] / slowest[v] for v in medians)}


BENCHMARK = Benchmark(
    name="state-growth",
    purpose="the same timestep over a state of 1, 10 and 100 million keys",
    defaults={
        "sizes": [1_000_000, 10_000_000, 100_000_000],
        "rows": 200_000,
        "batches": 80,
        "warmup": 5,
        "rounds": 1,
        "cores": 2,
        "tasks": 2,
        "files": 2,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 3_600,
    },
    quick={
        "sizes": [100_000, 1_000_000],
        "rows": 20_000,
        "batches": 20,
    },
    run=run,
    goals={"bound_100m_vs_1m": 1.0, "bound_slowest": 1.0},
)
