"""Applications that are slow for a known reason, run for real, and what their profile says.

Each is a Structured Streaming query over a source of rows by rate, whose event log is profiled afterwards:

- `scheduling`: batches of a few rows through many partitions;
- `processing`: a Python function that takes its time over every row;
- `straggler`: the same with most rows under one key;
- `skew_<percent>`: a keyed count, four workers, with so much of the load on one key (SnailTrail, figure 10).

A slow shuffle needs hosts whose line can be throttled, which takes rights that a user does not have: it is not run.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
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
from benchmarks.trials import run_trials

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame, SparkSession

SKEWS = (30, 50, 80)
SEPARATION = 2.5
"""Published: CP of the hottest worker over the second, in the median of the windows."""


def run_case(parameters: Parameters) -> Measurement:
    """Run a query for `seconds`, profile its log; the first cause, and how far the hottest worker stands out."""
    logs = Path(parameters["scratch"]) / "events"
    logs.mkdir(parents=True)
    spark = session(
        {**parameters, "cores": parameters["workers"], "tasks": partitions(parameters)},
        {
            "spark.eventLog.enabled": "true",
            "spark.eventLog.dir": str(logs),
            "spark.eventLog.rolling.enabled": "false",
            "spark.eventLog.compress": "false",
        },
    )
    try:
        streamed(spark, parameters)
    finally:
        spark.stop()
    (log,) = logs.iterdir()
    return diagnosed(log, parameters)


def partitions(parameters: Parameters) -> int:
    """Of the shuffle."""
    return 40 if parameters["case"] == "scheduling" else int(parameters["workers"])


def streamed(spark: SparkSession, parameters: Parameters) -> None:
    """Run the query of a case."""
    few = parameters["case"] == "scheduling"
    rows = (
        spark.readStream.format("rate")
        .option("rowsPerSecond", parameters["few"] if few else parameters["rows"])
        .option("numPartitions", parameters["workers"])
        .load()
    )
    query = (
        made(rows, parameters)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(Path(parameters["scratch"]) / "checkpoint"))
        .start()
    )
    time.sleep(parameters["seconds"])
    query.stop()


def made(rows: DataFrame, parameters: Parameters) -> DataFrame:
    """The query of a case."""
    from pyspark.sql import functions as f

    case, workers = parameters["case"], parameters["workers"]
    if case == "scheduling":
        return rows.groupBy((f.col("value") % 1_000).alias("key")).count()
    share = int({"processing": 0, "straggler": 80}.get(case) or parameters.get("share", 0))
    # Keys that lie in partitions of their own, and one that has a share of all rows besides.
    spread = f.col("value") % workers
    key = f.when(f.col("value") % 100 < share, f.lit(0)).otherwise(spread)
    keyed = rows.select(key.cast("int").alias("key"), "value").repartitionById(
        workers, f.col("key")
    )
    worked = keyed.mapInPandas(working(parameters["us"]), "key int, n long")
    return worked.groupBy("key").agg(f.sum("n").alias("n"))


def working(us: float) -> Any:
    """Count rows per key, and take so many microseconds of the processor for each row."""

    def count(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        for batch in batches:
            until = time.thread_time() + us * len(batch) / 1e6
            while time.thread_time() < until:
                pass
            yield batch.groupby("key", as_index=False).agg(n=("value", "size"))

    return count


def diagnosed(log: Path, parameters: Parameters) -> Measurement:
    """What the profile of a log says."""
    import polars as pl

    from rechannel.profiling.reading import analyse

    found = analyse(log, window=parameters["window"], strict=True)
    workers = found.profile.over_time("worker", "message").filter(
        ~pl.col("message") & (pl.col("worker") != "driver")
    )
    ratios = {
        of: [
            shares[0] / shares[1]
            for (shares,) in workers.group_by("window")
            .agg(pl.col(of).sort(descending=True))
            .select(of)
            .iter_rows()
            if len(shares) > 1 and shares[1] > 0
        ]
        for of in ("critical", "profile")
    }
    return {
        "case": parameters["case"],
        "causes": [each.cause for each in found.findings],
        "shares": [each.share for each in found.findings],
        "text": [each.text for each in found.findings],
        "operators": found.profile.by_operator()["operator"].head(2).to_list(),
        "windows": len(found.profile.windows),
        "separation": median(ratios["critical"]) if ratios["critical"] else 0.0,
        "usual": median(ratios["profile"]) if ratios["profile"] else 0.0,
    }


def run(parameters: Parameters, bench: Workbench) -> Result:
    """Run all cases."""
    cases: dict[str, dict[str, Any]] = {
        name: {"case": name} for name in ("scheduling", "processing", "straggler")
    }
    cases |= {f"skew_{share}": {"case": f"skew_{share}", "share": share} for share in SKEWS}
    variants = [
        Variant(
            name=name, function="benchmarks.diagnosis:run_case", parameters={**parameters, **own}
        )
        for name, own in cases.items()
    ]
    trials = run_trials(
        variants,
        bench,
        rounds=parameters["rounds"],
        timeout=parameters["timeout_seconds"],
        check=check,
    )
    metrics: list[Metric] = []
    ratios: dict[str, float] = {}
    for name in trials.variants:
        (first, *_) = trials.of(name)
        for text in first["text"][:2]:
            bench.progress.step(f"{name}: {text}")
        metrics.append(
            Metric(name="CP of the first", value=first["shares"][0], unit="", variant=name)
        )
        if name.startswith("skew"):
            apart = median(each["separation"] for each in trials.of(name))
            metrics += [
                Metric(name="hottest over second, CP", value=apart, unit="x", variant=name),
                Metric(
                    name="hottest over second, usual profile",
                    value=median(each["usual"] for each in trials.of(name)),
                    unit="x",
                    variant=name,
                ),
            ]
            ratios[f"bound_{name}"] = apart / SEPARATION
        else:
            right = sum(each["causes"][0] == name for each in trials.of(name))
            ratios[f"bound_{name}"] = right / len(trials.of(name))
    return Result(
        parameters=parameters,
        metrics=tuple(metrics),
        ratios=ratios,
        picture=Picture(
            title="What stands out",
            x_label="load on one key, %",
            y_label="hottest worker over the second",
            series=tuple(
                Series(
                    label=label,
                    x=tuple(float(share) for share in SKEWS if f"skew_{share}" in trials.variants),
                    y=tuple(
                        each.value
                        for each in metrics
                        if each.name == f"hottest over second, {label}"
                    ),
                )
                for label in ("CP", "usual profile")
            ),
        ),
        failures=trials.failures,
    )


def check(variant: Variant, made: Measurement) -> None:
    """Raise ValueError for a run whose profile found nothing."""
    if not made["causes"]:
        msg = f"nothing stands out in {made['windows']} windows of {variant.name}"
        raise ValueError(msg)


BENCHMARK = Benchmark(
    name="diagnosis",
    purpose="streams that are slow for a known reason, and what their profile says",
    defaults={
        "workers": 4,
        "seconds": 60,
        "rows": 2_000,
        "few": 20,
        "us": 600,
        "window": 2.0,
        "rounds": 1,
        "driver_memory": "1g",
        "timeout_seconds": 600,
    },
    quick={"seconds": 20},
    run=run,
    goals={
        **{f"bound_{name}": 1.0 for name in ("scheduling", "processing", "straggler")},
        **{f"bound_skew_{share}": 1.0 for share in SKEWS},
    },
)
