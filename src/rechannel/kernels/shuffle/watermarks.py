"""Event time in band: who declares it, and how a producer's tasks tell it to the tasks of its consumers."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.kernels.protocol.program import Address, Branch
from rechannel.kernels.shuffle.wire import MARK, Blob, pack
from rechannel.model.ddl import type_name
from rechannel.model.eventtime import NEVER

MICROS = pa.timestamp("us", "UTC")
"""How event times lie in columns that Rechannel adds."""


@dataclass(frozen=True, kw_only=True)
class EventTime:
    """Rows pass as they are; the latest value of a column is the event time that the stream has come to.

    column: of timestamps. delay_us, idle_ms, finished: see `model.eventtime.TimeInput`.
    """

    column: str
    delay_us: int
    idle_ms: int | None
    finished: bool = False

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows themselves."""
        return batch

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Columns of the rows. Raises DataflowError."""
        need_time(self.column, schema)
        return schema

    def reads(self, wanted: AbstractSet[str]) -> AbstractSet[str]:
        """What passes, and the event time."""
        return wanted | {self.column}

    def latest(self, batch: pa.RecordBatch) -> int:
        """Latest event time among the rows, NEVER if there is none."""
        times, nulls = micros(batch.column(self.column))
        return int((times if nulls is None else times[~nulls]).max(initial=NEVER))


def need_time(column: str, schema: pa.Schema) -> None:
    """Raise DataflowError unless a column of timestamps is there."""
    if column not in schema.names:
        msg = f"there is no column {column!r} of event times; there are {', '.join(schema.names)}"
        raise UnknownColumnError(msg)
    kind = schema.field(column).type
    if not pa.types.is_timestamp(kind):
        msg = f"event times must be timestamps, and column {column!r} is {type_name(kind)}"
        raise DataflowError(msg)


def micros(column: pa.Array) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.bool_] | None]:
    """Whole microseconds of timestamps (0 where null), and which of them are null (None = none is)."""
    finer = column.type.unit == "ns"
    plain = (column if finer else column.cast(MICROS)).cast(pa.int64())
    nulls = plain.is_null().to_numpy(zero_copy_only=False) if plain.null_count else None
    numbers = (plain if nulls is None else plain.fill_null(0)).to_numpy(zero_copy_only=False)
    return numbers // 1_000 if finer else numbers, nulls


Latest = Mapping[str, int]
"""Latest event time by the name of an input of time."""


def told(root: Branch, origins: tuple[str, ...]) -> dict[tuple[str, int], tuple[str, ...]]:
    """Inputs of time that every consumer of a stage hears of from it. origins: those of the root's rows."""
    out = {}
    names = (root.node,) if isinstance(root.function, EventTime) else origins
    for consumer in root.consumers:
        out[consumer.operator, consumer.input] = names
    for below in root.branches:
        # Late rows have no event time but the one that is declared behind them.
        out.update(told(below, () if below.side else names))
    return out


def watermark_blobs(
    names: Mapping[tuple[str, int], tuple[str, ...]],
    addresses: Mapping[tuple[str, int], Address],
    known: Latest,
    producer: int,
) -> Iterator[tuple[int, bytes]]:
    """What one producer's task tells every task of its consumers; nothing where it knows of nothing."""
    for consumer, wanted in names.items():
        body = {name: known[name] for name in wanted if name in known}
        if not body:
            continue
        address = addresses[consumer]
        blob = pack(
            Blob(
                kind=MARK,
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


def latest_of(marks: Iterable[Blob]) -> dict[str, int]:
    """What all producers' tasks together have told."""
    out: dict[str, int] = {}
    for mark in marks:
        for name, latest in json.loads(mark.message.to_pybytes()).items():
            out[name] = max(latest, out.get(name, NEVER))
    return out
