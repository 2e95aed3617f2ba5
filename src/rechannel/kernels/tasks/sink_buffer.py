"""The rows of a task's sink buffers until the task ends: in memory at first, on disk beyond a limit."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.kernels.shuffle.spool import Place, Spool


@dataclass
class SinkBuffer:
    """Batches by node, in order of arrival."""

    _rows: dict[str, list[pa.RecordBatch | tuple[pa.Schema, Place]]] = field(default_factory=dict)
    _spool: Spool = field(default_factory=Spool)
    _loose: list[tuple[str, int]] = field(default_factory=list)
    """Batches that are in memory and can go to disk: their nodes, and their places there."""
    _held: int = 0
    """Bytes of these."""
    _stays: int = 0
    """Bytes of batches that have to stay in memory."""

    def add(self, node: str, batch: pa.RecordBatch, most: int) -> None:
        """Keep a batch. most: bytes that may stay in memory."""
        rows = self._rows.setdefault(node, [])
        rows.append(batch)
        if _has_dictionary(batch.schema):
            self._stays += batch.nbytes
        else:
            self._loose.append((node, len(rows) - 1))
            self._held += batch.nbytes
        if self._held + self._stays > most:
            self._spill()

    def batches(self) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        """Yield the batches of each node."""
        for node, rows in self._rows.items():
            places = [each[1] for each in rows if isinstance(each, tuple)]
            read = iter(self._spool.read(places) if places else ())
            yield (
                node,
                [
                    pa.ipc.read_record_batch(next(read), each[0])
                    if isinstance(each, tuple)
                    else each
                    for each in rows
                ],
            )
            self._spool.release()

    def close(self) -> None:
        """Release everything."""
        self._rows.clear()
        self._loose.clear()
        self._spool.close()

    def _spill(self) -> None:
        for node, place in self._loose:
            rows = self._rows[node]
            batch = rows[place]
            if isinstance(batch, pa.RecordBatch):
                rows[place] = batch.schema, self._spool.write(batch.serialize())
        self._loose.clear()
        self._held = 0


def _has_dictionary(schema: pa.Schema) -> bool:
    """Whether batches of a schema need dictionaries, which are serialised separately."""
    return any(_encoded(field.type) for field in schema)


def _encoded(kind: pa.DataType) -> bool:
    inner = (kind.field(i).type for i in range(kind.num_fields))
    return bool(pa.types.is_dictionary(kind)) or any(_encoded(each) for each in inner)
