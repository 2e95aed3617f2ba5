"""One record batch as bytes: a stream of Arrow's IPC format, compressed with LZ4."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa


def to_stream(batch: pa.RecordBatch) -> bytes:
    """Return a batch as bytes, its schema and metadata included."""
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
    with pa.ipc.new_stream(sink, batch.schema, options=options) as stream:
        stream.write_batch(batch)
    made: bytes = sink.getvalue().to_pybytes()
    return made


def from_stream(data: bytes, columns: Sequence[int] = ()) -> pa.RecordBatch:
    """Invert `to_stream`. columns: places of those that are read; none = all. Raises ValueError for other bytes."""
    options = pa.ipc.IpcReadOptions(included_fields=list(columns), use_threads=False)
    try:
        with pa.ipc.open_stream(data, options=options) as stream:
            return stream.read_next_batch()
    except (pa.ArrowException, StopIteration) as error:
        msg = f"these bytes are no record batch: {error}"
        raise ValueError(msg) from error
