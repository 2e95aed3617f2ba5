"""A job to look at: two sources, four operators, skewed keys, on the real clock and without an end."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.job import InProcess
from rechannel.running import RunningJob

CUSTOMERS, PRODUCTS, SEGMENTS = 20_000, 400, 12


def orders(start: int, stop: int) -> pa.RecordBatch:
    """Rows as a function of their numbers: few customers order most."""
    numbers = np.arange(start, stop, dtype=np.int64)
    mixed = (numbers * 2_654_435_761) % 2**32 / 2**32
    customers = (CUSTOMERS * mixed**3).astype(np.int64)
    return pa.record_batch(
        {"customer": customers, "product": numbers % PRODUCTS, "cents": numbers % 9_973}
    )


def visits(start: int, stop: int) -> pa.RecordBatch:
    """Rows as a function of their numbers."""
    numbers = np.arange(start, stop, dtype=np.int64)
    return pa.record_batch({"customer": numbers * 7_919 % CUSTOMERS, "page": numbers % 31})


def of_worth(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Orders that cost something."""
    return batch.filter(pc.greater(batch.column("cents"), 0))


def segmented(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The segment of each customer, and what the row is worth."""
    segments = pa.array(np.asarray(batch.column("customer")) % SEGMENTS)
    return pa.record_batch({"segment": segments, "cents": batch.column("spent")})


def start(
    directory: Path, *, interval_ms: int = 200, rows: int = 4_000, names: str = ""
) -> RunningJob:
    """Start it. names: put before the names of all operators and sinks."""
    read = rc.read()
    orders_ = read.generator(
        orders, schema="customer BIGINT, product BIGINT, cents BIGINT", per_timestep=rows,
        rows_per_second=rows * 1e3 / interval_ms, name=f"{names}orders", tasks=2,
    )  # fmt: skip
    visits_ = read.generator(
        visits, schema="customer BIGINT, page BIGINT", per_timestep=rows // 4,
        rows_per_second=rows * 1e3 / interval_ms / 4, name=f"{names}visits", tasks=1,
    )  # fmt: skip
    paid = orders_.map_batches(of_worth, name=f"{names}paid")
    customers = paid.key_by("customer").aggregate(
        n=agg.count(), spent=agg.sum("cents"), name=f"{names}customers", tasks=4
    )
    segments = customers.map_batches(
        segmented, "segment BIGINT, cents BIGINT", name=f"{names}by-segment"
    )
    worth = segments.key_by("segment").aggregate(
        worth=agg.max("cents"), name=f"{names}segments", tasks=2
    )
    products = paid.key_by("product").aggregate(n=agg.count(), name=f"{names}products", tasks=2)
    pages = visits_.key_by("customer").aggregate(n=agg.count(), name=f"{names}visitors", tasks=3)
    settings = rc.Settings(durability=rc.Durability.PROCESS, bins=128, interval_ms=interval_ms)
    ends = [
        worth.write.parquet(directory.parent / "segments", name=f"{names}segments-out"),
        products.write.noop(name=f"{names}products-out"),
        pages.write.noop(name=f"{names}visitors-out"),
    ]
    return rc.Job("shop", ends, state=directory, settings=settings).start(in_process=InProcess())
