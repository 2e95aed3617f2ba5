"""Lines of words that come into being by the clock: the input of `recovery`, for every side."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from benchmarks.clock_source import Clocked, ClockReader, scattered

SCHEMA = "line STRING"
WORDS = 10
"""In a line."""
WANTED = "w42"
"""What `grep` looks for: a line has one of the words that begin so."""


@cache
def vocabulary(words: int) -> pa.Array:
    """All words there are."""
    return pa.array([f"w{number}" for number in range(words)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines(Clocked):
    """Each line has `WORDS` words of `vocabulary`, evenly scattered, the same every time."""

    words: int

    def batch(self, first: int, end: int) -> pa.RecordBatch:
        """The lines ``first <= line < end`` as Arrow."""
        known = vocabulary(self.words)
        lines = np.arange(first, end, dtype=np.int64) * WORDS
        columns = [
            known.take(pa.array(scattered(lines + place, self.words))) for place in range(WORDS)
        ]
        return pa.record_batch({"line": pc.binary_join_element_wise(*columns, " ")})


class LineSource(DataSource):
    """Options: ``start_ns`` (since 1970), ``rate`` (lines per second), ``words``, ``partitions``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "lines"

    def schema(self) -> str:
        """One line."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> ClockReader:  # noqa: N802
        """The reader of these options."""
        return ClockReader(
            Lines(
                start_ns=int(self.options["start_ns"]),
                rate=int(self.options["rate"]),
                words=int(self.options["words"]),
                partitions=int(self.options["partitions"]),
            )
        )
