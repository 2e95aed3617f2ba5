"""The contents of a segment, and the errors for damaged ones."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.errors import DamagedStateError
from rechannel.model.hashspace import HashArray
from rechannel.state.segments.layout import Buffer

_METADATA = b"rechannel.segment"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a file."""

    name: str
    buffers: tuple[Buffer, ...]
    """Where its bytes are."""


def batch_of(
    hashes: HashArray,
    columns: pa.RecordBatch,
    facts: Mapping[str, Any],
    dropped: npt.NDArray[np.bool_] | None,
) -> pa.RecordBatch:
    """Return the batch of a segment. facts: of its writer, for the metadata. Raises ValueError."""
    if len(hashes) != columns.num_rows or not ascends(hashes):
        msg = f"a segment needs one hash per row, ascending: {len(hashes)} for {columns.num_rows}"
        raise ValueError(msg)
    encoded = [field.name for field in columns.schema if _has_dictionary(field.type)]
    if encoded:
        msg = f"columns {encoded} are dictionary-encoded: decode them before writing a segment"
        raise ValueError(msg)
    tombstones = dropped is not None and bool(dropped.any())
    raw = pa.py_buffer(np.ascontiguousarray(hashes, dtype=np.uint64))
    arrays = [pa.Array.from_buffers(pa.uint64(), len(hashes), [None, raw]), *columns.columns]
    fields = [pa.field("_hash", pa.uint64(), nullable=False), *columns.schema]
    if tombstones:
        arrays.append(pa.array(dropped, type=pa.bool_()))
        fields.append(pa.field("_dropped", pa.bool_(), nullable=False))
    told = {**facts, "dropped": tombstones}
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, metadata={_METADATA: json.dumps(told).encode()})
    )


def facts_of(schema: pa.Schema) -> dict[str, Any]:
    """Return what the writer recorded about itself and the columns."""
    facts: dict[str, Any] = json.loads(schema.metadata[_METADATA].decode())
    return facts


def _has_dictionary(kind: pa.DataType) -> bool:
    children = (kind.field(i).type for i in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, children))


def ascends(hashes: HashArray) -> bool:
    """Return whether no hash is below the previous one."""
    return bool((hashes[1:] >= hashes[:-1]).all())


def block_damaged(key: str, columns: Sequence[Column], size: int, block: int) -> DamagedStateError:
    """Return the error for a damaged block of `size` bytes; it names the columns in the block."""
    start, stop = block * size, (block + 1) * size
    met = [
        column.name
        for column in columns
        if any(buffer.start < stop and start < buffer.stop for buffer in column.buffers)
    ]
    return column_damaged(key, ", ".join(met) or "head", block, size)


def column_damaged(key: str, column: str, block: int, size: int) -> DamagedStateError:
    """Return the error for a damaged block of `size` bytes, found while reading one column."""
    where = f"bytes {block * size} to {(block + 1) * size}"
    return segment_damaged(
        key, f"column {column!r}, block {block} ({where}) does not match its checksum"
    )


def segment_damaged(key: str, what: str) -> DamagedStateError:
    """Return the error for a damaged segment. what: the part that is damaged."""
    msg = (
        f"segment {key} is damaged: {what}. Its rows cannot be reconstructed: restore the file from a copy of"
        " the state directory, or start from an empty one; `rechannel verify` finds all damage"
    )
    return DamagedStateError(msg)
