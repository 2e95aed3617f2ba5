"""The Yahoo streaming benchmark as Structured Streaming runs it, as fast as possible.

The query is the same, with Spark's own JSON parser and a broadcast join. `foreachBatch` writes updates where the other
side writes them; that is before the batch is committed, so after a failure they may be written again.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.harness import Parameters
from benchmarks.peers.latency import COMMITS_KEPT, commit_of, end_offset
from benchmarks.peers.streaming import HDFS, PROGRESS_KEPT, ROCKSDB, phases
from benchmarks.session import session
from benchmarks.yahoo.events import COLUMN, VIEW, AdEvents, AdSource, ads_of
from benchmarks.yahoo.figures import WindowMeasurement
from benchmarks.yahoo.store import Store
from benchmarks.yahoo.trial import Batches, measure

STORES = {"hdfs": HDFS, "rocksdb": ROCKSDB}
FIELDS = "ad_id STRING, event_type STRING, event_time STRING"


def run(parameters: Parameters) -> WindowMeasurement:
    """See `benchmarks.yahoo.trial.measure`. ``store``: which of Spark's state stores."""
    settings = {**PROGRESS_KEPT, **COMMITS_KEPT, **STORES[parameters["store"]]}
    spark = session(parameters, settings)
    spark.dataSource.register(AdSource)
    return measure(StructuredStreaming(spark=spark, parameters=parameters), parameters)


def counted(lines: DataFrame, ads: DataFrame, *, seconds: int, delay_ms: int = 0) -> DataFrame:
    """Views per campaign and window. ads: (ad_id, campaign_id)."""
    parsed = lines.select(F.from_json(COLUMN, FIELDS).alias("e")).where(f"e.event_type = '{VIEW}'")
    views = parsed.selectExpr(
        "e.ad_id AS ad_id", "timestamp_millis(CAST(e.event_time AS BIGINT)) AS event_time"
    )
    timed = views.withWatermark("event_time", f"{delay_ms} milliseconds")
    windows = timed.join(F.broadcast(ads), "ad_id").groupBy(
        "campaign_id", F.window("event_time", f"{seconds} seconds").alias("w")
    )
    return windows.count().selectExpr("campaign_id", "w.start AS window_start", "count")


@dataclass(frozen=True, kw_only=True)
class StructuredStreaming:
    """Starts the query; a batch follows the one before it at once."""

    spark: SparkSession
    parameters: Parameters

    def start(self, events: AdEvents, directory: Path, out: Path) -> RunningQuery:
        """In update mode."""
        asked, checkpoint = self.parameters, directory / "checkpoint"
        options = {name: str(int(value)) for name, value in asdict(events).items()}
        lines = self.spark.readStream.format(AdSource.name()).options(**options).load()
        table = list(ads_of(asked["campaigns"], asked["ads"]))
        ads = self.spark.createDataFrame(table, "ad_id STRING, campaign_id STRING")
        found = counted(lines, ads, seconds=asked["window_seconds"], delay_ms=asked["delay_ms"])
        query = (
            found.writeStream.foreachBatch(Store(str(out)))
            .outputMode("update")
            .option("checkpointLocation", str(checkpoint))
            .trigger(processingTime="0 seconds")
            .start()
        )
        return RunningQuery(query=query, checkpoint=checkpoint)


@dataclass(frozen=True, kw_only=True)
class RunningQuery:
    """The query. Rows count as read when their batch is committed."""

    query: StreamingQuery
    checkpoint: Path

    def rows(self) -> int:
        """See `benchmarks.yahoo.trial.Running`."""
        if not self.query.isActive and self.query.awaitTermination(1):
            raise RuntimeError("the query ended before it had read all events")
        last = self.query.lastProgress
        return 0 if last is None else end_offset(last)

    def stop(self) -> Batches:
        """Ends what is under way."""
        batches = [p for p in self.query.recentProgress if p.numInputRows > 0]
        self.query.stop()
        return Batches(
            commits={p.batchId: commit_of(p, self.checkpoint) for p in batches},
            phases=phases(batches),
        )
