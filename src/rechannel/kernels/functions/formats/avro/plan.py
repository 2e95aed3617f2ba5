"""How records of a writer's schema become columns of a reader's, all at once; or that they have to be read one by one.

Whatever is left out here is read by fastavro: arrays and maps, unions of several types, records within themselves, and
schemas that do not go with each other, for which it has the words. Where both read a record, they read the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from rechannel.kernels.functions.formats.avro.nodes import (
    COUNTED,
    NUMBER,
    Blob,
    Boolean,
    Decimals,
    Fixed,
    Float,
    Nullable,
    Part,
    Passed,
    PassedUnion,
    Record,
    Symbol,
    Whole,
)
from rechannel.kernels.functions.formats.avro.types import converter

DAYS = (-719_162, 2_932_896)
"""Of the years 1 to 9999, which Python's dates have."""
SECONDS = (DAYS[0] * 86_400, (DAYS[1] + 1) * 86_400 - 1)
UNITS = {"ms": 1_000, "us": 1_000_000}
FLOATS = {"float": 4, "double": 8}
TAKEN: Mapping[str, tuple[str, ...]] = {
    "boolean": ("boolean",), "int": ("int", "long", "float", "double"), "long": ("long", "float", "double"),
    "float": ("float", "double"), "double": ("double",), "string": ("string", "bytes"), "bytes": ("bytes", "string"),
    "fixed": ("fixed",),
}  # fmt: skip
"""Types of a reader for what a writer has."""
PASSED = {
    "null": 0, "int": NUMBER, "long": NUMBER, "float": 4, "double": 8, "string": COUNTED, "bytes": COUNTED,
}  # fmt: skip
MEANT = {
    "long-timestamp-millis", "long-timestamp-micros", "long-local-timestamp-millis", "long-local-timestamp-micros",
    "int-date", "bytes-decimal", "fixed-decimal", "int-time-millis", "long-time-micros",
}  # fmt: skip
"""Types whose values fastavro makes something else of. A reader has to mean the same."""


class UnplannedError(Exception):
    """Records have to be read one by one."""


def plan_of(writer: Any, reader: Any, columns: pa.Schema, as_read: pa.StructType) -> Record | None:
    """Return what reads records; None if they have to be read one by one.

    writer, reader: as fastavro has parsed them, the latter `with_defaults`. columns, as_read: see `types.columns_of`.
    """
    if not isinstance(writer, Mapping) or writer["type"] != "record":
        return None
    planner = _Planner(writer, reader)
    try:
        return planner.record(writer, reader, pa.struct(list(columns)), as_read)
    except UnplannedError:
        return None


class _Planner:
    def __init__(self, writer: Any, reader: Any) -> None:
        self._writers = writer.get("__named_schemas", {})
        self._readers = reader.get("__named_schemas", {})
        self._within = list[str]()
        """Records that are being passed, which contain what comes next."""

    def record(self, writer: Any, reader: Any, kind: pa.DataType, as_read: pa.DataType) -> Record:
        """Return what reads a record as another one. Raises UnplannedError."""
        theirs = {each["name"]: place for place, each in enumerate(reader["fields"])}
        others = dict(enumerate(reader["fields"]))
        aliases = {
            alias: place for place, each in others.items() for alias in each.get("aliases", ())
        }
        if not _same_name(writer, reader) or not others:
            raise UnplannedError
        fields = list[tuple[int, Part]]()
        for each in writer["fields"]:
            place = theirs.get(each["name"], aliases.get(each["name"], -1))
            if place < 0:
                fields.append((place, self._passed(each["type"])))
                continue
            if place not in others:
                raise UnplannedError
            of = others.pop(place)["type"]
            types = kind.field(place).type, as_read.field(place).type
            fields.append((place, self._part(each["type"], of, *types)))
        values = tuple(
            (place, _default(each, kind.field(place).type, as_read.field(place).type))
            for place, each in others.items()
        )
        return Record(kind=kind, fields=tuple(fields), others=values)

    def _part(self, writer: Any, reader: Any, kind: pa.DataType, as_read: pa.DataType) -> Part:
        if isinstance(writer, list):
            return self._union(writer, reader, kind, as_read)
        if isinstance(reader, list):
            (reader,) = (each for each in reader if each != "null")
        writer, reader = _known(writer, self._writers), _known(reader, self._readers)
        name = writer["type"]
        if name in ("record", "enum", "fixed"):
            if reader["type"] != name or not _same_name(writer, reader):
                raise UnplannedError
            if name == "record":
                return self.record(writer, reader, kind, as_read)
            if name == "enum":
                return _symbols(writer, reader)
        return _single(writer, reader, kind, getattr(as_read, "unit", ""))

    def _union(self, writer: Any, reader: Any, kind: pa.DataType, as_read: pa.DataType) -> Part:
        others = [place for place, each in enumerate(writer) if each != "null"]
        if len(others) != 1 or len(writer) > 2:
            raise UnplannedError
        value = others[0]
        return Nullable(
            of=self._part(writer[value], reader, kind, as_read),
            null=1 - value,
            value=value,
            admitted=len(writer) > 1 and isinstance(reader, list) and "null" in reader,
        )

    def _passed(self, writer: Any) -> Part:
        """Return what passes a field that the reader lacks. Raises UnplannedError."""
        if isinstance(writer, list):
            return PassedUnion(of=tuple(self._passed(each) for each in writer))
        writer = _known(writer, self._writers)
        name = writer["type"]
        if name == "record":
            return self._passed_record(writer)
        if name == "boolean":
            return Boolean()
        if name == "enum":
            return Passed(size=NUMBER, symbols=len(writer["symbols"]))
        size = writer["size"] if name == "fixed" else PASSED.get(name)
        if size is None:
            raise UnplannedError
        return Passed(size=size)

    def _passed_record(self, writer: Mapping[str, Any]) -> Record:
        name = writer["name"]
        if name in self._within:
            raise UnplannedError
        self._within.append(name)
        fields = tuple((-1, self._passed(each["type"])) for each in writer["fields"])
        self._within.pop()
        return Record(kind=pa.struct([]), fields=fields, others=())


