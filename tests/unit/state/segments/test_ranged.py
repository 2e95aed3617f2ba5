"""Rows of a file that is here in part, against brute force: blocks of 64 bytes, marks every 8 rows."""

from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.cache import partial_file as cachefile
from rechannel.state.cache.fetch_time import fetched
from rechannel.state.segments import blocks, ranged
from rechannel.state.segments import segment as segments
from rechannel.state.segments.segment import SegmentMeta, open_segment, write_segment
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.shared import SharedStore, _files

META = SegmentMeta(operator="op", timestep=1, task=0, attempt="a", logic=1, schema="")
ROWS = 240
KINDS = [
    pa.array([True, None, False] * 80),
    pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(7)] * 80),
    pa.array([b"abc", b"def", None] * 80, type=pa.binary(3)),
    pa.array([f"{n}" * (n % 9) if n % 5 else None for n in range(ROWS)]),
    pa.array([f"{n}" * (n % 9) for n in range(ROWS)], type=pa.large_string()),
    pa.array([b"", None, b""] * 80),
    pa.array(["a", None, "a string that is longer than twelve"] * 80, type=pa.string_view()),
    pa.array(
        [list(range(n % 7)) if n % 4 else None for n in range(ROWS)], type=pa.list_(pa.int16())
    ),
    pa.array([[f"{n}", None] * (n % 3) for n in range(ROWS)], type=pa.large_list(pa.string())),
    pa.array([[[n], [], [n, n]] for n in range(ROWS)], type=pa.list_(pa.list_(pa.int64()))),
    pa.array([[1, 2, 3], None, [4, 5, 6]] * 80, type=pa.list_(pa.int32(), 3)),
    pa.array([{"x": n, "y": f"{n}", "z": [n] * (n % 3)} for n in range(ROWS)]),
    pa.array([[("k", 1)], None, []] * 80, type=pa.map_(pa.string(), pa.int64())),
    pa.nulls(ROWS),
]


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(blocks, "FINE_BLOCK", 64)
    monkeypatch.setattr(segments, "FINE_BLOCK", 64)
    monkeypatch.setattr(cachefile, "PIECE", 64)
    monkeypatch.setattr(ranged, "MARK_EVERY", 8)


def opened(store):
    segments._segments._entries.clear()
    _files._entries.clear()
    return open_segment(store, "segments/op/1.arrow")


@pytest.mark.parametrize("array", KINDS, ids=lambda array: str(array.type))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=12)
@given(data=st.data())
def test_rows_are_what_was_written_and_little_else_is_fetched(array, data, tmp_path_factory):
    folder = tmp_path_factory.mktemp("store")
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    shape = data.draw(st.sampled_from(["uniform", "few", "one"]))
    pool = rng.integers(0, 2**64, {"uniform": 10_000, "few": 5, "one": 1}[shape], dtype=np.uint64)
    hashes = np.sort(rng.choice(pool, ROWS))
    local = LocalStore(folder / "state", Durability.PROCESS)
    batch = pa.record_batch({"a": array, "b": pa.array(np.arange(ROWS))})
    dropped = np.arange(ROWS) % 50 == 0
    write_segment(local, "segments/op/1.arrow", hashes, batch, META, dropped=dropped)
    segment = opened(SharedStore(local, str(folder / "cache")))
    assert segment.partial

    edges = st.sampled_from([0, SPACE, *hashes.tolist(), *(hashes + np.uint64(1)).tolist()])
    pairs = data.draw(st.lists(st.tuples(edges, edges), max_size=4))
    where = Intervals.of((min(pair), max(pair)) for pair in pairs)
    pieces = segment.slices(where)
    assert pieces == list(where.slices(hashes))
    inside = np.unique(np.concatenate([hashes[piece] for piece in pieces] or [hashes[:0]]))
    assert segment.search(inside, where).tolist() == np.searchsorted(hashes, inside).tolist()

    rows = np.concatenate([np.arange(p.start, p.stop) for p in pieces] or [np.empty(0, np.int64)])
    some = rng.permutation(rows)[: data.draw(st.integers(0, 12))]
    before = fetched()
    segment.touch(some)
    once = fetched().since(before).bytes
    segment.touch(some)
    assert fetched().since(before).bytes == once
    assert once <= local.size("segments/op/1.arrow")
    for index in range(2):
        here, written = segment.column(index), batch.column(index)
        assert [here[row].as_py() for row in some.tolist()] == [
            written[row].as_py() for row in some.tolist()
        ]
    for piece in pieces:
        segment.touch(piece)
        length = piece.stop - piece.start
        for index in range(2):
            found = segment.column(index).slice(piece.start, length)
            assert found.equals(batch.column(index).slice(piece.start, length))
        assert segment.hashes[piece].tolist() == hashes[piece].tolist()
    assert segment.dropped.tolist() == dropped.tolist()


def test_one_row_costs_a_block_or_two_per_buffer(tmp_path):
    hashes = np.arange(ROWS, dtype=np.uint64) << np.uint64(56)
    hashes = np.sort(hashes)
    batch = pa.record_batch({"s": pa.array(["x" * 100] * ROWS), "n": pa.array(np.arange(ROWS))})
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    write_segment(local, "segments/op/1.arrow", hashes, batch, META)
    segment = opened(SharedStore(local, str(tmp_path / "cache")))
    before = fetched()
    segment.touch(np.array([120]))
    assert 0 < fetched().since(before).bytes <= 64 * (1 + 2 + 3 + 1)
    assert segment.column(0)[120].as_py() == "x" * 100
