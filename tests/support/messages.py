"""Messages of Protocol Buffers, made without protoc."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    timestamp_pb2,
    wrappers_pb2,
)

TYPES = {
    "double": 1, "float": 2, "int64": 3, "uint64": 4, "int32": 5, "fixed64": 6, "fixed32": 7, "bool": 8,
    "string": 9, "message": 11, "bytes": 12, "uint32": 13, "enum": 14, "sfixed32": 15, "sfixed64": 16,
    "sint32": 17, "sint64": 18,
}  # fmt: skip
IMPORTS = (timestamp_pb2, wrappers_pb2)


def add(message: Any, name: str, kind: str, number: int, **more: Any) -> None:
    """Add a field. kind: a scalar's name, or the full name of a message or, with enum=True, of an enum."""
    repeated, enum, optional = (more.pop(each, False) for each in ("repeated", "enum", "optional"))
    of = message.field.add(name=name, number=number, label=3 if repeated else 1, **more)
    of.type = TYPES.get(kind, TYPES["enum" if enum else "message"])
    if kind not in TYPES:
        of.type_name = f".{kind}"
    if optional:
        of.proto3_optional, of.oneof_index = True, len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")


def file(name: str = "events.proto", package: str = "shop") -> Any:
    """Return an empty file that imports what the tests need."""
    imports = [each.DESCRIPTOR.name for each in IMPORTS]
    return descriptor_pb2.FileDescriptorProto(
        name=name, package=package, syntax="proto3", dependency=imports
    )


def classes(of: Any, *names: str, others: Sequence[Any] = ()) -> list[Any]:
    """Return the classes of messages of a file, as protoc would make them. others: files that it imports."""
    pool = descriptor_pool.DescriptorPool()
    for each in IMPORTS:
        pool.AddSerializedFile(each.DESCRIPTOR.serialized_pb)
    for each in (*others, of):
        pool.AddSerializedFile(each.SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName(name)) for name in names]
