"""As-of joins on Spark: what rows meet is what Spark SQL says of the same rows in one batch."""

import pytest

import rechannel as rc
from tests.spark.test_join import PATIENCE, judged, sides

# On Spark, stages of two sides are proven by `test_join` in every run.
pytestmark = pytest.mark.slow


@pytest.mark.parametrize(("tolerance", "how"), [(None, "left"), (40, "inner")])
def test_what_rows_meet_is_what_a_batch_says(spark, tmp_path, tolerance, how):
    left, right = sides(spark)
    joined = left.asof_join(right, "k", tolerance=tolerance, how=how, name="joined")
    ends = [joined.write.parquet(tmp_path / "out", name="out")]
    ends.append(joined.late.write.parquet(tmp_path / "late", name="late"))
    settings = rc.Settings(tasks=2, bins=8, interval_ms=80)
    job = rc.Job("asof", ends, state=tmp_path / "state", settings=settings).start()
    try:
        first = job.reconfigure(rc.changes.rescale("joined", 4), rc.strategies.fluid(1))
        job.reconfigure(rc.changes.split("joined", 0))
        assert first.wait(PATIENCE).phase == "done"
        job.process_all_available(PATIENCE)
        assert job.configuration.operators["joined"].tasks == 4
    finally:
        job.stop(PATIENCE)
    late, end = judged(spark)
    near = "r.us <= l.us" + (f" AND r.us >= l.us - {tolerance * 1000}" if tolerance else "")
    met = spark.sql(
        f"SELECT l.number, max_by(r.number, struct(r.us, r.number)) AS met FROM left l"
        f" LEFT JOIN right r ON l.k = r.k AND {near} WHERE l.us < {end} GROUP BY l.number"
    )
    expected = {row["number"]: row["met"] for row in met.collect()}
    alone = [number for number, other in expected.items() if other is None]
    assert len(alone) > 20
    if how == "inner":
        expected = {number: other for number, other in expected.items() if other is not None}
    found = spark.read.parquet(str(tmp_path / "out")).select("number", "number_right").collect()
    assert len(found) == len(expected) > 1000
    assert {row["number"]: row["number_right"] for row in found} == expected
    told = spark.read.parquet(str(tmp_path / "late")).groupBy("_side").count().collect()
    assert {row["_side"]: row["count"] for row in told} == late
    assert min(late.values()) > 20
