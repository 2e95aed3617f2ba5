"""Bulk load on Spark: scatter by hash, one task per slice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark import TaskContext

from rechannel.engine.spark.calls import Shipped, identity, settle
from rechannel.engine.spark.failures import translate
from rechannel.engine.spark.reporting import reports_of
from rechannel.engine.spark.stages import ROWS, blobs_of
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.tasks.load import Load, Scatter
from rechannel.kernels.tasks.report import TaskReport
from rechannel.model.routing import Routing
from rechannel.sources.spark_types import arrow_schema


@dataclass(frozen=True)
class ScatterCall:
    """mapInArrow function before the exchange."""

    shipped: Shipped
    names: tuple[str, ...]
    slices: Routing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take state rows, yield blobs."""
        settle()
        context: Any = TaskContext.get()
        scatter = Scatter(self.shipped.program(), self.names, self.slices)
        yield from scatter.run(batches, context.partitionId())


@dataclass(frozen=True)
class LoadCall:
    """mapInArrow function after the exchange."""

    shipped: Shipped
    step: StageStep
    slices: Routing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Take blobs, yield a report."""
        settle()
        number, attempt, _ = identity()
        yield from Load(self.shipped.program(), self.step, self.slices).run(
            batches, number, attempt
        )


class SparkLoader:
    """Loads DataFrames."""

    def rows(self, table: Any) -> int:
        """Count the rows of a table."""
        return int(table.count())

    def schema(self, table: Any) -> pa.Schema:
        """Return the columns of a table."""
        return arrow_schema(table.schema)

    def load(
        self,
        program: StageProgram,
        step: StageStep,
        table: Any,
        names: tuple[str, ...],
        slices: Routing,
    ) -> list[TaskReport]:
        """Load a table in one Spark job. Returns the reports of its tasks."""
        shipped = Shipped.of(program)
        scattered = table.mapInArrow(ScatterCall(shipped, names, slices), ROWS)
        loaded = scattered.repartitionById(slices.tasks, "p").mapInArrow(
            LoadCall(shipped, step, slices), ROWS
        )
        try:
            return reports_of(blobs_of(loaded))
        except Exception as error:
            raise translate(error, program.operator, step.timestep) from error
