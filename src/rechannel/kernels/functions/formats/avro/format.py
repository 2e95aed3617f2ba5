"""Records of Avro as columns, by the schemas that they were written with."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import pyarrow as pa

from rechannel.errors import DataflowError, SetUpError
from rechannel.kernels.functions.formats.avro.defaults import with_defaults
from rechannel.kernels.functions.formats.avro.reader import Reader, Schema
from rechannel.kernels.functions.formats.avro.types import columns_of, converter, without_uuids
from rechannel.kernels.functions.formats.format import Format, Parsed, binaries, in_groups
from rechannel.kernels.functions.formats.framing import HEAD, framed
from rechannel.kernels.functions.formats.registry import Registry, Written, schemas

MISSING = "Avro needs fastavro: pip install 'rechannel[formats]', on every executor"


@dataclass(frozen=True, eq=False, kw_only=True)
class Avro(Format):
    """Reads records with a schema, whatever version of it they were written with."""

    called: ClassVar[str] = "Avro"
    schema: str
    """The reader's, as the text of JSON."""
    registry: Registry | None = None
    """Has the schemas that records were written with; None = values are records alone, written with `schema`."""

    def __post_init__(self) -> None:
        """Check the schema. Raises DataflowError."""
        _ = self.columns

    @property
    def columns(self) -> pa.Schema:
        """Return the columns of the reader's schema."""
        return _reader(self.schema).columns

    def parsed(self, values: pa.Array) -> Parsed:
        """Read values. See `Format`."""
        values = binaries(values)
        reader = _reader(self.schema)
        if self.registry is None:
            whole = {"": values.is_valid().to_numpy(zero_copy_only=False).nonzero()[0]}
            return in_groups(
                values, whole, lambda _, some: reader.read(some, reader.itself, 0), {}, self.columns
            )
        frames, known = framed(values), schemas(self.registry)
        errors, groups = dict(frames.errors), {}
        writers = dict[str, Schema]()
        for schema_id, places in frames.places.items():
            try:
                writers[str(schema_id)] = _writer(schema_id, known.of(schema_id))
                groups[str(schema_id)] = places
            except ValueError as error:
                errors |= dict.fromkeys(map(int, places), str(error))
        return in_groups(
            values,
            groups,
            lambda name, some: reader.read(some, writers[name], HEAD),
            errors,
            self.columns,
        )


@lru_cache(64)
def _reader(text: str) -> Reader:
    fastavro = _fastavro()
    try:
        given = fastavro.parse_schema(json.loads(text))
        parsed = fastavro.parse_schema(without_uuids(json.loads(text)))
    except Exception as error:
        raise DataflowError(f"Avro: this is no schema: {error}") from error
    columns = columns_of(given)
    return Reader(
        itself=Schema(with_defaults(parsed)),
        columns=columns,
        as_read=pa.struct(list(columns_of(given, as_read=True))),
        convert=converter(pa.struct(list(columns))),
    )


@lru_cache(1024)
def _writer(schema_id: int, written: Written | None) -> Schema:
    """Return a writer's schema. Raises ValueError if records cannot be read with it."""
    if written is None:
        raise ValueError(f"the schema registry has no schema {schema_id}")
    if written.kind != "AVRO":
        raise ValueError(f"schema {schema_id} is of {written.kind}, not Avro")
    named: dict[str, Any] = {}
    try:
        for each in written.references:
            _fastavro().parse_schema(without_uuids(json.loads(each.text)), named_schemas=named)
        schema = without_uuids(json.loads(written.text))
        return Schema(_fastavro().parse_schema(schema, named_schemas=named))
    except Exception as error:
        raise ValueError(f"schema {schema_id} is no schema of Avro: {error}") from error


def _fastavro() -> Any:
    try:
        import fastavro.schema
    except ImportError as error:
        raise SetUpError(MISSING) from error
    return fastavro
