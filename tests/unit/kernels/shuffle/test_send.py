"""What a producer sends: cut by owner, combined where that is asked, with the stream's order."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle import send
from rechannel.kernels.shuffle.send import Channel, Sender, wire_schema
from rechannel.kernels.shuffle.wire import Blob
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from rechannel.operators.aggregate.functions import Last
from rechannel.operators.aggregate.logic import AggregateLogic
from tests.support.tasks import ROWS, blobs_of, counting, rows, sent

LETTERS = rows(*((letter, i) for i, letter in enumerate("abcdefghijabcde")))


def ordered_logic() -> AggregateLogic:
    return AggregateLogic.bind(["k"], {"last": Last(column="v")}, ROWS)


def read(blob: Blob, logic: AggregateLogic) -> list[tuple[object, ...]]:
    schema = wire_schema(Capabilities(logic), combined=blob.combined)
    batch = pa.ipc.read_record_batch(blob.message, schema)
    return list(zip(*(column.to_pylist() for column in batch.columns), strict=True))


def test_every_row_goes_to_the_owner_of_its_key_once():
    routing = Routing(starts=(0, 2**62, 2**63), owners=(2, 0, 2), tasks=3)
    parcels = sent(counting(), [(LETTERS, 0)], routing=routing, first=10)
    found = []
    for (target, _), blob in zip(parcels, blobs_of(parcels), strict=True):
        for row in read(blob, counting()):
            owner = routing.task_of(hash_columns([pa.array([row[0]])]))[0]
            assert target == 10 + owner
            found.append(row)
    assert sorted(found) == sorted(zip(*LETTERS.to_pydict().values(), strict=True))


def test_rows_of_a_blob_ascend_by_hash():
    (blob,) = blobs_of(sent(counting(), [(LETTERS, 0)]))
    hashes = hash_columns([pa.array([row[0] for row in read(blob, counting())])])
    assert (hashes[1:] >= hashes[:-1]).all()


def test_a_null_key_travels_like_any_other():
    (blob,) = blobs_of(sent(counting(), [(rows((None, 1), ("a", 2), (None, 3)), 0)]))
    assert sorted(read(blob, counting()), key=repr) == [("a", 2), (None, 1), (None, 3)]


def test_combined_rows_are_one_per_key():
    (blob,) = blobs_of(sent(counting(), [(LETTERS, 0)], combined=True))
    assert blob.combined
    assert blob.rows == 10
    by_key = {row[0]: row[1] for row in read(blob, counting())}
    assert by_key["a"] == 2
    assert by_key["j"] == 1


def test_order_travels_where_the_operator_needs_it():
    logic = ordered_logic()
    per_row = np.arange(100, 115, dtype=np.uint64)
    blobs = blobs_of(sent(logic, [(LETTERS, 7), (LETTERS, per_row)]))
    assert wire_schema(Capabilities(logic), combined=False).names == ["k", "v", "_rc_order"]
    assert {row[2] for row in read(blobs[0], logic)} == {7}
    assert {row[:2]: row[2] for row in read(blobs[1], logic)}["c", 2] == 102


def test_blobs_are_numbered_over_all_batches():
    routing = Routing.even(bins=2, tasks=2)
    parcels = sent(counting(), [(LETTERS, 0)] * 2, routing=routing, producer=5, into=3)
    blobs = blobs_of(parcels)
    assert [blob.sequence for blob in blobs] == [0, 1, 2, 3]
    assert {(blob.producer, blob.input) for blob in blobs} == {(5, 3)}


def test_large_batches_are_sorted_a_chunk_at_a_time(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(send, "CHUNK_ROWS", 4)
    logic = ordered_logic()
    order = np.arange(15, dtype=np.uint64)
    blobs = blobs_of(sent(logic, [(LETTERS, order)]))
    assert [blob.rows for blob in blobs] == [4, 4, 4, 3]
    assert sorted(row[2] for blob in blobs for row in read(blob, logic)) == list(range(15))


def test_no_rows_send_nothing():
    assert sent(counting(), [(rows(), 0)]) == []


def test_what_was_sent_is_counted():
    channel = Channel(
        operator="op",
        input=0,
        first=0,
        routing=Routing.even(bins=2, tasks=2),
        can=Capabilities(counting()),
        combined=True,
    )
    sender = Sender(channel, 0)
    size = sum(len(blob) for _, blob in sender.send(LETTERS, 0))
    stats = sender.stats
    assert (stats.offered, stats.keys, stats.sent, stats.size) == (15, 10, 10, size)
