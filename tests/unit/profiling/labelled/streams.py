"""Streams that are slow, or that cannot keep up."""

from __future__ import annotations

import time
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.streaming.query import StreamingQuery

from tests.unit.profiling.labelled.work import slept

BATCHES = 8
SMALL = 60
LINES = 25
WORDS = 1_600
SINK_SECONDS = 1.3
KEYS = 60_000
"""New keys in a batch of the stream whose state only grows."""
FEW_KEYS = 10_000
"""New keys in a batch of the stream that commits slowly."""
FORGETTING = 24
"""Batches of the stream whose state only grows."""
CAPACITY_SECONDS = 18


def write_lines(place: Path, files: list[list[str]]) -> None:
    """One text file per list."""
    (place / "lines").mkdir()
    for number, lines in enumerate(files):
        (place / "lines" / f"{number:03}.txt").write_text("".join(f"{line}\n" for line in lines))


def read_lines(spark: SparkSession, place: Path, files: int = 1) -> DataFrame:
    """The stream of them, so many files in each batch."""
    lines = spark.readStream.format("text").option("maxFilesPerTrigger", files)
    return lines.load(f"file://{place}/lines")


def finish(place: Path, rows: DataFrame, mode: str = "append") -> None:
    """Process everything that is there, and drop what comes out."""
    writer = rows.writeStream.format("noop").outputMode(mode).queryName("orders")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def prepare_stream_of_small_batches(place: Path, *, mended: bool) -> None:
    """Files of a few lines."""
    del mended
    write_lines(place, [[f"order {file} {i}" for i in range(LINES)] for file in range(SMALL)])


def stream_of_small_batches(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A batch for each file of a few lines, or for twenty of them."""
    lines = read_lines(spark, place, 20 if mended else 1)
    finish(place, lines.select(f.upper("value").alias("order"), slept(2).alias("sent")))


def prepare_stream_with_hot_word(place: Path, *, mended: bool) -> None:
    """Words, three of four of which are the same, or none."""
    hot = 0 if mended else 3
    words = [[f"w{i}" if i % 4 >= hot else "the" for i in range(WORDS)] for _ in range(BATCHES - 2)]
    write_lines(place, words)


def stream_with_hot_word(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A word count after some work for each word."""
    del mended
    words = read_lines(spark, place).select(f.col("value").alias("word")).repartition(4, "word")
    looked_up = words.withColumn("sent", slept(2))
    finish(place, looked_up.groupBy("word").agg(f.count("*"), f.count("sent")), "update")


def prepare_stream_to_slow_sink(place: Path, *, mended: bool) -> None:
    """Files of some lines."""
    del mended
    write_lines(place, [[f"order {file} {i}" for i in range(200)] for file in range(BATCHES)])


def stream_to_slow_sink(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """A sink that takes its time for each batch, as a database does that commits slowly."""

    def save(batch: DataFrame, number: int) -> None:
        del number
        batch.write.format("noop").mode("overwrite").save()
        if not mended:
            time.sleep(SINK_SECONDS)

    lines = read_lines(spark, place).select(f.upper("value").alias("order"))
    writer = lines.writeStream.foreachBatch(save).queryName("orders")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    writer.trigger(availableNow=True).start().awaitTermination()


def prepare_stream_with_slow_state(place: Path, *, mended: bool) -> None:
    """New keys in each batch."""
    del mended
    write_keys(place, BATCHES, FEW_KEYS, 1)


def stream_with_slow_state(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """All keys that were ever seen, in dozens of RocksDBs that compact and upload all at each commit, or in four."""
    del mended
    keys = read_keys(spark, place)
    finish(
        place,
        keys.select("key", f.sha2("key", 512).alias("text")).dropDuplicates(["key", "text"]),
    )


def prepare_stream_that_forgets_nothing(place: Path, *, mended: bool) -> None:
    """New keys in each batch, an hour later than those before."""
    del mended
    write_keys(place, FORGETTING, KEYS, 3_600)


def stream_that_forgets_nothing(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Keys without repetition, with a watermark that comes ten years later, or an hour."""
    keys = read_keys(spark, place).withWatermark("at", "1 hour" if mended else "3650 days")
    finish(place, keys.dropDuplicatesWithinWatermark(["key"]))


def write_keys(place: Path, batches: int, count: int, step: int) -> None:
    """A Parquet file for each batch, so many seconds of event time after the one before."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    (place / "keys").mkdir()
    for batch in range(batches):
        keys = [f"key {batch * count + i}" for i in range(count)]
        at = pa.array([batch * step * 1_000_000] * count, pa.timestamp("us", "UTC"))
        pq.write_table(pa.table({"key": keys, "at": at}), place / "keys" / f"{batch:03}.parquet")


def read_keys(spark: SparkSession, place: Path) -> DataFrame:
    """The stream of them, a file in each batch."""
    keys = spark.readStream.schema("key string, at timestamp").option("maxFilesPerTrigger", 1)
    return keys.parquet(f"file://{place}/keys")


def stream_above_capacity(spark: SparkSession, place: Path, *, mended: bool) -> None:
    """Twice as many rows as four cores can process, which takes 2 ms for each."""
    del mended
    rows = rate(spark, 4_000).withColumn("sent", slept(2))
    run_for(CAPACITY_SECONDS, rows, place)


def rate(spark: SparkSession, rows: int) -> DataFrame:
    """So many rows a second."""
    source = spark.readStream.format("rate").option("rowsPerSecond", rows)
    return source.option("numPartitions", 4).load()


def run_for(
    seconds: float, rows: DataFrame, place: Path, mode: str = "append", every: str = "0 seconds"
) -> None:
    """Process a stream for a while."""
    writer = rows.writeStream.format("noop").outputMode(mode).queryName("orders")
    writer = writer.option("checkpointLocation", f"file://{place}/checkpoint")
    query: StreamingQuery = writer.trigger(processingTime=every).start()
    query.awaitTermination(round(seconds))
    query.stop()
