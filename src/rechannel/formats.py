"""Formats of records: `stream.decode(rc.formats.avro(schema, registry="http://registry:8081"))`.

What writes them are operators: `stream.encode_json()`, `encode_avro(...)`, `encode_protobuf(...)`.
"""

from __future__ import annotations

import json as _json
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.functions.formats.avro.format import Avro
from rechannel.kernels.functions.formats.avro.shape import schema_for
from rechannel.kernels.functions.formats.format import Format
from rechannel.kernels.functions.formats.json import Json
from rechannel.kernels.functions.formats.protobuf.format import Protobuf
from rechannel.kernels.functions.formats.protobuf.types import Message
from rechannel.kernels.functions.formats.registry import Registry
from rechannel.model.ddl import schema_of

__all__ = ["Format", "Registry", "avro", "avro_schema", "json", "protobuf", "registry"]


def json(schema: pa.Schema | str) -> Format:
    """Objects of JSON. schema: columns to read, as an Arrow schema or as Spark DDL text.

    Raises DataflowError that names a column which cannot be read from JSON, such as a map.
    """
    return Json(schema=schema_of(schema))


def avro(schema: str | Mapping[str, Any], *, registry: Registry | str | None = None) -> Format:
    """Records of Apache Avro.

    Args:
        schema: the reader's: a record, as JSON or its text. Fields that a writer's schema lacks have their defaults.
        registry: has the writers' schemas, whose ids values begin with; None = values are records alone, written with
            `schema`.

    Raises DataflowError that names a field which no column can hold.
    """
    try:
        made = _json.loads(schema) if isinstance(schema, str) else schema
    except ValueError as error:
        raise DataflowError(f"Avro: the schema is no JSON: {error}") from error
    text = _json.dumps(made, sort_keys=True)
    return Avro(schema=text, registry=_registry(registry))


def avro_schema(columns: pa.Schema | str, *, record: str = "Record") -> dict[str, Any]:
    """Return the schema of Avro that `encode_avro` derives of columns: every field may be null, which is its default.

    Args:
        columns: as an Arrow schema or as Spark DDL text.
        record: name of the record.

    Raises DataflowError that names a column without a type of Avro.
    """
    return schema_for(schema_of(columns), record)


def protobuf(message: type, *, registry: Registry | str | None = None) -> Format:
    """Messages of Protocol Buffers.

    Args:
        message: the class that protoc has generated.
        registry: has the writers' schemas, whose ids values begin with; None = values are messages alone.

    Raises DataflowError that names a field which no column can hold.
    """
    made = Message.of(message)
    return Protobuf(message=made, registry=_registry(registry))


def registry(
    url: str, *, wait_s: float = 10.0, options: Mapping[str, str] | None = None
) -> Registry:
    """A schema registry with options.

    Args:
        url: such as "http://host:8081"; several, separated by commas.
        wait_s: for how long one request waits.
        options: of confluent-kafka's client, such as basic.auth.user.info or ssl.ca.location.
    """
    return Registry(url=url, wait_s=wait_s, options=dict(options or {}))


def _registry(given: Registry | str | None) -> Registry | None:
    return Registry(url=given) if isinstance(given, str) else given
