"""Segments: immutable Arrow IPC files of rows sorted by key hash, checked when first touched.

One segment is what one attempt of one task wrote in one timestep: a single record batch with the
columns `_hash` (uint64, ascending), the key columns, the state columns and, only where a key was
dropped, `_dropped` (bool: the row says that its key has no state any more). Any Arrow reader can
read it. Checksums lie in a trailer between the last Arrow message and the footer, where Arrow
readers do not look (see `blocks` and docs/formats/segment.md).

A reader maps the file. Opening checks the head, the footer and the hashes; everything else is
checked block by block at the first touch in a process: `touch` comes before values are used.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.errors import DamagedStateError, MissingFileError, NewerFormatError
from rechannel.model.hashspace import HashArray
from rechannel.state.arrowfile import cut, footer_start, in_pieces
from rechannel.state.blocks import BLOCK, BlockCheck, Trailer, checksum
from rechannel.state.cache import Lru
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of a segment; readers refuse later ones."""

_METADATA = b"rechannel.segment"
_SEGMENTS_KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMeta:
    """Who wrote a segment.

    operator: its name. timestep, task, attempt: which attempt of which task wrote it, and when.
    logic: version of the operator's function. schema: fingerprint of key and state columns.
    """

    operator: str
    timestep: int
    task: int
    attempt: str
    logic: int
    schema: str


@dataclass(frozen=True, slots=True)
class _Buffer:
    """Bytes [start, stop) of the file. width: bits of a value; None: checked as a whole."""

    start: int
    stop: int
    width: int | None


