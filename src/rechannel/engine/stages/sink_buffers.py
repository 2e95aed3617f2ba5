"""Read sink-buffer files: rows that a stage kept for downstream sinks and DataFrame functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.model.named import by_names
from rechannel.state.segments.rows_file import read_batches
from rechannel.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sink_buffer_tables(store: Store, keys: Iterable[str]) -> Iterator[pa.RecordBatch]:
    """Yield the batches of sink-buffer files, in the order of the keys and of the rows in each file.

    Raises MissingFileError or DamagedStateError naming the file.
    """
    for key in keys:
        yield from read_batches(store, key)


def kept_columns(store: Store, kept: Mapping[str, list[str]]) -> pa.Schema | None:
    """Return the columns of sink-buffer files, by node; None if there are none."""
    keys = (key for files in kept.values() for key in files)
    return next((batch.schema for batch in sink_buffer_tables(store, keys)), None)


@dataclass(frozen=True)
class SinkBufferRows:
    """mapInArrow function from one file number per partition to the rows of that file."""

    store: Store
    keys: tuple[str, ...]
    """Key of each file, by number."""
    schema: pa.Schema | None = None
    """Columns that Spark expects, by position; None means those of the files."""

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take numbers, yield rows."""
        for batch in numbers:
            keys = (self.keys[i] for i in batch.column(0).to_pylist())
            for rows in sink_buffer_tables(self.store, keys):
                yield rows if self.schema is None else by_names(rows, self.schema)


def sink_buffer_frame(
    spark: SparkSession, keys: Sequence[str], store: Store, schema: pa.Schema
) -> DataFrame:
    """Return the rows of sink-buffer files as a DataFrame, one partition per file; without files, no rows.

    store: can be pickled, and executors can reach it. schema: columns of the frame.
    """
    from rechannel.sources.spark import empty_frame, spark_schema

    if not keys:
        return empty_frame(spark, schema)
    numbers = spark.range(0, len(keys), 1, len(keys))
    return numbers.mapInArrow(SinkBufferRows(store, tuple(keys), schema), spark_schema(schema))
