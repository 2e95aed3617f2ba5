"""Which Arrow type a type of Avro has. Pure.

    null, X        X (every column is nullable)          bytes, fixed      binary
    enum           string                                record            struct
    array, map     list, map with texts as keys          uuid              string
    decimal        decimal                               date              date
    timestamp-*    timestamp, of microseconds in UTC     local-timestamp-* timestamp without a time zone

Everything else is refused: unions of several types, records that contain themselves, times of day, durations,
nanoseconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError

PRIMITIVES: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
}
LOGICAL: Mapping[tuple[str, str], pa.DataType] = {
    ("string", "uuid"): pa.string(),
    ("int", "date"): pa.date32(),
    ("long", "timestamp-millis"): pa.timestamp("us", "UTC"),
    ("long", "timestamp-micros"): pa.timestamp("us", "UTC"),
    ("long", "local-timestamp-millis"): pa.timestamp("us"),
    ("long", "local-timestamp-micros"): pa.timestamp("us"),
}
DIGITS = 38
"""Most digits of a decimal."""


def columns_of(schema: Mapping[str, Any], *, as_read: bool = False) -> pa.Schema:
    """Return the columns of a record. Raises DataflowError that names a field without a type here.

    as_read: with times in the unit of the schema, in which a plain number of an earlier writer counts.
    """
    if not isinstance(schema, Mapping) or schema.get("type") != "record":
        raise DataflowError("Avro: the schema of a stream must be a record")
    return pa.schema(list(_Types(as_read=as_read).of(schema, "")))


class _Types:
    def __init__(self, *, as_read: bool) -> None:
        self._as_read = as_read
        self._named: dict[str, Any] = {}
        self._within: list[str] = []

    def of(self, schema: Any, field: str) -> pa.DataType:
        """Return the type of a field."""
        if isinstance(schema, list):
            return self._union(schema, field)
        if isinstance(schema, str):
            if schema in PRIMITIVES:
                return PRIMITIVES[schema]
            if schema in self._named:
                return self.of(self._named[schema], field)
            raise _refused(field, schema)
        kind, logical = schema["type"], schema.get("logicalType")
        if isinstance(kind, Mapping | list):
            return self.of(kind, field)
        if "name" in schema:
            self._named[schema["name"]] = schema
        if logical in _NAMED:
            return self._logical(kind, logical, schema, field)
        made: Mapping[str, Callable[[], pa.DataType]] = {
            "record": lambda: self._record(schema, field),
            "array": lambda: pa.list_(self.of(schema["items"], f"{field}[]")),
            "map": lambda: pa.map_(pa.string(), self.of(schema["values"], f"{field}{{}}")),
            "enum": pa.string,
            "fixed": pa.binary,
        }
        return made[kind]() if kind in made else self.of(kind, field)

    def _union(self, schema: list[Any], field: str) -> pa.DataType:
        others = [each for each in schema if each != "null"]
        if len(others) != 1:
            raise _refused(field, f"a union of {len(others)} types")
        return self.of(others[0], field)

    def _record(self, schema: Mapping[str, Any], field: str) -> pa.DataType:
        name = schema["name"]
        if name in self._within:
            raise _refused(field, f"record {name} within itself")
        self._within.append(name)
        fields = [
            pa.field(each["name"], self.of(each["type"], f"{field}.{each['name']}".lstrip(".")))
            for each in schema["fields"]
        ]
        self._within.pop()
        return pa.struct(fields)

    def _logical(
        self, kind: str, logical: str, schema: Mapping[str, Any], field: str
    ) -> pa.DataType:
        if logical == "decimal":
            digits, scale = schema.get("precision", 0), schema.get("scale", 0)
            if 0 < digits <= DIGITS and 0 <= scale <= digits:
                return pa.decimal128(digits, scale)
            raise _refused(field, f"decimal of {digits} digits, {scale} after the point")
        if (kind, logical) not in LOGICAL:
            raise _refused(field, f"{logical} as {kind}")
        made = LOGICAL[kind, logical]
        millis = self._as_read and logical.endswith("-millis")
        return pa.timestamp("ms", made.tz) if millis else made


_NAMED = {
    "decimal", "duration", "time-millis", "time-micros", "timestamp-nanos", "local-timestamp-nanos",
    *(logical for _, logical in LOGICAL),
}  # fmt: skip
"""Logical types that mean something; others count as what they are made of, as Avro has it."""


def _refused(field: str, what: str) -> DataflowError:
    return DataflowError(
        f"Avro: field {field or '(the whole record)'} is {what}, which no column can hold: leave it out of the schema"
        " that you read with, since writers may have fields that it lacks"
    )


def without_uuids(schema: Any) -> Any:
    """Return a schema whose UUIDs are the texts that they are written as."""
    if isinstance(schema, list):
        return [without_uuids(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    uuid = schema.get("logicalType") == "uuid" and schema.get("type") == "string"
    left = {name: part for name, part in schema.items() if not (uuid and name == "logicalType")}
    nested = ("type", "fields", "items", "values")
    return {name: without_uuids(part) if name in nested else part for name, part in left.items()}


def converter(kind: pa.DataType) -> Callable[[Any], Any] | None:
    """Return what makes a value of Python's Avro one that Arrow takes; None if it is one already."""
    if pa.types.is_map(kind):
        inner = converter(kind.item_type)
        if inner is None:
            return lambda value: None if value is None else list(value.items())
        return _pairs(inner)
    if pa.types.is_list(kind):
        inner = converter(kind.value_type)
        return None if inner is None else _items(inner)
    if pa.types.is_struct(kind):
        members = {f.name: made for f in kind if (made := converter(f.type)) is not None}
        return _members(members) if members else None
    return None


def _pairs(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: (
        None if value is None else [(key, made(each)) for key, each in value.items()]
    )


def _items(made: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda value: None if value is None else [made(each) for each in value]


def _members(members: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        return value | {name: made(value[name]) for name, made in members.items()}

    return convert