@dataclass(frozen=True, slots=True)
class _Column:
    name: str
    buffers: tuple[_Buffer, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """An open segment. Its arrays are views of the mapped file and never written to.

    hashes: shape (rows,), ascending. size: bytes of the file. memo: what readers derive from the
    rows and want to keep as long as the segment is open.
    """

    key: str
    meta: SegmentMeta
    hashes: HashArray
    size: int
    _batch: pa.RecordBatch
    _tombstones: bool
    _columns: tuple[_Column, ...]
    _check: BlockCheck
    _source: object
    memo: dict[str, Any] = field(default_factory=dict)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.hashes)

    @property
    def schema(self) -> pa.Schema:
        """Key and state columns, without hash and tombstones."""
        fields = list(self._batch.schema)
        return pa.schema(fields[1:-1] if self._tombstones else fields[1:])

    @property
    def dropped(self) -> npt.NDArray[np.bool_] | None:
        """Where the key's state ended, shape (rows,); None when nowhere. Checked when asked."""
        if not self._tombstones:
            return None
        self._touch(self._columns[-1], slice(0, self.rows))
        last = self._batch.column(self._batch.num_columns - 1)
        bits: npt.NDArray[np.bool_] = last.to_numpy(zero_copy_only=False)
        return bits

    def column(self, index: int) -> pa.Array:
        """Key or state column `index`, counted from 0 behind the hash. Zero-copy."""
        return self._batch.column(index + 1)

    def touch(self, rows: npt.NDArray[np.integer] | slice) -> None:
        """Check what lies behind these rows and was not yet checked in this process.

        rows: row numbers in any order, or a slice without a step. Raises DamagedStateError.
        """
        if self._check.complete:
            return
        wanted: npt.NDArray[np.int64] | slice
        if isinstance(rows, slice):
            start, stop, _ = rows.indices(self.rows)
            wanted, some = slice(start, stop), start < stop
        else:
            wanted, some = rows.astype(np.int64, copy=False), bool(len(rows))
        if some:
            for column in self._columns:
                self._touch(column, wanted)

    def _touch(self, column: _Column, rows: npt.NDArray[np.int64] | slice) -> None:
        for buffer in column.buffers:
            if buffer.width is None:
                damaged = self._check.span(buffer.start, buffer.stop)
            elif isinstance(rows, slice):
                first, last = rows.start * buffer.width, rows.stop * buffer.width
                damaged = self._check.span(buffer.start + first // 8, buffer.start + -(-last // 8))
            else:
                damaged = self._check.values(buffer.start, buffer.width, rows)
            if damaged is not None:
                raise _damaged(self.key, _block_of(column.name, damaged))

    def _verify(self) -> None:
        for block in self._check.everything():
            raise _damaged(self.key, _block_of(self._names_in(block), block))
        if not _ascends(self.hashes):
            raise _damaged(self.key, "its hashes do not ascend")
        try:
            self._batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise _damaged(self.key, f"its columns are no valid Arrow data ({error})") from error

    def _names_in(self, block: int) -> str:
        start, stop = block * BLOCK, (block + 1) * BLOCK
        met = [
            column.name
            for column in self._columns
            if any(buffer.start < stop and start < buffer.stop for buffer in column.buffers)
        ]
        return ", ".join(met) or "head"


def write_segment(
    store: Store,
    key: str,
    hashes: HashArray,
    columns: pa.RecordBatch,
    meta: SegmentMeta,
    *,
    dropped: npt.NDArray[np.bool_] | None = None,
) -> int:
    """Write one segment and return its size in bytes. Column buffers are not copied on the way.

    hashes: shape (rows,), ascending. columns: key columns, then state columns, rows in the order
    of the hashes; no dictionary-encoded ones. dropped: shape (rows,), rows that end their key.
    Raises ValueError for what is no segment, StorageError when the store refuses.
    """
    parts = in_pieces(_batch_of(hashes, columns, meta, dropped))
    data, footer = cut(parts, footer_start(parts))
    trailer = Trailer.of(data, footer, version=FORMAT).encode()
    store.put(key, [*data, memoryview(trailer), *footer])
    return sum(map(len, parts)) + len(trailer)


def open_segment(store: Store, key: str) -> Segment:
    """Open a segment, or return the one that this process has open.

    Raises MissingFileError, DamagedStateError, NewerFormatError.
    """
    file = store.read(key)
    segment = _segments.get((store, key))
    if segment is None or segment._source is not file.obj:
        segment = _load(key, file)
        _segments.put((store, key), segment, lambda at, _: _is_gone(store, at))
    return segment


def verify_segment(store: Store, key: str) -> Segment:
    """Read and check every byte of a segment, whatever was checked before.

    Raises MissingFileError, DamagedStateError, NewerFormatError.
    """
    segment = _load(key, store.read(key))
    segment._verify()
    return segment


_segments: Lru[tuple[Store, str], Segment] = Lru(_SEGMENTS_KEPT)


def _is_gone(store: Store, at: tuple[Store, str]) -> bool:
    """Whether a cached segment of this store was deleted; other stores are not asked."""
    if at[0] != store:
        return False
    try:
        store.size(at[1])
    except MissingFileError:
        return True
    return False


def _batch_of(
    hashes: HashArray,
    columns: pa.RecordBatch,
    meta: SegmentMeta,
    dropped: npt.NDArray[np.bool_] | None,
) -> pa.RecordBatch:
    if len(hashes) != columns.num_rows or not _ascends(hashes):
        msg = f"a segment needs one hash per row, ascending: {len(hashes)} for {columns.num_rows}"
        raise ValueError(msg)
    encoded = [field.name for field in columns.schema if _has_dictionary(field.type)]
    if encoded:
        msg = f"columns {encoded} are dictionary-encoded: decode them before writing a segment"
        raise ValueError(msg)
    tombstones = dropped is not None and bool(dropped.any())
    raw = pa.py_buffer(np.ascontiguousarray(hashes, dtype=np.uint64))
    arrays = [pa.Array.from_buffers(pa.uint64(), len(hashes), [None, raw]), *columns.columns]
    fields = [pa.field("_hash", pa.uint64(), nullable=False), *columns.schema]
    if tombstones:
        arrays.append(pa.array(dropped, type=pa.bool_()))
        fields.append(pa.field("_dropped", pa.bool_(), nullable=False))
    facts = {"format": FORMAT, **asdict(meta), "dropped": tombstones}
    return pa.RecordBatch.from_arrays(
        arrays, schema=pa.schema(fields, metadata={_METADATA: json.dumps(facts).encode()})
    )


def _load(key: str, file: memoryview) -> Segment:
    start = footer_start([file])
    trailer = Trailer.decode(file, start)
    if trailer is None:
        raise _damaged(key, "it is cut short or overwritten (its trailer cannot be read)")
    if trailer.version > FORMAT:
        msg = (
            f"segment {key} has format {trailer.version}; this version of Rechannel reads up to"
            f" {FORMAT}. Use the version that wrote it, or a later one"
        )
        raise NewerFormatError(msg)
    if checksum([file[start:]]) != trailer.footer:
        raise _damaged(key, "its footer does not match its checksum")
    check = BlockCheck(file, trailer)
    if check.span(0, 1) is not None:
        raise _damaged(key, _block_of("head", 0))
    return _opened(key, file, check)


def _opened(key: str, file: memoryview, check: BlockCheck) -> Segment:
    whole = pa.py_buffer(file)
    batch = pa.ipc.open_file(whole).get_batch(0)
    facts = json.loads(batch.schema.metadata[_METADATA])
    tombstones = facts.pop("dropped")
    del facts["format"]
    columns = tuple(
        _Column(field.name, tuple(_buffers(batch.column(i), whole.address)))
        for i, field in enumerate(batch.schema)
    )
    segment = Segment(
        key=key,
        meta=SegmentMeta(**facts),
        hashes=batch.column(0).to_numpy(),
        size=len(file),
        _batch=batch,
        _tombstones=tombstones,
        _columns=columns,
        _check=check,
        _source=file.obj,
    )
    segment._touch(columns[0], slice(0, segment.rows))
    return segment


def _buffers(array: pa.Array, origin: int) -> Iterator[_Buffer]:
    width = _width(array.type)
    for number, buffer in enumerate(array.buffers()):
        if buffer is not None and buffer.size:
            start = buffer.address - origin
            bits = None if width is None else 1 if number == 0 else width
            yield _Buffer(start, start + buffer.size, bits)


def _width(kind: pa.DataType) -> int | None:
    try:
        width: int = kind.bit_width
    except ValueError:
        return None
    return width


def _has_dictionary(kind: pa.DataType) -> bool:
    children = (kind.field(i).type for i in range(kind.num_fields))
    return pa.types.is_dictionary(kind) or any(map(_has_dictionary, children))


def _ascends(hashes: HashArray) -> bool:
    return bool((hashes[1:] >= hashes[:-1]).all())


def _block_of(column: str, block: int) -> str:
    where = f"bytes {block * BLOCK} to {(block + 1) * BLOCK}"
    return f"column {column!r}, block {block} ({where}) does not match its checksum"


def _damaged(key: str, what: str) -> DamagedStateError:
    msg = (
        f"segment {key} is damaged: {what}. Nothing is guessed: restore the file from a copy of"
        " the state directory, or start from an empty one; `rechannel verify` finds all damage"
    )
    return DamagedStateError(msg)
