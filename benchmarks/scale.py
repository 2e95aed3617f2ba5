"""The keyed aggregation with all its processes pinned to 1, 2, 4 ... CPUs.

Timesteps overlap (`in_flight`), so the ratio is of the mean time of a batch, which is throughput.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from benchmarks.comparison import MEAN, Ratio, by_variant, compare_batches, keyed_input
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Result,
    Variant,
    Workbench,
)
from benchmarks.ours import measure

PEER = "benchmarks.peers.keyed_aggregation:run"
OURS = "benchmarks.scale:run_rechannel"


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side: the dataflow of the keyed-state benchmark."""
    return measure("keyed_state", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure Rechannel, and the state stores of ``stores``, on each number of CPUs of ``cpus``.

    An empty ``cpus`` stands for 1, 2, 4 ... as far as this machine goes. The input has as many
    files per batch as the largest number of CPUs, so that the work is the same on each.
    """
    machine = available_cpus()
    counts = parameters["cpus"] or doublings(len(machine))
    tasks = max(2, *counts)
    resolved = {**parameters, "cpus": counts, "tasks": tasks, "files": tasks}
    directory = keyed_input(
        resolved,
        bench,
        name="all",
        rows=parameters["rows"],
        keys=parameters["keys"],
        batches=parameters["batches"],
    )
    variants = [
        variant
        for count in counts
        for variant in variants_on(machine[:count], {**resolved, "input": directory})
    ]
    ratios = [
        Ratio(name=f"speedup_{count}_cpus", over="rechannel_1", under=f"rechannel_{count}", of=MEAN)
        for count in counts
        if count > 1
    ]
    result = compare_batches(
        resolved, variants, ratios, bench, title="Count and sum per key by number of CPUs"
    )
    return replace(result, metrics=(*result.metrics, *speedups(result)))


def available_cpus() -> tuple[int, ...]:
    """The CPUs that this process may use. Raises `RuntimeError` where pinning is unknown."""
    if not hasattr(os, "sched_getaffinity"):
        raise RuntimeError("this system cannot pin processes to CPUs; run this benchmark on Linux")
    return tuple(sorted(os.sched_getaffinity(0)))


def doublings(most: int) -> list[int]:
    """1, 2, 4 ... up to `most`."""
    return [1 << power for power in range(most.bit_length())]


def variants_on(cpus: tuple[int, ...], parameters: Parameters) -> list[Variant]:
    """Rechannel and the chosen stores on `cpus`, with as many task slots as CPUs."""
    common: dict[str, Any] = {**parameters, "cores": len(cpus)}
    ours = Variant(name=f"rechannel_{len(cpus)}", function=OURS, parameters=common, cpus=cpus)
    peers = [
        Variant(
            name=f"{store}_{len(cpus)}",
            function=PEER,
            parameters={**common, "store": store},
            cpus=cpus,
        )
        for store in parameters["stores"]
    ]
    return [ours, *peers]


def speedups(result: Result) -> list[Metric]:
    """How many times faster than the same side on one CPU, for every variant that can tell."""
    means = by_variant(result.metrics, MEAN)
    return [
        Metric(name="speed-up over 1 CPU", value=means[one] / mean, unit="x", variant=variant)
        for variant, mean in means.items()
        if (one := f"{variant.rpartition('_')[0]}_1") in means
    ]


BENCHMARK = Benchmark(
    name="scale",
    purpose="throughput of the keyed aggregation on 1, 2, 4 ... CPUs",
    defaults={
        "cpus": [],
        "stores": ["hdfs", "rocksdb"],
        "rows": 2_000_000,
        "keys": 1_000_000,
        "batches": 9,
        "warmup": 3,
        "in_flight": 2,
        "rounds": 1,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 1_800,
    },
    quick={
        "stores": [],
        "rows": 200_000,
        "keys": 100_000,
        "batches": 6,
    },
    run=run,
    goals={"speedup_2_cpus": 1.8},
)
