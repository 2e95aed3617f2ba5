"""Look-ups on Spark: what they show is what Spark SQL makes of the same rows in one batch."""

import pyarrow as pa
import pytest

import rechannel as rc
from tests.spark.test_join import PATIENCE, PER_TIMESTEP, ROWS, rows, sides

pytestmark = pytest.mark.spark


def test_rows_find_the_newest_row_that_the_table_had_by_then(spark, tmp_path):
    left, right = sides(spark)
    found = left.lookup(right, "k", how="left", by=["at", "number"], name="found")
    ends = [found.write.parquet(tmp_path / "out", name="out")]
    settings = rc.Settings(tasks=2, bins=8, interval_ms=80)
    job = rc.Job("lookups", ends, state=tmp_path / "state", settings=settings).start()
    try:
        change = job.reconfigure(rc.rescale("found", 4), rc.fluid(1))
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
