from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.state.segments.arrow_file import cut, footer_start, in_pieces


@pytest.fixture
def batch():
    return pa.record_batch({"a": pa.array(range(1000)), "b": pa.array(["x", None] * 500)})


def test_the_pieces_are_an_arrow_file(batch):
    whole = b"".join(in_pieces(batch))
    assert pa.ipc.open_file(whole).get_batch(0).equals(batch)


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
    assert footer_start([memoryview(whole[i : i + 1]) for i in range(len(whole))]) == start


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
