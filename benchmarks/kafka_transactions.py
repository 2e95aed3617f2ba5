"""Transactions of Kafka one after the other, by one producer and by several that take turns."""

from __future__ import annotations

import time
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

PRODUCERS = (1, 2, 3)
TOPIC = "transactions"
CURVE = np.linspace(0.0, 100.0, 101)


def commit(parameters: Parameters) -> Measurement:
    """Commit transactions as the sink does: rows, the offset of a group, the commit."""
    from confluent_kafka import Consumer, Producer, TopicPartition

    from rechannel.sinks.kafka.writer import SETTINGS

    where = {"bootstrap.servers": parameters["bootstrap"], "log_level": "2"}
    name, wait_s = f"{parameters['producers']}-{time.time_ns()}", 60.0
    consumer = Consumer({**where, "group.id": name})
    group = consumer.consumer_group_metadata()
    consumer.close()
    producers = [
        Producer({**SETTINGS, **where, "transactional.id": f"{name}/{number}"})
        for number in range(parameters["producers"])
    ]
    for producer in producers:
        producer.init_transactions(wait_s)
    took_ms = []
    for number in range(parameters["transactions"]):
        producer = producers[number % len(producers)]
        began = time.perf_counter()
        producer.begin_transaction()
        for row in range(parameters["rows"]):
            producer.produce(TOPIC, b"x" * 100, str(row).encode())
        position = TopicPartition(TOPIC, 0, number + 1)
        producer.send_offsets_to_transaction([position], group, wait_s)
        producer.commit_transaction(wait_s)
        took_ms.append(1e3 * (time.perf_counter() - began))
        time.sleep(parameters["pause_ms"] / 1e3)
    return {"took_ms": took_ms[parameters["warmup"] :]}


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Measure each number of producers, in alternation."""
    from benchmarks.kafka_topics import broker, create

    with broker(parameters, Path(bench.scratch) / "broker") as bootstrap:
        create(bootstrap, TOPIC, parameters["partitions"])
        trials = run_trials(
            [
                Variant(
                    name=f"producers_{number}",
                    function="benchmarks.kafka_transactions:commit",
                    parameters={**parameters, "bootstrap": bootstrap, "producers": number},
                )
                for number in PRODUCERS
            ],
            bench,
            rounds=parameters["rounds"],
            timeout=parameters["timeout_seconds"],
            check=check,
        )
    found: dict[str, Any] = {
        name: np.concatenate([each["took_ms"] for each in trials.of(name)])
        for name in trials.variants
    }
    metrics = [
        Metric(name=f"p{q}", value=float(np.percentile(took, q)), unit="ms", variant=name)
        for name, took in found.items()
        for q in (50, 99)
    ]
    one = found.get("producers_1")
    ratios = {
        f"p50_one_by_{name.removeprefix('producers_')}": float(np.median(one) / np.median(took))
        for name, took in found.items()
        if one is not None and took is not one
    }
    series = (
        Series(label=name, x=tuple(np.percentile(took, CURVE)), y=tuple((CURVE / 100).tolist()))
        for name, took in found.items()
    )
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios=ratios,
        picture=Picture(
            title="Transactions one after the other",
            x_label="milliseconds",
            y_label="share of transactions",
            series=tuple(series),
            log_x=True,
        ),
        failures=trials.failures,
    )


def check(variant: Variant, run: Measurement) -> None:
    """Refuse a run that measured nothing after the warm-up."""
    if not run["took_ms"]:
        raise ValueError(f"{variant.name}: no transaction came after the warm-up")


BENCHMARK = Benchmark(
    name="kafka-transactions",
    purpose="transactions of Kafka by one producer, and by several that take turns",
    defaults={
        "bootstrap": "",
        "transactions": 200,
        "warmup": 20,
        "rows": 30,
        "partitions": 2,
        "pause_ms": 0,
        "rounds": 3,
        "timeout_seconds": 300,
    },
    quick={"transactions": 30, "warmup": 5, "rounds": 1},
    run=run,
)
