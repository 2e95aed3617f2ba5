"""What reads the parts of a record, all records of a batch at once. A plan is a tree of these, made by `plan.py`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from rechannel.kernels.functions.formats.avro.front import Front, Rows

FEW = 64
"""Texts that are looked at one by one where one of them is no UTF-8."""
WIDTH = 16
"""Bytes of a decimal."""
NUMBER, COUNTED = -1, -2


class Part(ABC):
    """Reads one part of each record."""

    kind: pa.DataType
    """Of the column that it makes."""

    @abstractmethod
    def read(self, front: Front, rows: Rows) -> pa.Array:
        """Read it, and advance. A value of a record that is unsure is any value of the type."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Whole(Part):
    """Whole numbers, and what is made of them: dates, times, floats."""

    kind: pa.DataType
    low: int
    high: int
    """Bounds beyond which a record is unsure."""
    factor: int = 1
    """By which a number is multiplied."""

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        numbers = front.numbers(rows)
        odd = (numbers < self.low) | (numbers > self.high)
        if odd.any():
            front.doubt(rows, odd)
            numbers = np.where(odd, 0, numbers)
        if pa.types.is_floating(self.kind):
            return pa.array(numbers.astype(np.float64)).cast(self.kind, safe=False)
        made = pa.array(numbers * self.factor if self.factor > 1 else numbers)
        if pa.types.is_int32(self.kind) or pa.types.is_date32(self.kind):
            made = made.cast(pa.int32())
        return made.cast(self.kind)


@dataclass(frozen=True, eq=False, kw_only=True)
class Float(Part):
    """Floats and doubles."""

    kind: pa.DataType
    size: int
    """Bytes of a number."""

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        return pa.array(front.words(front.fixed(rows, self.size), f"<f{self.size}")).cast(self.kind)


@dataclass(frozen=True, eq=False, kw_only=True)
class Boolean(Part):
    """Booleans."""

    kind: pa.DataType = field(default_factory=pa.bool_)

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        found = front.data[front.fixed(rows, 1)]
        front.doubt(rows, found > 1)
        return pa.array(found == 1)


@dataclass(frozen=True, eq=False, kw_only=True)
class Blob(Part):
    """Bytes and texts of any length."""

    kind: pa.DataType
    text: bool
    """Whether they are UTF-8."""

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        made = front.blobs(*front.spans(rows))
        return self._texts(front, rows, made) if self.text else made.cast(self.kind)

    def _texts(self, front: Front, rows: Rows, made: pa.Array) -> pa.Array:
        try:
            return made.cast(pa.string()).cast(self.kind)
        except pa.ArrowInvalid:
            bad = np.zeros(len(made), bool)
            bad[no_texts(made)] = True
            front.doubt(rows, bad)
            kept = made.filter(pa.array(~bad)).cast(pa.string()).cast(self.kind)
            return spread(kept, ~bad)


@dataclass(frozen=True, eq=False, kw_only=True)
class Fixed(Part):
    """Bytes whose number the schema says."""

    kind: pa.DataType
    size: int

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        starts = front.fixed(rows, self.size)
        return front.blobs(starts, front.at[rows])


@dataclass(frozen=True, eq=False, kw_only=True)
class Symbol(Part):
    """Symbols of an enum."""

    symbols: pa.Array
    """By the writer's numbers; null for one that the reader does not have."""
    kind: pa.DataType = field(default_factory=pa.string)

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        numbers = front.numbers(rows)
        odd = (numbers < 0) | (numbers >= len(self.symbols))
        found = self.symbols.take(pa.array(numbers, mask=odd))
        front.doubt(rows, found.is_null().to_numpy(zero_copy_only=False))
        return found


@dataclass(frozen=True, eq=False, kw_only=True)
class Decimals(Part):
    """Decimals: whole numbers in two's complement, the highest byte first."""

    kind: pa.DataType
    size: int = 0
    """Bytes of a number; 0 = they stand after their number."""

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        if self.size:
            starts = front.fixed(rows, self.size)
            ends = front.at[rows].copy()
        else:
            starts, ends = front.spans(rows)
        sizes = (ends - starts)[:, None]
        place = np.arange(WIDTH)
        held = front.data[np.maximum(ends[:, None] - 1 - place, 0)]
        sign = np.where(
            (front.data[starts] & 0x80)[:, None] * (sizes > 0), np.uint8(255), np.uint8(0)
        )
        made = np.where(place < sizes, held, sign)
        halves = np.ascontiguousarray(made).view(np.int64)
        about = np.abs(halves[:, 1] * 2.0**64 + halves[:, :1].view(np.uint64)[:, 0])
        # One that may have too many digits, or too many bytes, is read by itself.
        odd = (about >= 10.0**self.kind.precision * (1 - 1e-12)) | (sizes[:, 0] > WIDTH)
        front.doubt(rows, odd)
        made[odd] = 0
        return pa.Array.from_buffers(self.kind, len(made), [None, pa.py_buffer(made.tobytes())])


