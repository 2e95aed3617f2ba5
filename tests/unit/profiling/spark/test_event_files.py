"""Event logs in all forms in which Spark lays them down."""

import gzip
import os
import struct
from threading import Thread

import cramjam
import pytest
import zstandard

from rechannel.errors import TraceError
from rechannel.profiling.spark import event_files
from rechannel.profiling.spark.codecs import LARGEST_BLOCK
from rechannel.profiling.spark.event_files import find_log, log_files, log_lines
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


def gz(data):
    half = len(data) // 2
    return gzip.compress(data[:half]) + gzip.compress(data[half:]) + b"\0" * 9


@pytest.mark.parametrize(
    ("ending", "pack"),
    [
        ("", bytes),
        (".inprogress", bytes),
        (".zstd", zstd),
        (".lz4", lz4),
        (".snappy", snappy),
        (".gz", gz),
    ],
)
def test_every_codec(tmp_path, ending, pack):
    file = tmp_path / f"app-1{ending}"
    file.write_bytes(pack(b"".join(small())))
    assert list(log_lines(file)) == small()
    # The first bytes say what it is, if the name says something else or nothing.
    for name in ("app-1", "app-1.zstd", "app-1.txt"):
        other = tmp_path / name
        other.write_bytes(pack(b"".join(small())))
        assert list(log_lines(other)) == small()


def test_lzf_with_references(tmp_path):
    file = tmp_path / "app-1.lzf"
    file.write_bytes(lzf(b"".join(small())))
    *lines, last = log_lines(file)
    assert lines == small()
    assert last == b"abc" * 7


@pytest.mark.parametrize(
    ("ending", "pack"),
    [(".zstd", zstd), (".lz4", lz4), (".snappy", snappy), (".lzf", lzf), (".gz", gz)],
)
def test_a_log_that_ends_within_a_block(tmp_path, ending, pack):
    file = tmp_path / f"app-1{ending}.inprogress"
    whole = pack(b"".join(small()))
    for cut in (1, 7, 40):
        file.write_bytes(whole[:-cut])
        lines = list(log_lines(file))
        read = b"".join(lines)
        assert b"".join(small()).startswith(read.removesuffix(b"abc" * 7))
        # A frame of zstd is read as a whole, and its second one is cut.
        assert len(read) > (0 if ending == ".zstd" else len(b"".join(small()[:3])))


def test_gzip_of_more_than_is_read_at_once(tmp_path):
    file = tmp_path / "app-1.gz"
    data = b"".join(small()) * 3_000
    file.write_bytes(gzip.compress(data))
    assert b"".join(log_lines(file)) == data
    file.write_bytes(gzip.compress(data)[:-2_000])
    read = b"".join(log_lines(file))
    assert data.startswith(read)
    assert len(read) > len(data) // 2


@pytest.mark.parametrize("ending", [".zstd", ".lz4", ".snappy", ".lzf", ".gz"])
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


@pytest.mark.parametrize(
    ("numbers", "note"),
    [
        ((1, 2, 3), None),
        ((2, 3), "piece 1 of the rolled log is missing"),
        ((1, 3, 9), "pieces 2, 4 to 8 of the rolled log are missing"),
        ((4, 10**9), "pieces 1 to 3, 5 to 999999999 of the rolled log are missing"),
        ((1, 3, 5, 7, 9), "pieces 2, 4, 6 and 1 more of the rolled log are missing"),
    ],
)
def test_missing_pieces_of_a_rolled_log_are_named(tmp_path, numbers, note):
    for number in numbers:
        (tmp_path / f"events_{number}_app-1").write_bytes(b"{}\n")
    notes = find_log(tmp_path).notes
    assert [each.partition(":")[0] for each in notes] == ([] if note is None else [note])
    # A compacted piece stands for all before it.
    (tmp_path / f"events_{numbers[-1]}_app-1.compact").write_bytes(b"{}\n")
    assert find_log(tmp_path).notes == []


