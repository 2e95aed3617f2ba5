"""The queries of NEXMark next to Flink's SQL, on as many slots as cores: throughput, and processor time.

Timesteps are large, since only throughput is compared: Flink has none, and takes event by event.
"""

from __future__ import annotations

from benchmarks.harness import Benchmark
from benchmarks.nexmark.benchmark import BENCHMARK as NEXMARK
from benchmarks.nexmark.benchmark import LONG, OTHERS, run

BENCHMARK = Benchmark(
    name="nexmark-flink",
    purpose="the queries of NEXMark next to Flink's SQL: throughput and processor time",
    defaults={
        **NEXMARK.defaults,
        "queries": [name for name in OTHERS["flink"] if name not in LONG],
        "stores": [],
        "others": ["flink"],
        "events": 1_000_000,
        "batches": 6,
        "warmup": 2,
        "rounds": 3,
        # Joins for ever keep every bid on Flink's heap.
        "driver_memory": "10g",
    },
    quick={"events": 100_000, "batches": 4, "warmup": 1, "rounds": 1, "queries": ["q0", "q5"]},
    run=run,
    goals={"flink_geometric_mean": 1.0, "flink_processor_geometric_mean": 1.0},
)