@dataclass(frozen=True, eq=False, kw_only=True)
class Nullable(Part):
    """A union of null and something else."""

    of: Part
    null: int
    """Number of null; -1 if there is none."""
    value: int
    """Number of the other."""
    admitted: bool
    """Whether the reader takes null."""

    @property
    def kind(self) -> pa.DataType:
        """Return the type of the other."""
        return self.of.kind

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        branches = front.numbers(rows)
        there = branches == self.value
        if there.all():
            return self.of.read(front, rows)
        front.doubt(rows, ~there & (branches != self.null) if self.admitted else ~there)
        return spread(self.of.read(front, places_of(front, rows)[there]), there)


@dataclass(frozen=True, eq=False, kw_only=True)
class Record(Part):
    """A record: the writer's fields in their order, and the reader's others."""

    kind: pa.DataType
    fields: tuple[tuple[int, Part], ...]
    """In the order of the writer: place among the reader's columns (-1 = none), and what reads it."""
    others: tuple[tuple[int, pa.Scalar], ...]
    """Columns that the writer lacks, and their value."""

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        count = len(front.at[rows])
        if not self.kind.num_fields:
            for _, part in self.fields:
                part.read(front, rows)
            return pa.nulls(count, self.kind)
        made: list[pa.Array] = [None] * self.kind.num_fields
        for place, part in self.fields:
            column = part.read(front, rows)
            if place >= 0:
                made[place] = column
        for place, value in self.others:
            made[place] = pa.repeat(value, count)
        return pa.StructArray.from_arrays(made, fields=list(self.kind))


@dataclass(frozen=True, eq=False, kw_only=True)
class Passed(Part):
    """What the reader lacks: numbers, bytes after their number, or a number of bytes."""

    size: int
    """Bytes; `NUMBER` and `COUNTED` stand for the others."""
    symbols: int | None = None
    """How many symbols an enum has, if it is one."""
    kind: pa.DataType = field(default_factory=pa.null)

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        if self.size == NUMBER:
            numbers = front.numbers(rows)
            if self.symbols is not None:
                front.doubt(rows, (numbers < 0) | (numbers >= self.symbols))
        elif self.size == COUNTED:
            front.spans(rows)
        else:
            front.fixed(rows, self.size)
        return pa.nulls(0)


@dataclass(frozen=True, eq=False, kw_only=True)
class PassedUnion(Part):
    """A union that the reader lacks."""

    of: tuple[Part, ...]
    kind: pa.DataType = field(default_factory=pa.null)

    def read(self, front: Front, rows: Rows) -> pa.Array:
        """See `Part`."""
        branches = front.numbers(rows)
        front.doubt(rows, (branches < 0) | (branches >= len(self.of)))
        places = places_of(front, rows)
        for number, part in enumerate(self.of):
            part.read(front, places[branches == number])
        return pa.nulls(0)


def places_of(front: Front, rows: Rows) -> np.ndarray:
    """Return the places of records."""
    return np.arange(len(front.at)) if isinstance(rows, slice) else rows


def spread(values: pa.Array, there: np.ndarray) -> pa.Array:
    """Return values with nulls between them. there: where values are."""
    if not len(values):
        return pa.nulls(len(there), values.type)
    return values.take(pa.array(np.cumsum(there) - 1, mask=~there))


def no_texts(values: pa.Array) -> list[int]:
    """Return the places of binaries that are no UTF-8."""
    found, pending = list[int](), [(0, len(values))]
    while pending:
        start, stop = pending.pop()
        try:
            values[start:stop].cast(pa.string())
        except pa.ArrowInvalid:
            if stop - start > FEW:
                middle = (start + stop) // 2
                pending += [(start, middle), (middle, stop)]
                continue
            some = values[start:stop].to_pylist()
            found += [start + at for at, value in enumerate(some) if not _is_text(value)]
    return found


def _is_text(value: bytes) -> bool:
    try:
        value.decode()
    except UnicodeDecodeError:
        return False
    return True