def test_the_layout_of_databricks(tmp_path):
    (tmp_path / "eventlog").write_bytes(b"newest\n")
    for when in ("2023-05-01--10-00", "2023-05-01--09-30", "2022-12-31--23-00"):
        (tmp_path / f"eventlog-{when}.gz").write_bytes(gzip.compress(f"{when}\n".encode()))
    assert list(log_lines(tmp_path)) == [
        b"2022-12-31--23-00\n",
        b"2023-05-01--09-30\n",
        b"2023-05-01--10-00\n",
        b"newest\n",
    ]


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("app-1",), r"holds an event log \(app-1\): give the path of one, such as .*app-1"),
        (
            ("application_1_0001.zstd", "local-7", "app-2.lz4", "eventlog_v2_app-9", "readme"),
            r"holds 4 event logs \(app-2\.lz4, application_1_0001\.zstd, eventlog_v2_app-9 and 1 more\)",
        ),
    ],
)
def test_directories_of_applications(tmp_path, names, words):
    for name in names:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(TraceError, match=words):
        log_files(tmp_path)


def test_a_pipe_is_read_once(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_bytes(zstd(b"".join(small()))))
    writer.start()
    assert list(log_lines(pipe)) == small()
    writer.join()


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "eventlog_v2_app-1").mkdir()
    (tmp_path / "eventlog_v2_app-1" / "events_1_app-1").mkdir()
    with pytest.raises(TraceError, match="events_1_app-1 cannot be read: Is a directory"):
        list(log_lines(tmp_path / "eventlog_v2_app-1"))
    archive = tmp_path / "logs.zip"
    archive.write_bytes(b"PK\x03\x04" + bytes(100))
    with pytest.raises(TraceError, match="it is a zip archive: unpack it first"):
        list(log_lines(archive))


@pytest.mark.parametrize(
    ("ending", "data"),
    [
        ("lz4", struct.pack("<8sBiiI", b"LZ4Block", 0x26, 2**31 - 1, 9, 0)),
        ("lz4", struct.pack("<8sBiiI", b"LZ4Block", 0x26, -1, 9, 0)),
        ("lz4", struct.pack("<8sBiiI", b"LZ4Block", 0x26, 4, LARGEST_BLOCK + 1, 0) + b"abcd"),
        ("snappy", b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", LARGEST_BLOCK + 1)),
        ("snappy", b"\x82SNAPPY\0" + bytes(8) + struct.pack(">i", 6) + b"\xff\xff\xff\xff\x0fa"),
    ],
)
def test_lengths_that_cannot_be(tmp_path, ending, data):
    file = tmp_path / f"app-1.{ending}"
    file.write_bytes(data)
    with pytest.raises(TraceError, match="a block has a length of"):
        list(log_lines(file))


def test_of_a_line_that_is_too_long_a_part_is_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(event_files, "LONGEST_LINE", 5_000)
    monkeypatch.setattr("rechannel.profiling.spark.codecs.CHUNK", 1_000)
    file = tmp_path / "app-1"
    file.write_bytes(small()[0] + b"x" * 100_000 + b"\n" + small()[1])
    first, long, last = log_lines(file)
    assert (first, last) == tuple(small()[:2])
    assert 5_000 < len(long) < 7_000
    file.write_bytes(b"x" * 100_000 + b"\n" + small()[1])
    with pytest.raises(TraceError, match="its first line is longer than"):
        list(log_lines(file))


def test_a_broken_header_within_snappy_is_not_the_end(tmp_path):
    data = b"".join(small())
    broken = snappy(data)[:16] + b"\x82SNAxxxx" + bytes(8) + snappy(data)[16:]
    (tmp_path / "app-1.snappy").write_bytes(broken)
    with pytest.raises(TraceError, match="a header begins with"):
        list(log_lines(tmp_path / "app-1.snappy"))
    # One that is only begun is.
    (tmp_path / "app-1.snappy").write_bytes(snappy(data) + b"\x82SNAPP")
    assert b"".join(log_lines(tmp_path / "app-1.snappy")) == data
