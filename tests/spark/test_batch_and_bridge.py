"""One program, batch and stream; and the same dataflow under a Structured Streaming query."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, UnknownOperatorError

pytestmark = pytest.mark.spark

SMALL = rc.Settings(tasks=2, bins=8)


def totals_of(stream: Any) -> Any:
    return stream.key_by("user").aggregate(n=agg.count(), total=agg.sum("amount"), name="totals")


def write_orders(spark: Any, folder: Path, parts: int) -> None:
    for part in range(parts):
        frame = spark.range(part * 100, part * 100 + 100).selectExpr(
            "concat('u', id % 7) AS user", "id AS amount"
        )
        frame.coalesce(1).write.mode("append").parquet(str(folder))


def expected(spark: Any, folder: Path) -> list[Any]:
    rows = spark.read.parquet(str(folder)).groupBy("user").agg({"*": "count", "amount": "sum"})
    return sorted((r[0], r["count(1)"], r["sum(amount)"]) for r in rows.collect())


def test_a_batch_run_gives_what_spark_gives(spark: Any, tmp_path: Path) -> None:
    write_orders(spark, tmp_path / "orders", 3)
    stream = rc.read(spark).files(
        tmp_path / "orders", format="parquet", per_timestep=1, name="orders"
    )
    flow = totals_of(stream).write.parquet(tmp_path / "never written", name="out")
    with rc.run_batch(flow, settings=SMALL) as result:
        rows = sorted(tuple(row) for row in result.output("out").collect())
        assert rows == expected(spark, tmp_path / "orders")
        assert sorted(tuple(row) for row in result.state("totals").collect()) == rows
    assert not (tmp_path / "never written").exists()


def test_a_batch_run_takes_a_data_frame_for_a_source(spark: Any, tmp_path: Path) -> None:
    write_orders(spark, tmp_path / "orders", 2)
    stream = rc.read(spark).handover("user string, amount bigint", name="orders")
    given = spark.read.parquet(str(tmp_path / "orders"))
    with rc.run_batch(
        totals_of(stream).write.memory("t"), inputs={"orders": given}, settings=SMALL
    ) as result:
        rows = sorted(tuple(row) for row in result.output().collect())
    assert rows == expected(spark, tmp_path / "orders")


def test_a_batch_run_refuses_what_never_ends_and_what_is_not_there(spark: Any) -> None:
    def numbers(start: int, stop: int) -> Any:
        raise AssertionError

    endless = rc.read(spark).generator(numbers, schema="n bigint", per_timestep=10, name="numbers")
    flow = endless.key_by("n").aggregate(c=agg.count(), name="counts").write.noop()
    with pytest.raises(DataflowError, match=r"numbers.*never ends"):
        rc.run_batch(flow)
    with pytest.raises(UnknownOperatorError, match="elsewhere"):
        rc.run_batch(flow, inputs={"elsewhere": spark.range(1)})


def test_the_bridge_under_a_streaming_query_counts_every_batch_once(
    spark: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "orders"
    write_orders(spark, folder, 3)

    def bridge() -> Any:
        stream = rc.read(spark).handover("user string, amount bigint", name="orders")
        flow = totals_of(stream).write.parquet(tmp_path / "out")
        return rc.for_each_batch("totals", flow, state=tmp_path / "state", settings=SMALL)

    def run_query(target: Any) -> None:
        query = (
            spark.readStream.schema("user string, amount bigint")
            .option("maxFilesPerTrigger", 1)
            .parquet(str(folder))
            .writeStream.foreachBatch(target)
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    first = bridge()
    run_query(first)
    assert first.job is not None
    assert first.job.status.timestep == 3
    told = first.job.committed_offset("orders")
    metadata = (tmp_path / "checkpoint" / "metadata").read_text()
    assert told == {"batch": 2, "query": json.loads(metadata)["id"]}
    # Spark sends a batch again after a crash between our commit and its own: nothing happens.
    again = spark.read.parquet(str(folder))
    first(again, 2)
    assert first.job.status.timestep == 3
    first.stop()

    write_orders(spark, folder, 1)
    second = bridge()
    run_query(second)
    assert second.job is not None
    rows = sorted(tuple(row) for row in second.job.state("totals").collect())
    assert rows == expected(spark, folder)
    assert second.job.status.timestep == 4
    second.stop()
