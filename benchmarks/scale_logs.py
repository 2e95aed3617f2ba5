"""Advice for streams of Structured Streaming, taken from their event logs, applied, and checked by a second run.

The stream counts rows by key, with work for every row before the shuffle and for every key after it: SHA-512, again and
again. Its rows come at a constant rate, in two partitions. Each case begins with cores and shuffle partitions that are
too few, right, or too many; a last one waits for every key in place of hashing, so that it can have more cores of Spark
than there are processors. Its log is advised for the interval of its trigger, a stream with the advised cores and
partitions (and a new checkpoint) runs as long, and its median batch is compared with what was predicted.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from benchmarks.session import session
from benchmarks.trials import Trials, run_trials

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

CASES: Mapping[str, Mapping[str, Any]] = {
    "too-few": {"cores": 1, "partitions": 1},
    "right": {"cores": 2, "partitions": 2},
    "too-many": {"cores": 2, "partitions": 100, "rate": 2_500, "keys": 5_000},
    "waiting": {
        "cores": 2,
        "partitions": 2,
        "rate": 3_000,
        "keys": 3_000,
        "row_hashes": 1,
        "key_hashes": 1,
        "key_waits_ms": 3,
    },
}
"""What is different in each; `key_waits_ms`: a wait for every key, which occupies a core of Spark and no processor."""
GOAL = 0.2
"""How far a predicted batch may be from the measured one, as a share of that."""


def run_stream(parameters: Parameters) -> Measurement:
    """Run the stream for `seconds`, and return what its log says that it needs."""
    scratch = Path(parameters["scratch"])
    logs = scratch / "events"
    logs.mkdir(parents=True)
    spark = session(
        {**parameters, "tasks": parameters["partitions"]},
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(logs),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        },
    )
    try:
        query = (
            made(spark, parameters)
            .writeStream.format("noop")
            .outputMode("update")
            .queryName("counts")
            .option("checkpointLocation", str(scratch / "checkpoint"))
            .trigger(processingTime=f"{parameters['interval']} seconds")
            .start()
        )
        query.awaitTermination(parameters["seconds"])
        query.stop()
    finally:
        spark.stop()
    (log,) = logs.iterdir()
    if parameters["keep"]:
        Path(parameters["keep"]).mkdir(parents=True, exist_ok=True)
        shutil.copy(log, Path(parameters["keep"]) / parameters["name"])
    return advised(log, parameters)


def made(spark: SparkSession, parameters: Parameters) -> DataFrame:
    """The stream."""
    from pyspark.sql import functions as f

    source = spark.readStream.format("rate").option("rowsPerSecond", parameters["rate"])
    rows = source.option("numPartitions", parameters["sources"]).load()
    value = f.col("value")
    worked = hashed(value.cast("string"), parameters["row_hashes"])
    counted = (
        rows.select((value % parameters["keys"]).alias("key"), f.length(worked).alias("size"))
        .groupBy("key")
        .agg(f.count("*").alias("n"), f.sum("size").alias("size"))
    )
    text = f.concat_ws(" ", *(f.col(name).cast("string") for name in ("key", "n", "size")))
    waited = f.expr(f"java_method('java.lang.Thread', 'sleep', {parameters['key_waits_ms']}L)")
    columns = [f.col("key"), hashed(text, parameters["key_hashes"]).alias("text")]
    if parameters["key_waits_ms"]:
        columns.append(waited.alias("waited"))
    return counted.select(*columns)


def hashed(text: Column, times: int) -> Column:
    """The text after some rounds of SHA-512."""
    from pyspark.sql import functions as f

    numbers = f.sequence(f.lit(1), f.lit(times))
    return f.aggregate(numbers, text, lambda before, _: f.sha2(before, 512))


def advised(log: Path, parameters: Parameters) -> Measurement:
    """What the log says of its only query."""
    import rechannel as rc
    from rechannel.scaling.files.spark.advice import LogAdvice

    made = rc.scaling_advice(log, interval=float(parameters["interval"]))
    if not isinstance(made, LogAdvice) or not made.queries:
        msg = f"the log has no advice: {made.notes}"
        raise ValueError(msg)
    (query,) = made.queries
    return asdict(query)


def variant(name: str, case: Mapping[str, Any], parameters: Parameters) -> Variant:
    """A run of a case."""
    shared = {key: value for key, value in parameters.items() if key != "cases"}
    return Variant(
        name=name,
        function="benchmarks.scale_logs:run_stream",
        parameters={**shared, **case, "name": name},
    )


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run every case, apply the advice, and run it again."""
    cases: Mapping[str, Mapping[str, Any]] = parameters["cases"]
    bound = {"rounds": 1, "timeout": parameters["timeout_seconds"], "check": _usable}
    first = run_trials([variant(n, c, parameters) for n, c in cases.items()], bench, **bound)
    told = {name: first.of(name)[0] for name in first.variants}
    again = [
        variant(
            f"{name}-advised",
            {
                **cases[name],
                "cores": found["advised"]["cores"],
                "partitions": found["advised"]["partitions"],
            },
            parameters,
        )
        for name, found in told.items()
    ]
    everything = Workbench(scratch=bench.scratch, progress=bench.progress)
    second = run_trials(again, everything, **bound) if again else Trials(runs=())
    checked = {
        name: (found, second.of(f"{name}-advised")[0])
        for name, found in told.items()
        if f"{name}-advised" in second.variants
    }
    metrics = [m for name, pair in checked.items() for m in _metrics(name, cases[name], *pair)]
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios={f"bound_{name}": GOAL / max(_error(*pair), 1e-3) for name, pair in checked.items()},
        picture=Picture(
            title="Batches: before, predicted, after",
            x_label="1: as it was, 2: predicted, 3: measured with the advice",
            y_label="seconds",
            series=tuple(
                Series(
                    label=name,
                    x=(1.0, 2.0, 3.0),
                    y=tuple(
                        ms / 1e3
                        for ms in (
                            before["measured_ms"],
                            before["advised"]["batch_ms"],
                            after["measured_ms"],
                        )
                    ),
                )
                for name, (before, after) in checked.items()
            ),
        ),
        failures=(*first.failures, *second.failures),
    )


