"""What the readers share whose splits tasks read themselves, without Spark's own readers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.errors import SourceError
from rechannel.sources.reader import Offset, Split, SplitReader
from rechannel.sources.spark import split_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class NativeReader:
    """A part of `SourceReader`: the rest is where to start, how far to read, and the splits."""

    native = True
    boundable = True
    repeats = False
    complaint: SourceError | None = None
    schema: pa.Schema

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return what reads the splits between two offsets on workers."""
        raise NotImplementedError

    def frame(self, spark: Any, start: Offset, end: Offset, layout: list[Split]) -> DataFrame:
        """Return a DataFrame with one partition per split."""
        return split_frame(spark, self.split_reader(start, end, layout), layout, self.schema)

    def committed(self, end: Offset) -> None:
        """Do nothing: the reader keeps nothing to drop."""

    def close(self) -> None:
        """Do nothing: the reader holds no resources."""
