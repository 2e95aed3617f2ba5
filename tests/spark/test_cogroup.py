"""Cogroup on Spark: what the function sees is what Spark SQL has of the same rows in one batch."""

import pytest

import rechannel as rc
from tests.spark.test_join import PATIENCE, judged, sides

# On Spark, stages of two sides are proven by `test_join` in every run.
pytestmark = pytest.mark.slow

FIELDS = "lefts BIGINT, total BIGINT, rights BIGINT, last BIGINT"


def summary(left, right):
    return {
        "lefts": left.count(),
        "total": left.sum("number"),
        "rights": right.count(),
        "last": right.last("number", -1),
    }


def test_what_a_function_makes_of_windows_is_what_a_batch_says(spark, tmp_path):
    left, right = sides(spark)
    grouped = left.cogroup(right, "k", within=rc.windows.tumbling(90))
    made = grouped.apply_batches(summary, FIELDS, name="made")
    ends = [made.write.parquet(tmp_path / "out", name="out")]
    ends.append(made.late.write.parquet(tmp_path / "late", name="late"))
    settings = rc.Settings(tasks=2, bins=8, interval_ms=80)
    job = rc.Job("cogroup", ends, state=tmp_path / "state", settings=settings).start()
    try:
        first = job.reconfigure(rc.changes.rescale("made", 4), rc.strategies.fluid(1))
        job.reconfigure(rc.changes.split("made", 0))
        assert first.wait(PATIENCE).phase == "done"
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    late, end = judged(spark, windows=True)
    start = "coalesce(l.w, r.w) * 90000"
    expected = spark.sql(
        f"""
        SELECT coalesce(l.k, r.k), {start}, coalesce(lefts, 0), coalesce(total, 0), coalesce(rights, 0),
        coalesce(last, -1)
        FROM (SELECT k, us DIV 90000 AS w, count(*) AS lefts, sum(number) AS total FROM left GROUP BY ALL) l
        FULL JOIN (SELECT k, us DIV 90000 AS w, count(*) AS rights, max(number) AS last FROM right GROUP BY ALL) r
        ON l.k <=> r.k AND l.w = r.w
        WHERE {start} + 90000 <= {end}
        """
    )
    found = spark.read.parquet(str(tmp_path / "out")).selectExpr(
        "k", "unix_micros(window_start) AS start", "lefts", "total", "rights", "last"
    )
    rows = sorted(map(tuple, found.collect()), key=repr)
    assert rows == sorted(map(tuple, expected.collect()), key=repr)
    assert len(rows) > 500
    assert min(min(row[2], row[4]) for row in rows) == 0
    told = spark.read.parquet(str(tmp_path / "late")).groupBy("_side").count().collect()
    assert {row["_side"]: row["count"] for row in told} == late
