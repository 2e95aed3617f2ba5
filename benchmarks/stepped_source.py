"""A clock-driven source whose rate changes in steps: `benchmarks.clock_source` with several rates."""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from benchmarks.clock_source import SCHEMA, Clocked, ClockReader, scattered


@dataclass(frozen=True, slots=True, kw_only=True)
class Stepped(Clocked):
    """`rates` rows per second, each for its number of `seconds`; the last one for ever. `rate` is not used."""

    rates: tuple[int, ...]
    seconds: tuple[int, ...]
    keys: int

    @property
    def edges(self) -> npt.NDArray[np.int64]:
        """How many rows there are when each step begins."""
        return np.concatenate(([0], np.cumsum(np.multiply(self.rates, self.seconds))))

    def due(self, now_ns: int) -> int:
        """How many rows exist at `now_ns`."""
        left, rows = max(0, now_ns - self.start_ns), 0
        for rate, seconds in zip(self.rates, self.seconds, strict=True):
            spent = min(left, seconds * 1_000_000_000)
            rows += spent * rate // 1_000_000_000
            left -= spent
        return rows + left * self.rates[-1] // 1_000_000_000

    def created(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """When rows come into being, ns since 1970."""
        step = np.clip(np.searchsorted(self.edges, rows, side="right") - 1, 0, len(self.rates) - 1)
        begun = np.concatenate(([0], np.cumsum(self.seconds)))[step] * 1_000_000_000
        within = (rows - self.edges[step]) * 1_000_000_000 // np.asarray(self.rates)[step]
        made: npt.NDArray[np.int64] = self.start_ns + begun + within
        return made

    def batch(self, first: int, end: int) -> pa.RecordBatch:
        """The rows ``first <= row < end`` as Arrow."""
        rows = np.arange(first, end, dtype=np.int64)
        return pa.record_batch(
            {"created_ns": self.created(rows), "key": scattered(rows, self.keys)}
        )


class SteppedSource(DataSource):
    """Options: ``start_ns``, ``rates`` and ``seconds`` (JSON lists), ``keys``, ``partitions``."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "stepped"

    def schema(self) -> str:
        """Creation time in ns since 1970, and the key."""
        return SCHEMA

    def streamReader(self, schema: StructType) -> ClockReader:  # noqa: N802
        """The reader of these options."""
        return ClockReader(
            Stepped(
                start_ns=int(self.options["start_ns"]),
                rate=0,
                rates=tuple(json.loads(self.options["rates"])),
                seconds=tuple(json.loads(self.options["seconds"])),
                keys=int(self.options["keys"]),
                partitions=int(self.options["partitions"]),
            )
        )
