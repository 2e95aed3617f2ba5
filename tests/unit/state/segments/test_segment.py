from __future__ import annotations

import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import DamagedStateError, MissingFileError, NewerFormatError
from rechannel.state.segments import segment as module
from rechannel.state.segments.blocks import FINE_BLOCK as BLOCK
from rechannel.state.segments.segment import (
    SegmentMeta,
    open_segment,
    verify_segment,
    write_segment,
)
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.memory import MemoryStore

META = SegmentMeta(operator="counts", timestep=7, task=2, attempt="3-41", logic=1, schema="f00d")
KEY = "segments/counts/7-2.arrow"


def hashes(rows: int) -> np.ndarray:
    return np.sort(np.random.default_rng(rows).integers(0, 2**64, rows, dtype=np.uint64))


def columns(rows: int) -> pa.RecordBatch:
    rng = np.random.default_rng(rows)
    return pa.record_batch(
        {
            "key": pa.array(rng.integers(0, 2**40, rows)),
            "count": pa.array(rng.integers(0, 9, rows), mask=rng.random(rows) < 0.1),
            "name": pa.array([f"name {n}" * (n % 4) for n in range(rows)]),
        }
    )


def flip(store, place: int, key: str = KEY) -> None:
    """Change one byte, as a fresh file."""
    bad = bytearray(store.read(key))
    bad[place] ^= 0x10
    store.put(key, bytes(bad))


@pytest.fixture(params=["memory", "local"])
def store(request, tmp_path):
    local = LocalStore(tmp_path, Durability.PROCESS)
    return MemoryStore() if request.param == "memory" else local


def test_what_was_written_is_read(store):
    h, c = hashes(1000), columns(1000)
    size = write_segment(store, KEY, h, c, META).size
    segment = open_segment(store, KEY)
    assert size == store.size(KEY) == segment.size
    assert segment.meta == META
    assert segment.rows == 1000
    assert segment.hashes.dtype == np.uint64
    assert segment.hashes.tolist() == h.tolist()
    assert segment.schema == c.schema
    assert [segment.column(i) for i in range(3)] == c.columns
    assert segment.dropped is None
    segment.touch(slice(None))
    segment.touch(np.array([5, 3]))
    verify_segment(store, KEY)


def test_nothing_is_copied(store):
    write_segment(store, KEY, hashes(1000), columns(1000), META)
    file = pa.py_buffer(store.read(KEY))
    segment = open_segment(store, KEY)
    addresses = [segment.hashes.ctypes.data]
    addresses += [b.address for i in range(3) for b in segment.column(i).buffers() if b]
    assert all(file.address < a < file.address + file.size for a in addresses)
    assert not segment.hashes.flags.writeable


def test_plain_arrow_reads_it(store):
    c = columns(1000)
    dropped = np.arange(1000) % 3 == 0
    write_segment(store, KEY, hashes(1000), c, META, dropped=dropped)
    table = pa.ipc.open_file(pa.py_buffer(store.read(KEY))).read_all()
    assert table.column_names == ["_hash", "key", "count", "name", "_dropped"]
    assert table["_hash"].to_pylist() == hashes(1000).tolist()
    assert table["_dropped"].to_pylist() == dropped.tolist()
    assert table.select(["key", "count", "name"]).to_batches()[0].equals(c)
    assert b'"operator": "counts"' in table.schema.metadata[b"rechannel.segment"]


def test_tombstones_are_a_column_only_where_needed(store):
    c = columns(10)
    write_segment(store, KEY, hashes(10), c, META, dropped=np.zeros(10, dtype=np.bool_))
    assert open_segment(store, KEY).dropped is None
    dropped = np.arange(10) == 4
    write_segment(store, KEY, hashes(10), c, META, dropped=dropped)
    segment = open_segment(store, KEY)
    assert segment.dropped.tolist() == dropped.tolist()
    assert segment.schema == c.schema


def test_columns_of_the_user_may_have_any_name(store):
    odd = pa.record_batch({"_hash": pa.array([1]), "_dropped": pa.array([True]), "": pa.array([2])})
    write_segment(store, KEY, hashes(1), odd, META)
    segment = open_segment(store, KEY)
    assert segment.dropped is None
    assert segment.schema == odd.schema
    assert segment.column(1).to_pylist() == [True]


