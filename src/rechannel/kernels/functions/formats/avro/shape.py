"""What writes columns as records of a schema; which columns a schema takes; the schema that columns have by themselves.

A column has the type of its field, or one whose values all have a place in it. Times are rounded down to the unit of
the field.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.functions.formats.avro.types import columns_of, converter
from rechannel.kernels.functions.formats.avro.written import (
    Written,
    WrittenBlob,
    WrittenBoolean,
    WrittenDecimal,
    WrittenFixed,
    WrittenFloat,
    WrittenNullable,
    WrittenNumber,
    WrittenRecord,
    WrittenSymbol,
)
from rechannel.model.ddl import type_name

UNITS = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
FLOATS = {"float": 4, "double": 8}
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
DIGITS = 38


class RowByRowError(Exception):
    """A schema has arrays or maps, which are written record by record."""


def shape_of(schema: Any, columns: pa.Schema) -> WrittenRecord | None:
    """Return what writes columns; None if records have to be written one by one.

    schema: as fastavro has parsed it, `with_defaults`. Raises DataflowError that names a column that does not fit.
    """
    check(schema, columns_of(schema), columns)
    held = pa.struct(list(columns_of(schema, as_read=True)))
    try:
        return _Shaper(schema).record(schema, pa.struct(list(columns)), held, "")
    except RowByRowError:
        return None


def check(schema: Any, held: pa.Schema, columns: pa.Schema) -> None:
    """Raise DataflowError unless columns fit a record, and fields without one have a default. held: `columns_of`."""
    for field in schema["fields"]:
        name = field["name"]
        if name in columns.names:
            kind, wanted = columns.field(name).type, held.field(name).type
            if not fits(kind, wanted):
                raise DataflowError(
                    f"Avro: column {name!r} is {type_name(kind)}, and its field takes {type_name(wanted)}: convert it"
                    " before, or change the schema"
                )
        elif "default" not in field:
            raise DataflowError(
                f"Avro: field {name!r} has no column and no default: select one, or give it a default"
            )
    unknown = [name for name in columns.names if name not in held.names]
    if unknown:
        raise DataflowError(f"Avro: column {unknown[0]!r} is no field of the schema")


def fits(kind: pa.DataType, wanted: pa.DataType) -> bool:  # noqa: PLR0911 - a table
    """Return whether all values of a column have a place in a field."""
    types = pa.types
    if types.is_integer(kind):
        if types.is_integer(wanted):
            return bool(kind.bit_width + types.is_unsigned_integer(kind) <= wanted.bit_width)
        return bool(types.is_float64(wanted) and kind.bit_width <= 32)
    if types.is_floating(kind):
        return bool(types.is_floating(wanted) and kind.bit_width <= wanted.bit_width)
    if types.is_timestamp(kind):
        return types.is_timestamp(wanted) and (kind.tz is None) == (wanted.tz is None)
    if types.is_decimal(kind):
        return bool(
            types.is_decimal(wanted)
            and kind.scale == wanted.scale
            and kind.precision <= wanted.precision
        )
    if types.is_struct(kind):
        return types.is_struct(wanted) and all(
            wanted.get_field_index(each.name) >= 0 and fits(each.type, wanted.field(each.name).type)
            for each in kind
        )
    if types.is_list(kind):
        return types.is_list(wanted) and fits(kind.value_type, wanted.value_type)
    if types.is_map(kind):
        texts = types.is_string(kind.key_type)
        return types.is_map(wanted) and texts and fits(kind.item_type, wanted.item_type)
    if types.is_large_string(kind) or types.is_string(kind):
        return bool(types.is_string(wanted))
    if types.is_large_binary(kind) or types.is_binary(kind) or types.is_fixed_size_binary(kind):
        return bool(types.is_binary(wanted))
    return bool(kind == wanted)


class _Shaper:
    def __init__(self, schema: Any) -> None:
        self._named = schema.get("__named_schemas", {})

    def record(self, schema: Any, kind: pa.DataType, held: pa.DataType, path: str) -> WrittenRecord:
        """Return what writes a struct as a record. Raises RowByRowError, DataflowError.

        held: its type with times in the unit of the schema, in which a default counts.
        """
        fields = list[tuple[str, Written, pa.Scalar | None]]()
        for each in schema["fields"]:
            name = each["name"]
            at, wanted = f"{path}{name}", held.field(name).type
            if kind.get_field_index(name) >= 0:
                part = self._part(each["type"], kind.field(name).type, wanted, at)
                fields.append((name, part, None))
                continue
            if "default" not in each:
                raise DataflowError(f"Avro: field {at} has no column and no default: give it one")
            fields.append(
                (name, self._part(each["type"], wanted, wanted, at), _value(each, wanted))
            )
        return WrittenRecord(field=path or "(the record)", fields=tuple(fields))

    def _part(  # noqa: PLR0911 - a table
        self, schema: Any, kind: pa.DataType, held: pa.DataType, path: str
    ) -> Written:
        if isinstance(schema, list):
            (value,) = (at for at, each in enumerate(schema) if each != "null")
            of = self._part(schema[value], kind, held, path)
            return (
                WrittenNullable(field=path, of=of, null=1 - value) if len(schema) > 1 else _only(of)
            )
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        if isinstance(schema["type"], Mapping | list):
            return self._part(schema["type"], kind, held, path)
        name = schema["type"]
        if name in ("array", "map"):
            raise RowByRowError
        if name == "record":
            return self.record(schema, kind, held, f"{path}.")
        if name == "enum":
            symbols = pa.array(schema["symbols"], pa.string())
            return WrittenSymbol(field=path, symbols=symbols)
        if pa.types.is_decimal(held):
            return WrittenDecimal(field=path, kind=held, size=schema.get("size", 0))
        if name in ("int", "long"):
            return _number(schema, kind, path)
        if name in FLOATS:
            return WrittenFloat(field=path, size=FLOATS[name])
        if name == "boolean":
            return WrittenBoolean(field=path)
        if name == "fixed":
            return WrittenFixed(field=path, size=schema["size"])
        return WrittenBlob(field=path)


def _only(of: Written) -> Written:
    """Return what writes a union of one type."""
    raise RowByRowError


def _number(schema: Mapping[str, Any], kind: pa.DataType, path: str) -> Written:
    if not pa.types.is_timestamp(kind):
        return WrittenNumber(field=path)
    theirs = 1_000 if schema["logicalType"].endswith("-millis") else 1_000_000
    ours = UNITS[kind.unit]
    return WrittenNumber(field=path, times=max(theirs // ours, 1), parts=max(ours // theirs, 1))


def _value(field: Mapping[str, Any], kind: pa.DataType) -> pa.Scalar:
    if converter(kind) is not None:
        raise RowByRowError
    try:
        (made,) = pa.array([field["default"]], kind)
    except (pa.ArrowException, OverflowError, TypeError) as error:
        name, text = field["name"], f"{field['default']!r}"
        raise DataflowError(f"Avro: field {name!r} has the default {text}: {error}") from None
    return made


def schema_for(columns: pa.Schema, name: str) -> dict[str, Any]:
    """Return the schema that columns have by themselves: every field may be null, which is its default.

    name: of the record. Raises DataflowError that names a column without a type of Avro.
    """
    fields = [
        {
            "name": _name(each.name),
            "type": ["null", _type(each.type, each.name, name)],
            "default": None,
        }
        for each in columns
    ]
    return {"type": "record", "name": name, "fields": fields}


def _name(name: str) -> str:
    if not NAME.match(name):
        raise DataflowError(
            f"Avro: column {name!r} cannot be the name of a field, which has letters, digits and _: rename it with"
            " select(...)"
        )
    return name


def _type(kind: pa.DataType, path: str, within: str) -> Any:
    types = pa.types
    if types.is_struct(kind):
        return schema_for(pa.schema(list(kind)), f"{within}_{path}")
    if types.is_list(kind):
        return {"type": "array", "items": ["null", _type(kind.value_type, path, within)]}
    if types.is_map(kind) and types.is_string(kind.key_type):
        return {"type": "map", "values": ["null", _type(kind.item_type, path, within)]}
    if types.is_decimal(kind) and kind.precision <= DIGITS:
        digits = {"precision": kind.precision, "scale": kind.scale}
        return {"type": "bytes", "logicalType": "decimal", **digits}
    if types.is_timestamp(kind):
        local = "local-" if kind.tz is None else ""
        unit = "millis" if kind.unit in ("s", "ms") else "micros"
        return {"type": "long", "logicalType": f"{local}timestamp-{unit}"}
    if types.is_date32(kind):
        return {"type": "int", "logicalType": "date"}
    for of, wanted in PLAIN.items():
        if fits(kind, wanted):
            return of
    raise DataflowError(
        f"Avro: column {path!r} is {type_name(kind)}, which has no type there: convert it"
    )


PLAIN: Mapping[str, pa.DataType] = {
    "boolean": pa.bool_(), "int": pa.int32(), "long": pa.int64(), "float": pa.float32(), "double": pa.float64(),
    "string": pa.string(), "bytes": pa.binary(),
}  # fmt: skip
