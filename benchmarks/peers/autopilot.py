"""The same stream and the same function in Structured Streaming, with Spark's dynamic allocation."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.state import GroupStateTimeout

from benchmarks.autopilot.events import SECOND, PhasedSource, options_of
from benchmarks.autopilot.waiting import EXECUTORS, STATE, waiting
from benchmarks.autopilot.watched import PilotMeasurement, Watch
from benchmarks.harness import Parameters
from benchmarks.peers.latency import COMMITS_KEPT, commit_of
from benchmarks.peers.streaming import HDFS, PROGRESS_KEPT
from benchmarks.session import session
from benchmarks.yahoo.events import COLUMN, ads_of
from rechannel.engine.spark.cluster import spark_cluster

FIELDS = "ad_id STRING, event_type STRING, event_time STRING"


def allocation(parameters: Parameters) -> dict[str, str]:
    """Dynamic allocation between the same bounds, everything else as Spark has it."""
    least, most = parameters["executors"]
    return {
        "spark.master": f"local-cluster[{most},1,1024]",
        **EXECUTORS,
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.shuffleTracking.enabled": "true",
        "spark.dynamicAllocation.minExecutors": str(least),
        "spark.dynamicAllocation.initialExecutors": str(least),
        "spark.dynamicAllocation.maxExecutors": str(most),
    }


def run(parameters: Parameters) -> PilotMeasurement:
    """Run until all phases are over."""
    asked = {**parameters, "cores": 1, "tasks": parameters["executors"][1]}
    spark = session(asked, {**PROGRESS_KEPT, **COMMITS_KEPT, **HDFS, **allocation(parameters)})
    spark.dataSource.register(PhasedSource)
    start_ns = time.time_ns() + parameters["ahead_seconds"] * SECOND
    checkpoint = Path(parameters["scratch"]) / "checkpoint"
    query = (
        _counted(spark, parameters, start_ns)
        .writeStream.format("noop")
        .outputMode("update")
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=f"{parameters['interval_ms']} milliseconds")
        .start()
    )

    def alive() -> None:
        if not query.isActive:
            query.awaitTermination(1)
            raise RuntimeError("the query ended")

    cluster = spark_cluster(spark)
    watch = Watch(
        parameters=parameters,
        start_ns=start_ns,
        executors=lambda: [each.id for each in cluster.executors()],
        alive=alive,
    )
    watch.follow()
    batches = [progress for progress in query.recentProgress if progress.numInputRows > 0]
    query.stop()
    done = [commit_of(progress, checkpoint) for progress in batches]
    spark.stop()
    return {
        "start_ns": start_ns,
        "commits": done,
        "executors": watch.counts,
        "changes": [],
        "decisions": [],
        "views": done[-1][1],
        "rows": done[-1][1],
    }


def _counted(spark: Any, parameters: Parameters, start_ns: int) -> Any:
    bounded = {**parameters, "most_rows": parameters["peer_most_rows"]}
    lines = spark.readStream.format(PhasedSource.name())
    lines = lines.options(**options_of(bounded, start_ns)).load()
    table = list(ads_of(parameters["campaigns"], parameters["ads"]))
    ads = spark.createDataFrame(table, "ad_id STRING, campaign_id STRING")
    parsed = lines.select(F.from_json(COLUMN, FIELDS).alias("e")).selectExpr("e.ad_id AS ad_id")
    return (
        parsed.join(F.broadcast(ads), "ad_id")
        .groupBy("campaign_id")
        .applyInPandasWithState(
            waiting(parameters).per_key,
            f"campaign_id STRING, {STATE}",
            STATE,
            "update",
            GroupStateTimeout.NoTimeout,
        )
    )
