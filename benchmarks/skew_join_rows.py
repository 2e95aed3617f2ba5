"""The rows of `skew-join`, as a function of their number: orders, of which many are of one product, and quotes.

An order meets the quotes of its product of the `seconds` before it. Of the pairs, two in a thousand are kept, so that
the time goes into the join and not into the sink. The batch that says which rows there have to be is plain
Spark over the same rows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.draws import Numbers, below

HOT = 0
"""The product that has `share` per cent of the orders."""
OF, KEPT = 1_009, 2
"""Pairs are kept whose amount times price leaves less than KEPT when it is divided by OF."""

ORDERS = "product BIGINT, ordered_at TIMESTAMP, order BIGINT, amount BIGINT"
QUOTES = "product BIGINT, quoted_at TIMESTAMP, quote BIGINT, price BIGINT"
PAIRS = "order BIGINT, quote BIGINT"

PRODUCT_DRAW, HOT_DRAW, AMOUNT_DRAW, PRICE_DRAW = 1, 2, 3, 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """Orders and quotes. Rates are rows per second of event time."""

    products: int
    share: int
    """Orders of the hot product, per cent; all other orders, and all quotes, are spread evenly over the products."""
    orders_per_second: int
    quotes_per_second: int
    seconds: int
    """How old a quote may be that an order meets."""

    @property
    def quotes_per_order(self) -> float:
        """How many quotes an order meets."""
        return self.quotes_per_second * self.seconds / self.products

    def orders(self, start: int, stop: int) -> pa.RecordBatch:
        """The orders of some numbers."""
        number = np.arange(start, stop, dtype=np.int64)
        others = 1 + below(number, PRODUCT_DRAW, self.products - 1)
        product = np.where(below(number, HOT_DRAW, 100) < self.share, HOT, others)
        amount = below(number, AMOUNT_DRAW, 1_000)
        return _batch(ORDERS, product, number, self.orders_per_second, amount)

    def quotes(self, start: int, stop: int) -> pa.RecordBatch:
        """The quotes of some numbers."""
        number = np.arange(start, stop, dtype=np.int64)
        price = below(number, PRICE_DRAW, 1_000_000)
        return _batch(QUOTES, number % self.products, number, self.quotes_per_second, price)

    def matched(self, spark: Any, orders: int, quotes: int, partitions: int) -> Any:
        """The pairs that are kept of the first orders and quotes, as plain Spark joins them in one batch."""
        span = self.seconds * 1_000_000
        left = _frame(spark, self.orders, ORDERS, orders, partitions).selectExpr(
            "*", "unix_micros(ordered_at) AS at", f"unix_micros(ordered_at) DIV {span} AS part"
        )
        # A quote can meet orders of the part of time that it is in, and of the next one.
        right = _frame(spark, self.quotes, QUOTES, quotes, partitions).selectExpr(
            "*",
            "unix_micros(quoted_at) AS since",
            f"explode(array(unix_micros(quoted_at) DIV {span}, unix_micros(quoted_at) DIV {span} + 1)) AS part",
        )
        return (
            left.join(right.hint("broadcast"), ["product", "part"])
            .where(f"since BETWEEN at - {span} AND at AND amount * price % {OF} < {KEPT}")
            .select("order", "quote")
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Looks at pairs, which takes time, and keeps a few of them."""

    us_per_pair: float
    """Microseconds for which each pair waits."""

    def __call__(self, pairs: pa.RecordBatch) -> pa.RecordBatch:
        """Return the pairs that are kept."""
        time.sleep(pairs.num_rows * self.us_per_pair / 1e6)
        return kept(pairs)


def kept(pairs: pa.RecordBatch) -> pa.RecordBatch:
    """Return the pairs that are kept."""
    amount, price = (pairs.column(name).to_numpy() for name in ("amount", "price"))
    chosen = pa.array(np.flatnonzero(amount * price % OF < KEPT))
    return pairs.select(["order", "quote"]).take(chosen)


def _batch(
    columns: str, product: Numbers, number: Numbers, rate: int, value: Numbers
) -> pa.RecordBatch:
    names = [column.split()[0] for column in columns.split(", ")]
    at = pa.array(number * 1_000_000 // rate).cast(pa.timestamp("us", "UTC"))
    return pa.record_batch(dict(zip(names, (product, at, number, value), strict=True)))


def _frame(
    spark: Any,
    rows: Callable[[int, int], pa.RecordBatch],
    columns: str,
    count: int,
    partitions: int,
) -> Any:
    """The first rows, as a DataFrame."""

    def made(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            first, last = batch.column(0)[0].as_py(), batch.column(0)[-1].as_py()
            yield rows(first, last + 1)

    return spark.range(0, count, 1, partitions).mapInArrow(made, columns)
