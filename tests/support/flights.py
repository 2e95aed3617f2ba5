"""Streams that several tests build on."""

from __future__ import annotations

import pyarrow as pa

from rechannel.dataflow.streams.reader import read
from rechannel.dataflow.streams.stream import Stream

COLUMNS = "carrier STRING, dep_delay DOUBLE, distance BIGINT, origin STRING"


def flights(name: str | None = None) -> Stream:
    """A source whose columns are known."""
    return read().files("data/flights/*.parquet", schema=COLUMNS, name=name)


def unknown() -> Stream:
    """A source whose columns only an engine can find out."""
    return read().files("data/planes/*.parquet")


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    """A batch as it is."""
    return batch
