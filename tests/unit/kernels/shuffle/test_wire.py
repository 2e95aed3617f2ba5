"""Blobs: packed, found again where they lie, cut to size."""

from __future__ import annotations

import struct

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.shuffle import wire
from rechannel.kernels.shuffle.wire import (
    ALIGNMENT,
    DATA,
    MAGIC,
    REPORT,
    SCHEMA,
    Blob,
    encode,
    from_batches,
    pack,
    to_batches,
    unpack,
)


def blob(message: bytes = b"rows", **facts: object) -> Blob:
    known = {
        "kind": DATA,
        "input": 3,
        "producer": 1 << 20 | 7,
        "sequence": 9,
        "combined": True,
        "rows": 2**40,
        "message": pa.py_buffer(message),
    }
    return Blob(**{**known, **facts})  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000])
def test_a_blob_is_what_was_packed(size: int):
    given = blob(b"x" * size)
    data = pack(given)
    assert len(data) % ALIGNMENT == 0
    assert unpack(pa.py_buffer(data)) == given


def test_the_header_is_the_documented_one():
    data = pack(blob(b"rows"))
    assert data[:4] == MAGIC == b"RCB1"
    assert struct.unpack("<HHIIIIQ", data[4:32]) == (DATA, 3, 4, 1 << 20 | 7, 9, 1, 2**40)
    assert data[64:68] == b"rows"


def test_other_bytes_are_refused():
    with pytest.raises(ValueError, match="magic"):
        unpack(pa.py_buffer(b"RCB0" + pack(blob())[4:]))


def test_blobs_come_out_of_batches_in_order_and_uncopied():
    parcels = [(i, pack(blob(bytes([65 + i]) * 70, sequence=i))) for i in range(5)]
    (batch,) = to_batches(parcels)
    assert batch.schema == SCHEMA
    assert batch.column(0).to_pylist() == [0, 1, 2, 3, 4]
    found = list(from_batches([batch, batch.slice(3)]))
    assert [b.sequence for b in found] == [0, 1, 2, 3, 4, 3, 4]
    data = batch.column(1).buffers()[2]
    assert all(data.address <= b.message.address < data.address + data.size for b in found)
    assert all((b.message.address - data.address) % ALIGNMENT == 0 for b in found)


def test_many_parcels_are_cut_into_batches(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "BATCH_BYTES", 300)
    parcels = [(0, pack(blob(b"x" * 10))) for _ in range(7)]
    assert [batch.num_rows for batch in to_batches(parcels)] == [3, 3, 1]


def test_nothing_makes_no_batch():
    assert list(to_batches([])) == []


def test_large_batches_are_cut_near_the_bound(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wire, "BLOB_BYTES", 800)
    batch = pa.RecordBatch.from_arrays([pa.array(np.arange(1000))], ["v"])
    pieces = list(encode(batch))
    assert pa.Table.from_batches(pieces).equals(pa.Table.from_batches([batch]))
    assert all(piece.nbytes <= 800 for piece in pieces)
    assert len(pieces) == 10


def test_no_rows_make_no_piece():
    assert list(encode(pa.RecordBatch.from_arrays([pa.array([], pa.int64())], ["v"]))) == []


def test_a_report_is_told_from_rows():
    (batch,) = to_batches([(0, pack(blob())), (0, pack(blob(b"{}", kind=REPORT)))])
    assert [b.kind for b in from_batches([batch])] == [DATA, REPORT]
