"""SkewJoin on Spark: a key becomes hot, is spread and gathered; the output is what Spark joins in one batch."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from benchmarks.skew_join_rows import HOT, ORDERS, QUOTES, Market
from tests.spark.programs import PATIENCE, PLAIN

pytestmark = pytest.mark.slow

MARKET = Market(products=20, share=0, orders_per_second=1_000, quotes_per_second=100, seconds=2)
ORDERS_PER_TIMESTEP, TIMESTEPS = 400, 100
ROWS = ORDERS_PER_TIMESTEP * TIMESTEPS


def orders(start: int, stop: int) -> pa.RecordBatch:
    rows = MARKET.orders(start, stop)
    number, product = rows.column("order").to_numpy(), rows.column("product").to_numpy()
    hot = (number > ROWS // 10) & (number < ROWS // 2) & (number % 4 > 0)
    return rows.set_column(0, "product", pa.array(np.where(hot, HOT, product)))


def test_a_hot_key_is_spread_and_gathered_and_the_output_is_that_of_a_batch(spark, state, out):
    read = rc.read(spark)
    left, right = (
        read.generator(
            function,
            schema=schema,
            per_timestep=per_timestep,
            rows=per_timestep * TIMESTEPS,
            partitions=2,
            name=name,
        ).event_time(column)
        for name, function, schema, column, per_timestep in (
            ("orders", orders, ORDERS, "ordered_at", ORDERS_PER_TIMESTEP),
            ("quotes", MARKET.quotes, QUOTES, "quoted_at", ORDERS_PER_TIMESTEP // 10),
        )
    )
    pairs = left.join(right, "product", within=rc.between("-2 seconds", 0), name="priced", tasks=4)
    job = rc.Job(
        "priced",
        pairs.select("order", "quote").write.parquet(out),
        state=str(state),
        settings=rc.Settings(**PLAIN, interval_ms=100),
        spark=spark,
        controllers=[rc.control.library.SkewJoin(cool_down=2)],
    ).start()
    job.process_all_available(PATIENCE)
    kinds = [record.change.partition("(")[0] for record in job.history()]
    job.stop(PATIENCE)
    assert kinds == ["spread", "gather"]
    made = spark.read.parquet(str(out)).select("order", "quote")
    for name, rows, count in (("o", orders, ROWS), ("q", MARKET.quotes, ROWS // 10)):
        table = pa.Table.from_batches([rows(0, count)])
        spark.createDataFrame(table).createOrReplaceTempView(name)
    batch = spark.sql(
        "SELECT order, quote FROM o JOIN q ON o.product = q.product"
        " AND quoted_at BETWEEN ordered_at - INTERVAL 2 SECONDS AND ordered_at"
    )
    assert batch.count() > ROWS
    assert batch.exceptAll(made).count() == 0
    assert made.exceptAll(batch).count() == 0
