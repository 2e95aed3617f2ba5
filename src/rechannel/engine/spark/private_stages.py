"""Stages without a planner: physical plans made of such as Spark planned once. Private classes, as `private.py`.

Every timestep runs the same few operators over other rows. To analyse, optimise and plan them anew costs the driver
more than half of what a small timestep takes, and for the first hundreds of timesteps twice that, until the planner
itself is compiled.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.resource import ResourceProfile
from pyspark.sql import DataFrame, SparkSession

from rechannel.engine.spark.calls import nothing
from rechannel.engine.spark.private import Anchor, SharedExchange, inner
from rechannel.engine.spark.stages import ROWS, Call, Exchange, FrameStages, Rows
from rechannel.errors import SessionError, one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")


@lru_cache(maxsize=2)
def planned_stages(spark: SparkSession) -> PlannedStages | None:
    """Those of a session, which all its jobs share; None where they do not hold on this Spark."""
    try:
        return PlannedStages(spark).tried()
    except (Py4JError, TypeError, AttributeError, SessionError) as error:
        _LOG.warning(
            "every timestep is planned anew: this Spark lacks what it takes: %s",
            one_sentence(error),
            extra=fields("spark_lacks", reason=error),
        )
        return None


class PlannedStages:
    """Rows are physical plans, or DataFrames as far as Spark's own readers and functions are in front of a call."""

    def __init__(self, spark: SparkSession) -> None:
        """Have one of every operator planned. Raises what a Spark raises that has others."""
        self._spark, self._frames = spark, FrameStages(spark, SharedExchange)
        self._context: Any = spark.sparkContext
        self._jvm: Any = self._context._jvm
        self._option = cast("Any", self._jvm).scala.Option
        self._none = self._option.empty()
        self._sample: Any = spark.range(0, 1, 1, 1).mapInArrow(nothing, ROWS)
        shared = _Template(spark, self._sample, 1)
        self._call = inner(shared.exchange, "MapInArrowExec")
        self._udf = self._call.func()
        read = shared.read(0, 1)._jdf.queryExecution().executedPlan()
        self._scan = inner(read, "RDDScanExec")
        self._scan_width = self._scan.productArity()
        self._lock = threading.Lock()
        self._exchanges: dict[int, Any] = {1: shared.exchange}
        self._numbers: dict[int, Any] = {}

    def tried(self) -> PlannedStages:
        """After everything but a job has been done once. Raises what a Spark raises that has other operators."""
        rows = self.call(self.numbers(2), nothing, None)
        exchange = self.exchange(self.joined([(rows, 0), (rows, 0)]), 2)
        self.call(exchange.read(0, 1), nothing, None)
        return self

    def numbers(self, tasks: int, anchor: Anchor | None = None) -> Rows:
        """One row per task; made once for every number of them."""
        with self._lock:
            if tasks not in self._numbers:
                plan = self._frames.numbers(tasks)._jdf.queryExecution().executedPlan()
                self._activate()
                rdd, output = plan.execute(), plan.output()
                self._numbers[tasks] = rdd, output, self._rows(rdd, output)
            rdd, output, rows = self._numbers[tasks]
        if anchor is None:
            return rows
        self._activate()
        return self._rows(anchor.hold(rdd), output)

    def call(
        self, rows: Rows, function: Call, profile: ResourceProfile | None, *, copied: bool = True
    ) -> Rows:
        """See `Stages`."""
        if isinstance(rows, DataFrame):
            return self._frames.call(rows, function, profile, copied=copied)
        from pyspark.sql.udf import _wrap_function

        self._activate()
        known = self._udf
        udf = known.copy(
            known.name(),
            _wrap_function(self._context, function, ROWS),
            known.dataType(),
            known.children(),
            known.evalType(),
            known.udfDeterministic(),
            known.resultId(),
        )
        where = self._none
        if profile is not None:
            where = self._option.apply(self._sample._build_java_profile(profile))
        return self._call.copy(udf, self._call.output(), rows, not copied, where)

    def joined(self, parts: Sequence[tuple[Rows, int]]) -> Rows:
        """See `Stages`."""
        if any(less or isinstance(rows, DataFrame) for rows, less in parts):
            return self._frames.joined([(self._frame(rows), less) for rows, less in parts])
        self._activate()
        python = self._jvm.org.apache.spark.api.python.PythonUtils
        tag = self._jvm.scala.reflect.ClassTag.AnyRef()
        rdds = python.toSeq([rows.execute() for rows, _ in parts])
        return self._rows(self._context._jsc.sc().union(rdds, tag))

    def exchange(self, rows: Rows, partitions: int) -> Exchange:
        """See `Stages`."""
        if isinstance(rows, DataFrame):
            made = _Template(self._spark, rows, partitions)
            return _PlannedExchange(self._spark, made.exchange, partitions, self)
        with self._lock:
            if partitions not in self._exchanges:
                planned = _Template(self._spark, self._sample, partitions)
                self._exchanges[partitions] = planned.exchange
        self._activate()
        python = self._jvm.org.apache.spark.api.python.PythonUtils
        node = self._exchanges[partitions].withNewChildren(python.toSeq([rows]))
        return _PlannedExchange(self._spark, node, partitions, self)

    def collect(self, rows: Rows) -> list[bytes]:
        """See `Stages`."""
        if isinstance(rows, DataFrame):
            return self._frames.collect(rows)
        self._activate()
        return [bytes(row.getBinary(1)) for row in rows.executeCollect()]

    def _frame(self, rows: Rows) -> DataFrame:
        if isinstance(rows, DataFrame):
            return rows
        session: Any = self._spark
        made = session._jsparkSession.internalCreateDataFrame(
            rows.execute(), self._sample._jdf.schema(), False
        )
        return DataFrame(made, self._spark)

    def _rows(self, rdd: Any, output: Any = None) -> Rows:
        """A plan that is the rows of an RDD. output: its columns; None = those of `ROWS`."""
        scan = self._scan
        more = [self._none] * (self._scan_width - 5)
        return scan.copy(
            self._call.output() if output is None else output,
            rdd,
            "rechannel",
            scan.outputPartitioning(),
            scan.outputOrdering(),
            *more,
        )

    def _activate(self) -> None:
        """Plans belong to the session that is the thread's when they are made."""
        session: Any = self._spark
        self._jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)


class _Template(SharedExchange):
    """An exchange of a DataFrame, of which the plan is wanted."""

    @property
    def exchange(self) -> Any:
        """Return the physical operator of the exchange."""
        return self._exchange


class _PlannedExchange(SharedExchange):
    """An exchange that is read as a plan."""

    def __init__(
        self, spark: SparkSession, exchange: Any, partitions: int, stages: PlannedStages
    ) -> None:
        """exchange: its operator."""
        self._bind(spark, exchange, partitions)
        self._stages = stages

    def _made(self, rdd: Any) -> Rows:
        return self._stages._rows(rdd)

    def _held(self, layers: Sequence[Sequence[tuple[int, int]]], anchor: Anchor | None) -> Any:
        self._stages._activate()
        return super()._held(layers, anchor)
