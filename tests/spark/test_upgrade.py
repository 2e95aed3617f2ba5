"""A job on Spark goes through several texts of its program, and ends as if the last one had always run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg

pytestmark = pytest.mark.spark

SMALL = rc.Settings(tasks=2, bins=8)
ROWS = 400


def numbers(start: int, stop: int) -> pa.RecordBatch:
    rows = range(start, stop)
    return pa.record_batch({"key": [row % 37 for row in rows], "value": list(rows)})


def read(spark: Any, rows: int, name: str) -> Any:
    return rc.read(spark).generator(
        numbers, schema="key bigint, value bigint", rows=rows, per_timestep=50, name=name
    )


def first(spark: Any, folder: Path) -> rc.Job:
    stream = read(spark, ROWS // 2, "numbers")
    totals = stream.key_by("key").aggregate(n=agg.count(), total=agg.sum("value"), name="totals")
    return rc.Job(
        "texts",
        totals.write.parquet(folder / "out", name="out"),
        state=folder / "state",
        settings=SMALL,
    )


def second(spark: Any, folder: Path) -> rc.Job:
    """Another name of the source, of the operator and of an aggregate; a function, an operator and a sink more."""
    stream = read(spark, ROWS, "offsets").filter(lambda row: row.value >= 0, name="all of them")
    sums = stream.key_by("key").aggregate(rows=agg.count(), total=agg.sum("value"), name="sums")
    tops = stream.key_by("key").aggregate(top=agg.max("value"), name="tops")
    ends = [
        sums.write.parquet(folder / "out", name="out"),
        tops.write.parquet(folder / "tops", name="tops out"),
    ]
    return rc.Job(
        "texts",
        ends,
        state=folder / "state",
        settings=SMALL,
        renamed={"numbers": "offsets", "totals": "sums"},
        migrate={"sums": rc.changes.migrate(rename={"n": "rows"})},
    )


def test_a_job_goes_from_text_to_text(spark: Any, tmp_path: Path) -> None:
    running = first(spark, tmp_path).start()
    running.process_all_available()
    running.stop()
    with pytest.raises(rc.errors.OtherDataflowError, match=r"start\(upgrade=True\)"):
        second(spark, tmp_path).start()

    plan = second(spark, tmp_path).plan_upgrade()
    assert {part.name: part.becomes for part in plan.parts} == {
        "offsets": "renamed",
        "all of them": "new",
        "sums": "converted",
        "tops": "new",
        "out": "stays",
        "tops out": "new",
    }
    running = second(spark, tmp_path).start(upgrade=True)
    running.process_all_available()
    found = {row.key: (row.rows, row.total) for row in running.state("sums").collect()}
    tops = {row.key: row.top for row in running.state("tops").collect()}
    running.stop()

    batch = spark.range(ROWS).selectExpr("id % 37 AS key", "id AS value").groupBy("key")
    expected = batch.agg({"*": "count", "value": "sum"}).collect()
    assert found == {row.key: (row["count(1)"], row["sum(value)"]) for row in expected}
    assert tops == {row.key: row["max(value)"] for row in batch.agg({"value": "max"}).collect()}
    shown = spark.read.parquet(str(tmp_path / "out" / "*"))
    assert {"n", "total", "rows"} >= set(shown.columns) - {"key", "timestep"}
