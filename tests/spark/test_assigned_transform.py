"""A DataFrame function that a factory made while the stream ran has its columns after a restart, too."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc

pytestmark = [pytest.mark.spark, pytest.mark.slow]


def scored(by: int) -> Callable[[Any], Any]:
    return lambda frame: frame.selectExpr("user", "amount", f"amount * {by} AS score")


def plain(frame: Any) -> Any:
    return frame.select("user", "amount")


def write(spark: Any, folder: Path, part: int) -> None:
    frame = spark.range(part * 10, part * 10 + 10).selectExpr("'u' AS user", "id AS amount")
    frame.coalesce(1).write.mode("append").parquet(str(folder))


def test_its_columns_are_those_that_it_returns(spark: Any, tmp_path: Path) -> None:
    def job() -> rc.Job:
        orders = rc.read(spark).files(
            tmp_path / "orders", format="parquet", schema="user STRING, amount BIGINT", name="in"
        )
        made = orders.transform(plain, name="made").write.memory("out")
        return rc.Job("scores", made, state=tmp_path / "state", settings=rc.Settings(tasks=2))

    write(spark, tmp_path / "orders", 0)
    running = job().start()
    running.process_all_available()
    running.reconfigure(
        rc.changes.assign_logic("made", f"{__name__}:scored", parameters={"by": 3})
    ).wait(60)
    write(spark, tmp_path / "orders", 1)
    running.process_all_available()
    running.stop()
    again = job().start()
    write(spark, tmp_path / "orders", 2)
    again.process_all_available()
    again.stop()
    rows = again.memory("out").to_pylist()
    assert [row["score"] for row in rows] == [3 * row["amount"] for row in rows]
    assert len(rows) == 10
