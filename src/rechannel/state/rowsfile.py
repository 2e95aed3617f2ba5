"""Outbox files: rows of one task as an Arrow IPC file with the same checksummed trailer as a segment.

They are read once, from front to back, so everything is checked when a file is opened.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from rechannel.errors import DamagedStateError, NewerFormatError
from rechannel.state.arrowfile import cut, footer_start, in_pieces
from rechannel.state.blocks import BlockCheck, Trailer, checksum
from rechannel.state.store import Store

FORMAT = 1
"""Version of the format of an outbox file; readers refuse later ones."""


def write_rows(store: Store, key: str, batches: Sequence[pa.RecordBatch]) -> int:
    """Write batches (at least one, all with the same columns) as one batch; the size in bytes.

    Raises StorageError when the store refuses.
    """
    batch = batches[0] if len(batches) == 1 else pa.concat_batches(batches)
    parts = in_pieces(batch)
    data, footer = cut(parts, footer_start(parts))
    trailer = Trailer.of(data, footer, version=FORMAT).encode()
    store.put(key, [*data, memoryview(trailer), *footer])
    return sum(map(len, parts)) + len(trailer)


def read_rows(store: Store, key: str) -> pa.RecordBatch:
    """Read and check a whole file. Raises MissingFileError, DamagedStateError, NewerFormatError."""
    file = store.read(key)
    start = footer_start([file])
    trailer = Trailer.decode(file, start)
    if trailer is None:
        raise _damaged(key, "it is cut short or overwritten (its trailer cannot be read)")
    if trailer.version > FORMAT:
        msg = f"outbox file {key} has format {trailer.version}; this version reads up to {FORMAT}"
        raise NewerFormatError(msg)
    if checksum([file[start:]]) != trailer.footer:
        raise _damaged(key, "its footer does not match its checksum")
    broken = BlockCheck(file, trailer).everything()
    if broken:
        raise _damaged(key, f"blocks {broken} do not match their checksums")
    return pa.ipc.open_file(pa.py_buffer(file)).get_batch(0)


def _damaged(key: str, what: str) -> DamagedStateError:
    msg = (
        f"outbox file {key} is damaged: {what}. Restore it from a copy of the state directory; "
        "the job refuses to guess its rows"
    )
    return DamagedStateError(msg)
