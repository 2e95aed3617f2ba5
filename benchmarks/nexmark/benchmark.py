"""Every query of NEXMark, as many events per second as possible, next to Structured Streaming where it can run it.

Both sides read the same Parquet files, batch by batch, and throw the result away. Timesteps overlap (`in_flight`):
ratios are of the time that all batches of a round took, and the median of the rounds counts. Stateless queries are the
SQL itself on both sides. The peer's stateful ones are the nearest that it can run (`PEERS`).
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.comparison import MEAN, PROCESSOR, Ratio, by_variant, compare_batches
from benchmarks.harness import (
    Benchmark,
    Measurement,
    Metric,
    Parameters,
    Result,
    UnknownNameError,
    Variant,
    Workbench,
)
from benchmarks.inputs import OLDEST
from benchmarks.nexmark.events import EVENTS, PER_EPOCH, SCHEMAS, Events
from benchmarks.nexmark.query import NAMES, Query, query
from benchmarks.nexmark.rate import events_per_second
from benchmarks.ours import measure

STORES = ("hdfs", "rocksdb")
PEERS: Mapping[str, tuple[str, str]] = {
    "q3": ("", "append"),
    "q5": (
        "SELECT w, max(struct(num, auction)) AS hottest FROM (SELECT auction, count(*) AS num,"
        " window(dateTime, '10 seconds', '2 seconds') AS w FROM bid GROUP BY 1, 3) GROUP BY w",
        "append",
    ),
    "q7": (
        "SELECT window(dateTime, '10 seconds') AS w, max(struct(price, auction, bidder, dateTime, extra)) AS most"
        " FROM bid GROUP BY 1",
        "append",
    ),
    "q8": (
        "SELECT P.id, P.name, P.w.start FROM (SELECT id, name, window(dateTime, '10 seconds') AS w FROM person) P"
        " LEFT SEMI JOIN (SELECT seller, window(dateTime, '10 seconds') AS w FROM auction) A"
        " ON P.id = A.seller AND P.w = A.w",
        "append",
    ),
    "q11": (
        "SELECT bidder, count(*) AS bids, session_window(dateTime, '10 seconds') AS w FROM bid"
        " GROUP BY bidder, session_window(dateTime, '10 seconds')",
        "append",
    ),
    "q17": ("", "update"),
    "q18": (
        "SELECT auction, bidder, max(struct(dateTime, price, channel, url, extra)) AS last FROM bid"
        " GROUP BY auction, bidder",
        "update",
    ),
    "q20": ("", "append"),
    "q23": ("", "append"),
}
"""Stateful queries as Structured Streaming runs them, and the output mode; no text = the query's own SQL.

