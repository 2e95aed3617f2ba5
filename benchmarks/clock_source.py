"""A streaming source whose rows come into being by the clock, at an even rate.

Row i exists from ``start_ns + i * 1e9 / rate`` on. The offset is the number of rows that exist, so
how fast an engine asks decides nothing about the rows, only about how long they wait. It is an
ordinary PySpark data source: each engine that is compared is fed by this very class.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit
from pyspark.sql.types import StructType

from benchmarks.measurements import creation_ns, rows_due

SCHEMA = "created_ns LONG, key LONG"
MOST_ROWS = 1 << 16
"""Rows of a batch: what an engine that lags behind has to hold does not grow with its lag."""


class RowRange(InputPartition):
    """The rows ``first <= row < end``."""

    def __init__(self, first: int, end: int) -> None:
        super().__init__((first, end))
        self.first = first
        self.end = end


@dataclass(frozen=True, slots=True, kw_only=True)
class Clocked(ABC):
    """When there are rows: `rate` of them per second from `start_ns`; they are read in `partitions` parts."""

    start_ns: int
    rate: int
    partitions: int

    def due(self, now_ns: int) -> int:
        """How many rows exist at `now_ns`."""
        return rows_due(now_ns, start_ns=self.start_ns, rate=self.rate)

    def ranges(self, first: int, end: int) -> list[RowRange]:
        """The rows ``first <= row < end`` in even parts; no parts if there are no rows."""
        if first >= end:
            return []
        edges = [first + (end - first) * i // self.partitions for i in range(self.partitions + 1)]
        return [RowRange(a, b) for a, b in pairwise(edges)]

    @abstractmethod
    def batch(self, first: int, end: int) -> pa.RecordBatch:
        """The rows ``first <= row < end`` as Arrow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule(Clocked):
    """Which rows there are: each has its creation time, and one of `keys` keys."""

    keys: int

    def batch(self, first: int, end: int) -> pa.RecordBatch:
        """The rows ``first <= row < end`` as Arrow."""
        rows = np.arange(first, end, dtype=np.int64)
        created = creation_ns(rows, start_ns=self.start_ns, rate=self.rate)
        return pa.record_batch({"created_ns": created, "key": scattered(rows, self.keys)})


def scattered(rows: npt.NDArray[np.int64], keys: int) -> npt.NDArray[np.int64]:
    """A key in ``0 <= key < keys`` for every row, evenly scattered, the same every time.

    Multiplies by the golden ratio in 64 bits and keeps the high half (Knuth, volume 3, 6.4).
    """
    mixed = rows.astype(np.uint64) * np.uint64(0x9E37_79B9_7F4A_7C15)
    scaled = (mixed >> np.uint64(32)) * np.uint64(keys) >> np.uint64(32)
    return scaled.astype(np.int64)


class ClockReader(DataSourceStreamReader):
    """Reads a schedule; the offset ``{"rows": n}`` means that the first n rows were read."""

    def __init__(self, schedule: Clocked) -> None:
        self.schedule = schedule

    def initialOffset(self) -> dict[str, int]:  # noqa: N802
        """No row was read."""
        return {"rows": 0}

    def latestOffset(  # noqa: N802
        self, start: dict[str, int], limit: ReadLimit
    ) -> dict[str, int]:
        """Every row that exists now; never back, even if someone sets the clock."""
        return {"rows": max(start["rows"], self.schedule.due(time.time_ns()))}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> Sequence[RowRange]:
        """The rows between two offsets, in even parts."""
        return self.schedule.ranges(start["rows"], end["rows"])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one part, at most `MOST_ROWS` at a time."""
        if not isinstance(partition, RowRange):
            raise TypeError(f"expected a range of rows, got {partition!r}")
        for first in range(partition.first, partition.end, MOST_ROWS):
            yield self.schedule.batch(first, min(first + MOST_ROWS, partition.end))


class ClockSource(DataSource):
    """Options: ``start_ns`` (since 1970), ``rate`` (rows per second), ``keys``, ``partitions``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "clock"

    def schema(self) -> str:
        """Creation time in ns since 1970, and the key."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> ClockReader:  # noqa: N802
        """The reader of these options."""
        return ClockReader(
            Schedule(
                start_ns=int(self.options["start_ns"]),
                rate=int(self.options["rate"]),
                keys=int(self.options["keys"]),
                partitions=int(self.options["partitions"]),
            )
        )
