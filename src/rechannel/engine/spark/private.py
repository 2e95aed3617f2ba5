"""Everything that reaches into Spark's private classes. One class per capability; a contract test runs each
per Spark minor.

Where a session does not offer them (Spark Connect, a future Spark), `public.py` does the same slower and right.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import DataFrame, SparkSession

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.spark.session.session import ADAPTIVE, STEADY
from rechannel.engine.stages.bundles import Bundles, layers_of
from rechannel.errors import SessionError, one_sentence
from rechannel.logs import fields

_LOG = logging.getLogger("rechannel")


class SharedExchange:
    """A shuffle that is run once and read by any number of jobs, each reading the partitions it wants.

    The DataFrame is planned once; its exchange's dependency is then read through `ShuffledRowRDD`s over ranges of its
    partitions. Spark runs the map side with the first job that needs it and skips it for all others.
    """

    def __init__(self, spark: SparkSession, rows: DataFrame, partitions: int) -> None:
        """Plan the exchange of `rows` by their integer column `p`; nothing runs yet."""
        frame: Any = rows.repartitionById(partitions, "p")
        plan = _planned_whole(spark, frame._jdf)
        self._bind(spark, inner(plan, "ShuffleExchangeExec"), partitions)
        self._schema = frame._jdf.schema()

    def _bind(self, spark: SparkSession, exchange: Any, partitions: int) -> None:
        self._spark = spark
        self._jvm: Any = spark.sparkContext._jvm
        self._exchange = exchange
        with steady(spark):
            self._dependency = exchange.shuffleDependency()
        self._submitted: Any = None
        self.partitions = partitions

    def read(self, first: int, stop: int, anchor: Anchor | None = None) -> Any:
        """Rows of partitions [first, stop) as a DataFrame; partition i of the result is partition first + i.

        anchor: where the partitions of the result are computed; None = anywhere.
        """
        return self._made(self._held([[(i, i + 1) for i in range(first, stop)]], anchor))

    def read_bundles(self, bundles: Bundles, first: int, anchor: Anchor | None = None) -> Any:
        """Rows of bundles of tasks, each bundle a partition of its own; task i reads partition first + i."""
        layers = layers_of(bundles)
        if anchor is None and len(layers) > 1:
            return None
        ranges = [[(first + a, first + b) for a, b in layer] for layer in layers]
        return self._made(self._held(ranges, anchor))

    def _made(self, rdd: Any) -> Any:
        session: Any = self._spark
        frame = session._jsparkSession.internalCreateDataFrame(rdd, self._schema, False)
        return DataFrame(frame, self._spark)

    def _held(self, layers: Sequence[Sequence[tuple[int, int]]], anchor: Anchor | None) -> Any:
        """An RDD whose i-th partition is the i-th ranges of all layers. anchor: needed if there are several layers."""
        rdds = [self._ranges(layer) for layer in layers]
        return rdds[0] if anchor is None else anchor.hold(*rdds)

    def _ranges(self, ranges: Sequence[tuple[int, int]]) -> Any:
        sql = self._jvm.org.apache.spark.sql.execution
        none = self._jvm.scala.Option.empty()
        gateway: Any = self._spark.sparkContext._gateway
        specs = gateway.new_array(sql.ShufflePartitionSpec, len(ranges))
        for place, (start, stop) in enumerate(ranges):
            specs[place] = sql.CoalescedPartitionSpec(start, stop, none)
        return sql.ShuffledRowRDD(self._dependency, self._exchange.readMetrics(), specs)

    def incomplete(self) -> bool:
        """Whether some of its map side has not run, or was lost with its executor."""
        there = _map_outputs(self._spark).getNumAvailableOutputs(self._dependency.shuffleId())
        return bool(there < self._dependency.rdd().getNumPartitions())

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


@lru_cache(maxsize=4)
def _map_outputs(spark: SparkSession) -> Any:
    """What Spark's driver knows of the output of map tasks (`MapOutputTrackerMaster`).

    It is a field: methods of its owner name classes that Spark does not come with, and cannot be listed.
    """
    jvm: Any = spark.sparkContext._jvm
    field = jvm.java.lang.Class.forName("org.apache.spark.SparkEnv").getDeclaredField(
        "mapOutputTracker"
    )
    field.setAccessible(True)
    return field.get(spark.sparkContext._jsc.sc().env())


def _planned_whole(spark: SparkSession, dataset: Any) -> Any:
    """The physical plan of a dataset. Adaptive planning, which plans piece by piece, is off meanwhile."""
    if str(spark.conf.get(ADAPTIVE, None)).lower() != "false" and (copy := steady_copy(spark)):
        of: Any = spark.sparkContext._jvm
        classic = of.org.apache.spark.sql.classic.Dataset
        dataset = classic.ofRows(copy, dataset.queryExecution().analyzed())
    return dataset.queryExecution().executedPlan()


@contextmanager
def steady(spark: SparkSession) -> Iterator[None]:
    """Make exchanges whose output Spark takes for what it is: determinate.

    Attempts of one task differ in a few bytes of their reports, and in nothing that is computed with. Spark would
    otherwise compare checksums of all rows, and where an executor is lost end jobs that had read of it already. The
    session keeps its own settings for whatever else runs on it: a copy of it is active meanwhile.
    """
    session: Any = spark
    own, copy = session._jsparkSession, steady_copy(spark)
    if copy is None:
        yield
        return
    active = spark.sparkContext._jvm.org.apache.spark.sql.SparkSession  # type: ignore[union-attr]
    active.setActiveSession(copy)
    try:
        yield
    finally:
        active.setActiveSession(own)


def steady_copy(spark: SparkSession) -> Any:
    """A copy of a session with the settings of `STEADY`; None where it has them itself, or cannot be copied."""
    if all(str(spark.conf.get(key, None)).lower() == value for key, value in STEADY.items()):
        return None
    return _copied(spark)


@lru_cache(maxsize=4)
def _copied(spark: SparkSession) -> Any:
    session: Any = spark
    try:
        copy = session._jsparkSession.cloneSession()
        for key, value in STEADY.items():
            copy.conf().set(key, value)
    except (Py4JError, TypeError) as error:
        _LOG.warning(
            "a lost executor may end a stage that then runs again: %s",
            one_sentence(error),
            extra=fields("spark_lacks", reason=error),
        )
        return None
    return copy


def inner(plan: Any, name: str) -> Any:
    """The first operator of a class in a physical plan. Raises SessionError."""
    while plan.getClass().getSimpleName() != name:
        if plan.children().isEmpty():
            msg = f"this Spark plans without {name}; use the public fallback"
            raise SessionError(msg)
        plan = plan.children().head()
    return plan


class Anchors:
    """Makes the partitions of an RDD prefer executors, so that the tasks that read them run there.

    An anchor is an RDD of empty partitions with locations. `SQLPartitioningAwareUnionRDD`, which Spark
    uses where SQL's UNION keeps a partitioning, puts its i-th partition and the i-th one of the rows
    into one, without a copy and without a stage. It asks for the *host* of its parents' locations
    only; after the prefix of hosts that hold a block in HDFS's cache, all of `executor_<host>_<id>`
    passes for a host, and comes out as what it is. It takes the location that is named most often:
    a shuffle names up to five for each of its partitions that are read, and the anchor its own more
    often than that.
    """

    _CACHED = "hdfs_cache_"
    _NAMED = 5
    """Locations that a partition of a shuffle has at most: those with a fifth of its bytes."""

    def __init__(self, spark: SparkSession) -> None:
        """Look the classes up, which costs more than using them."""
        jvm: Any = spark.sparkContext._jvm
        rdd = jvm.org.apache.spark.rdd
        self._context: Any = spark.sparkContext._jsc.sc()
        self._union, self._collection = rdd.SQLPartitioningAwareUnionRDD, rdd.ParallelCollectionRDD
        self._python = jvm.org.apache.spark.api.python.PythonUtils
        self._map = jvm.java.util.concurrent.ConcurrentHashMap
        self._scala = jvm.scala.jdk.javaapi.CollectionConverters
        self._tag = jvm.scala.reflect.ClassTag.AnyRef()
        self._nothing = self._python.toSeq([])

    @classmethod
    def open(cls, spark: SparkSession) -> Anchors | None:
        """Return anchors if this Spark honours them; else log a warning and return None: Spark then places tasks."""
        try:
            anchors = cls(spark)
            trial = Executor(id="1", host="nowhere", cores=1)
            anchor = anchors.of({0: trial})
            held = anchor.hold(anchors._empty(anchors._map(), 1))
            found = str(held.preferredLocations(held.partitions()[0]).mkString(","))
            anchor.let_go([trial.id])
        except (Py4JError, TypeError) as error:
            _LOG.warning(
                "tasks are not placed: this Spark lacks what that needs: %s",
                one_sentence(error),
                extra=fields("spark_lacks", reason=error),
            )
            return None
        if found != cls._location(trial):
            _LOG.warning(
                "tasks are not placed: this Spark makes %s of a place",
                found,
                extra=fields("spark_lacks"),
            )
            return None
        return anchors

    def of(self, places: Mapping[int, Executor], read: int = 1) -> Anchor:
        """An anchor for partitions 0, 1, ...; any number of stages may use it.

        read: partitions of a shuffle that are read in one of them, at most.
        """
        lists: dict[Executor, Any] = {}
        for executor in places.values():
            if executor not in lists:
                location = self._CACHED + self._location(executor)
                often = 1 + self._NAMED * read
                lists[executor] = self._python.toSeq([location] * often)
        locations = self._map(
            {partition: lists[executor] for partition, executor in places.items()}
        )
        held = {partition: executor.id for partition, executor in places.items()}
        return Anchor(self, self._empty(locations, len(places)), locations, held)

    def unite(self, parents: Any, partitions: int) -> Any:
        """One RDD of RDDs with the same number of partitions, i-th beside i-th."""
        return self._union(self._context, parents, partitions, self._tag)

    def _empty(self, locations: Any, partitions: int) -> Any:
        """An RDD without rows. locations: a Java map; its changes hold for the stages that begin afterwards."""
        held = self._scala.asScala(locations)
        return self._collection(self._context, self._nothing, partitions, held, self._tag)

    @staticmethod
    def _location(executor: Executor) -> str:
        # Spark cuts at the first underscore, and needs the host only for a second choice.
        return f"executor_{executor.host.replace('_', '-')}_{executor.id}"


class Anchor:
    """Where the partitions of an RDD are computed."""

    def __init__(
        self, anchors: Anchors, empty: Any, locations: Any, held: Mapping[int, str]
    ) -> None:
        """Made by `Anchors.of`. locations: a Java map that `empty` reads. held: id of the executor, by partition."""
        self._anchors = anchors
        self._alone = anchors._python.toSeq([empty])
        self._locations = locations
        self._held = dict(held)
        self._partitions = len(held)

    def hold(self, *rdds: Any) -> Any:
        """The same rows in the same partitions, each computed where it was put. i-th partitions become one."""
        parents = self._alone
        for rdd in rdds:
            parents = parents.appended(rdd)
        return self._anchors.unite(parents, self._partitions)

    def let_go(self, executors: Iterable[str]) -> None:
        """Hold nothing on these any more, by their ids: partitions of stages that begin later are computed anywhere.

        Spark asks where tasks belong when a stage begins, and otherwise lets a task wait for an executor that is gone.
        """
        gone = set(executors)
        for partition in [each for each, executor in self._held.items() if executor in gone]:
            self._locations.remove(partition)
            del self._held[partition]


class PlacedNumbers:
    """A DataFrame of the numbers 0, 1, ..., each a partition of its own on an executor of its own."""

    def __init__(self, spark: SparkSession, anchors: Anchors | None) -> None:
        """anchors: what holds them in place; None = they run anywhere."""
        self._spark = spark
        self._anchors = anchors

    def frame(self, places: Mapping[int, Executor]) -> DataFrame:
        """Numbers below len(places), number i where it was put."""
        count = len(places)
        numbers = self._spark.range(0, count, 1, count)
        if self._anchors is None:
            return numbers
        rdd = numbers._jdf.queryExecution().toRdd()
        held = self._anchors.of(places).hold(rdd)
        session: Any = self._spark
        made = session._jsparkSession.internalCreateDataFrame(held, numbers._jdf.schema(), False)
        return DataFrame(made, self._spark)


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

    def began(self, tag: str, place: int) -> float | None:
        """See `resubmitting.TaggedJobs`. Ids of stages ascend from what a stage reads to the stage."""
        tracker = self._context._jsc.sc().statusTracker()
        for job in tracker.getJobIdsForTag(tag):
            found = tracker.getJobInfo(job)
            stages = sorted(found.get().stageIds()) if found.isDefined() else []
            known = tracker.getStageInfo(stages[place]) if len(stages) > 1 else None
            if known is not None and known.isDefined():
                stage = known.get()
                # Spark's status store has both at once, and numbers of tasks a tenth of a second later.
                if stage.submissionTime() > 0 and stage.numCompletedTasks() < stage.numTasks():
                    return float(stage.submissionTime())
        return None
