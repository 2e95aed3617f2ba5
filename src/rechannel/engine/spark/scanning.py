"""A scan of state as a Spark DataFrame: one task per range of hashes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import from_arrow_schema

from rechannel.engine.spark.calls import Shipped, settle
from rechannel.kernels.lsm.scan import finished
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.model.eventtime import Clock

BATCH_ROWS = 200_000


@dataclass(frozen=True)
class ScanCall:
    """mapInArrow function from numbers of ranges to rows of state."""

    shipped: Shipped
    tasks: tuple[TaskState, ...]
    clock: Clock

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take one row per range, yield rows of state."""
        settle()
        for batch in batches:
            for number in batch.column(0).to_pylist():
                rows = finished(self.shipped.program(), self.tasks[number], self.clock)
                for start in range(0, rows.num_rows, BATCH_ROWS):
                    yield rows.slice(start, BATCH_ROWS)


def scan_frame(
    spark: SparkSession, program: StageProgram, tasks: list[TaskState], clock: Clock
) -> DataFrame:
    """Return live state as a DataFrame. It reads immutable files, which the caller must pin until it is read."""
    count = len(tasks)
    call: Any = ScanCall(Shipped.of(program), tuple(tasks), clock)
    schema = from_arrow_schema(program.can.view_schema)
    return spark.range(0, count, 1, count).mapInArrow(call, schema)
