"""The capabilities of `private.py` on public API only: slower, with the same results. Spark Connect offers no more."""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from rechannel.engine.stages.bundles import Bundles


class PersistedExchange:
    """A shuffle whose result is cached, so that it runs once; each reader filters the partitions it wants."""

    def __init__(self, spark: SparkSession, rows: DataFrame, partitions: int) -> None:
        """Plan the exchange of `rows` by their integer column `p`; nothing runs yet."""
        self._spark = spark
        self._frame = rows.repartitionById(partitions, "p").persist()
        self.partitions = partitions

    def read(self, first: int, stop: int, anchor: object = None) -> DataFrame:
        """Return the rows of partitions [first, stop); partition i of the result is partition first + i.

        anchor: ignored; without private API, Spark chooses where tasks run.
        """
        del anchor
        if (first, stop) == (0, self.partitions):
            return self._frame
        wanted = self._frame.where((F.col("p") >= first) & (F.col("p") < stop))
        return wanted.repartitionById(stop - first, F.col("p") - first)

    def read_bundles(self, bundles: Bundles, first: int, anchor: object = None) -> None:
        """Return None: without private API, every task is one of Spark's."""
        del bundles, first, anchor

    def incomplete(self) -> bool:
        """Return False: without private API, it is not known."""
        return False

    def submit(self) -> None:
        """Do nothing: without private API, a shuffle cannot be started ahead of its readers."""

    def release(self) -> None:
        """Drop the cached rows. Spark's cleaner removes the shuffle when its plan is garbage-collected."""
        self._frame.unpersist()
