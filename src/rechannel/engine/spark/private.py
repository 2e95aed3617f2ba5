"""Everything that reaches into Spark's private classes. One class per capability; a contract test runs each
per Spark minor.

Where a session does not offer them (Spark Connect, a future Spark), `public.py` does the same slower and right.
"""

from __future__ import annotations

import threading
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from rechannel.errors import SessionError


class SharedExchange:
    """A shuffle that is run once and read by any number of jobs, each reading the partitions it wants.

    The DataFrame is planned once; its exchange's dependency is then read through `ShuffledRowRDD`s over ranges of its
    partitions. Spark runs the map side with the first job that needs it and skips it for all others.
    """

    def __init__(self, spark: SparkSession, rows: DataFrame, partitions: int) -> None:
        """Plan the exchange of `rows` by their integer column `p`; nothing runs yet."""
        self._spark = spark
        self._jvm: Any = spark.sparkContext._jvm
        self._frame: Any = rows.repartitionById(partitions, "p")
        plan = self._frame._jdf.queryExecution().executedPlan()
        self._exchange = _find_exchange(plan)
        self._dependency = self._exchange.shuffleDependency()
        self._submitted: Any = None
        self.partitions = partitions

    def read(self, first: int, stop: int) -> DataFrame:
        """Rows of partitions [first, stop); partition i of the result is partition first + i."""
        if (first, stop) == (0, self.partitions) and self._submitted is None:
            return self._whole()
        sql = self._jvm.org.apache.spark.sql.execution
        none = self._jvm.scala.Option.empty()
        gateway: Any = self._spark.sparkContext._gateway
        specs = gateway.new_array(sql.ShufflePartitionSpec, stop - first)
        for i in range(first, stop):
            specs[i - first] = sql.CoalescedPartitionSpec(i, i + 1, none)
        rdd = sql.ShuffledRowRDD(self._dependency, self._exchange.readMetrics(), specs)
        return self._wrap(rdd)

    def _whole(self) -> DataFrame:
        rdd = self._frame._jdf.queryExecution().toRdd()
        return self._wrap(rdd)

    def _wrap(self, rdd: Any) -> DataFrame:
        session: Any = self._spark
        frame = session._jsparkSession.internalCreateDataFrame(
            rdd, self._frame._jdf.schema(), False
        )
        return DataFrame(frame, self._spark)

    def submit(self) -> None:
        """Start the map side now, as a job of its own, without waiting for it."""
        if self._submitted is None:
            self._submitted = self._exchange.submitShuffleJob()

    def release(self) -> None:
        """Delete the shuffle's files and forget it."""
        context: Any = self._spark.sparkContext._jsc.sc()
        cleaner = context.cleaner()
        if cleaner.isDefined():
            cleaner.get().doCleanupShuffle(self._dependency.shuffleId(), False)


def _find_exchange(plan: Any) -> Any:
    while plan.getClass().getSimpleName() != "ShuffleExchangeExec":
        children = plan.children()
        if children.isEmpty():
            msg = "this Spark plans repartitionById without a shuffle exchange; use the public fallback"
            raise SessionError(msg)
        plan = children.head()
    return plan


class PlanAnalysis:
    """What the analysed plan of a DataFrame says about replaying it."""

    UNSTABLE = (
        "CurrentTimestamp",
        "CurrentDate",
        "Now",
        "LocalTimestamp",
        "CurrentBatchTimestamp",
        "CurrentTime",
    )
    """Expressions that Spark calls deterministic although every run gives another value."""

    UNSTABLE_NODES = ("GlobalLimit", "LocalLimit", "Sample", "Offset", "Tail")
    """Operators whose result depends on which rows happen to come first."""

    ROW_WISE = ("Project", "Filter", "Generate", "SubqueryAlias", "LogicalRelation")
    """Operators that leave rows in the order in which a file holds them."""

    @classmethod
    def complaint(cls, frame: DataFrame) -> str | None:
        """Why the plan may give another result when run again, or None when it may not."""
        return cls._walk(cls._plan(frame))

    @classmethod
    def keeps_order(cls, frame: DataFrame) -> bool:
        """Whether rows come as files hold them: nothing joins, sorts or shuffles them."""
        plan = cls._plan(frame)
        while plan.getClass().getSimpleName() in cls.ROW_WISE:
            if plan.children().isEmpty():
                return True
            plan = plan.children().head()
        return False

    @staticmethod
    def _plan(frame: DataFrame) -> Any:
        return frame._jdf.queryExecution().analyzed()

    @classmethod
    def _walk(cls, plan: Any) -> str | None:
        complaint = cls._operator(plan)
        if complaint:
            return complaint
        expressions = plan.expressions()
        for i in range(expressions.size()):
            complaint = cls._expression(expressions.apply(i))
            if complaint:
                return complaint
        for below in (plan.children(), plan.subqueries()):
            for i in range(below.size()):
                complaint = cls._walk(below.apply(i))
                if complaint:
                    return complaint
        return None

    @classmethod
    def _operator(cls, plan: Any) -> str | None:
        name = plan.getClass().getSimpleName()
        if name in cls.UNSTABLE_NODES:
            return f"it contains {name.removeprefix('Global').removeprefix('Local').lower()}"
        if name == "Deduplicate" and plan.keys().size() < plan.child().output().size():
            keys = plan.keys().mkString(", ")
            return f"it keeps whichever row comes first of those that agree in {keys}"
        return None

    @classmethod
    def _expression(cls, expression: Any) -> str | None:
        text = str(expression.toString())
        if not expression.deterministic():
            return f"`{text}` is not deterministic"
        found = cls._unstable(expression)
        return f"`{found}` changes with time" if found else None

    @classmethod
    def _unstable(cls, expression: Any) -> str | None:
        if expression.getClass().getSimpleName() in cls.UNSTABLE:
            return str(expression.toString())
        children = expression.children()
        for i in range(children.size()):
            found = cls._unstable(children.apply(i))
            if found:
                return found
        return None


class JobTags:
    """Name the jobs of a thread, so that they can be cancelled and found in the status store."""

    def __init__(self, spark: SparkSession) -> None:
        """Bind to a session's context."""
        self._context = spark.sparkContext
        self._lock = threading.Lock()

    def describe(self, text: str) -> None:
        """Description of the jobs that this thread starts from now on."""
        self._context.setLocalProperty("spark.job.description", text)

    def tag(self, tag: str) -> None:
        """Tag the jobs that this thread starts from now on."""
        self._context.addJobTag(tag)

    def untag(self, tag: str) -> None:
        """Stop tagging."""
        self._context.removeJobTag(tag)

    def cancel(self, tag: str) -> None:
        """Cancel every job of a tag. Their Python tasks may still write for seconds: files carry attempts' names."""
        self._context.cancelJobsWithTag(tag)
