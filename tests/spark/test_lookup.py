"""Look-ups on Spark: what they show is what Spark SQL makes of the same rows in one batch."""

import time

import pyarrow as pa
import pytest

import rechannel as rc
from tests.spark.test_join import PATIENCE, PER_TIMESTEP, ROWS, rows, sides

pytestmark = pytest.mark.spark


@pytest.mark.slow  # the simulation has lookups, the test below one on Spark
def test_rows_find_the_newest_row_that_the_table_had_by_then(spark, tmp_path):
    left, right = sides(spark)
    found = left.lookup(right, "k", how="left", by=["at", "number"], name="found")
    ends = [found.write.parquet(tmp_path / "out", name="out")]
    settings = rc.Settings(tasks=2, bins=8, interval_ms=80)
    job = rc.Job("lookups", ends, state=tmp_path / "state", settings=settings).start()
    try:
        change = job.reconfigure(rc.changes.rescale("found", 4), rc.strategies.fluid(1))
        assert change.wait(PATIENCE).phase == "done"
        job.process_all_available(PATIENCE)
        state = job.state("found").select("k", "number").collect()
    finally:
        job.stop(PATIENCE)

    for seed, name in enumerate(("asked", "told")):
        made = spark.createDataFrame(pa.Table.from_batches([rows(0, ROWS, seed)]))
        made.selectExpr("*", f"number DIV {PER_TIMESTEP} AS t").createOrReplaceTempView(name)
    expected = spark.sql(
        """
        SELECT s.number, max_by(r.number, struct(r.at, r.number)) AS found
        FROM asked s LEFT JOIN told r ON s.k = r.k AND r.t <= s.t GROUP BY s.number
        """
    ).collect()
    shown = spark.read.parquet(str(tmp_path / "out")).select("number", "number_right").collect()
    assert len({row.found for row in expected}) > 100
    assert sorted(map(tuple, shown), key=repr) == sorted(map(tuple, expected), key=repr)
    newest = spark.sql(
        "SELECT k, max_by(number, struct(at, number)) FROM told WHERE k IS NOT NULL GROUP BY k"
    ).collect()
    assert sorted(map(tuple, state)) == sorted(map(tuple, newest))


def test_a_dataframe_is_looked_up_as_in_a_batch_and_read_again(spark, tmp_path):
    stream, _ = sides(spark)
    table = spark.createDataFrame(pa.Table.from_batches([rows(0, ROWS, 1)]))
    newest = (
        table.where("k < 20").groupBy("k").agg({"at": "max"}).withColumnRenamed("max(at)", "at")
    )
    newest.write.parquet(str(tmp_path / "first"))
    newest.selectExpr("k + 1 AS k", "at").write.parquet(str(tmp_path / "second"))
    place = ["first"]

    def read():
        return spark.read.parquet(str(tmp_path / place[0]))

    found = stream.lookup(table.where("k < 20").select("k", "at"), "k", by="at", name="found")
    again = stream.lookup(read, "k", how="left", refresh="1 second", name="again")
    ends = [found.write.parquet(tmp_path / "out", name="out"), again.write.noop()]
    settings = rc.Settings(tasks=2, bins=8)
    job = rc.Job("tables", ends, state=tmp_path / "state", settings=settings).start()
    try:
        job.process_all_available(PATIENCE)
        place[0] = "second"
        deadline = time.monotonic() + PATIENCE
        while job.state("again").agg({"k": "max"}).first()[0] != 20:
            assert time.monotonic() < deadline
            time.sleep(0.5)
        state = job.state("again").collect()
    finally:
        job.stop(PATIENCE)
    asked = spark.createDataFrame(pa.Table.from_batches([rows(0, ROWS, 0)]))
    expected = asked.join(newest.withColumnRenamed("at", "at_right"), "k").select(
        "number", "k", "at", "at_right"
    )
    shown = spark.read.parquet(str(tmp_path / "out")).select("number", "k", "at", "at_right")
    assert shown.count() > 1000
    assert sorted(shown.collect()) == sorted(expected.collect())
    assert sorted(state) == sorted(read().collect())
