"""Segments: immutable Arrow IPC files of rows sorted by key hash, checked when first touched.

A segment is written by one attempt of one task in one timestep: a single record batch with the
columns `_hash` (uint64, ascending), the key columns, the state columns and, only if a key was
dropped, `_dropped` (bool: the key no longer has state). Any Arrow reader can read it. Checksums
are in a trailer between the last Arrow message and the footer, where Arrow readers do not look
(see `blocks` and docs/formats/segment.md).

A reader maps the file. Opening checks the head, the footer and the hashes; everything else is
checked block by block when a process first touches it: call `touch` before using values. If only
some bytes of a file are here (`store.Ranges`), opening reads only head and footer: `slices`,
`search` and `touch` fetch what they need (see `ranged`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from functools import partial
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.errors import DamagedStateError, MissingFileError, NewerFormatError
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.state.cache.open_files import Lru
from rechannel.state.segments.arrow_file import cut, footer_start, head_end, in_pieces
from rechannel.state.segments.blocks import FINE_BLOCK, BlockCheck, Trailer, checksum, digest_of
from rechannel.state.segments.format import (
    Column,
    ascends,
    batch_of,
    block_damaged,
    column_damaged,
    facts_of,
    segment_damaged,
)
from rechannel.state.segments.layout import Buffer, layout_of, width_of
from rechannel.state.segments.ranged import RangedRows, marks_of, row_spans
from rechannel.state.store import FileFacts, RangedStore, Ranges, Store, close_files, put_known

FORMAT = 2
"""Version of the format of a segment; readers reject later ones."""

_SEGMENTS_KEPT = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentMeta:
    """The writer of a segment."""

    operator: str
    """Name of the operator."""
    timestep: int
    task: int
    attempt: str
    logic: int
    """Version of the operator's function."""
    schema: str
    """Fingerprint of key and state columns."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """A segment that was written."""

    size: int
    """Bytes."""
    digest: str
    """Digest of its content, for those who will open it."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Segment:
    """An open segment. Its arrays are views of the mapped file and are never written to."""

    key: str
    meta: SegmentMeta
    hashes: HashArray
    """Ascending, shape (rows,). In a partial segment, only those that `slices` or `search`
    returned may be read.
    """
    size: int
    """Bytes of the file."""
    digest: str
    """Digest of its content."""
    _batch: pa.RecordBatch
    _tombstones: bool
    _columns: tuple[Column, ...]
    _check: BlockCheck
    _source: object
    _ranges: Ranges | None = None
    _ranged: RangedRows | None = None
    memo: dict[str, Any] = field(default_factory=dict)
    """What readers derive from the rows and keep while the segment is open."""

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(self.hashes)

    @property
    def partial(self) -> bool:
        """Whether only some bytes are here, or were when it was opened."""
        return self._ranged is not None

    @property
    def schema(self) -> pa.Schema:
        """Key and state columns, without hash and tombstones."""
        fields = list(self._batch.schema)
        return pa.schema(fields[1:-1] if self._tombstones else fields[1:])

    @property
    def dropped(self) -> npt.NDArray[np.bool_] | None:
        """Rows that end their key's state, shape (rows,); None if there are none. Checked on
        access.
        """
        if not self._tombstones:
            return None
        if self._ranged is None:
            self._touch(self._columns[-1], slice(0, self.rows))
        else:
            self._ranged.touch_column(len(self._columns) - 1)
        last = self._batch.column(self._batch.num_columns - 1)
        bits: npt.NDArray[np.bool_] = last.to_numpy(zero_copy_only=False)
        return bits

    def column(self, index: int) -> pa.Array:
        """Return key or state column `index`, counted from 0 after the hash. Zero-copy."""
        return self._batch.column(index + 1)

    def slices(self, where: Intervals) -> list[slice]:
        """Return the rows of each interval that has any; their hashes may be read. Raises
        DamagedStateError.
        """
        if self._ranged is None:
            return list(where.slices(self.hashes))
        return [slice(first, last) for first, last in self._ranged.windows(where) if first < last]

    def search(
        self, asked: HashArray, where: Intervals, side: Literal["left", "right"] = "left"
    ) -> npt.NDArray[np.int64]:
        """Return the first row whose hash is not below each needle, or ("right") is above it.

        That row's hash may be read. asked: shape (needles,), ascending, all in the intervals.
        Raises DamagedStateError.
        """
        if self._ranged is None:
            return np.searchsorted(self.hashes, asked, side)
        return self._ranged.search(asked, where, side)

    def bring(self, where: Intervals) -> int:
        """Fetch all columns of the intervals. Returns the bytes that they take, in whole blocks.

        Raises DamagedStateError, MissingFileError, StorageError.
        """
        rows = [(piece.start, piece.stop) for piece in self.slices(where)]
        if not rows:
            return 0
        spans = np.array(rows, dtype=np.int64)
        if self._ranged is None:
            buffers = [buffer for column in self._columns for buffer in column.buffers]
            taken = np.concatenate([buffer.spans(spans) for buffer in buffers])
            return self._check.total(self._check.blocks_of(taken))
        if self._tombstones:
            self._ranged.touch_column(len(self._columns) - 1)
        return self._ranged.bring(spans)

    def touch(self, rows: npt.NDArray[np.integer] | slice) -> None:
        """Check the blocks of these rows that were not yet checked in this process.

        rows: row numbers in any order, or a slice without a step. Raises DamagedStateError.
        """
        if self._check.complete:
            return
        if self._ranged is not None:
            self._ranged.touch(row_spans(rows, self.rows))
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

    def _touch(self, column: Column, rows: npt.NDArray[np.int64] | slice) -> None:
        for buffer in column.buffers:
            if buffer.width is None:
                damaged = self._check.span(buffer.start, buffer.stop)
            elif isinstance(rows, slice):
                first, last = rows.start * buffer.width, rows.stop * buffer.width
                damaged = self._check.span(buffer.start + first // 8, buffer.start + -(-last // 8))
            else:
                damaged = self._check.values(buffer.start, buffer.width, rows)
            if damaged is not None:
                raise column_damaged(self.key, column.name, damaged, self._check.block)

    def _verify(self) -> None:
        for block in self._check.everything():
            raise block_damaged(self.key, self._columns, self._check.block, block)
        if not ascends(self.hashes):
            raise segment_damaged(self.key, "its hashes do not ascend")
        try:
            self._batch.validate(full=True)
        except pa.ArrowInvalid as error:
            raise segment_damaged(
                self.key, f"its columns are not valid Arrow data ({error})"
            ) from error


def write_segment(
    store: Store,
    key: str,
    hashes: HashArray,
    columns: pa.RecordBatch,
    meta: SegmentMeta,
    *,
    dropped: npt.NDArray[np.bool_] | None = None,
) -> Written:
    """Write one segment, without copying column buffers.

    hashes: shape (rows,), ascending. columns: key columns, then state columns, rows ordered by
    hash, none dictionary-encoded. dropped: shape (rows,), rows that end their key. Raises
    ValueError for invalid columns, StorageError if the store fails.
    """
    parts = in_pieces(batch_of(hashes, columns, {"format": FORMAT, **asdict(meta)}, dropped))
    data, footer = cut(parts, footer_start(parts))
    trailer = Trailer.of(data, footer, version=FORMAT, marks=marks_of(hashes)).encode()
    written = Written(size=sum(map(len, parts)) + len(trailer), digest=digest_of(trailer))
    facts = FileFacts.written(key, written.size, written.digest)
    put_known(store, key, [*data, memoryview(trailer), *footer], facts)
    return written


def open_segment(
    store: Store, key: str, digest: str | None = None, size: int | None = None
) -> Segment:
    """Open a segment, or return the one that this process has open.

    digest, size (bytes): of its content, as recorded in the journal; with both, a store that fetches parts is not asked
    for what it knows of the file. None if not recorded, as in older journals. Raises MissingFileError,
    DamagedStateError, NewerFormatError.
    """
    ranges = known = None
    if isinstance(store, RangedStore):
        if digest is not None and size is not None:
            known = FileFacts.written(key, size, digest)
        ranges = store.ranges(key, known)
    file = store.read(key) if ranges is None else ranges.view
    at = (store, key)
    segment = _segments.get(at)
    if segment is not None and segment._source is file.obj and digest in {None, segment.digest}:
        return segment
    if isinstance(store, RangedStore) and ranges is not None:
        segment = _load_ranges(store, key, ranges, digest, known)
    else:
        segment = _load(key, file, digest=digest)
    _segments.put(at, segment, lambda at, held: _is_gone(store, at, held))
    return segment


def forget_segments(store: Store) -> None:
    """Close the segments of a store that this process has read once: it would keep them open, and their bytes."""
    _segments.discard_all(lambda at: at[0] == store)
    close_files(store)


def verify_segment(store: Store, key: str, digest: str | None = None) -> Segment:
    """Read and check every byte of a segment, including what was checked earlier. digest: as for
    `open_segment`.

    Raises MissingFileError, DamagedStateError, NewerFormatError.
    """
    segment = _load(key, store.read(key), digest=digest)
    segment._verify()
    return segment


_segments: Lru[tuple[Store, str], Segment] = Lru(_SEGMENTS_KEPT)


def _is_gone(store: Store, at: tuple[Store, str], held: Segment) -> bool:
    """Return whether a cached segment of this store was deleted; other stores are not queried."""
    if at[0] != store:
        return False
    if held._ranges is not None:
        return held._ranges.gone()
    try:
        store.size(at[1])
    except MissingFileError:
        return True
    return False


def _load_ranges(
    store: RangedStore, key: str, ranges: Ranges, digest: str | None, known: FileFacts | None
) -> Segment:
    """Open a file of which some bytes are here; damaged parts are fetched again."""
    try:
        return _load(key, ranges.view, ranges, digest=digest)
    except DamagedStateError:
        ranges.discard()
        again = store.ranges(key, known)
        if again is None:
            raise
        return _load(key, again.view, again, digest=digest)


def _load(
    key: str, file: memoryview, ranges: Ranges | None = None, *, digest: str | None = None
) -> Segment:
    def need(start: int, stop: int) -> None:
        if ranges is not None:
            ranges.need(np.array([[max(0, start), min(stop, len(file))]], dtype=np.int64))

    need(len(file) - FINE_BLOCK, len(file))
    start = footer_start([file])
    need(start - FINE_BLOCK, len(file))
    need(Trailer.place(file, start), len(file))
    trailer = Trailer.decode(file, start)
    if trailer is None:
        raise segment_damaged(key, "it is truncated or overwritten (its trailer cannot be read)")
    if trailer.version > FORMAT:
        msg = (
            f"segment {key} has format {trailer.version}; this version of Rechannel reads up to"
            f" {FORMAT}. Use the version that wrote it, or a later one"
        )
        raise NewerFormatError(msg)
    if checksum([file[start:]]) != trailer.footer:
        raise segment_damaged(key, "its footer does not match its checksum")
    if digest not in {None, trailer.digest}:
        what = (
            "it is an intact segment, but not the one that was written: its digest is"
            f" {trailer.digest}, and the journal has {digest}"
        )
        raise segment_damaged(key, what)
    check = BlockCheck(file, trailer, ranges)
    damaged = check.span(0, max(1, min(head_end(file, need), trailer.data)))
    if damaged is not None:
        raise column_damaged(key, "head", damaged, check.block)
    return _opened(key, file, check, ranges, trailer)


def _opened(
    key: str, file: memoryview, check: BlockCheck, ranges: Ranges | None, trailer: Trailer
) -> Segment:
    whole = pa.py_buffer(file)
    batch = pa.ipc.open_file(whole).get_batch(0)
    facts = facts_of(batch.schema)
    tombstones = facts.pop("dropped")
    del facts["format"]
    columns = tuple(
        Column(field.name, tuple(_buffers(batch.column(i), whole.address)))
        for i, field in enumerate(batch.schema)
    )
    hashes = batch.column(0).to_numpy()
    ranged = None
    if ranges is not None and not ranges.complete:
        ranged = RangedRows(
            layouts=tuple(layout_of(column, whole.address) for column in batch.columns),
            hashes=hashes,
            marks=trailer.marks,
            check=check,
            file=file,
            refuse=partial(block_damaged, key, columns, check.block),
        )
    segment = Segment(
        key=key,
        meta=SegmentMeta(**facts),
        hashes=hashes,
        size=len(file),
        digest=trailer.digest,
        _batch=batch,
        _tombstones=tombstones,
        _columns=columns,
        _check=check,
        _source=file.obj,
        _ranges=ranges,
        _ranged=ranged,
    )
    if ranged is None:
        segment._touch(columns[0], slice(0, segment.rows))
    return segment


def _buffers(array: pa.Array, origin: int) -> Iterator[Buffer]:
    width = width_of(array.type)
    for number, buffer in enumerate(array.buffers()):
        if buffer is not None and buffer.size:
            start = buffer.address - origin
            bits = None if width is None else 1 if number == 0 else width
            yield Buffer(start, start + buffer.size, bits)
