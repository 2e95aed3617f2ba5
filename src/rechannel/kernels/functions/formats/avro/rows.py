"""Rows as the values of Python that fastavro writes. It writes a null as false, so nulls are looked for before."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import pyarrow as pa

from rechannel.errors import DataflowError

Made: TypeAlias = Callable[[Any], Any]
"""What makes a value that fastavro writes. Raises ValueError if it is null and must not be."""


def row_of(schema: Any, kind: pa.StructType) -> Made:
    """Return what makes a row: maps are dicts there. kind: of the rows.

    schema: a record as fastavro has parsed it. Raises DataflowError that names a field without a value.
    """
    return _Rows(schema).record(schema, kind, "")


class _Rows:
    def __init__(self, schema: Any) -> None:
        self._named = schema.get("__named_schemas", {})

    def record(self, schema: Any, kind: pa.DataType, path: str) -> Made:
        """Return what makes a record of a struct. path: of the field, with a point at its end."""
        members = dict[str, Made]()
        for each in schema["fields"]:
            name = each["name"]
            if kind.get_field_index(name) >= 0:
                members[name] = self._of(each["type"], kind.field(name).type, f"{path}{name}")
            elif "default" not in each:
                raise DataflowError(
                    f"Avro: field {path}{name} has no column and no default: give it one"
                )
        return lambda value: {name: made(value[name]) for name, made in members.items()}

    def _of(self, schema: Any, kind: pa.DataType, path: str) -> Made:
        schema = self._known(schema)
        if isinstance(schema, list):
            (other,) = (each for each in schema if each != "null")
            made = self._there(self._known(other), kind, path)
            return _or_none(made) if "null" in schema else _needed(made, path)
        return _needed(self._there(schema, kind, path), path)

    def _known(self, schema: Any) -> Any:
        """Return a schema as an object or, if it is a union, a list."""
        while isinstance(schema, Mapping) and isinstance(schema["type"], Mapping | list):
            schema = schema["type"]
        return self._named.get(schema, {"type": schema}) if isinstance(schema, str) else schema

    def _there(self, schema: Any, kind: pa.DataType, path: str) -> Made:
        """Return what makes a value that is not null."""
        if schema["type"] == "map":
            item = self._of(schema["values"], kind.item_type, f"{path}{{}}")
            return lambda value: {key: item(each) for key, each in value}
        if schema["type"] == "array":
            item = self._of(schema["items"], kind.value_type, f"{path}[]")
            return lambda value: [item(each) for each in value]
        if schema["type"] == "record":
            return self.record(schema, kind, f"{path}.")
        return _same


def _same(value: Any) -> Any:
    return value


def _or_none(made: Made) -> Made:
    return made if made is _same else lambda value: None if value is None else made(value)


def _needed(made: Made, path: str) -> Made:
    def needed(value: Any) -> Any:
        if value is None:
            raise ValueError(f"field {path} is null, which its type does not allow")
        return made(value)

    return needed
