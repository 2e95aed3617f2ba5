"""The same capabilities from public API only: slower, right, and all that Spark Connect offers."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812


class PersistedExchange:
    """A shuffle whose result is cached, so that every reader finds it run; a reader filters what it wants."""

    def __init__(self, spark: SparkSession, rows: DataFrame, partitions: int) -> None:
        """Plan the exchange of `rows` by their integer column `p`; nothing runs yet."""
        self._spark = spark
        self._frame = rows.repartitionById(partitions, "p").persist()
        self.partitions = partitions

    def read(self, first: int, stop: int, anchor: object = None) -> DataFrame:
        """Rows of partitions [first, stop); partition i of the result is partition first + i.

        anchor: public API has none: tasks run where Spark likes.
        """
        del anchor
        if (first, stop) == (0, self.partitions):
            return self._frame
        wanted = self._frame.where((F.col("p") >= first) & (F.col("p") < stop))
        return wanted.repartitionById(stop - first, F.col("p") - first)

    def submit(self) -> None:
        """Nothing to start ahead of time without private API."""

    def release(self) -> None:
        """Drop the cached rows; Spark's cleaner removes the shuffle when the plan is collected as garbage."""
        self._frame.unpersist()
