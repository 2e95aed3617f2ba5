"""A clock-driven source with a past: rows that were there before the clock began, then one by one.

The state of a query is made of all its input. A query that loses the state reads that again: one row per
key, which is the shortest past that a state of that many keys can have, and what came since.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from benchmarks.clock_source import RowRange, scattered
from benchmarks.measurements import rows_due

SCHEMA = "key LONG, value LONG"
CHUNK_ROWS = 1 << 20


class HistoryReader(DataSourceStreamReader):
    """Offsets are numbers of rows: {"rows": n}.

    past: rows that were there before; row i of them has key i. clock: a file with the time in ns
    since 1970 at which the others begin to be due; until it is there, none is. rate: of the others;
    0 = `most` per batch, due or not.
    """

    def __init__(self, past: int, clock: Path, rate: int, most: int, partitions: int) -> None:
        self.past = past
        self.clock = clock
        self.rate = rate
        self.most = most
        self.parts = partitions

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """No row was read."""
        return {"rows": 0}

    def latestOffset(  # noqa: N802
        self, start: dict[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        """Every row that is due."""
        if not self.clock.exists():
            return {"rows": max(start["rows"], self.past)}
        if self.rate == 0:
            return {"rows": max(start["rows"], self.past) + self.most}
        since = int(self.clock.read_text(encoding="utf-8"))
        due = self.past + rows_due(time.time_ns(), start_ns=since, rate=self.rate)
        return {"rows": max(start["rows"], due)}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[RowRange]:
        """The rows between two offsets, in even parts."""
        first, count = start["rows"], end["rows"] - start["rows"]
        edges = [first + count * i // self.parts for i in range(self.parts + 1)]
        return [RowRange(a, b) for a, b in pairwise(edges) if a < b]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part."""
        if not isinstance(partition, RowRange):
            raise TypeError(f"expected a range of rows, got {partition!r}")
        for start in range(partition.first, partition.end, CHUNK_ROWS):
            rows = np.arange(start, min(start + CHUNK_ROWS, partition.end), dtype=np.int64)
            keys = np.where(rows < self.past, rows, scattered(rows, self.past))
            yield pa.record_batch({"key": keys, "value": rows % 1_000})


class HistorySource(DataSource):
    """Options: ``past``, ``clock``, ``rate``, ``most``, ``partitions``; see `HistoryReader`."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "history"

    def schema(self) -> str:
        """Key and value."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> HistoryReader:  # noqa: N802
        """The reader of these options."""
        return HistoryReader(
            past=int(self.options["past"]),
            clock=Path(self.options["clock"]),
            rate=int(self.options["rate"]),
            most=int(self.options["most"]),
            partitions=int(self.options["partitions"]),
        )
