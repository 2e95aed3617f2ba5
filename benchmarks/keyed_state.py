"""Count and sum per key over a large and a small state, against Spark's own state stores.

`floor` is the same work in one process without an engine (`peers.floor`). Where a case says how many rows the driver
may run itself, that is one more side. Timesteps overlap (`in_flight`), so ratios are of the mean time of a batch.
"""

from __future__ import annotations

from typing import Any

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

STORES = ("hdfs", "rocksdb")
PEER = "benchmarks.peers.keyed_aggregation:run"
OURS = "benchmarks.keyed_state:run_rechannel"
FLOOR = "benchmarks.peers.floor:run"
INLINE = "inline_rows"
ABOVE_FLOOR = 1.5
"""A batch takes at most so many times as long as without an engine."""


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side: `aggregate` of count and sum."""
    return measure("keyed_state", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure every case of ``cases``; ratios of the case ``large`` carry the store's bare name.

    A case may have its own `batches` and `warmup`: short batches reach their steady state, in which
    the JVM has compiled what it runs, after more of them. All sides get the same.
    """
    variants: list[Variant] = []
    ratios: list[Ratio] = []
    for case, given in parameters["cases"].items():
        size = {name: given[name] for name in ("rows", "keys")}
        own = {**parameters, **{k: v for k, v in given.items() if k not in size}}
        directory = keyed_input(own, bench, name=case, batches=own["batches"], **size)
        mark = "" if case == "large" else f"_{case}"
        variants += variants_over(directory, own, mark)
        for how in ("", "_inline") if own.get(INLINE) else ("",):
            under = f"rechannel{mark}{how}"
            ratios += [
                Ratio(name=f"{store}{mark}{how}", over=f"{store}{mark}", under=under, of=MEAN)
                for store in STORES
            ]
            ratios.append(
                Ratio(
                    name=f"bound_floor{mark}{how}",
                    over=f"floor{mark}",
                    under=under,
                    factor=ABOVE_FLOOR,
                    of=MEAN,
                )
            )
    return compare_batches(
        parameters, variants, ratios, bench, title="Count and sum per key: seconds per batch"
    )


def variants_over(directory: str, parameters: Parameters, mark: str) -> list[Variant]:
    """Rechannel, both stores and the floor over the input in `directory`; names end in `mark`."""
    common: dict[str, Any] = {
        **{k: v for k, v in parameters.items() if k not in ("cases", INLINE)},
        "input": directory,
    }
    inline = parameters.get(INLINE)
    ours = {f"rechannel{mark}": common}
    if inline:
        ours[f"rechannel{mark}_inline"] = {**common, INLINE: inline}
    return [
        *(Variant(name=name, function=OURS, parameters=own) for name, own in ours.items()),
        Variant(name=f"floor{mark}", function=FLOOR, parameters=common),
        *(
            Variant(name=f"{store}{mark}", function=PEER, parameters={**common, "store": store})
            for store in STORES
        ),
    ]


BENCHMARK = Benchmark(
    name="keyed-state",
    purpose="count and sum per key, against the HDFS-backed and the RocksDB state store",
    defaults={
        "cases": {
            "large": {"rows": 2_000_000, "keys": 1_000_000},
            "small": {
                "rows": 200_000,
                "keys": 10_000,
                "batches": 40,
                "warmup": 10,
                "inline_rows": 200_000,
            },
        },
        "batches": 12,
        "warmup": 3,
        "in_flight": 2,
        "rounds": 2,
        "cores": 2,
        "tasks": 2,
        "files": 2,
        "seed": 1,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 1_800,
    },
    quick={
        "cases": {"large": {"rows": 200_000, "keys": 100_000}},
        "batches": 5,
        "warmup": 2,
        "rounds": 1,
    },
    run=run,
    goals={
        "hdfs": 4.0,
        "rocksdb": 8.0,
        "hdfs_small": 4.0,
        "rocksdb_small": 4.0,
        "hdfs_small_inline": 4.0,
        "rocksdb_small_inline": 4.0,
        "bound_floor": 1.0,
    },
)