def _known(schema: Any, named: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a schema as an object. Raises UnplannedError."""
    if isinstance(schema, str):
        found: Mapping[str, Any] = named.get(schema, {"type": schema})
        return found
    if not isinstance(schema, Mapping):
        raise UnplannedError
    return _known(schema["type"], named) if isinstance(schema["type"], Mapping | list) else schema


def _same_name(writer: Mapping[str, Any], reader: Mapping[str, Any]) -> bool:
    short, aliases = writer["name"].rpartition(".")[2], reader.get("aliases", ())
    return bool(
        short == reader["name"].rpartition(".")[2] or short in aliases or writer["name"] in aliases
    )


def _symbols(writer: Mapping[str, Any], reader: Mapping[str, Any]) -> Symbol:
    known, default = set(reader["symbols"]), reader.get("default")
    symbols = [each if each in known else default for each in writer["symbols"]]
    return Symbol(symbols=pa.array(symbols, pa.string()))


def _single(
    writer: Mapping[str, Any], reader: Mapping[str, Any], kind: pa.DataType, unit: str
) -> Part:
    """Return what reads anything but a record or an enum. unit: of a time, as a plain number means it."""
    name, other = writer["type"], reader["type"]
    if other not in TAKEN.get(name, ()):
        raise UnplannedError
    meaning, wanted = (f"{each['type']}-{each.get('logicalType')}" for each in (writer, reader))
    if meaning in MEANT and meaning != wanted:
        raise UnplannedError
    if pa.types.is_decimal(kind):
        digits = [(each.get("precision"), each.get("scale", 0)) for each in (writer, reader)]
        if meaning != wanted or digits[0] != digits[1]:
            raise UnplannedError
        return Decimals(kind=kind, size=writer.get("size", 0))
    if name in ("int", "long"):
        return _whole(kind, unit)
    if name in FLOATS:
        return Float(kind=kind, size=FLOATS[name])
    if name == "boolean":
        return Boolean()
    if name == "fixed":
        if writer["size"] != reader["size"]:
            raise UnplannedError
        return Fixed(kind=kind, size=writer["size"])
    return Blob(kind=kind, text="string" in (name, other))


def _whole(kind: pa.DataType, unit: str) -> Whole:
    if pa.types.is_timestamp(kind):
        each = UNITS[unit]
        low, high = SECONDS[0] * each, (SECONDS[1] + 1) * each - 1
        return Whole(kind=kind, low=low, high=high, factor=UNITS["us"] // each)
    if pa.types.is_date32(kind):
        return Whole(kind=kind, low=DAYS[0], high=DAYS[1])
    bits = 31 if pa.types.is_int32(kind) else 63
    return Whole(kind=kind, low=-(1 << bits), high=(1 << bits) - 1)


def _default(field: Mapping[str, Any], kind: pa.DataType, as_read: pa.DataType) -> pa.Scalar:
    """Return the value of a field that a writer lacks. Raises UnplannedError."""
    if "default" not in field or converter(kind) is not None:
        raise UnplannedError
    try:
        (made,) = pa.array([field["default"]], as_read).cast(kind)
    except (pa.ArrowException, OverflowError, TypeError):
        raise UnplannedError from None
    return made
