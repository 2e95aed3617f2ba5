"""Records per second from topic to topic, next to Structured Streaming: JSON, totals per user, JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

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
from benchmarks.trials import Trials, run_trials

RECHANNEL, TWICE, PEER = "rechannel", "rechannel_at_least_once", "structured_streaming"
SIDES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    RECHANNEL: ("benchmarks.kafka:run_rechannel", {"exactly_once": True}),
    TWICE: ("benchmarks.kafka:run_rechannel", {"exactly_once": False}),
    PEER: ("benchmarks.peers.kafka:throughput", {}),
}


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side, imported only in the process that measures it."""
    from benchmarks.kafka_side import throughput

    return throughput(parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Fill a topic, and run every side over all of it."""
    from benchmarks.kafka_topics import broker, create, fill

    with broker(parameters, Path(bench.scratch) / "broker") as bootstrap:
        given = {**parameters, "bootstrap": bootstrap}
        bench.progress.step(f"producing {parameters['rows']:,} records")
        create(bootstrap, "in", parameters["partitions"])
        fill(bootstrap, "in", parameters)
        trials = run_trials(
            [
                Variant(name=name, function=function, parameters={**given, **more})
                for name, (function, more) in SIDES.items()
            ],
            bench,
            rounds=parameters["rounds"],
            timeout=parameters["timeout_seconds"],
            check=check,
        )
    rates = {
        name: [rate_of(each, parameters["warmup"]) for each in trials.of(name)]
        for name in trials.variants
    }
    return Result(
        parameters=parameters,
        metrics=(
            *(
                Metric(name="records per second", value=median(each), unit="rows/s", variant=name)
                for name, each in rates.items()
            ),
            *trials.memory(),
        ),
        ratios=ratios_of(rates),
        picture=picture_of(trials),
        failures=trials.failures,
    )


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run that did not read everything."""
    if run["rows"][-1] != variant.parameters["rows"]:
        raise ValueError(f"{run['rows'][-1]} records were read")
    rate_of(run, variant.parameters["warmup"])


def rate_of(run: Measurement, warmup: int) -> float:
    """Records per second after the first `warmup` batches. Raises ValueError if there is no other."""
    if len(run["ended"]) <= warmup:
        raise ValueError(f"{len(run['ended'])} batches with {warmup} of warm-up")
    rows = run["rows"][-1] - run["rows"][warmup - 1]
    return float(rows / (run["ended"][-1] - run["ended"][warmup - 1]))


def ratios_of(rates: Mapping[str, list[float]]) -> dict[str, float]:
    """Rechannel over the peer, and over the goal of 2.5 times."""
    out = {}
    if PEER in rates:
        peer = median(rates[PEER])
        out = {name: median(rates[name]) / peer for name in (RECHANNEL, TWICE) if name in rates}
    if RECHANNEL in out:
        out["bound_2.5_times"] = out[RECHANNEL] / 2.5
    return out


def picture_of(trials: Trials) -> Picture:
    """Records that were read and published, over time, of the first run of each side."""
    series = []
    for name in trials.variants:
        run = trials.of(name)[0]
        at = np.asarray(run["ended"]) - run["ended"][0]
        rows = tuple(float(each) for each in run["rows"])
        series.append(Series(label=name, x=tuple(at.tolist()), y=rows))
    return Picture(
        title="From topic to topic",
        x_label="seconds since the first batch",
        y_label="records",
        series=tuple(series),
    )


BENCHMARK = Benchmark(
    name="kafka",
    purpose="records per second from Kafka to Kafka, counted per key, with Structured Streaming",
    defaults={
        "bootstrap": "",
        "rows": 6_000_000,
        "per_batch": 500_000,
        "keys": 100_000,
        "partitions": 12,
        "warmup": 3,
        "in_flight": 2,
        "tasks": 2,
        "cores": 2,
        "rounds": 2,
        "durability": "process",
        "driver_memory": "3g",
        "timeout_seconds": 900,
    },
    quick={"rows": 600_000, "per_batch": 100_000, "warmup": 2, "rounds": 1},
    run=run,
    goals={"bound_2.5_times": 1.0},
)
