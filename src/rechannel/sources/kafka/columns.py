"""Columns of Kafka's records."""

from __future__ import annotations

import pyarrow as pa

RECORD = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
    ]
)
"""Columns of a record, with the names and types that Spark's own source has."""

HEADERS = pa.field(
    "headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])), nullable=True
)
