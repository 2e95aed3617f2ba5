"""State that a job starts with: loaded in bulk, committed as timestep 0, and merged with what comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError

pytestmark = pytest.mark.spark

SMALL = rc.Settings(tasks=2, bins=8)


def numbers(start: int, stop: int) -> Any:
    import pyarrow as pa

    rows = range(start, stop)
    return pa.record_batch({"key": [row % 150 for row in rows], "value": list(rows)})


def job(spark: Any, folder: Path, initial: Any) -> rc.Job:
    stream = rc.read(spark).generator(
        numbers, schema="key bigint, value bigint", rows=300, per_timestep=100
    )
    totals = stream.key_by("key").aggregate(
        n=agg.count(), total=agg.sum("value"), name="totals", preload=initial
    )
    return rc.Job("initial", totals.write.noop(), state=folder / "state", settings=SMALL)


def test_a_job_goes_on_from_loaded_state_and_loads_it_once(spark: Any, tmp_path: Path) -> None:
    given = spark.range(100, 1100).selectExpr("id AS key", "id % 3 AS n", "id * 10 AS total")
    running = job(spark, tmp_path, lambda: given).start()
    running.process_all_available()
    running.stop()

    expected = {row.key: (row.n, row.total) for row in given.collect()}
    for row in range(300):
        n, total = expected.get(row % 150, (0, 0))
        expected[row % 150] = (n + 1, total + row)

    def must_not_be_loaded_again() -> Any:
        raise AssertionError("the state was loaded already")

    again = job(spark, tmp_path, must_not_be_loaded_again).start()
    found = {row.key: (row.n, row.total) for row in again.state("totals").collect()}
    again.stop()
    assert found == expected


def test_columns_that_cannot_be_state_are_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(DataflowError, match=r"totals.*needs columns"):
        job(spark, tmp_path, lambda: spark.range(3).selectExpr("id AS key")).start()


def test_a_key_given_twice_is_refused(spark: Any, tmp_path: Path) -> None:
    twice = spark.range(4).selectExpr("id % 2 AS key", "id AS n", "id AS total")
    with pytest.raises(DataflowError, match="more than once"):
        job(spark, tmp_path, lambda: twice).start()
