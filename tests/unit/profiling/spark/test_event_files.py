"""Event logs in all forms in which Spark lays them down."""

import struct

import cramjam
import pytest
import zstandard

from rechannel.errors import TraceError
from rechannel.profiling.spark.event_files import log_files, log_lines
from tests.unit.profiling.logs import small


def lz4(data, size=100):
    out = b""
    for at in range(0, len(data), size):
        piece = data[at : at + size]
        packed = bytes(cramjam.lz4.compress_block(piece, store_size=False))
        raw = len(packed) >= len(piece)
        body = piece if raw else packed
        out += (
            struct.pack("<8sBiiI", b"LZ4Block", 0x16 if raw else 0x26, len(body), len(piece), 0)
            + body
        )
    return out + struct.pack("<8sBiiI", b"LZ4Block", 0x16, 0, 0, 0)


def snappy(data, size=100):
    out = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for at in range(0, len(data), size):
        body = bytes(cramjam.snappy.compress_raw(data[at : at + size]))
        out += struct.pack(">i", len(body)) + body
    return out


def lzf(data, size=100):
    """Chunks that are not compressed, and compressed ones of literals and one reference back."""
    out = b""
    for number, at in enumerate(range(0, len(data), size)):
        piece = data[at : at + size]
        if number % 2:
            out += struct.pack(">2sBH", b"ZV", 0, len(piece)) + piece
            continue
        body = b"".join(
            bytes([len(p) - 1]) + p for p in (piece[i : i + 32] for i in range(0, len(piece), 32))
        )
        out += struct.pack(">2sBHH", b"ZV", 1, len(body), len(piece)) + body
    # "abcabcabc...": a literal and two references, the second one long.
    body = bytes([2]) + b"abc" + bytes([(4 << 5) | 0, 2]) + bytes([(7 << 5) | 0, 3, 2])
    length = 3 + 6 + (7 + 3 + 2)
    return out + struct.pack(">2sBHH", b"ZV", 1, len(body), length) + body


def zstd(data):
    packer = zstandard.ZstdCompressor()
    half = len(data) // 2
    return packer.compress(data[:half]) + packer.compress(data[half:])


@pytest.mark.parametrize(
    ("ending", "pack"),
    [("", bytes), (".inprogress", bytes), (".zstd", zstd), (".lz4", lz4), (".snappy", snappy)],
)
def test_every_codec(tmp_path, ending, pack):
    file = tmp_path / f"app-1{ending}"
    file.write_bytes(pack(b"".join(small())))
    assert list(log_lines(file)) == small()


def test_lzf_with_references(tmp_path):
    file = tmp_path / "app-1.lzf"
    file.write_bytes(lzf(b"".join(small())))
    *lines, last = log_lines(file)
    assert lines == small()
    assert last == b"abc" * 7


@pytest.mark.parametrize(
    ("ending", "pack"), [(".zstd", zstd), (".lz4", lz4), (".snappy", snappy), (".lzf", lzf)]
)
def test_a_log_that_ends_within_a_block(tmp_path, ending, pack):
    file = tmp_path / f"app-1{ending}.inprogress"
    whole = pack(b"".join(small()))
    for cut in (1, 7, 40):
        file.write_bytes(whole[:-cut])
        lines = list(log_lines(file))
        assert lines[:3] == small()[:3] or ending == ".zstd"


@pytest.mark.parametrize("ending", [".zstd", ".lz4", ".snappy", ".lzf"])
def test_what_no_codec_writes(tmp_path, ending):
    file = tmp_path / f"app-1{ending}"
    file.write_bytes(b"\0\0\0\x05this is not compressed at all" * 3)
    with pytest.raises(TraceError, match=f"does not hold {ending[1:]} as Spark writes it"):
        list(log_lines(file))


def test_rolled_logs_are_read_in_order_from_the_last_compacted_one_on(tmp_path):
    place = tmp_path / "eventlog_v2_app-1"
    place.mkdir()
    for name in ("appstatus_app-1", "events_10_app-1", "events_2_app-1", "events_1_app-1"):
        (place / name).write_bytes(f"{name}\n".encode())
    assert list(log_lines(place)) == [
        b"events_1_app-1\n",
        b"events_2_app-1\n",
        b"events_10_app-1\n",
    ]
    (place / "events_2_app-1.compact").write_bytes(b"compacted\n")
    assert [file.name for file in log_files(place)] == ["events_2_app-1.compact", "events_10_app-1"]
    assert next(iter(log_lines(place))) == b"compacted\n"


def test_what_is_not_there(tmp_path):
    with pytest.raises(TraceError, match="does not exist"):
        log_files(tmp_path / "nothing")
    with pytest.raises(TraceError, match="a directory without files events_1_"):
        log_files(tmp_path)
