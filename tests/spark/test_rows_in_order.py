"""Functions of the order of rows, and windows of rows, on Spark: they show what window functions of Spark SQL say."""

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg

PER_TIMESTEP, TIMESTEPS = 300, 10
ROWS = PER_TIMESTEP * TIMESTEPS
DELAY_MS = 20
PATIENCE = 240

FUNCTIONS = {
    "before": (agg.lag("value"), "lag(value) OVER w"),
    "older": (agg.lag("value", 5, default=-1), "lag(value, 5, -1L) OVER w"),
    "step": (agg.difference("value", 2), "value - lag(value, 2) OVER w"),
    "n": (agg.cumulative(agg.count()), "count(*) OVER r"),
    "total": (agg.cumulative(agg.sum("value")), "sum(value) OVER r"),
    "mean": (agg.cumulative(agg.mean("value")), "avg(value) OVER r"),
    "low": (agg.cumulative(agg.min("value")), "min(value) OVER r"),
    "known": (agg.cumulative(agg.last("value", ignore_nulls=True)), "last(value, true) OVER r"),
}


def rows(start, stop):
    """Event times move on by 3 ms a row, and come up to 399 ms out of their order; some values are null."""
    number = np.arange(start, stop, dtype=np.int64)
    scattered = (number * 2_654_435_761) % (1 << 32)
    at = (1_000_000 + number * 3 - scattered % 400) * 1_000
    return pa.record_batch(
        {
            "number": number,
            "k": pa.array((scattered % 7).astype(str)),
            "value": pa.array(scattered % 1_000, mask=scattered % 11 == 0),
            "at": pa.array(at).cast(pa.timestamp("us", "UTC")),
        }
    )


def stream(spark):
    return (
        rc.read(spark)
        .generator(
            rows,
            schema="number BIGINT, k STRING, value BIGINT, at TIMESTAMP",
            per_timestep=PER_TIMESTEP,
            rows=ROWS,
            partitions=3,
            name="events",
        )
        .event_time("at", DELAY_MS)
    )


def run(ends, changed, tmp_path):
    """Run to the end, or while an operator of that name is changed."""
    settings = rc.Settings(tasks=2, bins=8, interval_ms=80)
    job = rc.Job("order", ends, state=tmp_path / "state", settings=settings).start()
    try:
        first = job.reconfigure(rc.changes.rescale(changed, 4), rc.strategies.fluid(1))
        job.reconfigure(rc.changes.split(changed, 0))
        assert first.wait(PATIENCE).phase == "done"
        job.process_all_available(PATIENCE)
    finally:
        job.stop(PATIENCE)


def events(spark):
    """All rows, with what event time had come to before their timestep, as a view."""
    frame = spark.createDataFrame(pa.Table.from_batches([rows(0, ROWS)]))
    frame.selectExpr(
        "*", "unix_micros(at) AS us", f"CAST(number DIV {PER_TIMESTEP} AS INT) AS t"
    ).createOrReplaceTempView("events")
    spark.sql(
        f"""
        SELECT t + 1 AS t, max(latest) OVER (ORDER BY t) - {DELAY_MS * 1000} AS passed
        FROM (SELECT t, max(us) AS latest FROM events GROUP BY t)
        """
    ).createOrReplaceTempView("watermarks")


@pytest.mark.slow  # in process, they are tested in every run
@pytest.mark.parametrize("on", [None, "at"])
def test_running_functions_are_those_of_a_batch(spark, tmp_path, on):
    made = {name: function for name, (function, _) in FUNCTIONS.items()}
    run_ = stream(spark).key_by("k").running(made, time_column=on, name="run")
    ends = [run_.write.parquet(tmp_path / "out", name="out")]
    run(ends, "run" if on is None else "run.order", tmp_path)
    events(spark)
    end = spark.sql("SELECT max(passed) FROM watermarks").first()[0]
    order = "number" if on is None else "us, number"
    timely = "true" if on is None else f"us >= coalesce(passed, us) AND us < {end}"
    columns = ", ".join(f"{sql} AS {name}" for name, (_, sql) in FUNCTIONS.items())
    names = ", ".join(["number", "k", "value", *FUNCTIONS])
    expected = spark.sql(
        f"""
        SELECT {names} FROM (
            SELECT *, {columns} FROM events LEFT JOIN watermarks USING (t) WHERE {timely}
            WINDOW w AS (PARTITION BY k ORDER BY {order}),
                   r AS (PARTITION BY k ORDER BY {order} ROWS UNBOUNDED PRECEDING)
        ) ORDER BY number
        """
    )
    found = spark.read.parquet(str(tmp_path / "out")).selectExpr(names.split(", "))
    got, wanted = found.orderBy("number").collect(), expected.collect()
    assert got == wanted
    assert len(got) == ROWS if on is None else ROWS * 0.2 < len(got) < ROWS * 0.95


@pytest.mark.slow  # the simulation has them in every run
@pytest.mark.parametrize(("size", "every"), [(10, 10), (12, 5)])
def test_windows_of_rows_are_those_of_a_batch(spark, tmp_path, size, every):
    windows = (
        stream(spark)
        .key_by("k")
        .window(rc.windows.counting(size, every))
        .aggregate(
            n=agg.count("value"), total=agg.sum("value"), first=agg.first("number"), name="windows"
        )
    )
    run([windows.write.parquet(tmp_path / "out", name="out")], "windows", tmp_path)
    events(spark)
    expected = spark.sql(
        f"""
        SELECT k, CAST((nth - {size}) / {every} AS BIGINT) AS window, n, total, first FROM (
            SELECT k, row_number() OVER w AS nth, count(value) OVER last AS n, sum(value) OVER last AS total,
                   first(number) OVER last AS first
            FROM events
            WINDOW w AS (PARTITION BY k ORDER BY number),
                   last AS (PARTITION BY k ORDER BY number ROWS {size - 1} PRECEDING)
        ) WHERE nth >= {size} AND (nth - {size}) % {every} = 0
        """
    )
    found = spark.read.parquet(str(tmp_path / "out")).drop("timestep")
    got = sorted(tuple(row) for row in found.collect())
    assert got == sorted(tuple(row) for row in expected.collect())
    assert len(got) > ROWS / every - 20
