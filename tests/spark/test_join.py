"""Joins on Spark: what they show is what Spark SQL makes of the same rows in one batch."""

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql.functions import col

import rechannel as rc
from rechannel.engine.spark import runner
from rechannel.engine.spark.calls import FrameSourceCall

PER_TIMESTEP, TIMESTEPS = 200, 12
ROWS = PER_TIMESTEP * TIMESTEPS
DELAY_MS = 30
PATIENCE = 240


def rows(start, stop, seed):
    """Event times move on by 3 ms a row, and come up to 199 ms out of their order; every 50th key is missing."""
    number = np.arange(start, stop, dtype=np.int64)
    scattered = (number * 2_654_435_761 * (seed + 1) + seed) % (1 << 32)
    at = (1_000_000 + number * 3 - scattered % 200) * 1_000
    return pa.record_batch(
        {
            "number": number,
            "k": pa.array((scattered >> 7) % 23, mask=scattered % 50 == 0),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
        }
    )


def sides(spark):
    return [
        rc.read(spark)
        .generator(
            lambda start, stop, seed=seed: rows(start, stop, seed),
            schema="number BIGINT, k BIGINT, at TIMESTAMP",
            per_timestep=PER_TIMESTEP,
            rows=ROWS,
            partitions=2,
            name=name,
        )
        .event_time("at", DELAY_MS)
        for seed, name in enumerate(("left", "right"))
    ]


def judged(spark, windows=False):
    """Rows that are not late as views `left` and `right`; how many are late, and event time at the end, µs."""
    for seed, name in enumerate(("left", "right")):
        table = pa.Table.from_batches([rows(0, ROWS, seed)])
        spark.createDataFrame(table).selectExpr(
            "number", "k", "unix_micros(at) AS us", f"CAST(number DIV {PER_TIMESTEP} AS INT) AS t"
        ).createOrReplaceTempView(f"all_{name}")
    spark.sql(
        f"""
        SELECT t + 1 AS t, least(max(l) OVER (ORDER BY t), max(r) OVER (ORDER BY t)) - {DELAY_MS * 1000} AS before
        FROM (SELECT t, max(us) AS l FROM all_left GROUP BY t) JOIN (SELECT t, max(us) AS r FROM all_right GROUP BY t)
        USING (t)
        """
    ).createOrReplaceTempView("watermarks")
    end = spark.sql("SELECT max(before) FROM watermarks").first()[0]
    late, gone = {}, "(us DIV 90000 + 1) * 90000 <= before" if windows else "us < before"
    for name in ("left", "right"):
        told = spark.sql(
            f"SELECT *, coalesce({gone}, false) AS late FROM all_{name} LEFT JOIN watermarks USING (t)"
        )
        told.where("NOT late").createOrReplaceTempView(name)
        late[name] = told.where("late").count()
    return late, end


def expected(spark, how, condition, due, windows):
    """Pairs of rows that are not late, and rows without a match that are due at the end."""
    late, end = judged(spark, windows)
    found = spark.sql(
        f"SELECT l.number, r.number FROM left l {how} JOIN right r ON l.k = r.k AND {condition}"
        f" WHERE r.number IS NOT NULL AND l.number IS NOT NULL OR {due} <= {end}"
        if how in ("INNER", "LEFT", "FULL")
        else f"SELECT l.number FROM left l {how} JOIN right r ON l.k = r.k AND {condition}"
        + (f" WHERE {due} <= {end}" if how == "LEFT ANTI" else "")
    )
    return sorted((tuple(row) for row in found.collect()), key=repr), late


NEAR = "r.us - l.us BETWEEN -60000 AND 100000"
NEAR_DUE = "coalesce(l.us + 100001, r.us + 60001)"
SAME_WINDOW = "l.us DIV 90000 = r.us DIV 90000"
WINDOW_DUE = "(coalesce(l.us, r.us) DIV 90000 + 1) * 90000"
CASES = {
    "inner, near, left alone": ("inner", rc.between(-60, 100), NEAR, NEAR_DUE, False),
    "full, near, changed": ("full", rc.between(-60, 100), NEAR, NEAR_DUE, True),
    "left, windows, changed": ("left", rc.windows.tumbling(90), SAME_WINDOW, WINDOW_DUE, True),
    "anti, near, changed": (
        "anti",
        rc.between(-60, 100),
        NEAR,
        NEAR_DUE.replace("r.us", "0"),
        True,
    ),
}
SQL = {"inner": "INNER", "full": "FULL", "left": "LEFT", "anti": "LEFT ANTI"}


FAST = {"full, near, changed"}


