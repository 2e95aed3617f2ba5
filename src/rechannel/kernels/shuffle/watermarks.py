"""Event time travels with the rows: nodes declare it, and producer tasks send it to every task of their consumers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.kernels.protocol.program import Address, Branch
from rechannel.kernels.shuffle.wire import WATERMARK, Blob, pack
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.ddl import type_name
from rechannel.model.eventtime import NEVER

MICROS = pa.timestamp("us", "UTC")
"""Type of the event-time columns that Rechannel adds."""


@dataclass(frozen=True, kw_only=True)
class EventTime:
    """Declares event time: rows pass unchanged, and the latest value of a column is how far event time has come.

    delay_us, idle_ms, finished: see `model.eventtime.TimeInput`.
    """

    column: str
    """Column of timestamps."""
    delay_us: int
    idle_ms: int | None
    finished: bool = False

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the rows unchanged."""
        return batch

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema unchanged. Raises DataflowError if the column is missing or has no timestamps."""
        need_time(self.column, schema)
        return schema

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """Return the columns wanted, and the event-time column."""
        return wanted | {self.column}

    def latest(self, batch: pa.RecordBatch) -> int:
        """Return the latest event time among the rows, or NEVER if they have none."""
        times, nulls = micros(batch.column(self.column))
        return int((times if nulls is None else times[~nulls]).max(initial=NEVER))


def need_time(column: str, schema: pa.Schema) -> None:
    """Raise DataflowError unless the schema has this column and its type is timestamp."""
    if column not in schema.names:
        msg = f"no event-time column {column!r}; the columns are {', '.join(schema.names)}"
        raise UnknownColumnError(msg)
    kind = schema.field(column).type
    if not pa.types.is_timestamp(kind):
        msg = f"event times must be timestamps, but column {column!r} is {type_name(kind)}"
        raise DataflowError(msg)


def micros(column: pa.Array) -> tuple[IntArray, Mask | None]:
    """Return timestamps as whole microseconds (0 for null), and which are null; None means that no value is null."""
    finer = column.type.unit == "ns"
    plain = (column if finer else column.cast(MICROS)).cast(pa.int64())
    nulls = plain.is_null().to_numpy(zero_copy_only=False) if plain.null_count else None
    numbers = (plain if nulls is None else plain.fill_null(0)).to_numpy(zero_copy_only=False)
    return numbers // 1_000 if finer else numbers, nulls


Latest = Mapping[str, int]
"""Latest event time by the name of a time input."""


def reported_inputs(
    root: Branch, origins: tuple[str, ...]
) -> dict[tuple[str, int], tuple[str, ...]]:
    """Return the time inputs that a stage reports to each (operator, input). origins: those of the root's rows."""
    out = {}
    names = (root.node,) if isinstance(root.function, EventTime) else origins
    for consumer in root.consumers:
        out[consumer.operator, consumer.input] = names
    for below in root.branches:
        # Late rows have no event time unless one is declared downstream of them.
        out.update(reported_inputs(below, () if below.side else names))
    return out


def watermark_blobs(
    names: Mapping[tuple[str, int], tuple[str, ...]],
    addresses: Mapping[tuple[str, int], Address],
    known: Latest,
    producer: int,
) -> Iterator[tuple[int, bytes]]:
    """Yield (partition, blob) with the event times that a producer task knows, for every task of its consumers."""
    for consumer, wanted in names.items():
        body = {name: known[name] for name in wanted if name in known}
        if not body:
            continue
        address = addresses[consumer]
        blob = pack(
            Blob(
                kind=WATERMARK,
                input=consumer[1],
                producer=producer,
                sequence=0,
                combined=False,
                rows=0,
                message=pa.py_buffer(json.dumps(body).encode()),
            )
        )
        for task in range(address.routing.tasks):
            yield address.first + task, blob


def latest_of(watermarks: Iterable[Blob]) -> dict[str, int]:
    """Return the latest event time by time input over the blobs of all producer tasks."""
    out: dict[str, int] = {}
    for blob in watermarks:
        for name, latest in json.loads(blob.message.to_pybytes()).items():
            out[name] = max(latest, out.get(name, NEVER))
    return out
