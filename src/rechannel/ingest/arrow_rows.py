"""Rows as an Arrow IPC stream.

Bytes of strangers may claim more rows than they have, or expand without end. So only plain columns of the declared
types are taken, neither compressed nor encoded by a dictionary, and everything is checked before it is used.
"""

from __future__ import annotations

import struct

import pyarrow as pa

from rechannel.ingest.columns import BadRowsError, Columns
from rechannel.model.ddl import type_name

_HEADER, _COMPRESSION = 2, 3
"""Fields of the tables Message and RecordBatch of Arrow's format."""


def read_stream(body: bytes, columns: Columns) -> pa.RecordBatch:
    """Return the rows of a stream, with its columns in any order. Raises BadRowsError, TooManyRowsError."""
    try:
        _check_messages(body)
        with pa.ipc.open_stream(pa.py_buffer(body)) as reader:
            _check_schema(reader.schema, columns)
            batches, count = list[pa.RecordBatch](), 0
            for batch in reader:
                count += batch.num_rows
                columns.check_count(count)
                batch.validate(full=True)
                batches.append(_ordered(batch, columns))
    except (pa.ArrowException, OSError, struct.error) as error:
        raise BadRowsError(f"the body is no Arrow IPC stream: {error}") from None
    if not batches:
        return pa.RecordBatch.from_pylist([], columns.schema)
    rows = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    columns.check_nulls(rows)
    return rows


def _check_messages(body: bytes) -> None:
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if message.type == "dictionary":
            raise BadRowsError("a column is encoded by a dictionary: send plain columns")
        if message.type == "record batch" and _is_compressed(message.metadata.to_pybytes()):
            raise BadRowsError("the stream is compressed: send it without compression")


def _is_compressed(metadata: bytes) -> bool:
    """Return whether a record batch names a compression. metadata: a Message, as a flatbuffer."""
    (root,) = struct.unpack_from("<I", metadata)
    header = _field(metadata, root, _HEADER)
    if not header:
        return False
    (away,) = struct.unpack_from("<I", metadata, header)
    return bool(_field(metadata, header + away, _COMPRESSION))


def _field(buffer: bytes, table: int, number: int) -> int:
    """Return where a field of a table begins; 0 if it is absent."""
    (back,) = struct.unpack_from("<i", buffer, table)
    vtable = table - back
    (size,) = struct.unpack_from("<H", buffer, vtable)
    at = 4 + 2 * number
    if at >= size:
        return 0
    (offset,) = struct.unpack_from("<H", buffer, vtable + at)
    return table + int(offset) if offset else 0


def _check_schema(found: pa.Schema, columns: Columns) -> None:
    for each in columns.schema:
        if found.names.count(each.name) != 1:
            raise BadRowsError("it is missing, or there twice", column=each.name)
        kind = found.field(each.name).type
        if kind != each.type:
            raise BadRowsError(
                f"it is {type_name(kind)}, and is declared as {type_name(each.type)}",
                column=each.name,
            )
    unknown = [name for name in found.names if name not in columns.schema.names]
    if unknown and not columns.ignore_unknown:
        raise BadRowsError("there is no such column", column=unknown[0])


def _ordered(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    chosen = [batch.column(name) for name in columns.schema.names]
    return pa.RecordBatch.from_arrays(chosen, schema=columns.schema)
