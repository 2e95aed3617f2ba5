"""Batches of rows with the error that ended them: what goes through an Arrow C stream loses the class of its errors."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass
class Noted(Iterator[pa.RecordBatch]):
    """Batches that a library reads through a C stream, and then raises an error of its own."""

    batches: Iterator[pa.RecordBatch]
    error: Exception | None = None
    """What computing the rows raised."""

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch. Raises what computing it raises, and keeps it."""
        try:
            return next(self.batches)
        except StopIteration:
            raise
        except Exception as error:
            self.error = error
            raise
