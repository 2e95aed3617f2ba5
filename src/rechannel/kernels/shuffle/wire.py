"""What travels through an exchange: rows (partition, blob).

A blob is a 64-byte header and one Arrow record batch message without its schema, which both ends know. Its length is a
multiple of 64, so that consecutive blobs in an Arrow binary column stay aligned and are read in place.

    0   4   magic "RCB1"            12  4  producer task
    4   2   kind                    16  4  sequence number within the producer
    6   2   input of the receiver   20  4  1 if rows are partial states (combined)
    8   4   length of the message   24  8  rows

Kinds: 1 data, 2 report (JSON, see `report`), 3 watermark (JSON, see `watermarks`), 4 control (JSON, see
`tasks/control`), 5 the reports of many tasks (see `report_table`).
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import pyarrow as pa

MAGIC = b"RCB1"
DATA, REPORT, WATERMARK, CONTROL, REPORT_TABLE = 1, 2, 3, 4, 5
ALIGNMENT = 64
BLOB_BYTES = 1 << 19
"""Blobs are cut to about this size: the JVM still allocates byte arrays of this size cheaply."""

BATCH_BYTES = 64 << 20
"""Spark receives blobs in Arrow batches of about this size at most."""

SCHEMA = pa.schema([pa.field("p", pa.int32(), False), pa.field("blob", pa.binary(), False)])
DDL = "p int not null, blob binary not null"

_HEADER = struct.Struct("<4sHHIIIIQ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Blob:
    """One parcel for one partition of an exchange."""

    kind: int
    input: int
    producer: int
    sequence: int
    combined: bool
    rows: int
    message: pa.Buffer


def pack(blob: Blob) -> bytes:
    """Return header, message and padding as bytes."""
    size = blob.message.size
    header = _HEADER.pack(
        MAGIC,
        blob.kind,
        blob.input,
        size,
        blob.producer,
        blob.sequence,
        int(blob.combined),
        blob.rows,
    )
    padding = -(ALIGNMENT + size) % ALIGNMENT
    return b"".join((header.ljust(ALIGNMENT, b"\0"), memoryview(blob.message), bytes(padding)))


def unpack(data: pa.Buffer) -> Blob:
    """Invert `pack` without copying the message. Raises ValueError for bytes that are not a blob."""
    magic, kind, into, size, producer, sequence, combined, rows = _HEADER.unpack_from(data)
    if magic != MAGIC:
        msg = "a blob of an exchange does not start with its magic number"
        raise ValueError(msg)
    return Blob(
        kind=kind,
        input=into,
        producer=producer,
        sequence=sequence,
        combined=bool(combined),
        rows=rows,
        message=data.slice(ALIGNMENT, size),
    )


def to_batches(parcels: Iterable[tuple[int, bytes]]) -> Iterator[pa.RecordBatch]:
    """Yield record batches of (partition, blob) rows of about BATCH_BYTES each."""
    targets: list[int] = []
    blobs: list[bytes] = []
    size = 0
    for target, blob in parcels:
        targets.append(target)
        blobs.append(blob)
        size += len(blob)
        if size >= BATCH_BYTES:
            yield batch_of(targets, blobs)
            targets, blobs, size = [], [], 0
    if blobs:
        yield batch_of(targets, blobs)


def batch_of(targets: list[int], blobs: list[bytes]) -> pa.RecordBatch:
    """Return (partition, blob) rows as one batch. Blobs are copied once; `pa.array` copies them as its buffer grows."""
    ends = np.fromiter(accumulate(map(len, blobs), initial=0), np.int32, len(blobs) + 1)
    held = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(blobs))]
    columns = [
        pa.array(targets, pa.int32()),
        pa.Array.from_buffers(pa.binary(), len(blobs), held),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def from_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[Blob]:
    """Yield the blobs of (partition, blob) rows."""
    for batch in batches:
        yield from _blobs_of(batch)


def addressed(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, Blob]]:
    """Yield (partition, blob) rows as such pairs."""
    for batch in batches:
        yield from zip(batch.column(0).to_pylist(), _blobs_of(batch), strict=True)


def _blobs_of(batch: pa.RecordBatch) -> Iterator[Blob]:
    column = batch.column(1)
    offsets = np.frombuffer(column.buffers()[1], dtype=np.int32)
    offsets = offsets[column.offset : column.offset + len(column) + 1].tolist()
    data = column.buffers()[2]
    for start, stop in pairwise(offsets):
        yield unpack(data.slice(start, stop - start))


def encode(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Cut a batch into slices whose messages stay near BLOB_BYTES."""
    pieces = max(1, -(-batch.nbytes // BLOB_BYTES))
    step = max(1, -(-batch.num_rows // pieces))
    for start in range(0, batch.num_rows, step):
        yield batch.slice(start, step)
