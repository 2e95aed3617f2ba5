"""Calls and exchanges as DataFrames: what Spark plans anew every time, and offers everywhere."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

ROWS = StructType(
    [StructField("p", IntegerType(), False), StructField("blob", BinaryType(), False)]
)
"""(partition, blob)."""

Rows: TypeAlias = Any
"""Rows that are not there yet: a DataFrame, or what else a `Stages` makes of one."""

Call: TypeAlias = Callable[[Any], Any]
"""Arrow batches -> Arrow batches of `ROWS`."""


class Exchange(Protocol):
    """A shuffle run once and read by many (private.SharedExchange, public.PersistedExchange)."""

    partitions: int

    def read(self, first: int, stop: int, anchor: Any = None) -> Rows:
        """Rows of a range of partitions; anchor: where they are computed (private.Anchor)."""

    def submit(self) -> None:
        """Start it ahead of its readers, where possible."""

    def release(self) -> None:
        """Free it."""


class Stages(Protocol):
    """How the stages of a timestep are put together. Rows may also be any DataFrame where they are only called."""

    def numbers(self, tasks: int) -> Rows:
        """One row per task: its number."""

    def call(self, rows: Rows, function: Call, profile: ResourceProfile | None) -> Rows:
        """What a function makes of every partition's rows."""

    def joined(self, parts: Sequence[tuple[Rows, int]]) -> Rows:
        """(partition, blob) rows of several, each with how much less its partitions are from now on."""

    def exchange(self, rows: Rows, partitions: int) -> Exchange:
        """Rows by their partition."""

    def collect(self, rows: Rows) -> list[bytes]:
        """The blobs themselves: now it runs."""


class FrameStages:
    """Stages as DataFrames. make_exchange: (session, rows, partitions) -> exchange."""

    def __init__(
        self, spark: SparkSession, make_exchange: Callable[[SparkSession, DataFrame, int], Exchange]
    ) -> None:
        """Nothing is planned yet."""
        self._spark, self._make_exchange = spark, make_exchange
        self._ranges: dict[int, DataFrame] = {}
        self._lock = threading.Lock()

    def numbers(self, tasks: int) -> DataFrame:
        """One row per task; made once, because planning a range costs as much as planning its use."""
        with self._lock:
            if tasks not in self._ranges:
                self._ranges[tasks] = self._spark.range(0, tasks, 1, tasks)
            return self._ranges[tasks]

    def call(self, rows: Rows, function: Call, profile: ResourceProfile | None) -> DataFrame:
        """See `Stages`."""
        made: DataFrame = rows.mapInArrow(function, ROWS, profile=profile)
        return made

    def joined(self, parts: Sequence[tuple[Rows, int]]) -> DataFrame:
        """See `Stages`."""
        frames = [
            rows.select((F.col("p") - less).cast("int").alias("p"), "blob") for rows, less in parts
        ]
        united: DataFrame = frames[0]
        for frame in frames[1:]:
            united = united.union(frame)
        return united

    def exchange(self, rows: Rows, partitions: int) -> Exchange:
        """See `Stages`."""
        return self._make_exchange(self._spark, rows, partitions)

    def collect(self, rows: Rows) -> list[bytes]:
        """See `Stages`."""
        return blobs_of(rows)


def blobs_of(rows: DataFrame) -> list[bytes]:
    """The blobs of (partition, blob) rows."""
    blobs: list[bytes] = rows.toArrow().column("blob").to_pylist()
    return blobs
