"""One file of an ingest log. Pure.

A file is an Arrow IPC file with one batch and the checksums of a sink buffer: every byte of it is covered. Its schema
has, as metadata, a sealed record that says what the file is: the *head*. It stands at the beginning of the file, so
that a reader learns what a file holds without reading its rows.

    number                      of the file, from 1 on without gaps
    log                         id of the log
    rows_before, bytes_before   of all earlier files: a row has a number in the whole log
    rows, bytes                 of this one; bytes of Arrow, in memory
    producers                   {producer: [sequence, digest]}: the last request of each whose rows are here
    time_ms                     when it was written, by the writer's clock
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.errors import DamagedStateError
from rechannel.state.sealed import seal, unseal
from rechannel.state.segments.arrow_file import cut, footer_start, in_pieces
from rechannel.state.segments.blocks import BlockCheck, Trailer, checksum

FORMAT = 1
"""Version of the format of a file; readers reject later ones."""

HEAD_BYTES = 1 << 14
"""Where most heads end; a head that names many producers is longer."""

_META = b"rechannel.ingest"
_MAGIC = b"ARROW1\0\0"
_PREFIX = len(_MAGIC) + 8
_ROWS_FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """The last request of a producer that is in the log."""

    sequence: int
    """Its number, from 1 on."""
    digest: str
    """XXH3-128 of its body, in hex."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What a file is. See the theory above."""

    log: str
    number: int
    rows_before: int
    rows: int
    bytes_before: int
    bytes: int
    time_ms: int = 0
    producers: Mapping[str, Kept] = field(default_factory=dict)

    @property
    def rows_after(self) -> int:
        """Rows of the log up to the end of this file."""
        return self.rows_before + self.rows

    @property
    def bytes_after(self) -> int:
        """Bytes of the log up to the end of this file."""
        return self.bytes_before + self.bytes


def encode(head: Head, rows: pa.RecordBatch) -> bytes:
    """Return the bytes of a file."""
    record = {
        "format": FORMAT,
        "log": head.log,
        "number": head.number,
        "rows_before": head.rows_before,
        "rows": head.rows,
        "bytes_before": head.bytes_before,
        "bytes": head.bytes,
        "time_ms": head.time_ms,
        "producers": {name: [of.sequence, of.digest] for name, of in head.producers.items()},
    }
    schema = rows.schema.with_metadata({_META: seal(record)})
    parts = in_pieces(pa.RecordBatch.from_arrays(rows.columns, schema=schema))
    data, footer = cut(parts, footer_start(parts))
    trailer = Trailer.of(data, footer, version=_ROWS_FORMAT).encode()
    return b"".join([*data, memoryview(trailer), *footer])


def head_length(begin: bytes | memoryview, name: str) -> int:
    """Return how many bytes of a file contain its head. begin: at least its first 16 bytes."""
    if bytes(begin[: len(_MAGIC)]) != _MAGIC or len(begin) < _PREFIX:
        raise damaged(name, "it does not begin like an Arrow file")
    return _PREFIX + int.from_bytes(begin[_PREFIX - 4 : _PREFIX], "little")


def decode_head(begin: bytes | memoryview, name: str) -> Head:
    """Read a head from the beginning of a file. Raises DamagedStateError, NewerFormatError.

    begin: at least `head_length` bytes. name: what messages call the file.
    """
    try:
        schema = pa.ipc.read_schema(pa.py_buffer(begin[len(_MAGIC) :]))
        sealed = (schema.metadata or {})[_META]
    except (pa.ArrowException, OSError, KeyError) as error:
        raise damaged(name, "its head cannot be read") from error
    record = unseal(sealed, name=name, newest=FORMAT)
    producers = record["producers"].items()
    return Head(
        log=record["log"],
        number=record["number"],
        rows_before=record["rows_before"],
        rows=record["rows"],
        bytes_before=record["bytes_before"],
        bytes=record["bytes"],
        time_ms=record["time_ms"],
        producers={name: Kept(sequence=one[0], digest=one[1]) for name, one in producers},
    )


def decode(file: bytes | memoryview, name: str) -> tuple[Head, pa.RecordBatch]:
    """Read and check a whole file. Raises DamagedStateError, NewerFormatError."""
    view = memoryview(file)
    start = footer_start([view])
    trailer = Trailer.decode(view, start)
    if trailer is None:
        raise damaged(name, "it is truncated or overwritten (its trailer cannot be read)")
    if checksum([view[start:]]) != trailer.footer:
        raise damaged(name, "its footer does not match its checksum")
    broken = BlockCheck(view, trailer).everything()
    if broken:
        raise damaged(name, f"blocks {broken} do not match their checksums")
    head = decode_head(view, name)
    rows = pa.ipc.open_file(pa.py_buffer(view)).get_batch(0)
    return head, rows.replace_schema_metadata(None)


def damaged(name: str, what: str) -> DamagedStateError:
    """Return the error of a file that does not hold what was written."""
    return DamagedStateError(
        f"file {name} of the ingest log is damaged: {what}. Its rows cannot be made again: restore the file from a copy"
    )