@pytest.mark.parametrize(
    ("how", "within", "condition", "due", "changed"),
    [
        pytest.param(*case, id=name, marks=[] if name in FAST else pytest.mark.slow)
        for name, case in CASES.items()
    ],
)
def test_pairs_are_those_of_a_batch(spark, tmp_path, how, within, condition, due, changed):
    left, right = sides(spark)
    joined = left.join(right, "k", how=how, within=within, name="joined")
    ends = [joined.write.parquet(tmp_path / "out", name="out")]
    ends.append(joined.late.write.parquet(tmp_path / "late", name="late"))
    settings = rc.Settings(tasks=2, bins=8, interval_ms=80 if changed else 0)
    job = rc.Job("joins", ends, state=tmp_path / "state", settings=settings).start()
    try:
        if changed:
            first = job.reconfigure(rc.changes.rescale("joined", 4), rc.strategies.fluid(1))
            job.reconfigure(rc.changes.split("joined", 0))
            assert first.wait(PATIENCE).phase == "done"
        job.process_all_available(PATIENCE)
        assert job.configuration.operators["joined"].tasks == (4 if changed else 2)
    finally:
        job.stop(PATIENCE)
    pairs, late = expected(spark, SQL[how], condition, due, condition == SAME_WINDOW)
    assert len(pairs) > 90
    assert min(late.values()) > 20
    columns = ["number"] if how == "anti" else ["number", "number_right"]
    found = spark.read.parquet(str(tmp_path / "out")).select(*columns).collect()
    assert sorted((tuple(row) for row in found), key=repr) == pairs
    told = spark.read.parquet(str(tmp_path / "late")).groupBy("_side").count().collect()
    assert {row["_side"]: row["count"] for row in told} == late


def scattered(frame):
    """The same rows, in an order that differs from attempt to attempt."""
    return frame.repartition(3).withColumn("number", col("number") + 0)


@pytest.mark.slow
@pytest.mark.parametrize("reordered", [False, True])
def test_a_key_that_tasks_share_has_the_pairs_of_a_batch(spark, tmp_path, monkeypatch, reordered):
    repeats = set()

    def call(shipped, step, *more):
        repeats.add(step.repeats)
        return FrameSourceCall(shipped, step, *more)

    monkeypatch.setattr(runner, "FrameSourceCall", call)
    left, right = sides(spark)
    if reordered:
        left = left.transform(scattered).event_time("at", DELAY_MS, name="again")
    joined = left.join(right, "k", how="left", within=rc.between(-60, 100), name="joined")
    ends = [joined.write.parquet(tmp_path / "out", name="out")]
    ends.append(joined.late.write.parquet(tmp_path / "late", name="late"))
    settings = rc.Settings(tasks=4, bins=8, interval_ms=80)
    job = rc.Job("joins", ends, state=tmp_path / "state", settings=settings).start()
    try:
        for key in (3, 7):
            asked = job.reconfigure(rc.changes.spread("joined", key, over=3))
            assert asked.wait(PATIENCE).phase == "done"
        spreads = job.configuration.operators["joined"].routing.spreads
        assert [len(spread.tasks) for spread in spreads] == [3, 3]
        assert job.reconfigure(rc.changes.gather("joined", 3)).wait(PATIENCE).phase == "done"
        assert job.status.timestep < TIMESTEPS  # rows came before, between and after
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    # Rows that Spark may reorder are dealt out by their content.
    assert repeats == ({False} if reordered else set())
    pairs, late = expected(spark, "LEFT", NEAR, NEAR_DUE, False)
    found = spark.read.parquet(str(tmp_path / "out")).select("number", "number_right").collect()
    assert sorted((tuple(row) for row in found), key=repr) == pairs
    told = spark.read.parquet(str(tmp_path / "late")).groupBy("_side").count().collect()
    assert {row["_side"]: row["count"] for row in told} == late


@pytest.mark.slow  # the simulation has such joins, the test above one on Spark
def test_a_stream_for_ever_meets_another_as_in_a_batch(spark, tmp_path):
    left, right = sides(spark)
    joined = left.join(right, {"number": "number", "k": "k"}, name="joined")
    ends = [joined.write.parquet(tmp_path / "out", name="out")]
    job = rc.Job("joins", ends, state=tmp_path / "state").start()
    try:
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)
    frames = [spark.createDataFrame(pa.Table.from_batches([rows(0, ROWS, s)])) for s in (0, 1)]
    pairs = frames[0].join(frames[1], ["number", "k"]).select("number", "k").collect()
    found = spark.read.parquet(str(tmp_path / "out")).select("number", "k").collect()
    assert len(found) > 50
    assert sorted(found) == sorted(pairs)
