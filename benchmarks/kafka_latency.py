"""From the creation of a record to the total that counts it, from topic to topic, as a consumer sees it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
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
from benchmarks.trials import run_trials

RECHANNEL, TWICE = "rechannel", "rechannel_at_least_once"
INLINE = "rechannel_inline"
"""Small timesteps run in the driver."""
MICRO, REAL = "micro-batch", "real-time"
FLINK, FLINK_ONCE = "flink", "flink_exactly_once"
SIDES: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    RECHANNEL: ("benchmarks.kafka_latency:run_rechannel", {"exactly_once": True}),
    INLINE: (
        "benchmarks.kafka_latency:run_rechannel",
        {"exactly_once": True, "inline_rows": 20_000, "publish_backlog": 1},
    ),
    TWICE: ("benchmarks.kafka_latency:run_rechannel", {"exactly_once": False}),
    MICRO: ("benchmarks.peers.kafka:latency", {"mode": MICRO}),
    REAL: ("benchmarks.peers.kafka:latency", {"mode": REAL}),
    FLINK: (
        "benchmarks.peers.flink.kafka:latency",
        {"guarantee": "at-least-once", "checkpoint": "1s"},
    ),
    FLINK_ONCE: (
        "benchmarks.peers.flink.kafka:latency",
        {"guarantee": "exactly-once", "checkpoint": "100ms"},
    ),
}
PERCENTILES = (50, 99)
CURVE = np.linspace(0.0, 100.0, 401)


def run_rechannel(parameters: Parameters) -> Measurement:
    """Rechannel's side, imported only in the process that measures it."""
    from benchmarks.kafka_side import latency

    return latency(parameters)


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run every side after a producer that keeps to the clock."""
    from benchmarks.kafka_topics import broker

    with broker(parameters, Path(bench.scratch) / "broker") as bootstrap:
        given = {**parameters, "bootstrap": bootstrap, "per_batch": None}
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
    found = {
        name: np.concatenate([waits_of(each, parameters) for each in trials.of(name)])
        for name in trials.variants
    }
    metrics = [
        Metric(name=f"p{q}", value=float(np.percentile(each, q)), unit="ms", variant=name)
        for name, each in found.items()
        for q in PERCENTILES
    ]
    ratios = {
        f"p{q}_{peer}{beside}": float(np.percentile(found[peer], q) / np.percentile(found[ours], q))
        for q in PERCENTILES
        for peer in (MICRO, REAL, FLINK, FLINK_ONCE)
        for ours, beside in ((RECHANNEL, ""), (INLINE, "_inline"))
        if peer in found and ours in found
    }
    series = (
        Series(label=name, x=tuple(np.percentile(each, CURVE)), y=tuple((CURVE / 100).tolist()))
        for name, each in found.items()
    )
    return Result(
        parameters=parameters,
        metrics=(*metrics, *trials.memory()),
        ratios=ratios,
        picture=Picture(
            title="From a record to the total that counts it",
            x_label="milliseconds",
            y_label="share of totals",
            series=tuple(series),
            log_x=True,
        ),
        failures=trials.failures,
    )


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run without totals after the warm-up."""
    waits_of(run, variant.parameters)


def waits_of(run: Measurement, parameters: Parameters) -> Any:
    """Return ms of every total that came after the warm-up. Raises ValueError if none did."""
    waits = [wait for at, wait in run["waits"] if at >= parameters["warmup_seconds"]]
    if not waits:
        raise ValueError("no total came after the warm-up")
    return np.asarray(waits, dtype=np.float64)


BENCHMARK = Benchmark(
    name="kafka-latency",
    purpose="from a record in Kafka to the total in Kafka, with both modes of Structured Streaming",
    defaults={
        "bootstrap": "",
        "rate": 1_000,
        "keys": 10_000,
        "partitions": 2,
        "warmup_seconds": 25,
        "seconds": 40,
        "real_time": "5 minutes",
        "in_flight": 1,
        "tasks": 2,
        "cores": 4,
        "rounds": 1,
        "durability": "process",
        "driver_memory": "3g",
        "timeout_seconds": 400,
    },
    quick={"warmup_seconds": 15, "seconds": 10},
    run=run,
)
