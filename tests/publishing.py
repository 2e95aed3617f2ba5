"""Timesteps for writers of sinks, without a job."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, SinkWriter

SCHEMA = pa.schema([("k", pa.int64()), ("n", pa.int64())])


def rows(*some: tuple[Any, ...], schema: pa.Schema = SCHEMA) -> Rows:
    """Rows as a sink receives them."""
    batches = []
    if some:
        columns = zip(zip(*some, strict=True), schema.types, strict=True)
        each = [pa.array(column, kind) for column, kind in columns]
        batches.append(pa.record_batch(each, schema=schema))
    return Rows(tables=lambda: iter(batches), schema=schema)


def step(number: int, digest: str = "d") -> Batch:
    """A timestep whose digest, of hex digits, is made of its number."""
    return Batch(timestep=number, incarnation="i", digest=f"{digest}{number}".rjust(32, "0"))


def publish(
    writer: SinkWriter,
    number: int,
    *some: tuple[Any, ...],
    digest: str = "d",
    schema: pa.Schema = SCHEMA,
) -> None:
    """Bring the rows of a timestep to their place."""
    batch = step(number, digest)
    writer.publish(writer.stage(rows(*some, schema=schema), batch), batch)