It cannot run q4 and q6 (aggregates of what changes), q9 and q19 (ranks without a window), q15 and q16 (numbers of
distinct values). q12 is not run beside: windows of `current_timestamp()` are possible in update mode, which shows every
count that changes and keeps all windows for ever, where q12 shows a window when it is over. In q5 and q7 it shows one
of several rows that are alike.
"""

PER_CORE = "events per core"

LONG = ("q23",)
"""Queries that are run if they are asked for: a batch of the peer takes minutes, and longer with every batch."""

OTHERS: Mapping[str, tuple[str, ...]] = {
    "bytewax": ("q0", "q1", "q2", "q3", "q5", "q7", "q8", "q11", "q18"),
    "flink": tuple(name for name in NAMES if name not in ("q6", "q13")),
}
"""Engines that are not Spark, and the queries that they run."""


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side."""
    return measure("nexmark", parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Write the events, and run every query on every side."""
    asked = [query(name) for name in parameters["queries"]]
    kinds = {kind for one in asked for kind in one.reads}
    directory = written(parameters, bench, kinds)
    common: dict[str, Any] = {**parameters, "input": directory}
    if "flink" in parameters["others"]:
        common["by_slot"] = written_by_slot(parameters, bench, kinds)
    variants, ratios = [], []
    for one in asked:
        own = {**common, "query": one.name}
        variants.append(
            Variant(
                name=one.name,
                function="benchmarks.nexmark.benchmark:run_rechannel",
                parameters=own,
            )
        )
        for store in stores_of(one, own):
            variants.append(
                Variant(
                    name=f"{one.name}_{store}",
                    function="benchmarks.peers.nexmark:run",
                    parameters={**own, "store": store},
                )
            )
            name = f"{one.name}_{store}"
            ratios.append(Ratio(name=name, over=name, under=one.name, of=MEAN))
        for other in others(own):
            variants.append(other)
            ratios.append(Ratio(name=other.name, over=other.name, under=one.name, of=MEAN))
            if other.name.endswith("_flink"):
                name = f"{other.name}_processor"
                ratios.append(Ratio(name=name, over=other.name, under=one.name, of=PROCESSOR))
    bench.progress.step("timing the generator")
    made = events_per_second(Events(rate=parameters["rate"]), parameters["events"])
    result = compare_batches(
        parameters, variants, ratios, bench, title="NEXMark: seconds per batch", overall=overall
    )
    rates = (
        *per_core(result.metrics, parameters),
        Metric(name=PER_CORE, value=made, unit="events/s", variant="generator"),
    )
    return replace(result, metrics=(*result.metrics, *rates))


def per_core(metrics: Sequence[Metric], parameters: Parameters) -> list[Metric]:
    """Events of a batch per second and core: those of the kinds that the query reads."""
    epochs, cores = parameters["events"] // EVENTS, parameters["cores"]
    return [
        Metric(
            name=PER_CORE,
            value=epochs * events_of(variant.partition("_")[0]) / seconds / cores,
            unit="events/s",
            variant=variant,
        )
        for variant, seconds in by_variant(metrics, MEAN).items()
    ]


def events_of(name: str) -> int:
    """How many of 50 events a query reads."""
    return sum(PER_EPOCH[kind] for kind in query(name).reads)


def stores_of(asked: Query, parameters: Parameters) -> list[str]:
    """What the peer runs a query over: "spark" where it keeps no state, nothing where it cannot run it."""
    stores = asked_stores(parameters)
    if not asked.stateful:
        return ["spark"] if stores else []
    return stores if asked.name in PEERS else []


def asked_stores(parameters: Parameters) -> list[str]:
    """State stores of the peer. Raises UnknownNameError."""
    unknown = set(parameters["stores"]) - set(STORES)
    if unknown:
        raise UnknownNameError(f"no state store {min(unknown)!r}; known here: {', '.join(STORES)}")
    return list(parameters["stores"])


def others(parameters: Parameters) -> list[Variant]:
    """A query on engines that are not Spark: those of ``others`` that have it. Raises UnknownNameError."""
    asked, unknown = parameters["query"], set(parameters["others"]) - set(OTHERS)
    if unknown:
        raise UnknownNameError(f"no engine {min(unknown)!r}; known here: {', '.join(OTHERS)}")
    return [
        Variant(
            name=f"{asked}_{engine}",
            function=f"benchmarks.peers.{engine}.nexmark:run",
            parameters=parameters,
        )
        for engine in parameters["others"]
        if asked in OTHERS[engine]
    ]


def overall(ratios: Mapping[str, float]) -> dict[str, float]:
    """The geometric mean over the stateful queries, and the worst of all, next to the faster store.

    Of engines that are not Spark, the geometric mean over all queries of what is compared with them.
    """
    best: dict[str, float] = {}
    other: dict[str, list[float]] = {}
    for name, ratio in ratios.items():
        asked, _, peer = name.partition("_")
        if peer.partition("_")[0] in OTHERS:
            other.setdefault(f"{peer}_geometric_mean", []).append(ratio)
        else:
            best[asked] = min(ratio, best.get(asked, ratio))
    stateful = [ratio for name, ratio in best.items() if name in PEERS]
    return {
        **({"stateful_geometric_mean": geometric_mean(stateful)} if stateful else {}),
        **({"worst": min(best.values())} if best else {}),
        **{name: geometric_mean(found) for name, found in other.items()},
    }


def written(parameters: Parameters, bench: Workbench, kinds: set[str]) -> str:
    """Write the events of every kind, in ``files`` files per batch; returns the directory."""
    events, files = Events(rate=parameters["rate"]), parameters["files"]
    directory = Path(bench.scratch) / "input" / "nexmark"
    epochs = parameters["events"] // EVENTS
    bench.progress.step(
        f"writing {parameters['batches']} batches of {parameters['events']:,} events"
    )
    for kind in sorted(kinds):
        folder = directory / kind
        folder.mkdir(parents=True, exist_ok=True)
        rows = epochs * PER_EPOCH[kind]
        for batch in range(parameters["batches"]):
            for part in range(files):
                start = batch * rows + rows * part // files
                stop = batch * rows + rows * (part + 1) // files
                path = folder / f"batch-{batch:05d}-part-{part}.parquet"
                table = pa.Table.from_batches([events.source(kind)(start, stop)])
                pq.write_table(table, path)
                os.utime(path, (OLDEST, OLDEST + batch + part / 1_000))
    return str(directory)


def written_by_slot(parameters: Parameters, bench: Workbench, kinds: set[str]) -> str:
    """Write the same events in one file per kind and core, for engines that do not read files in order.

    The n-th file has the n-th part of every batch, so that all files are read at the same pace. Returns the directory.
    """
    events, parts = Events(rate=parameters["rate"]), parameters["cores"]
    directory = Path(bench.scratch) / "input" / "nexmark-by-slot"
    bench.progress.step(f"writing the same events in {parts} files per kind")
    for kind in sorted(kinds):
        folder = directory / kind
        folder.mkdir(parents=True, exist_ok=True)
        rows = parameters["events"] // EVENTS * PER_EPOCH[kind]
        schema = events.source(kind)(0, 0).schema
        for part in range(parts):
            with pq.ParquetWriter(folder / f"part-{part}.parquet", schema) as writer:
                for batch in range(parameters["batches"]):
                    start = batch * rows + rows * part // parts
                    stop = batch * rows + rows * (part + 1) // parts
                    writer.write_batch(events.source(kind)(start, stop))
    return str(directory)


def schema_of(kind: str) -> str:
    """Columns of a kind of event."""
    return SCHEMAS[kind]


BENCHMARK = Benchmark(
    name="nexmark",
    purpose="the queries of NEXMark, next to Structured Streaming where it can run them",
    defaults={
        "queries": [name for name in NAMES if name not in LONG],
        "stores": list(STORES),
        "others": [],
        "events": 500_000,
        "rate": 50_000,
        "batches": 14,
        "warmup": 4,
        "rounds": 5,
        "cores": 2,
        "tasks": 2,
        "in_flight": 2,
        "files": 2,
        "durability": "process",
        "driver_memory": "4g",
        "timeout_seconds": 1_800,
    },
    quick={
        "events": 100_000,
        "batches": 6,
        "warmup": 2,
        "rounds": 1,
        "queries": ["q0", "q3", "q8"],
    },
    run=run,
    goals={"stateful_geometric_mean": 3.0, "worst": 0.95},
)
