"""Calls and exchanges as DataFrames: available in every session, but Spark plans them anew in every timestep."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from rechannel.engine.stages.bundles import Bundles

ROWS = StructType(
    [StructField("p", IntegerType(), False), StructField("blob", BinaryType(), False)]
)
"""(partition, blob)."""

Rows: TypeAlias = Any
"""Rows that are not computed yet: a DataFrame, or another form that a `Stages` uses."""

Call: TypeAlias = Callable[[Any], Any]
"""Arrow batches -> Arrow batches of `ROWS`."""


class Exchange(Protocol):
    """A shuffle that runs once and has several readers (`private.SharedExchange`, `public.PersistedExchange`)."""

    partitions: int

    def read(self, first: int, stop: int, anchor: Any = None) -> Rows:
        """Return the rows of partitions [first, stop). anchor: where tasks run (`private.Anchor`)."""

    def read_bundles(self, bundles: Bundles, first: int, anchor: Any = None) -> Rows | None:
        """Return the rows of bundles of tasks, of which task i reads partition first + i; None if that cannot be.

        Partition i of the result has the rows of the i-th bundle. anchor: where bundles run.
        """

    def incomplete(self) -> bool:
        """Return whether some of its rows are not there, as far as that is known: not yet, or not any more."""

    def submit(self) -> None:
        """Start it ahead of its readers, if the session allows that."""

    def release(self) -> None:
        """Free its files."""


class Stages(Protocol):
    """Composes the stages of a timestep. `call` also takes any DataFrame as rows."""

    def numbers(self, tasks: int, anchor: Any = None) -> Rows:
        """Return one row per task: its number. anchor: where tasks run (`private.Anchor`); None = anywhere."""

    def call(
        self, rows: Rows, function: Call, profile: ResourceProfile | None, *, copied: bool = True
    ) -> Rows:
        """Apply a function to the rows of every partition. copied: whether Spark may start copies of slow tasks."""

    def joined(self, parts: Sequence[tuple[Rows, int]]) -> Rows:
        """Return the union of several (partition, blob) rows; each part's number is subtracted from its partitions."""

    def exchange(self, rows: Rows, partitions: int) -> Exchange:
        """Shuffle rows by their partition."""

    def collect(self, rows: Rows) -> list[bytes]:
        """Run the job and return the blobs."""


class FrameStages:
    """Stages as DataFrames."""

    def __init__(
        self, spark: SparkSession, make_exchange: Callable[[SparkSession, DataFrame, int], Exchange]
    ) -> None:
        """make_exchange: (session, rows, partitions) -> exchange."""
        self._spark, self._make_exchange = spark, make_exchange
        self._ranges: dict[int, DataFrame] = {}
        self._lock = threading.Lock()

    def numbers(self, tasks: int, anchor: Any = None) -> DataFrame:
        """Return one row per task; kept, because planning a range costs as much as planning its use.

        anchor: ignored; a DataFrame's tasks run where Spark has them run.
        """
        del anchor
        with self._lock:
            if tasks not in self._ranges:
                self._ranges[tasks] = self._spark.range(0, tasks, 1, tasks)
            return self._ranges[tasks]

    def call(
        self, rows: Rows, function: Call, profile: ResourceProfile | None, *, copied: bool = True
    ) -> DataFrame:
        """See `Stages`. Spark copies no task of a barrier stage."""
        made: DataFrame = rows.mapInArrow(function, ROWS, not copied, profile)
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
    """Return the blobs of (partition, blob) rows."""
    blobs: list[bytes] = rows.toArrow().column("blob").to_pylist()
    return blobs
