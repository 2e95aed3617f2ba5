"""Rows that a task keeps for sinks until it ends: in memory while they are few, and then on disk."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.kernels.shuffle.spool import Place, Spool


@dataclass
class KeptRows:
    """Batches by node, in the order in which they came."""

    _rows: dict[str, list[pa.RecordBatch | tuple[pa.Schema, Place]]] = field(default_factory=dict)
    _spool: Spool = field(default_factory=Spool)
    _held: int = 0

    def add(self, node: str, batch: pa.RecordBatch, most: int) -> None:
        """Keep a batch. most: bytes that may be in memory."""
        self._rows.setdefault(node, []).append(batch)
        self._held += batch.nbytes
        if self._held > most:
            self._spill()

    def batches(self) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
        """All that was kept, node by node."""
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
        """Let go of everything."""
        self._rows.clear()
        self._spool.close()

    def _spill(self) -> None:
        for rows in self._rows.values():
            for i, batch in enumerate(rows):
                if not isinstance(batch, tuple) and not _has_dictionary(batch.schema):
                    rows[i] = batch.schema, self._spool.write(batch.serialize())
        self._held = 0


def _has_dictionary(schema: pa.Schema) -> bool:
    """Whether a batch says less than all without a dictionary that travels beside it."""
    return any(_encoded(field.type) for field in schema)


def _encoded(kind: pa.DataType) -> bool:
    inner = (kind.field(i).type for i in range(kind.num_fields))
    return bool(pa.types.is_dictionary(kind)) or any(_encoded(each) for each in inner)