def test_a_segment_may_be_empty(store):
    write_segment(store, KEY, hashes(0), columns(0), META)
    segment = verify_segment(store, KEY)
    assert segment.rows == 0
    segment.touch(slice(None))
    segment.touch(np.array([], dtype=np.int64))


@pytest.mark.parametrize(
    "array",
    [
        pa.array([True, None, False] * 100),
        pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(7)] * 100),
        pa.array([b"abc", b"def", None] * 100, type=pa.binary(3)),
        pa.array(["a", None, "bcd"] * 100, type=pa.large_string()),
        pa.array(["a", None, "a string that is longer than twelve"] * 100, type=pa.string_view()),
        pa.array([[1, 2], None, []] * 100, type=pa.list_(pa.uint64())),
        pa.array([{"x": 1, "y": "a"}, None, {"x": None, "y": None}] * 100),
        pa.array([[("k", 1)], None, []] * 100, type=pa.map_(pa.string(), pa.int64())),
        pa.nulls(300),
        pa.array([1, 2, 3] * 100, type=pa.timestamp("us", tz="UTC")),
    ],
    ids=lambda a: str(a.type),
)
def test_any_type_of_column(store, array):
    write_segment(store, KEY, hashes(300), pa.record_batch({"a": array}), META)
    segment = open_segment(store, KEY)
    segment.touch(np.array([299, 0]))
    segment.touch(slice(10, 20))
    assert segment.column(0).equals(array)
    verify_segment(store, KEY)


def test_slices_of_larger_columns_are_written_as_they_read(store):
    c = columns(1000).slice(333, 100)
    h = hashes(1000)[333:433]
    write_segment(store, KEY, h, c, META)
    segment = verify_segment(store, KEY)
    assert [segment.column(i) for i in range(3)] == c.columns
    assert segment.hashes.tolist() == h.tolist()
    strided = np.repeat(h, 2)[::2]
    write_segment(store, KEY, strided, c, META)
    assert open_segment(store, KEY).hashes.tolist() == h.tolist()


def test_what_is_no_segment_is_refused(store):
    with pytest.raises(ValueError, match="one hash per row, ascending"):
        write_segment(store, KEY, hashes(9), columns(10), META)
    with pytest.raises(ValueError, match="one hash per row, ascending"):
        write_segment(store, KEY, hashes(10)[::-1], columns(10), META)
    coded = pa.array(["a", "b"]).dictionary_encode()
    for batch in [
        pa.record_batch({"c": coded}),
        pa.record_batch({"c": pa.StructArray.from_arrays([coded], names=["x"])}),
    ]:
        with pytest.raises(ValueError, match=r"\['c'\] are dictionary-encoded"):
            write_segment(store, KEY, hashes(2), batch, META)
    assert list(store.list("")) == []


def test_an_open_segment_is_kept_until_its_file_is_another(store):
    write_segment(store, KEY, hashes(10), columns(10), META)
    first = open_segment(store, KEY)
    assert open_segment(store, KEY) is first
    write_segment(store, KEY, hashes(20), columns(20), META)
    assert open_segment(store, KEY).rows == 20
    assert first.hashes.tolist() == hashes(10).tolist()
    store.delete(KEY)
    with pytest.raises(MissingFileError):
        open_segment(store, KEY)


def test_segments_of_deleted_files_are_let_go(store):
    for number in range(200):
        write_segment(store, f"{number}.arrow", hashes(1), columns(1), META)
        open_segment(store, f"{number}.arrow")
        store.delete(f"{number}.arrow")
    kept = [key for of, key in module._segments._entries if of == store]
    assert len(kept) < 100


@given(st.data())
def test_any_changed_byte_is_noticed(data):
    store = MemoryStore()
    write_segment(store, KEY, hashes(50), columns(50), META)
    flip(store, data.draw(st.integers(0, store.size(KEY) - 1)))
    with pytest.raises(DamagedStateError, match=f"segment {KEY} is damaged.*restore the file"):
        verify_segment(store, KEY)


@given(st.data())
def test_any_prefix_is_noticed(data):
    store = MemoryStore()
    size = write_segment(store, KEY, hashes(50), columns(50), META).size
    part = bytes(store.read(KEY))[: data.draw(st.integers(0, size - 1))]
    store.put(KEY, part)
    with pytest.raises(DamagedStateError, match="truncated or overwritten"):
        open_segment(store, KEY)