def _usable(variant: Variant, measured: Measurement) -> None:
    """Refuse a measurement of few batches."""
    if measured["batches"] < 3:
        msg = f"{variant.name} has {measured['batches']} batches: give it more seconds"
        raise ValueError(msg)


def _error(before: Measurement, after: Measurement) -> float:
    """By what share the predicted batch is off."""
    predicted, measured = before["advised"]["batch_ms"], after["measured_ms"]
    return float(abs(predicted - measured) / measured)


def _metrics(
    name: str, case: Mapping[str, Any], before: Measurement, after: Measurement
) -> list[Metric]:
    told = before["advised"]
    figures = (
        ("cores before", case["cores"], "cores"),
        ("partitions before", case["partitions"], "partitions"),
        ("cores advised", told["cores"], "cores"),
        ("partitions advised", told["partitions"], "partitions"),
        ("batch before", before["measured_ms"] / 1e3, "s"),
        ("batch predicted", told["batch_ms"] / 1e3, "s"),
        ("predicted at least", told["low_ms"] / 1e3, "s"),
        ("predicted at most", told["high_ms"] / 1e3, "s"),
        ("batch after", after["measured_ms"] / 1e3, "s"),
        ("error", 100 * _error(before, after), "%"),
        ("time of tasks in Java before", 100 * _busy(before), "%"),
        ("time of tasks in Java after", 100 * _busy(after), "%"),
    )
    return [
        Metric(name=figure, value=float(value), unit=unit, variant=name)
        for figure, value, unit in figures
    ]


def _busy(found: Measurement) -> float:
    """The share of tasks' time in which their Java threads worked: others use the processors for the rest."""
    times = [each["tasks_ms"] for each in found["stages"]]
    worked = sum(ms * each["busy"] for ms, each in zip(times, found["stages"], strict=True))
    return float(worked / max(1.0, sum(times)))


BENCHMARK = Benchmark(
    name="scale-logs",
    purpose="streams with too few, right and too many cores: advice from their event logs, applied and checked",
    defaults={
        "cases": CASES,
        "rate": 20_000,
        "keys": 20_000,
        "row_hashes": 24,
        "key_hashes": 260,
        "key_waits_ms": 0,
        "sources": 2,
        "interval": 4,
        "seconds": 75,
        "keep": "",
        "driver_memory": "1g",
        "timeout_seconds": 300,
    },
    quick={"seconds": 40},
    run=run,
    goals={f"bound_{name}": 1.0 for name in CASES},
)
