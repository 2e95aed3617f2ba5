"""Defaults of fields as values. Pure.

A schema is JSON, which has no bytes: a default of bytes is a text with a character for each of them, and so is one of a
decimal. fastavro takes defaults as they stand in the schema, so they are made values there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from decimal import Context, Decimal
from typing import Any

from rechannel.errors import DataflowError

EXACT = Context(prec=1_000)
"""Has more digits than any decimal that a column can hold."""


def with_defaults(schema: Any) -> Any:
    """Make the defaults of a schema what fastavro reads and writes for its types, and return the schema.

    schema: a record as fastavro has parsed it, no record of which contains itself. Changed in place. Raises
    DataflowError that names a field whose default does not fit its type.
    """
    for field, value in list(_Defaults(schema).within(schema)):
        field["default"] = value
    return schema


class _Defaults:
    def __init__(self, schema: Any) -> None:
        self._named = schema.get("__named_schemas", {})

    def within(self, schema: Any) -> Iterator[tuple[dict[str, Any], Any]]:
        """Return the fields of a schema that have a default, and their value."""
        if isinstance(schema, list):
            for each in schema:
                yield from self.within(each)
        if not isinstance(schema, Mapping):
            return
        for field in schema.get("fields", ()):
            yield from self.within(field["type"])
            if "default" in field:
                yield field, self._of(field)
        for name in ("type", "items", "values"):
            yield from self.within(schema.get(name))

    def _of(self, field: Mapping[str, Any]) -> Any:
        try:
            return self._value(field["type"], field["default"])
        except (ValueError, TypeError, AttributeError) as error:
            name, text = field["name"], f"{field['default']!r}"
            raise DataflowError(f"Avro: field {name!r} has the default {text}: {error}") from None

    def _value(self, schema: Any, default: Any) -> Any:
        if isinstance(schema, list):
            if default is None:
                return None
            (schema,) = (each for each in schema if each != "null")
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        kind = schema["type"]
        if isinstance(kind, Mapping | list):
            return self._value(kind, default)
        if kind == "array":
            return [self._value(schema["items"], each) for each in default]
        if kind == "map":
            return {key: self._value(schema["values"], each) for key, each in default.items()}
        if kind == "record":
            return {each["name"]: self._member(each, default) for each in schema["fields"]}
        return _bytes(schema, default) if kind in ("bytes", "fixed") else default

    def _member(self, field: Mapping[str, Any], default: Mapping[str, Any]) -> Any:
        name = field["name"]
        if name not in default and "default" not in field:
            raise ValueError(f"it lacks {name!r}, which has no default")
        return self._value(field["type"], default.get(name, field.get("default")))


def _bytes(schema: Mapping[str, Any], default: str) -> bytes | Decimal:
    """Return bytes, or the decimal that they are."""
    made = default.encode("latin-1")
    if len(made) != schema.get("size", len(made)):
        raise ValueError(f"it has {len(made)} bytes, not {schema['size']}")
    if schema.get("logicalType") != "decimal":
        return made
    number = Decimal(int.from_bytes(made, signed=True))
    return number.scaleb(-schema.get("scale", 0), EXACT)
