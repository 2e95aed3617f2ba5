"""What writes the parts of a record, all records of a batch at once. Made of a schema by `shape.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.functions.formats.avro.nodes import WIDTH
from rechannel.kernels.functions.formats.avro.pieces import Pieces, There


@dataclass(frozen=True, eq=False, kw_only=True)
class Written(ABC):
    """Writes one part of each record."""

    field: str
    """Path of the field, for errors."""

    @abstractmethod
    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """Write a column that has no null where it is there."""

    def need(self, out: Pieces, column: pa.Array, there: There) -> None:
        """Write a column; a null is an error of its record."""
        if column.null_count:
            out.refuse(
                column.is_null().to_numpy(zero_copy_only=False),
                there,
                f"field {self.field} is null, which its type does not allow",
            )
        self.write(out, column, there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenNumber(Written):
    """Whole numbers, dates and times."""

    times: int = 1
    """By which numbers are multiplied ..."""
    parts: int = 1
    """... and divided, downwards."""

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        if pa.types.is_date32(column.type):
            column = column.cast(pa.int32())
        numbers = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
        if self.times > 1:
            most = (2**63 - 1) // self.times
            out.refuse(np.abs(numbers) > most, there, f"field {self.field} is out of range")
            numbers = np.where(np.abs(numbers) > most, 0, numbers) * self.times
        out.numbers(numbers // self.parts if self.parts > 1 else numbers, there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenFloat(Written):
    """Floats and doubles."""

    size: int

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        numbers = column.fill_null(0).to_numpy(zero_copy_only=False).astype(f"<f{self.size}")
        out.short(numbers.view(np.uint8).reshape(-1, self.size), there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenBoolean(Written):
    """Booleans."""

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        values = column.fill_null(False).to_numpy(zero_copy_only=False)
        out.short(values.astype(np.uint8)[:, None], there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenBlob(Written):
    """Texts and bytes of any length."""

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        column = column.cast(pa.binary())
        sizes = pc.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        out.numbers(sizes.astype(np.int64), there)
        out.blob(column, there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenFixed(Written):
    """Bytes whose number the schema says."""

    size: int

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        column = column.cast(pa.binary())
        sizes = pc.binary_length(column).fill_null(self.size).to_numpy(zero_copy_only=False)
        out.refuse(sizes != self.size, there, f"field {self.field} does not have {self.size} bytes")
        out.blob(column, there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenSymbol(Written):
    """Symbols of an enum."""

    symbols: pa.Array

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        numbers = pc.index_in(column.cast(pa.string()), value_set=self.symbols)
        unknown = pc.and_(numbers.is_null(), column.is_valid()).to_numpy(zero_copy_only=False)
        out.refuse(unknown, there, f"field {self.field} is not one of the symbols of its enum")
        out.numbers(numbers.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64), there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenDecimal(Written):
    """Decimals: whole numbers in two's complement, the highest byte first."""

    kind: pa.DataType
    size: int = 0
    """Bytes of a number; 0 = as many as it needs, after their number."""

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        zero = pa.scalar(Decimal(0), self.kind)
        column = pa.concat_arrays([column.cast(self.kind).fill_null(zero)])
        raw = np.frombuffer(column.buffers()[1], np.uint8)[column.offset * WIDTH :]
        parts = raw[: WIDTH * out.count].reshape(-1, WIDTH)
        highest = parts[:, ::-1]
        sign = np.where(highest[:, :1] >= 0x80, np.uint8(255), np.uint8(0))
        needed = _size(parts)
        if self.size:
            out.refuse(
                needed > self.size, there, f"field {self.field} does not fit {self.size} bytes"
            )
            wide = np.hstack([np.broadcast_to(sign, (out.count, self.size)), highest])
            out.short(wide[:, -self.size :], there)
            return
        out.numbers(needed, there)
        places = np.minimum(WIDTH - needed[:, None] + np.arange(WIDTH), WIDTH - 1)
        out.tails(np.take_along_axis(highest, places, axis=1), needed, there)


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenNullable(Written):
    """A union of null and something else."""

    of: Written
    null: int
    """Number of null."""

    def need(self, out: Pieces, column: pa.Array, there: There) -> None:
        """Write a column that may be null."""
        valid = column.is_valid().to_numpy(zero_copy_only=False)
        out.numbers(np.where(valid, 1 - self.null, self.null), there)
        self.of.write(out, column, valid if there is None else valid & there)

    write = need


@dataclass(frozen=True, eq=False, kw_only=True)
class WrittenRecord(Written):
    """A record, from a struct."""

    fields: tuple[tuple[str, Written, pa.Scalar | None], ...]
    """In the order of the schema: name, what writes it, and its value where the struct has no such member."""

    def write(self, out: Pieces, column: pa.Array, there: There) -> None:
        """See `Written`."""
        names = [each.name for each in column.type]
        members = dict(zip(names, column.flatten(), strict=True))
        for name, part, value in self.fields:
            held = members[name] if name in members else pa.repeat(value, out.count)
            part.need(out, held, there)


def _size(parts: np.ndarray) -> np.ndarray:
    """Return how many bytes numbers need. parts: (count, 16), the lowest byte first."""
    low, high = np.ascontiguousarray(parts).view(np.uint64).T
    negative = high >> np.uint64(63) == 1
    size_low = np.where(negative, ~low + np.uint64(1), low)
    size_high = np.where(negative, ~high + (size_low == 0), high)
    bits = np.where(size_high > 0, 64 + _bits(size_high), _bits(size_low))
    made: np.ndarray = (bits + 8) >> 3
    return made


def _bits(words: np.ndarray) -> np.ndarray:
    """Return the place of the highest bit, from 1; 0 for 0."""
    for shift in (1, 2, 4, 8, 16, 32):
        words = words | (words >> np.uint64(shift))
    made: np.ndarray = np.bitwise_count(words).astype(np.int64)
    return made
