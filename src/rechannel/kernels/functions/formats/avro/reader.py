"""Reads records of one schema into the columns of another: all of a batch field by field (`plan`), some one by one."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.kernels.functions.formats.avro.front import ALL, Front
from rechannel.kernels.functions.formats.avro.nodes import Record
from rechannel.kernels.functions.formats.avro.plan import plan_of
from rechannel.kernels.functions.formats.avro.sound import Sound
from rechannel.kernels.functions.formats.format import Parsed, by_halves, in_order

ROWS, BYTES = 1 << 14, 64 << 20
"""Most records that are read at once, so that what is known of each stays in the processor's cache, and most of their
bytes, but for a record alone.
"""

_ADDRESS = re.compile(r" from <_io\.BytesIO object at 0x[0-9a-f]+>")
"""What would differ from run to run in an error."""


@dataclass(frozen=True, eq=False)
class Schema:
    """A schema as fastavro has parsed it."""

    parsed: Any

    @cached_property
    def sound(self) -> Sound:
        """What looks at records of it."""
        return Sound(self.parsed)


@dataclass(frozen=True, eq=False, kw_only=True)
class Reader:
    """Reads records into the columns of one schema."""

    itself: Schema
    columns: pa.Schema
    as_read: pa.StructType
    """Their types for what fastavro reads."""
    convert: Callable[[Any], Any] | None

    def read(self, values: pa.Array, writer: Schema, head: int) -> Parsed:
        """Read values without nulls. head: bytes before each record."""
        plan = _plan(writer, self)
        if plan is None:
            return self._one_by_one(values, writer, head)
        parts = [
            (np.arange(start, stop), self._together(values[start:stop], plan, writer, head))
            for start, stop in _pieces(values)
        ]
        return in_order(parts, self.columns)

    def _together(self, values: pa.Array, plan: Record, writer: Schema, head: int) -> Parsed:
        front = Front(values, head)
        made = plan.read(front, ALL)
        front.finish()
        rows = pa.RecordBatch.from_arrays(made.flatten(), schema=self.columns)
        if not front.unsure.any():
            return Parsed(rows=rows)
        sure, unsure = np.flatnonzero(~front.unsure), np.flatnonzero(front.unsure)
        alone = self._one_by_one(values.take(pa.array(unsure)), writer, head)
        return in_order(
            [(sure, Parsed(rows=rows.take(pa.array(sure)))), (unsure, alone)], self.columns
        )

    def _one_by_one(self, values: pa.Array, writer: Schema, head: int) -> Parsed:
        from fastavro import schemaless_reader

        made, places, errors = list[Any](), list[int](), dict[int, str]()
        reader = None if writer is self.itself else self.itself.parsed
        sound = writer.sound
        for place, value in enumerate(values.to_pylist()):
            if (broken := sound.broken(value, head)) is not None:
                errors[place] = broken
                continue
            source = io.BytesIO(value)
            source.seek(head)
            try:
                row = schemaless_reader(source, writer.parsed, reader)
                left = len(value) - source.tell()
                if left:
                    errors[place] = f"{left} bytes are left after the record"
                    continue
                made.append(row if self.convert is None else self.convert(row))
                places.append(place)
            except MemoryError:
                raise
            except Exception as error:
                errors[place] = _ADDRESS.sub("", f"{type(error).__name__}: {error}")
        fits = by_halves(len(made), lambda start, stop: self._rows(made[start:stop]), self.columns)
        errors |= {places[at]: error for at, error in fits.errors.items()}
        return Parsed(rows=fits.rows, errors=errors)

    def _rows(self, made: list[Any]) -> pa.RecordBatch:
        try:
            rows = pa.array(made, self.as_read).cast(pa.struct(list(self.columns)))
        except (pa.ArrowException, OverflowError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
        return pa.RecordBatch.from_arrays(rows.flatten(), schema=self.columns)


@lru_cache(1024)
def _plan(writer: Schema, reader: Reader) -> Record | None:
    return plan_of(writer.parsed, reader.itself.parsed, reader.columns, reader.as_read)


def _pieces(values: pa.Array) -> Iterator[tuple[int, int]]:
    """Cut values into pieces of some rows and bytes."""
    offsets = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values) + 1]
    start = 0
    while start < len(values):
        fits = int(np.searchsorted(offsets, offsets[start].astype(np.int64) + BYTES, "right")) - 1
        stop = max(start + 1, min(start + ROWS, len(values), fits))
        yield start, stop
        start = stop
