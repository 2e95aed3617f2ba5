"""Reading outbox files: rows that a stage kept for sinks and DataFrame functions behind it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.model.named import by_names
from rechannel.state.segments.rows_file import read_batches
from rechannel.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sink_buffer_tables(store: Store, keys: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Batches of outbox files, in the order of the keys and of the rows in each.

    Raises MissingFileError or DamagedStateError naming the file.
    """
    for key in keys:
        yield from read_batches(store, key)


@dataclass(frozen=True)
class SinkBufferRows:
    """mapInArrow function over one number per partition: the rows of the file of that number.

    schema: columns that Spark expects, which it takes by their places; None = those of the files.
    """

    store: Store
    keys: tuple[str, ...]
    schema: pa.Schema | None = None

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Numbers in, rows out."""
        for batch in numbers:
            keys = (self.keys[i] for i in batch.column(0).to_pylist())
            for rows in sink_buffer_tables(self.store, keys):
                yield rows if self.schema is None else by_names(rows, self.schema)


def sink_buffer_frame(
    spark: SparkSession, keys: Sequence[str], store: Store, schema: pa.Schema
) -> DataFrame:
    """Rows of outbox files as a DataFrame, one partition per file; no files give no rows.

    store: one that can be pickled and that executors reach. schema: columns of the frame.
    """
    from rechannel.sources.spark import empty_frame, spark_schema

    if not keys:
        return empty_frame(spark, schema)
    numbers = spark.range(0, len(keys), 1, len(keys))
    return numbers.mapInArrow(SinkBufferRows(store, tuple(keys), schema), spark_schema(schema))
