"""Blobs of one timestep become rows sorted by key, in an order that no retry, arrival or task count can change."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.groups import Groups
from rechannel.kernels.logic import Columns, StatefulLogic, minor_of
from rechannel.kernels.send import wire_schema
from rechannel.kernels.sorting import group_rows, nested_order, sort_index, take
from rechannel.kernels.wire import DATA, MARK, REPORT, Blob
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import HashArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Received:
    """Rows of one task in one timestep.

    keys, hashes: one row per distinct key, ascending by hash.
    values, groups: wire columns sorted by key, then stream order; which rows belong to which key.
    rows: rows received, before grouping.
    """

    keys: Columns
    hashes: HashArray
    values: Columns
    groups: Groups
    combined: bool
    rows: int


@dataclass(frozen=True, kw_only=True)
class Inbox:
    """What one task got: data, what its producers say of event time, and reports that travel with them."""

    data: list[Blob]
    marks: list[Blob]
    reports: list[bytes]

    @classmethod
    def of(cls, blobs: Iterable[Blob]) -> Inbox:
        """Sort by kind."""
        by_kind: dict[int, list[Blob]] = {DATA: [], MARK: [], REPORT: []}
        for blob in blobs:
            by_kind[blob.kind].append(blob)
        reports = [blob.message.to_pybytes() for blob in by_kind[REPORT]]
        return cls(data=by_kind[DATA], marks=by_kind[MARK], reports=reports)


def receive(logic: StatefulLogic, blobs: list[Blob]) -> Received:
    """Sort and group everything that arrived.

    All blobs of a timestep are combined or none is: that is part of its Configuration. They are ordered by
    (input, producer, sequence) first, so arrival does not matter. Where the operator depends on
    the order of rows, these are then sorted by (input, stream order), so the number of producers does not
    matter either.
    """
    blobs = sorted(blobs, key=lambda blob: (blob.input, blob.producer, blob.sequence))
    combined = bool(blobs) and blobs[0].combined
    schema = wire_schema(logic, combined=combined)
    batches = [pa.ipc.read_record_batch(blob.message, schema) for blob in blobs]
    width = logic.sent
    columns = [
        pa.concat_arrays([batch.column(i) for batch in batches])
        if batches
        else pa.array([], schema.field(i).type)
        for i in range(len(schema))
    ]
    keys, values = columns[:width], columns[width:]
    hashes = hash_columns(keys[: logic.hashed]) if batches else np.empty(0, dtype=np.uint64)
    order = _order(logic, batches, blobs, hashes, keys, values, combined=combined)
    if logic.ordered and not combined:
        values = values[:-1]
    hashes, keys, values = hashes[order], take(keys, order), take(values, order)
    groups, untangled = group_rows(hashes, keys, minor_of(logic, keys))
    if untangled is not None:
        hashes, keys, values = hashes[untangled], take(keys, untangled), take(values, untangled)
    first = groups.starts
    whole = groups.count == groups.rows
    return Received(
        keys=keys if whole else take(keys, first),
        hashes=hashes if whole else hashes[first],
        values=values,
        groups=groups,
        combined=combined,
        rows=sum(blob.rows for blob in blobs),
    )


def _order(
    logic: StatefulLogic,
    batches: list[pa.RecordBatch],
    blobs: list[Blob],
    hashes: HashArray,
    keys: Columns,
    values: Columns,
    *,
    combined: bool,
) -> npt.NDArray[np.int64]:
    """Stable order by hash; every blob is sorted already, so merging them is nearly linear (timsort)."""
    minor = minor_of(logic, keys)
    if not (logic.ordered and not combined and len(hashes)):
        return np.argsort(hashes, kind="stable") if minor is None else sort_index(hashes, minor)
    sizes = [batch.num_rows for batch in batches]
    inputs = np.repeat(np.array([blob.input for blob in blobs], dtype=np.int64), sizes)
    stream = values[-1].to_numpy(zero_copy_only=False)
    among = () if minor is None else (minor,)
    return nested_order(hashes, *among, inputs, stream)
