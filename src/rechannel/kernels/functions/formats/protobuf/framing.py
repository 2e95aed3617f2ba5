"""What a schema registry's format has before a message: which message of the schema it is.

Indexes of messages, from the outermost in, as zigzag numbers after their count. A single 0 stands for the first one.
"""

from __future__ import annotations

from typing import Any

DEEPEST = 32
"""Most messages within each other."""
First = (0,)


def indexes(value: bytes, at: int) -> tuple[tuple[int, ...], int]:
    """Return the indexes in a value, and where the message begins. Raises ValueError."""
    count, at = _zigzag(value, at)
    if count == 0:
        return First, at
    if not 0 < count <= DEEPEST:
        raise ValueError(f"{count} indexes of messages")
    found = []
    for _ in range(count):
        index, at = _zigzag(value, at)
        found.append(index)
    return tuple(found), at


def _zigzag(value: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        if at >= len(value) or shift > 28:
            raise ValueError("the indexes of messages break off")
        byte = value[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at


def place_of(descriptor: Any) -> bytes:
    """Return the indexes of a message in its file, as they stand before it."""
    from google.protobuf import descriptor_pb2

    file, names = descriptor_pb2.FileDescriptorProto(), list[str]()
    descriptor.file.CopyToProto(file)
    while descriptor is not None:
        names.insert(0, descriptor.name)
        descriptor = descriptor.containing_type
    found, messages = list[int](), file.message_type
    for name in names:
        found.append([each.name for each in messages].index(name))
        messages = messages[found[-1]].nested_type
    if tuple(found) == First:
        return b"\0"
    return b"".join(map(_unsigned, (len(found) << 1, *(index << 1 for index in found))))


def _unsigned(number: int) -> bytes:
    made = bytearray()
    while number > 0x7F:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*made, number])


def message_at(file: Any, found: tuple[int, ...]) -> tuple[str, Any]:
    """Return the full name of a message of a FileDescriptorProto, and its DescriptorProto. Raises ValueError."""
    names, messages, message = [file.package] if file.package else [], file.message_type, None
    for index in found:
        if not 0 <= index < len(messages):
            raise ValueError(f"the schema has no message {list(found)}")
        message = messages[index]
        names.append(message.name)
        messages = message.nested_type
    return ".".join(names), message
