from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.state.segments.arrow_file import COPIED, cut, footer_start, in_pieces

ROWS = COPIED // 8 + 2


@pytest.fixture
def batch():
    return pa.record_batch({"a": pa.array(range(ROWS)), "b": pa.array(["x", None] * (ROWS // 2))})


@pytest.mark.parametrize("rows", [0, 1000, ROWS])
def test_the_pieces_are_an_arrow_file(batch, rows):
    whole = b"".join(in_pieces(batch[:rows]))
    assert pa.ipc.open_file(whole).get_batch(0).equals(batch[:rows])


def test_a_small_file_has_one_piece_with_the_same_bytes(batch, monkeypatch):
    (whole,) = in_pieces(batch[:1000], batch[1000:2000])
    monkeypatch.setattr("rechannel.state.segments.arrow_file.COPIED", 0)
    pieces = in_pieces(batch[:1000], batch[1000:2000])
    assert len(pieces) > 1
    assert b"".join(pieces) == bytes(whole)


def test_column_buffers_are_not_copied(batch):
    buffer = batch.column(0).buffers()[1]
    addresses = [pa.py_buffer(p).address for p in in_pieces(batch) if len(p) == buffer.size]
    assert buffer.address in addresses


def test_the_footer_is_found_however_the_file_is_cut(batch):
    parts = in_pieces(batch)
    whole = b"".join(parts)
    start = footer_start(parts)
    length = int.from_bytes(whole[-10:-6], "little")
    assert start == len(whole) - 10 - length
    assert footer_start([memoryview(whole)]) == start
    assert footer_start([memoryview(whole[i : i + 7]) for i in range(0, len(whole), 7)]) == start


@pytest.mark.parametrize("data", [b"", b"ARROW1", b"x" * 40, b"\xff\xff\xff\x7fARROW1"])
def test_other_files_have_no_footer(data):
    assert footer_start([memoryview(data)]) == 0


@pytest.mark.parametrize("at", range(8))
def test_cut_loses_nothing(at):
    parts = [memoryview(b"abc"), memoryview(b""), memoryview(b"de"), memoryview(b"fg")]
    left, right = cut(parts, at)
    assert b"".join(left) == b"abcdefg"[:at]
    assert b"".join(right) == b"abcdefg"[at:]
    assert all(map(len, left + right))
