"""Decode the blobs of one timestep into rows sorted by key.

Their order does not depend on retries, on the order of arrival or on the number of tasks.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rechannel.errors import KeyTooLargeError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.concatenate import LIMIT, joined, narrowed, wide_columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import group_rows, nested_order, sort_index, take
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.send import wire_schema
from rechannel.kernels.shuffle.spool import Place, Spool
from rechannel.kernels.shuffle.wire import CONTROL, DATA, REPORT, WATERMARK, Blob
from rechannel.model.buffers import IntArray
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import HashArray

NOTHING = pa.py_buffer(b"")


@dataclass(frozen=True, eq=False, kw_only=True)
class Received:
    """Rows that one task received in one timestep."""

    keys: Columns
    """Key columns, one row per distinct key, ascending by hash."""
    hashes: HashArray
    """Hash of each key, shape (keys,)."""
    values: Columns
    """Columns of the wire schema, sorted by key, then by stream order."""
    groups: Groups
    """Which rows of `values` belong to which key."""
    combined: bool
    """Whether `values` are partial states, not raw rows."""
    rows: int
    """Rows received, before grouping."""


@dataclass(frozen=True, kw_only=True)
class Inbox:
    """Blobs that one task received, by kind."""

    data: list[Blob]
    """Rows."""
    watermarks: list[Blob]
    """Event times of its producers."""
    reports: list[bytes]
    """Reports of source tasks that travel with their rows."""
    controls: list[Blob]
    """Control messages of its producers."""

    @classmethod
    def of(cls, blobs: Iterable[Blob], spool: Spool | None = None, most: int = 0) -> Inbox:
        """Sort blobs by kind. spool: takes the data once it has more than `most` bytes; None keeps it in memory."""
        filling = Filling(spool, most)
        for blob in blobs:
            filling.add(blob)
        return filling.inbox()


class Filling:
    """An inbox while blobs arrive."""

    def __init__(self, spool: Spool | None = None, most: int = 0) -> None:
        """See `Inbox.of`."""
        self._spool, self._most = spool, most
        self._by_kind: dict[int, list[Blob]] = {DATA: [], WATERMARK: [], REPORT: [], CONTROL: []}
        self._places: list[Place] = []
        self._size = 0

    def add(self, blob: Blob) -> None:
        """Take the next blob."""
        self._by_kind[blob.kind].append(blob)
        if self._spool is None or blob.kind != DATA:
            return
        self._size += blob.message.size
        if self._size > self._most:
            data, places = self._by_kind[DATA], self._places
            for number in range(len(places), len(data)):
                places.append(self._spool.write(data[number].message))
                data[number] = replace(data[number], message=NOTHING)

    def inbox(self) -> Inbox:
        """Return all that has arrived."""
        by_kind, places = self._by_kind, self._places
        data = by_kind[DATA]
        if self._spool is not None and places:
            messages = self._spool.read(places)
            data = [replace(b, message=m) for b, m in zip(data, messages, strict=True)]
        return Inbox(
            data=data,
            watermarks=by_kind[WATERMARK],
            reports=[blob.message.to_pybytes() for blob in by_kind[REPORT]],
            controls=by_kind[CONTROL],
        )


def receive(can: Capabilities, blobs: list[Blob], rows: list[slice] | None = None) -> Received:
    """Sort and group everything that arrived. rows: which rows of each blob to take; None means all.

    Either all blobs of a timestep are combined or none, as its Configuration says. Blobs are ordered by (input,
    producer, sequence) first, so the order of arrival does not matter. If the operator depends on the order of rows,
    they are then sorted by (input, stream order), so the number of producers does not matter either.
    """
    order = sorted(
        range(len(blobs)),
        key=lambda i: (blobs[i].input, blobs[i].producer, blobs[i].sequence),
    )
    blobs = [blobs[i] for i in order]
    combined = bool(blobs) and blobs[0].combined
    schema = wire_schema(can, combined=combined)
    batches = _batches(blobs, schema, None if rows is None else [rows[i] for i in order])
    columns = [
        joined([batch.column(i) for batch in batches])
        if batches
        else pa.array([], schema.field(i).type)
        for i in range(len(schema))
    ]
    width = can.sent
    keys, values = columns[:width], columns[width:]
    hashes = hash_columns(keys[: can.hashed]) if batches else np.empty(0, dtype=np.uint64)
    places = _order(can, batches, blobs, hashes, keys, values, combined=combined)
    if can.logic.ordered and not combined:
        values = values[:-1]
    hashes, keys, values = hashes[places], take(keys, places), take(values, places)
    groups, untangled = group_rows(hashes, keys, can.sent_order(keys))
    if untangled is not None:
        hashes, keys, values = hashes[untangled], take(keys, untangled), take(values, untangled)
    first = groups.starts
    whole = groups.count == groups.rows
    keys = keys if whole else take(keys, first)
    return Received(
        keys=narrowed(keys, pa.schema(list(schema)[:width])),
        hashes=hashes if whole else hashes[first],
        values=values,
        groups=groups,
        combined=combined,
        rows=sum(batch.num_rows for batch in batches),
    )


def _batches(
    blobs: list[Blob], schema: pa.Schema, rows: list[slice] | None
) -> list[pa.RecordBatch]:
    """Return the rows of blobs, zero-copy. rows: which ones of each blob; None means all."""
    batches = [pa.ipc.read_record_batch(blob.message, schema) for blob in blobs]
    if rows is None:
        return batches
    return [b.slice(c.start, c.stop - c.start) for b, c in zip(batches, rows, strict=True)]


def refuse_too_large(operator: str, timestep: int, can: Capabilities, received: Received) -> None:
    """Raise KeyTooLargeError if a column of one key's rows has more bytes than an operator can take."""
    schema = wire_schema(can, combined=received.combined)
    fields = list(schema)[can.sent : can.sent + len(received.values)]
    wide = wide_columns(received.values, pa.schema(fields))
    if not wide:
        return
    most = int(np.argmax(received.groups.sizes))
    key = {
        field.name: column[most].as_py()
        for field, column in zip(can.logic.key_schema, received.keys, strict=False)
    }
    msg = (
        f"operator {operator!r}, timestep {timestep}: the key {key!r} has"
        f" {received.groups.sizes[most]} rows with more than {LIMIT >> 20} MiB in column"
        f" {', '.join(wide)}, and the rows of one key in one timestep are handled at once. Nothing of the"
        " timestep was committed: let it read less (`timestep_bytes`), withdraw it with `rechannel repair`,"
        " drop the column, or key by more columns"
    )
    raise KeyTooLargeError(msg)


def _order(
    can: Capabilities,
    batches: list[pa.RecordBatch],
    blobs: list[Blob],
    hashes: HashArray,
    keys: Columns,
    values: Columns,
    *,
    combined: bool,
) -> IntArray:
    """Return the stable order by hash. Each blob is already sorted, so merging them is nearly linear (timsort)."""
    row_order = can.sent_order(keys)
    if not (can.logic.ordered and not combined and len(hashes)):
        return (
            np.argsort(hashes, kind="stable")
            if row_order is None
            else sort_index(hashes, row_order)
        )
    sizes = [batch.num_rows for batch in batches]
    inputs = np.repeat(np.array([blob.input for blob in blobs], dtype=np.int64), sizes)
    stream = values[-1].to_numpy(zero_copy_only=False)
    among = () if row_order is None else (row_order,)
    return nested_order(hashes, *among, inputs, stream)
