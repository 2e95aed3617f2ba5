"""Sink buffers: rows of one task as an Arrow IPC file with the same checksummed trailer as a
segment.

They are read once, from front to back, so everything is checked when a file is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rechannel.errors import DamagedStateError, NewerFormatError
from rechannel.state.segments.arrow_file import cut, footer_start, in_pieces
from rechannel.state.segments.blocks import BlockCheck, Trailer, checksum
from rechannel.state.store import Store

FORMAT = 2
"""Version of the format of a sink buffer with several batches; readers reject later ones."""

ONE_BATCH = 1
"""Version of the format of a file with one batch, which older readers know."""

BATCH_BYTES = 128 << 20
"""Up to this size, batches are combined into one: a file with one batch is read at once."""


def write_rows(store: Store, key: str, batches: Sequence[pa.RecordBatch]) -> int:
    """Write batches (at least one, all with the same columns), combined into one if they are
    small.

    Returns the size in bytes. Raises StorageError if the store fails.
    """
    if len(batches) > 1 and sum(batch.nbytes for batch in batches) <= BATCH_BYTES:
        batches = [pa.concat_batches(batches)]
    parts = _parts(batches)
    store.put(key, parts)
    return sum(map(len, parts))


def rows_bytes(batches: Sequence[pa.RecordBatch]) -> bytes:
    """Return the bytes of a file, for a store that is to create it."""
    return b"".join(_parts(batches))


def _parts(batches: Sequence[pa.RecordBatch]) -> list[memoryview]:
    parts = in_pieces(*batches)
    data, footer = cut(parts, footer_start(parts))
    trailer = Trailer.of(data, footer, version=FORMAT if len(batches) > 1 else ONE_BATCH).encode()
    return [*data, memoryview(trailer), *footer]


def read_rows(store: Store, key: str) -> pa.RecordBatch:
    """Read and check a whole file as one batch. Raises as `read_batches` does."""
    batches = read_batches(store, key)
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)


def read_batches(store: Store, key: str) -> list[pa.RecordBatch]:
    """Read and check a whole file. Raises MissingFileError, DamagedStateError, NewerFormatError."""
    file = store.read(key)
    start = footer_start([file])
    trailer = Trailer.decode(file, start)
    if trailer is None:
        raise _damaged(key, "it is truncated or overwritten (its trailer cannot be read)")
    if trailer.version > FORMAT:
        msg = (
            f"sink buffer {key} has format {trailer.version}; this version of Rechannel reads up to"
            f" {FORMAT}. Use the version that wrote it, or a later one"
        )
        raise NewerFormatError(msg)
    if checksum([file[start:]]) != trailer.footer:
        raise _damaged(key, "its footer does not match its checksum")
    broken = BlockCheck(file, trailer).everything()
    if broken:
        raise _damaged(key, f"blocks {broken} do not match their checksums")
    reader = pa.ipc.open_file(pa.py_buffer(file))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]


def _damaged(key: str, what: str) -> DamagedStateError:
    msg = (
        f"sink buffer {key} is damaged: {what}. Its rows cannot be reconstructed: restore the file from a copy of"
        " the state directory"
    )
    return DamagedStateError(msg)
