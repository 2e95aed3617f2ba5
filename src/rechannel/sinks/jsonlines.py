"""JSON lines without Spark, in the format of Spark's writer: nulls are left out, decimals keep all
their digits.
"""

from __future__ import annotations

from typing import Self

import pyarrow as pa

from rechannel.kernels.functions.formats.json_values import text_of


class JsonLines:
    """One JSON object per row and line, in a file of its own."""

    def __init__(self, file: str, schema: pa.Schema) -> None:
        """Open a new file."""
        self._kind = pa.struct(list(schema))
        self._file = open(file, "w", encoding="utf-8")  # noqa: PTH123, SIM115 - closed by `__exit__`

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Append rows."""
        for row in batch.to_pylist():
            self._file.write(f"{text_of(row, self._kind)}\n")

    def __enter__(self) -> Self:
        """Write until the block ends."""
        return self

    def __exit__(self, *args: object) -> None:
        """Close the file."""
        self._file.close()
