"""Run the job of a unit, and return what its tasks report."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame

from rechannel.engine.spark.calls import FoldCall
from rechannel.engine.spark.resubmitting import Resubmitting
from rechannel.engine.spark.stages import Exchange, Rows, Stages
from rechannel.kernels.shuffle.receive import Inbox
from rechannel.kernels.shuffle.wire import REPORT_TABLE, unpack
from rechannel.kernels.tasks.report import TaskReport
from rechannel.kernels.tasks.report_table import MANY, ReportTable
from rechannel.kernels.tasks.unit_report import UnitReport, by_operator


@dataclass(frozen=True, kw_only=True)
class Unit:
    """A unit that is planned, and not run."""

    tasks: int
    """Of its operator."""
    rows: Rows
    """What its reports are in: those that its tasks make, or a partition of the exchange that these go to."""
    inputs: Sequence[Exchange]
    """What its tasks read."""
    apart: bool
    """Whether the reports come out of an exchange."""
    keep: Callable[[Exchange], None]
    """Is given an exchange that the reports go through as well, to be released with the timestep."""

    def run(self, stages: Stages, resubmitting: Resubmitting | None) -> Sequence[UnitReport]:
        """Run its job and return the reports that have arrived, one per operator."""
        if self.tasks < MANY:
            place = -2 if self.apart else -1
            return by_operator(reports_of(self._collect(self.rows, place, stages, resubmitting)))
        rows = self.rows
        if not self.apart:
            # One task folds them all.
            exchange = stages.exchange(rows, 1)
            self.keep(exchange)
            rows = exchange.read(0, 1)
        rows = stages.call(rows, FoldCall(MANY), None)
        return folded_of(self._collect(rows, -2, stages, resubmitting))

    def _collect(
        self, rows: Rows, place: int, stages: Stages, resubmitting: Resubmitting | None
    ) -> list[bytes]:
        """Run the job. place: of the unit's stage among those of the job; -1 is the last one."""
        # Spark keeps what became of the stages of a DataFrame that it plans as it goes.
        if resubmitting is None or not self.inputs or isinstance(rows, DataFrame):
            return stages.collect(rows)
        return resubmitting.run(lambda: stages.collect(rows), self.inputs, place)


def reports_of(blobs: Iterable[bytes]) -> list[TaskReport]:
    """Return the reports among blobs."""
    bodies = Inbox.of(unpack(pa.py_buffer(blob)) for blob in blobs).reports
    return [TaskReport.from_bytes(body) for body in bodies]


def folded_of(blobs: Iterable[bytes]) -> list[UnitReport]:
    """Return reports that were folded where there are many."""
    few, made = list[TaskReport](), list[UnitReport]()
    for blob in map(unpack, map(pa.py_buffer, blobs)):
        body = blob.message.to_pybytes()
        if blob.kind == REPORT_TABLE:
            made.append(ReportTable.from_bytes(body))
        else:
            few.append(TaskReport.from_bytes(body))
    return [*by_operator(few), *made]
