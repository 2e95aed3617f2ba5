from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from rechannel.state.segments import blocks
from rechannel.state.segments.blocks import BLOCK, BlockCheck, Trailer, checksum


def pieces(data: bytes, cuts: list[int]) -> list[memoryview]:
    edges = [0, *sorted(c % (len(data) + 1) for c in cuts), len(data)]
    return [memoryview(data)[a:b] for a, b in pairwise(edges)]


def file_of(data: bytes, footer: bytes = b"footer") -> tuple[memoryview, Trailer]:
    trailer = Trailer.of([memoryview(data)], [memoryview(footer)], version=1)
    return memoryview(data + trailer.encode() + footer), trailer


@pytest.mark.parametrize("size", [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK, 3 * BLOCK + 7])
@pytest.mark.parametrize("cuts", [[], [5, 5, 2_000_000], [BLOCK, BLOCK + 1, 11]])
def test_sums_are_those_of_the_blocks_however_the_data_are_cut(size, cuts):
    data = np.random.default_rng(size).bytes(size)
    naive = [xxhash.xxh3_64_intdigest(data[i : i + BLOCK]) for i in range(0, size, BLOCK)]
    trailer = Trailer.of(pieces(data, cuts), [memoryview(b"f")], version=1)
    assert trailer.sums.tolist() == naive
    assert trailer.data == size


def test_checksum_does_not_see_pieces():
    whole = xxhash.xxh3_64_intdigest(b"abcd")
    assert checksum([memoryview(b"ab"), memoryview(b""), memoryview(b"cd")]) == whole


def test_a_trailer_is_read_as_it_was_written():
    file, written = file_of(b"x" * (2 * BLOCK + 8))
    read = Trailer.decode(file, len(file) - 6)
    assert read.sums.tolist() == written.sums.tolist()
    assert (read.data, read.footer, read.version) == (written.data, written.footer, 1)


@given(st.data())
def test_any_changed_byte_of_a_trailer_is_noticed(data):
    file, _ = file_of(b"x" * 100)
    place = data.draw(st.integers(100, len(file) - 7))
    bad = bytearray(file)
    bad[place] ^= data.draw(st.integers(1, 255))
    assert Trailer.decode(memoryview(bad), len(bad) - 6) is None


@pytest.mark.parametrize("end", [0, 10, 39, 40, 60])
def test_what_is_no_trailer_is_none(end):
    assert Trailer.decode(memoryview(bytes(60)), end) is None


@pytest.mark.parametrize("size", [64, 1])
@given(data=st.data())
def test_values_checks_exactly_the_blocks_behind_them(size, data):
    """Against brute force, with blocks of 64 bytes, so that values cross borders."""
    content = np.random.default_rng(size).bytes(1000)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(blocks, "BLOCK", 64)
        trailer = Trailer.of([memoryview(content)], [memoryview(b"")], version=1)
        width = data.draw(st.sampled_from([1, 8, 16, 32, 64, 96, 128, 160]))
        start = data.draw(st.integers(0, 40).map(lambda n: n * 8))
        most = (1000 - start) * 8 // width - 1
        rows = data.draw(st.lists(st.integers(0, most), min_size=1, max_size=8))
        broken = data.draw(st.integers(0, len(trailer.sums) - 1))
        bad = bytearray(content)
        bad[broken * 64] ^= 1
        bits = [(start * 8 + r * width, start * 8 + (r + 1) * width - 1) for r in rows]
        behind = {bit // 512 for span in bits for bit in range(span[0], span[1] + 1)}

        check = BlockCheck(memoryview(bad), trailer)
        found = check.values(start, width, np.array(rows))
        assert found == (broken if broken in behind else None)
        assert check.everything() == [broken]
        assert not check.complete

        good = BlockCheck(memoryview(content), trailer)
        assert good.values(start, width, np.array(rows)) is None
        assert set(np.flatnonzero(good._good)) == behind


def test_span_checks_the_blocks_it_meets():
    content = bytes(3 * BLOCK)
    _, trailer = file_of(content)
    bad = bytearray(content)
    bad[BLOCK] = 1
    check = BlockCheck(memoryview(bad), trailer)
    assert check.span(0, BLOCK) is None
    assert check.span(2 * BLOCK, 3 * BLOCK) is None
    assert check.span(BLOCK + 5, BLOCK + 5) is None
    assert check.span(BLOCK - 1, BLOCK + 1) == 1


def test_what_was_good_is_not_read_again_and_at_last_all_is_known():
    content = bytearray(2 * BLOCK)
    _, trailer = file_of(bytes(content))
    check = BlockCheck(memoryview(content), trailer)
    assert check.span(0, 1) is None
    assert not check.complete
    content[0] = 1
    assert check.span(0, 1) is None
    assert check.values(0, 64, np.array([0, 1])) is None
    assert check.span(BLOCK, 2 * BLOCK) is None
    assert check.complete
    assert check.everything() == [0]


def test_a_file_without_data_is_complete():
    _, trailer = file_of(b"")
    assert BlockCheck(memoryview(b""), trailer).complete
