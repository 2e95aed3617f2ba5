"""Rows as JSON objects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rechannel.kernels.functions.formats.encoder import Encoded, Encoder, rows_by_halves
from rechannel.kernels.functions.formats.json_objects import json_objects


@dataclass(frozen=True, eq=False, kw_only=True)
class JsonEncoder(Encoder):
    """Writes one object per row, as `write.kafka` does."""

    called: ClassVar[str] = "JSON"
    kind: ClassVar[pa.DataType] = pa.string()

    def check(self, columns: pa.Schema) -> None:
        """Take any columns."""

    def encoded(self, rows: pa.RecordBatch) -> Encoded:
        """Write rows. See `Encoder`."""
        return rows_by_halves(rows, self._objects)

    def _objects(self, rows: pa.RecordBatch) -> pa.Array:
        try:
            return json_objects(rows).cast(self.kind)
        except OverflowError as error:
            raise ValueError(f"{type(error).__name__}: {error}") from None