def large(store):
    """Many blocks each of hashes, `a`, `b`, and one of `dropped`."""
    rows = 64 * BLOCK // 8
    values = pa.array(np.arange(rows))
    batch = pa.record_batch({"a": values, "b": pa.array(np.arange(rows) + 1)})
    dropped = np.arange(rows) == rows - 1
    write_segment(store, KEY, np.arange(rows, dtype=np.uint64), batch, META, dropped=dropped)
    return rows


def place_of(store, column: int, row: int) -> int:
    file = pa.py_buffer(store.read(KEY))
    data = pa.ipc.open_file(file).get_batch(0).column(column).buffers()[1]
    return data.address - file.address + row * 8


def test_damage_is_found_at_the_first_touch_and_only_where_it_is():
    store = MemoryStore()
    rows = large(store)
    place = place_of(store, 1, rows // 2)
    flip(store, place)
    segment = open_segment(store, KEY)
    segment.touch(np.array([0, rows - 1]))
    segment.touch(slice(0, 100))
    with pytest.raises(DamagedStateError, match=rf"column 'a', block {place // BLOCK} \(bytes"):
        segment.touch(np.array([rows // 2]))
    with pytest.raises(DamagedStateError, match="column 'a'"):
        segment.touch(slice(rows // 2, rows // 2 + 1))
    with pytest.raises(DamagedStateError, match="column 'a'"):
        verify_segment(store, KEY)


def test_damaged_hashes_are_found_when_opened():
    store = MemoryStore()
    rows = large(store)
    flip(store, place_of(store, 0, rows - 200))
    with pytest.raises(DamagedStateError, match="column '_hash', block"):
        open_segment(store, KEY)


def test_damaged_tombstones_are_found_when_asked():
    store = MemoryStore()
    large(store)
    flip(store, place_of(store, 3, 0))
    segment = open_segment(store, KEY)
    with pytest.raises(DamagedStateError, match="column '_dropped', block"):
        _ = segment.dropped


def test_a_damaged_string_column_is_found_at_any_touch():
    store = MemoryStore()
    rows = 300_000
    names = pa.array([f"{n:08d}" for n in range(rows)])
    write_segment(store, KEY, hashes(rows), pa.record_batch({"name": names}), META)
    segment = open_segment(store, KEY)
    data = segment.column(0).buffers()[2]
    flip(store, data.address - pa.py_buffer(store.read(KEY)).address + data.size - 1)
    damaged = open_segment(store, KEY)
    damaged.touch(slice(0, 0))
    with pytest.raises(DamagedStateError, match="column 'name'"):
        damaged.touch(np.array([0]))


def test_damaged_validity_is_found_with_the_rows_it_is_about():
    store = MemoryStore()
    rows = 64 * BLOCK // 8
    values = pa.array(np.arange(rows))
    gappy = pa.array(np.arange(rows), mask=np.arange(rows) % 2 == 0)
    batch = pa.record_batch({"full": values, "gappy": gappy})
    write_segment(store, KEY, np.arange(rows, dtype=np.uint64), batch, META)
    validity = open_segment(store, KEY).column(1).buffers()[0]
    flip(store, validity.address - pa.py_buffer(store.read(KEY)).address)
    with pytest.raises(DamagedStateError, match="column 'gappy'"):
        open_segment(store, KEY).touch(np.array([rows // 2]))


def test_a_touched_segment_is_not_read_again():
    store = MemoryStore()
    rows = large(store)
    segment = open_segment(store, KEY)
    segment.touch(slice(None))
    assert segment._check.complete
    assert segment.dropped.sum() == 1
    segment.touch(np.arange(rows))


def test_a_segment_of_a_later_format_is_refused(monkeypatch):
    store = MemoryStore()
    monkeypatch.setattr(module, "FORMAT", 3)
    write_segment(store, KEY, hashes(1), columns(1), META)
    monkeypatch.setattr(module, "FORMAT", 2)
    with pytest.raises(NewerFormatError, match="has format 3; this version of Rechannel reads"):
        open_segment(store, KEY)


def test_a_missing_segment_is_named(store):
    with pytest.raises(MissingFileError, match=KEY):
        open_segment(store, KEY)
    with pytest.raises(MissingFileError, match=KEY):
        verify_segment(store, KEY)
