"""Messages as columns, a batch at a time."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import SetUpError, StorageError
from rechannel.kernels.functions.formats.format import (
    Format,
    Parsed,
    binaries,
    by_halves,
    in_groups,
)
from rechannel.kernels.functions.formats.framing import HEAD, framed
from rechannel.kernels.functions.formats.protobuf.framing import First, indexes, message_at
from rechannel.kernels.functions.formats.protobuf.types import (
    MISSING,
    Message,
    columns_of,
    descriptor_of,
    mismatch,
)
from rechannel.kernels.functions.formats.registry import Registry, Written, schemas


@dataclass(frozen=True, eq=False, kw_only=True)
class Protobuf(Format):
    """Reads messages with the reader's fields. A writer's fields have the same numbers; others are ignored."""

    called: ClassVar[str] = "Protobuf"
    message: Message
    registry: Registry | None = None
    """Has the schemas that messages were written with; None = values are messages alone."""

    def __post_init__(self) -> None:
        """Check the message. Raises DataflowError, SetUpError."""
        _ = self.columns
        handler(self.message.name, self.message.files)

    @property
    def columns(self) -> pa.Schema:
        """Return the fields of the message."""
        return columns_of(self._descriptor)

    @property
    def _descriptor(self) -> Any:
        return descriptor_of(self.message.name, self.message.files)

    def parsed(self, values: pa.Array) -> Parsed:
        """Read values. See `Format`."""
        values, columns = binaries(values), self.columns
        if self.registry is None:
            there = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
            return in_groups(values, {"": there}, lambda _, some: self._read(some), {}, columns)
        frames = framed(values)
        errors, groups = dict(frames.errors), {}
        for schema_id, places in frames.places.items():
            written = schemas(self.registry, "serialized").of(schema_id)
            for (found, head), at in self._by_index(values, places, errors).items():
                why = _unreadable(schema_id, written, found, self.message)
                if why is None:
                    groups[f"{schema_id} {found} {head}"] = at
                else:
                    errors |= dict.fromkeys(map(int, at), why)

        def read(group: str, some: pa.Array) -> Parsed:
            return self._read(pc.binary_replace_slice(some, 0, int(group.rpartition(" ")[2]), b""))

        return in_groups(values, groups, read, errors, columns)

    def _by_index(
        self, values: pa.Array, places: np.ndarray, errors: dict[int, str]
    ) -> dict[tuple[tuple[int, ...], int], np.ndarray]:
        """Return places by the indexes of messages, and by where the messages begin."""
        some = values.take(pa.array(places))
        marks = pc.binary_slice(some, HEAD, HEAD + 1)
        usual = pc.equal(marks, pa.scalar(b"\0")).to_numpy(zero_copy_only=False)
        found = dict[tuple[tuple[int, ...], int], list[int]]()
        others = places[~usual]
        for place, value in zip(
            others, some.filter(pa.array(~usual)).to_pylist(), strict=True
        ):  # messages that are not the first of their file
            try:
                found.setdefault(indexes(value, HEAD), []).append(int(place))
            except ValueError as error:
                errors[int(place)] = str(error)
        made = {of: np.array(at, np.int64) for of, at in found.items()}
        first = (First, HEAD + 1)
        if usual.any():
            made[first] = np.concatenate([places[usual], made.get(first, np.empty(0, np.int64))])
        return made

    def _read(self, values: pa.Array) -> Parsed:
        made_by = handler(self.message.name, self.message.files)
        columns = self.columns

        def rows(start: int, stop: int) -> pa.RecordBatch:
            made = made_by.array_to_record_batch(values[start:stop])
            try:
                arrays = [made.column(f.name).cast(f.type) for f in columns]
            except pa.ArrowInvalid as error:
                raise ValueError(str(error)) from None
            return pa.RecordBatch.from_arrays(arrays, schema=columns)

        return by_halves(len(values), rows, columns)


@lru_cache(64)
def handler(
    name: str, files: tuple[bytes, ...], enums: Literal["string", "int32"] = "string"
) -> Any:
    """Return what ptars reads and writes a message with. enums: the type of their columns, as ptars has it."""
    try:
        import ptars
    except ImportError as error:
        raise SetUpError(MISSING) from error
    config = ptars.PtarsConfig(
        timestamp_unit="us",
        enum_repr=enums,
        list_nullable=True,
        map_nullable=True,
        list_value_nullable=True,
        map_value_nullable=True,
    )
    descriptor = descriptor_of(name, files)
    return ptars.HandlerPool([descriptor.file], config).get_for_message(descriptor)


@lru_cache(1024)
def _file(written: Written) -> Any:
    """Return a writer's file. Raises StorageError if the registry does not give it as a descriptor."""
    from google.protobuf import descriptor_pb2
    from google.protobuf.message import DecodeError

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(
            base64.b64decode(written.text, validate=True)
        )
    except (binascii.Error, DecodeError, ValueError) as error:
        raise StorageError(
            "the schema registry does not give serialised descriptors (?format=serialized): use one that does"
        ) from error


def _unreadable(
    schema_id: int, written: Written | None, found: tuple[int, ...], message: Message
) -> str | None:
    """Return why messages with a schema cannot be read; None if they can."""
    if written is None:
        return f"the schema registry has no schema {schema_id}"
    if written.kind != "PROTOBUF":
        return f"schema {schema_id} is of {written.kind}, not Protobuf"
    try:
        name, theirs = message_at(_file(written), found)
    except ValueError as error:
        return f"schema {schema_id}: {error}"
    if name != message.name:
        return f"schema {schema_id} is of message {name}, not {message.name}"
    wrong = mismatch(descriptor_of(message.name, message.files), theirs)
    return None if wrong is None else f"schema {schema_id}: {wrong}"
