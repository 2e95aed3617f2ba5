"""What a Structured Streaming user must do: stop, change the number of state partitions, and start again.

Before Spark 4.2 that is a new checkpoint, whose state is rebuilt from the input (`run`). Since then a checkpoint can be
repartitioned while no query runs on it (`run_repartitioned`), for which PySpark has no public name yet. Nothing places
partitions, so a move of a quarter of the state becomes twice as many partitions, which is what would spread it.

On the same two hosts; checkpoints are on the local disk, without the slow line that stands before Rechannel's store.
"""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.harness import Measurement, Parameters
from benchmarks.peers.history_source import HistorySource
from benchmarks.peers.latency import COMMITS_KEPT, commit_of, end_offset
from benchmarks.peers.streaming import PROGRESS_KEPT, ROCKSDB
from benchmarks.timeline import LiveMeasurement
from benchmarks.two_hosts import cluster, session
from benchmarks.variant import report

POLL_SECONDS = 0.1
PATIENCE_SECONDS = 600.0


def capacity(parameters: Parameters) -> Measurement:
    """Rows per second of batches of ``rows`` rows, over the state of all keys."""
    with cluster(parameters) as made:
        spark = open_session(made.url, parameters)
        query = start(spark, {**parameters, "rate": 0}, "first")
        follow(query, parameters["keys"])
        begin(parameters)
        wait(query, time.time() + parameters["capacity_seconds"])
        batches = [p for p in query.recentProgress if p.numInputRows == parameters["rows"]]
        query.stop()
        spark.stop()
    late = batches[len(batches) // 2 :]
    took = median(progress.batchDuration for progress in late) / 1e3
    return {"rows_per_second": parameters["rows"] / took, "batches": len(batches)}


def run(parameters: Parameters) -> LiveMeasurement:
    """Run, stop, start with a new checkpoint from the beginning of the input, run on."""
    keys, rate = parameters["keys"], parameters["rate"]
    with cluster(parameters) as made:
        spark = open_session(made.url, parameters)
        query = start(spark, parameters, "first")
        follow(query, keys)
        since = begin(parameters)
        ahead = parameters["warmup_seconds"] + parameters["before_seconds"]
        wait(query, time.time() + ahead)
        asked = time.time()
        query.stop()
        known = commits(query, parameters, "first")
        query = start(spark, parameters, "second")
        follow(query, keys + 1)
        done = time.time()
        follow(query, keys + int((time.time_ns() - since) / 1e9 * rate))
        wait(query, time.time() + parameters["settle_seconds"] + parameters["after_seconds"])
        query.stop()
        later = commits(query, parameters, "second")
        spark.stop()
    return measurement(parameters, since, (asked, done), merged(known, later, keys))


def run_repartitioned(parameters: Parameters) -> LiveMeasurement:
    """Run; stop, repartition the checkpoint and start again for each number of partitions; run on."""
    keys, rate = parameters["keys"], parameters["rate"]
    before, *numbers = partitions(parameters)
    checkpoint = str(Path(parameters["scratch"]) / "first")
    with cluster(parameters) as made:
        spark = open_session(made.url, parameters)
        spark.conf.set("spark.sql.shuffle.partitions", str(before))
        query = start(spark, parameters, "first")
        follow(query, keys)
        since = begin(parameters)
        ahead = parameters["warmup_seconds"] + parameters["before_seconds"]
        wait(query, time.time() + ahead)
        known: list[tuple[int, int, int]] = []
        asked = time.time()
        for number in numbers:
            query.stop()
            known += commits(query, parameters, "first")
            report(f"{number} partitions")
            # A stopped query leaves a batch unfinished; its rows are read again by the next one.
            spark._streamingCheckpointManager.repartition(checkpoint, number, False)
            query = start(spark, parameters, "first")
            follow(query, known[-1][1] + 1)
        done = time.time()
        follow(query, keys + int((time.time_ns() - since) / 1e9 * rate))
        wait(query, time.time() + parameters["settle_seconds"] + parameters["after_seconds"])
        there = partitions_of(query)
        if there != numbers[-1]:
            raise RuntimeError(f"the state has {there} partitions, not {numbers[-1]}")
        query.stop()
        known += commits(query, parameters, "first")
        spark.stop()
    return measurement(parameters, since, (asked, done), merged(known, [], keys))


def partitions(parameters: Parameters) -> list[int]:
    """Numbers of state partitions, the first and those that it is changed to."""
    if parameters["change"] == "rescale":
        return [int(number) for number in parameters["rescale"]]
    return [parameters["tasks"], 2 * parameters["tasks"]]


def partitions_of(query: StreamingQuery) -> int | None:
    """Partitions of the state, as the last batch reports them."""
    last = query.lastProgress
    return None if last is None else last.stateOperators[0].numShufflePartitions


def open_session(url: str, parameters: Parameters) -> Any:
    """A session with RocksDB as the state store."""
    spark = session(url, parameters)
    for name, value in {**PROGRESS_KEPT, **COMMITS_KEPT, **ROCKSDB}.items():
        spark.conf.set(name, value)
    spark.conf.set("spark.sql.shuffle.partitions", str(parameters["tasks"]))
    spark.dataSource.register(HistorySource)
    return spark


def start(spark: SparkSession, parameters: Parameters, name: str) -> StreamingQuery:
    """Count and sum per key, from the beginning of the input, with the checkpoint `name`."""
    rows = (
        spark.readStream.format(HistorySource.name())
        .option("past", parameters["keys"])
        .option("clock", str(clock(parameters)))
        .option("rate", parameters["rate"])
        .option("most", parameters["rows"])
        .option("partitions", 2)
        .load()
    )
    totals = rows.groupBy("key").agg(F.count("*").alias("count"), F.sum("value").alias("total"))
    return (
        totals.writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(Path(parameters["scratch"]) / name))
        .trigger(processingTime="0 seconds")
        .start()
    )


