"""One file of a log: it is what was written, or it is refused by name."""

import pyarrow as pa
import pytest

from rechannel.errors import DamagedStateError, NewerFormatError
from rechannel.sources.ingest import format as of_files
from rechannel.sources.ingest.format import (
    HEAD_BYTES,
    Head,
    Kept,
    decode,
    decode_head,
    encode,
    head_length,
)

ROWS = pa.record_batch({"n": pa.array(range(5), pa.int64()), "t": ["a", None, "c", "", "é"]})
HEAD = Head(
    log="log",
    number=7,
    rows_before=30,
    rows=5,
    bytes_before=400,
    bytes=90,
    time_ms=12,
    producers={"p": Kept(sequence=3, digest="ab"), "é": Kept(sequence=2**40, digest="cd")},
)


def test_a_file_is_read_as_it_was_written():
    data = encode(HEAD, ROWS)
    head, rows = decode(data, "f")
    assert head == HEAD
    assert rows.equals(ROWS)
    assert rows.schema.metadata is None
    assert (head.rows_after, head.bytes_after) == (35, 490)
    assert decode_head(data[: head_length(data[:16], "f")], "f") == HEAD


def test_other_programs_read_it_as_an_arrow_file():
    with pa.ipc.open_file(pa.py_buffer(encode(HEAD, ROWS))) as file:
        assert file.read_all().to_pydict() == ROWS.to_pydict()


def test_a_head_may_be_longer_than_what_is_read_first():
    many = {f"producer-{n}": Kept(sequence=n, digest="d" * 32) for n in range(2_000)}
    head = Head(log="l", number=1, rows_before=0, rows=5, bytes_before=0, bytes=9, producers=many)
    data = encode(head, ROWS)
    assert head_length(data[:16], "f") > HEAD_BYTES
    assert decode(data, "f")[0].producers == many


def test_a_file_without_rows_is_one():
    head = Head(log="l", number=1, rows_before=0, rows=0, bytes_before=0, bytes=0)
    assert decode(encode(head, ROWS.slice(0, 0)), "f") == (head, ROWS.slice(0, 0))


@pytest.mark.parametrize("share", [0.0, 0.01, 0.2, 0.5, 0.9, 0.999])
def test_a_torn_file_is_refused(share):
    data = encode(HEAD, ROWS)
    with pytest.raises(DamagedStateError, match="file f of the ingest log is damaged: it is trunc"):
        decode(data[: int(len(data) * share)], "f")


def test_every_byte_is_covered():
    data = encode(HEAD, ROWS)
    for at in range(0, len(data), 7):
        wrong = bytearray(data)
        wrong[at] ^= 0x40
        with pytest.raises((DamagedStateError, NewerFormatError)):
            decode(bytes(wrong), "f")


def test_what_is_no_file_of_a_log_has_no_head():
    with pytest.raises(DamagedStateError, match="does not begin like an Arrow file"):
        head_length(b"PAR1" + bytes(40), "f")
    schema = pa.BufferOutputStream()
    with pa.ipc.new_file(schema, ROWS.schema) as file:
        file.write_batch(ROWS)
    with pytest.raises(DamagedStateError, match="its head cannot be read"):
        decode_head(schema.getvalue().to_pybytes(), "f")


def test_a_later_format_is_told_from_damage(monkeypatch):
    monkeypatch.setattr(of_files, "FORMAT", 2)
    data = encode(HEAD, ROWS)
    monkeypatch.undo()
    with pytest.raises(NewerFormatError, match="f has format 2"):
        decode(data, "f")
