"""Which Arrow type a field of a message has, and whether fields of two messages have the same bytes.

    int32, sint32, sfixed32     int        float, double   float, double     repeated    list
    int64, sint64, sfixed64     bigint     bool            boolean           map         map
    uint32, fixed32             bigint     string          string            message     struct
    uint64, fixed64             decimal    bytes           binary            Timestamp   timestamp
    enum      string: the name of the value, or its number if there is none
    wrappers (google.protobuf.Int64Value, ...)             as what they wrap

Members of a oneof, optional fields and messages are null where they are absent; other fields have the default that
Protocol Buffers give them. Refused: groups, messages that contain themselves, and other messages of google.protobuf.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError, SetUpError

MISSING = "Protocol Buffers need ptars: pip install 'rechannel[formats]', on every executor"
TIMESTAMP = "google.protobuf.Timestamp"
GOOGLE = "google.protobuf."
_INT, _LONG = pa.int32(), pa.int64()
SCALARS: dict[int, pa.DataType] = {
    1: pa.float64(), 2: pa.float32(), 3: _LONG, 4: pa.decimal128(20, 0), 5: _INT,
    6: pa.decimal128(20, 0), 7: _LONG, 8: pa.bool_(), 9: pa.string(), 12: pa.binary(), 13: _LONG,
    14: pa.string(), 15: _INT, 16: _LONG, 17: _INT, 18: _LONG,
}  # fmt: skip
"""Types of columns by type of the field, as descriptors number them."""
GROUP, MESSAGE = 10, 11
ALIKE: dict[int, str] = {
    1: "double", 2: "float", 3: "varint", 4: "varint", 5: "varint", 6: "fixed64", 7: "fixed32",
    8: "varint", 9: "bytes", 12: "bytes", 13: "varint", 14: "varint", 15: "fixed32",
    16: "fixed64", 17: "zigzag", 18: "zigzag", GROUP: "group", MESSAGE: "message",
}  # fmt: skip
"""Types of fields that may take each other's place."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Message:
    """A message with everything that it is made of, as plain data."""

    name: str
    """With its package."""
    files: tuple[bytes, ...]
    """Serialised descriptors of files, each after those that it imports."""

    @classmethod
    def of(cls, message: Any) -> Message:
        """Return the message of a generated class. Raises DataflowError."""
        descriptor = getattr(message, "DESCRIPTOR", None)
        if descriptor is None or not hasattr(descriptor, "fields"):
            raise DataflowError(
                f"Protocol Buffers: give the class of a message that protoc has generated, not {message!r}"
            )
        files = dict[str, bytes]()
        _collect(descriptor.file, files)
        return cls(name=descriptor.full_name, files=tuple(files.values()))


def _collect(file: Any, files: dict[str, bytes]) -> None:
    for each in file.dependencies:
        _collect(each, files)
    files.setdefault(file.name, file.serialized_pb)


@lru_cache(64)
def descriptor_of(name: str, files: tuple[bytes, ...]) -> Any:
    """Return the descriptor of a message, from a pool of its own. Raises SetUpError."""
    try:
        from google.protobuf import descriptor_pool
    except ImportError as error:
        raise SetUpError(MISSING) from error
    pool = descriptor_pool.DescriptorPool()
    for each in files:
        pool.AddSerializedFile(each)
    return pool.FindMessageTypeByName(name)


def columns_of(descriptor: Any) -> pa.Schema:
    """Return the columns of a message. Raises DataflowError that names a field without a type here."""
    return pa.schema(_fields(descriptor, "", ()))


def _fields(descriptor: Any, path: str, within: tuple[str, ...]) -> list[pa.Field]:
    inside = (*within, descriptor.full_name)
    return [
        pa.field(each.name, _type(each, f"{path}{each.name}", inside)) for each in descriptor.fields
    ]


def _type(field: Any, path: str, within: tuple[str, ...]) -> pa.DataType:
    message = field.message_type
    if message is not None and message.GetOptions().map_entry:
        key, value = (message.fields_by_name[name] for name in ("key", "value"))
        return pa.map_(_single(key, path, within), _single(value, f"{path}{{}}", within))
    one = _single(field, path, within)
    return pa.list_(one) if field.is_repeated else one


def _single(field: Any, path: str, within: tuple[str, ...]) -> pa.DataType:
    if field.type == GROUP:
        raise _refused(path, "a group")
    if field.type != MESSAGE:
        return SCALARS[field.type]
    message = field.message_type
    if message.full_name == TIMESTAMP:
        return pa.timestamp("us", "UTC")
    if message.full_name.startswith(GOOGLE):
        if message.full_name.endswith("Value") and [f.name for f in message.fields] == ["value"]:
            return SCALARS[message.fields[0].type]
        raise _refused(path, message.full_name)
    if message.full_name.startswith("google.type."):
        raise _refused(path, message.full_name)
    if message.full_name in within:
        raise _refused(path, f"message {message.full_name} within itself")
    if not message.fields:
        raise _refused(path, f"message {message.full_name} without fields")
    return pa.struct(_fields(message, f"{path}.", within))


def _refused(path: str, what: str) -> DataflowError:
    return DataflowError(
        f"Protocol Buffers: field {path} is {what}, which no column can hold: leave it out of the message that you read"
        " with, since writers may have fields that it lacks"
    )


def mismatch(reader: Any, writer: Any) -> str | None:
    """Return which field of a writer's message cannot be read as the reader's; None if there is none.

    reader, writer: a descriptor, and a DescriptorProto.
    """
    theirs = {field.number: field for field in writer.field}
    for field in reader.fields:
        other = theirs.get(field.number)
        if other is not None and ALIKE[field.type] != ALIKE[other.type]:
            return f"field {field.name} (number {field.number}) is of another type there"
    return None
