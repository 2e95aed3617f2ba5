"""Windows of event time on Spark: what they show is what Spark SQL makes of the same rows in one batch."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import functions as F  # noqa: N812

import rechannel as rc
from rechannel import aggregates as agg

PER_TIMESTEP, TIMESTEPS = 300, 14
ROWS = PER_TIMESTEP * TIMESTEPS
DELAY_MS, SIZE_MS = 20, 500
PATIENCE = 240


def rows(start, stop):
    """Event times move on by 3 ms a row, and come up to 399 ms out of their order."""
    number = np.arange(start, stop, dtype=np.int64)
    scattered = (number * 2_654_435_761) % (1 << 32)
    at = (1_000_000 + number * 3 - scattered % 400) * 1_000
    return pa.record_batch(
        {
            "number": number,
            "k": pa.array((scattered % 7).astype(str)),
            "value": scattered % 1_000,
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
        }
    )


def doubled(frame):
    return frame.withColumn("value", F.col("value") * 2)


def expected(spark, size_ms, every_ms):
    """Windows that are complete at the end, and numbers of late rows, with timesteps cut at the same places."""
    everything = rows(0, ROWS)
    frame = spark.createDataFrame(pa.Table.from_batches([everything])).selectExpr(
        "number", "k", "value * 2 AS value", "unix_micros(at) AS us",
        f"CAST(number DIV {PER_TIMESTEP} AS INT) AS t",
    )  # fmt: skip
    frame.createOrReplaceTempView("events")
    spark.sql(
        f"""
        SELECT t, coalesce(max(latest) OVER (ORDER BY t ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), -1000000000)
                    - {DELAY_MS * 1000} AS before,
               max(latest) OVER (ORDER BY t) - {DELAY_MS * 1000} AS watermark
        FROM (SELECT t, max(us) AS latest FROM events GROUP BY t)
        """
    ).createOrReplaceTempView("watermarks")
    judged = spark.sql(
        f"""
        SELECT *, explode(sequence(first, last, {every_ms * 1000}L)) AS ends FROM (
            SELECT *, (us DIV {every_ms * 1000}) * {every_ms * 1000}L + {every_ms * 1000} AS first,
                   (us DIV {every_ms * 1000}) * {every_ms * 1000}L + {size_ms * 1000} AS last
            FROM events JOIN watermarks USING (t))
        """
    )
    last = spark.sql("SELECT max(watermark) FROM watermarks").first()[0]
    late = {row.number for row in judged.where("last <= before").select("number").collect()}
    windows = (
        judged.where(f"ends > before AND ends <= {last}")
        .groupBy("k", "ends")
        .agg(F.count("*").alias("n"), F.sum("value").alias("total"))
    )
    return sorted(tuple(row) for row in windows.collect()), late


def shown(spark, directory):
    found = spark.read.parquet(str(directory)).selectExpr(
        "k", "unix_micros(window_end) AS ends", "n", "total"
    )
    return sorted(tuple(row) for row in found.collect())


CASES = {
    "tumbling, left alone": (SIZE_MS, SIZE_MS, False, False),
    "tumbling, changed, late rows read": (SIZE_MS, SIZE_MS, True, True),
    "sliding, changed, late rows read": (200, 50, True, True),
}


@pytest.mark.slow  # windows on Spark are in tests/spark/test_nexmark_late.py in every run
@pytest.mark.parametrize(
    ("size_ms", "every_ms", "changed", "wanted"),
    [pytest.param(*case, id=name) for name, case in CASES.items()],
)
def test_windows_are_those_of_a_batch(spark, tmp_path, size_ms, every_ms, changed, wanted):
    stream = rc.read(spark).generator(
        rows,
        schema="number BIGINT, k STRING, value BIGINT, at TIMESTAMP",
        per_timestep=PER_TIMESTEP,
        rows=ROWS,
        partitions=3,
        name="events",
    )
    windows = (
        stream.event_time("at", DELAY_MS)
        .transform(doubled)
        .key_by("k")
        .window(rc.windows.sliding(size_ms, every_ms))
        .aggregate(n=agg.count(), total=agg.sum("value"), name="windows")
    )
    ends = [windows.write.parquet(tmp_path / "out", name="out")]
    if wanted:
        ends.append(windows.late.write.parquet(tmp_path / "late", name="late"))
    settings = rc.Settings(tasks=2, bins=8, interval_ms=80 if changed else 0)
    job = rc.Job("windows", ends, state=tmp_path / "state", settings=settings).start()
    try:
        if changed:
            first = job.reconfigure(rc.changes.rescale("windows", 4), rc.strategies.fluid(1))
            job.reconfigure(rc.changes.split("windows", 0))
            assert first.wait(PATIENCE).phase == "done"
        job.process_all_available(PATIENCE)
        assert job.configuration.operators["windows"].tasks == (4 if changed else 2)
    finally:
        job.stop(PATIENCE)
    complete, late = expected(spark, size_ms, every_ms)
    assert len(complete) > 50
    assert len(late) > 50
    assert shown(spark, tmp_path / "out") == complete
    if wanted:
        found = spark.read.parquet(str(tmp_path / "late"))
        assert found.columns == ["number", "k", "value", "at", "timestep"]
        assert {row.number for row in found.collect()} == late
        assert found.count() == len(late)
