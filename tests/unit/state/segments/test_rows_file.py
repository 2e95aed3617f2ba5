"""Outbox files: what is read is what was written, or the file is named as damaged."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.errors import DamagedStateError, MissingFileError, NewerFormatError
from rechannel.state.segments import rows_file as rowsfile
from rechannel.state.segments.rows_file import read_rows, write_rows
from rechannel.state.stores.memory import MemoryStore

KEY = "outbox/users/00000000000000000001-00000-a.arrow"
BATCHES = [
    pa.record_batch({"user": ["ada", None], "n": [1, 2]}),
    pa.record_batch({"user": ["bob"], "n": [3]}),
]


def test_rows_come_back_in_order() -> None:
    store = MemoryStore()
    size = write_rows(store, KEY, BATCHES)
    assert size == store.size(KEY)
    assert read_rows(store, KEY).to_pylist() == [
        {"user": "ada", "n": 1},
        {"user": None, "n": 2},
        {"user": "bob", "n": 3},
    ]


def test_any_arrow_reader_reads_it() -> None:
    store = MemoryStore()
    write_rows(store, KEY, BATCHES)
    with pa.ipc.open_file(pa.py_buffer(store.read(KEY))) as file:
        assert file.read_all().num_rows == 3


def test_every_flipped_byte_is_found() -> None:
    store = MemoryStore()
    write_rows(store, KEY, BATCHES)
    whole = bytes(store.read(KEY))
    for place in range(len(whole)):
        damaged = bytearray(whole)
        damaged[place] ^= 0x55
        store.put(KEY, bytes(damaged))
        with pytest.raises((DamagedStateError, NewerFormatError), match="sink buffer"):
            read_rows(store, KEY)


def test_a_cut_file_and_a_missing_one_are_named() -> None:
    store = MemoryStore()
    write_rows(store, KEY, BATCHES)
    store.put(KEY, bytes(store.read(KEY))[:-7])
    with pytest.raises(DamagedStateError, match=KEY):
        read_rows(store, KEY)
    store.delete(KEY)
    with pytest.raises(MissingFileError):
        read_rows(store, KEY)


def test_a_later_format_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    store = MemoryStore()
    monkeypatch.setattr(rowsfile, "ONE_BATCH", 3)
    write_rows(store, KEY, BATCHES)
    with pytest.raises(NewerFormatError, match="format 3"):
        read_rows(store, KEY)