def clock(parameters: Parameters) -> Path:
    """The file that starts the clock."""
    return Path(parameters["scratch"]) / "clock"


def begin(parameters: Parameters) -> int:
    """Start the clock; the time, ns since 1970."""
    since = time.time_ns()
    ready = clock(parameters).with_suffix(".new")
    ready.write_text(str(since), encoding="utf-8")
    ready.rename(clock(parameters))
    return since


def follow(query: StreamingQuery, rows: int) -> None:
    """Wait until the first `rows` rows are committed; raises the error of a query that failed."""
    give_up, committed = time.time() + PATIENCE_SECONDS, 0
    while committed < rows:
        time.sleep(POLL_SECONDS)
        if not query.isActive or time.time() > give_up:
            query.awaitTermination(1)  # raises what it failed with
            raise RuntimeError(f"the query committed {committed} of {rows} rows")
        last = query.lastProgress
        if last is not None and last.numInputRows:
            committed = end_offset(last)
            report(f"{committed} of {rows} rows")


def wait(query: StreamingQuery, when: float) -> None:
    """Let the query run until a time (seconds since 1970)."""
    while (left := when - time.time()) > 0:
        if query.awaitTermination(max(1, min(int(left), 2))):
            raise RuntimeError("the query ended by itself")


def commits(query: StreamingQuery, parameters: Parameters, name: str) -> list[tuple[int, int, int]]:
    """First row, row after the last, and time of the commit of every batch."""
    checkpoint = Path(parameters["scratch"]) / name
    batches = [p for p in query.recentProgress if p.numInputRows > 0]
    return [commit_of(progress, checkpoint) for progress in batches]


def merged(
    first: list[tuple[int, int, int]], second: list[tuple[int, int, int]], past: int
) -> list[tuple[int, int, int]]:
    """Commits of rows of the clock, numbered from 0; what is committed again counts once."""
    out: list[tuple[int, int, int]] = []
    last = past
    for _, end, at in (*first, *second):
        if end > last:
            out.append((last - past, end - past, at))
            last = end
    return out


def began_of(known: list[tuple[int, int, int]], asked: float) -> list[float]:
    """When each batch began, ms since 1970: with the commit before.

    asked: when the query was stopped, s. The batch after that reads the whole past, and only its
    commit brings new rows.
    """
    at = [committed / 1e6 for _, _, committed in known]
    return [b if a < asked * 1e3 <= b else a for a, b in zip([at[0], *at[:-1]], at, strict=True)]


def measurement(
    parameters: Parameters,
    since: int,
    edges: tuple[float, float],
    known: list[tuple[int, int, int]],
) -> LiveMeasurement:
    """The run in the form of Rechannel's. edges: when it was stopped, and when it was there again, s."""
    return {
        "rate": parameters["rate"],
        "since_ms": since / 1e6,
        "commits": known,
        "began_ms": began_of(known, edges[0]),
        "asked_ms": edges[0] * 1e3,
        "done_ms": edges[1] * 1e3,
        "settle_ms": parameters["settle_seconds"] * 1e3,
        "before_ms": parameters["before_seconds"] * 1e3,
        "fetched": [0] * len(known),
        "prefetched": 0,
        "pieces": 0,
        "steps": 0,
        "bins": 0,
        "phase_ms": {},
    }
