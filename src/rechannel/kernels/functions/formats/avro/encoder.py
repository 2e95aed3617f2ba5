"""Rows as records of Avro: all of a batch field by field; with arrays or maps, one by one by fastavro."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rechannel.errors import DataflowError, SetUpError
from rechannel.kernels.functions.formats.avro.defaults import with_defaults
from rechannel.kernels.functions.formats.avro.format import MISSING
from rechannel.kernels.functions.formats.avro.pieces import Pieces
from rechannel.kernels.functions.formats.avro.rows import Made, row_of
from rechannel.kernels.functions.formats.avro.shape import schema_for, shape_of
from rechannel.kernels.functions.formats.avro.types import columns_of, without_uuids
from rechannel.kernels.functions.formats.avro.written import WrittenRecord
from rechannel.kernels.functions.formats.encoder import Encoded, Encoder, rest
from rechannel.kernels.functions.formats.framing import framing
from rechannel.kernels.functions.formats.subjects import Offered, Subject, agreed, id_of

ROWS = 1 << 14
"""Most rows that are written at once."""
BYTES = 256 << 20
"""Most bytes of them, but for a row alone."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AvroEncoder(Encoder):
    """Writes records of a schema, or of the one that the columns have by themselves."""

    called: ClassVar[str] = "Avro"
    schema: str | None
    """As the text of JSON; None = that of the columns."""
    record: str
    """Name of the record where the schema is that of the columns."""
    subject: Subject | None = None
    """Under which the registry has the schema; None = records alone."""

    def __post_init__(self) -> None:
        """Check the schema. Raises DataflowError."""
        if self.schema is not None:
            _ = _parsed(self.schema).fields

    @property
    def fields(self) -> tuple[str, ...] | None:
        """Return the names of the schema's fields; None if it is that of the columns."""
        return None if self.schema is None else _parsed(self.schema).fields

    def check(self, columns: pa.Schema) -> None:
        """See `Encoder`."""
        text = self._text(columns)
        if _shape(text, columns) is None:
            _row(text, columns)

    def agree(self, columns: pa.Schema) -> None:
        """See `Encoder`."""
        if self.subject is not None:
            agreed(self.subject, Offered(kind="AVRO", text=self._text(columns)))

    def encoded(self, rows: pa.RecordBatch) -> Encoded:
        """See `Encoder`."""
        text = self._text(rows.schema)
        head = b""
        if self.subject is not None:
            head = framing(id_of(self.subject, Offered(kind="AVRO", text=text)))
        shape = _shape(text, rows.schema)
        made, errors, start = list[pa.Array](), dict[int, str](), 0
        for some in _pieces(rows):
            part = _one_by_one(text, some, head) if shape is None else _together(shape, some, head)
            made.append(part.values)
            errors |= {start + place: error for place, error in part.errors.items()}
            start += some.num_rows
        return Encoded(
            values=pa.concat_arrays(made) if made else pa.array([], pa.binary()), errors=errors
        )

    def _text(self, columns: pa.Schema) -> str:
        if self.schema is not None:
            return self.schema
        return json.dumps(schema_for(columns, self.record))


@dataclass(frozen=True, eq=False, kw_only=True)
class _Parsed:
    schema: Any
    fields: tuple[str, ...]


@lru_cache(64)
def _parsed(text: str) -> _Parsed:
    """Return a schema as fastavro has parsed it. Raises DataflowError, SetUpError."""
    try:
        from fastavro import parse_schema
    except ImportError as error:
        raise SetUpError(MISSING) from error
    try:
        schema: Any = parse_schema(without_uuids(json.loads(text)))
    except Exception as error:
        raise DataflowError(f"Avro: this is no schema: {error}") from error
    fields = tuple(columns_of(schema).names)
    return _Parsed(schema=with_defaults(schema), fields=fields)


@lru_cache(64)
def _shape(text: str, columns: pa.Schema) -> WrittenRecord | None:
    return shape_of(_parsed(text).schema, columns)


@lru_cache(64)
def _row(text: str, columns: pa.Schema) -> Made:
    return row_of(_parsed(text).schema, pa.struct(list(columns)))


def _together(shape: WrittenRecord, rows: pa.RecordBatch, head: bytes) -> Encoded:
    out = Pieces(count=rows.num_rows)
    shape.write(out, rows.to_struct_array(), None)
    values = out.records(head)
    if not out.errors:
        return Encoded(values=values)
    return Encoded(values=values.filter(rest(rows.num_rows, out.errors)), errors=out.errors)


def _one_by_one(text: str, rows: pa.RecordBatch, head: bytes) -> Encoded:
    from fastavro import schemaless_writer

    schema, convert, all_rows = _parsed(text).schema, _row(text, rows.schema), _pylist(rows)
    made, errors = list[bytes](), dict[int, str]()
    for place in range(rows.num_rows):
        out = io.BytesIO()
        out.write(head)
        try:
            row = rows.slice(place, 1).to_pylist()[0] if all_rows is None else all_rows[place]
            schemaless_writer(out, schema, convert(row))
            made.append(out.getvalue())
        except MemoryError:
            raise
        except Exception as error:
            errors[place] = f"{type(error).__name__}: {error}"
    return Encoded(values=pa.array(made, pa.binary()), errors=errors)


def _pylist(rows: pa.RecordBatch) -> list[Any] | None:
    """Return rows as values of Python; None if one of them has no such value."""
    try:
        made: list[Any] = rows.to_pylist()
    except MemoryError:
        raise
    except Exception:  # a time after the year 9999, for example
        return None
    return made


def _pieces(rows: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut rows into pieces of some rows and bytes."""
    each = max(rows.nbytes // max(rows.num_rows, 1), 1)
    most = int(np.clip(BYTES // each, 1, ROWS))
    for start in range(0, rows.num_rows, most):
        yield rows.slice(start, most)
