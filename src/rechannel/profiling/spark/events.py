"""The lines of Spark's event log, as far as a profile needs them: one JSON object each.

Fields are those of Spark's `JsonProtocol`, 2.1 to 4.3; a field that a version does not write has a
default. Times are milliseconds since 1970, durations are milliseconds, except for the shuffle
write time and the CPU time, which are nanoseconds. Sizes are bytes. Events of tasks are in
`task_events.py`, those of SQL in `sql_events.py`, those of streams in `stream_events.py`.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from rechannel.profiling.spark.numbers import Number
from rechannel.profiling.spark.sql_events import DriverMetrics, SqlEnded, SqlPlanned, SqlStarted
from rechannel.profiling.spark.stream_events import QueryProgress, QueryStarted, QueryTerminated
from rechannel.profiling.spark.task_events import TaskEnd, TaskStart


class StorageLevel(msgspec.Struct, gc=False):
    """Where partitions of an RDD are to be kept."""

    disk: bool = msgspec.field(name="Use Disk", default=False)
    memory: bool = msgspec.field(name="Use Memory", default=False)


class Rdd(msgspec.Struct):
    """An RDD of a stage."""

    number: Number = msgspec.field(name="RDD ID")
    name: str = msgspec.field(name="Name", default="")
    scope: str = msgspec.field(name="Scope", default="")
    """JSON with the name of the SQL node, or of the method that made it."""
    partitions: Number = msgspec.field(name="Number of Partitions", default=0)
    level: StorageLevel = msgspec.field(name="Storage Level", default_factory=StorageLevel)


class Counter(msgspec.Struct):
    """An accumulator that a stage used."""

    accumulator: Number = msgspec.field(name="ID", default=-1)


class StageInfo(msgspec.Struct):
    """An attempt of a stage."""

    number: Number = msgspec.field(name="Stage ID")
    attempt: Number = msgspec.field(name="Stage Attempt ID", default=0)
    name: str = msgspec.field(name="Stage Name", default="")
    tasks: Number = msgspec.field(name="Number of Tasks", default=0)
    rdds: list[Rdd] = msgspec.field(name="RDD Info", default_factory=list)
    parents: list[Number] = msgspec.field(name="Parent IDs", default_factory=list)
    submitted: Number = msgspec.field(name="Submission Time", default=0)
    completed: Number = msgspec.field(name="Completion Time", default=0)
    counters: list[Counter] = msgspec.field(name="Accumulables", default_factory=list)
    """Known once the stage has ended."""
    failure: str = msgspec.field(name="Failure Reason", default="")


class StageSubmitted(msgspec.Struct):
    """An attempt of a stage began."""

    info: StageInfo = msgspec.field(name="Stage Info")


class StageCompleted(msgspec.Struct):
    """An attempt of a stage ended, for whatever reason."""

    info: StageInfo = msgspec.field(name="Stage Info")


class JobProperties(msgspec.Struct, gc=False):
    """Local properties of the thread that submitted a job. Values are texts."""

    execution: str | None = msgspec.field(name="spark.sql.execution.id", default=None)
    root: str | None = msgspec.field(name="spark.sql.execution.root.id", default=None)
    description: str | None = msgspec.field(name="spark.job.description", default=None)
    site: str | None = msgspec.field(name="callSite.short", default=None)
    batch: str | None = msgspec.field(name="streaming.sql.batchId", default=None)
    query: str | None = msgspec.field(name="sql.streaming.queryId", default=None)
    tags: str | None = msgspec.field(name="spark.job.tags", default=None)
    """Separated by commas. Since Spark 3.5."""
    group: str | None = msgspec.field(name="spark.jobGroup.id", default=None)


class JobStart(msgspec.Struct):
    """A job began."""

    number: Number = msgspec.field(name="Job ID")
    time: Number = msgspec.field(name="Submission Time", default=0)
    stages: list[StageInfo] = msgspec.field(name="Stage Infos", default_factory=list)
    properties: JobProperties | None = msgspec.field(name="Properties", default=None)


class JobResult(msgspec.Struct, gc=False):
    """How a job ended: JobSucceeded or JobFailed."""

    name: str = msgspec.field(name="Result", default="")


class JobEnd(msgspec.Struct):
    """A job ended."""

    number: Number = msgspec.field(name="Job ID")
    time: Number = msgspec.field(name="Completion Time", default=0)
    result: JobResult = msgspec.field(name="Job Result", default_factory=JobResult)


class ExecutorInfo(msgspec.Struct):
    """The resources of an executor."""

    host: str = msgspec.field(name="Host", default="")
    cores: Number = msgspec.field(name="Total Cores", default=0)


class ExecutorAdded(msgspec.Struct):
    """An executor registered."""

    executor: str = msgspec.field(name="Executor ID")
    time: Number = msgspec.field(name="Timestamp", default=0)
    info: ExecutorInfo = msgspec.field(name="Executor Info", default_factory=ExecutorInfo)


class ExecutorRemoved(msgspec.Struct):
    """An executor was removed or lost."""

    executor: str = msgspec.field(name="Executor ID")
    time: Number = msgspec.field(name="Timestamp", default=0)
    reason: str = msgspec.field(name="Removed Reason", default="")


class BlockManager(msgspec.Struct, gc=False):
    """Where a block is stored."""

    executor: str = msgspec.field(name="Executor ID", default="")


class BlockInfo(msgspec.Struct, gc=False):
    """A block, and where it is kept from now on."""

    name: str = msgspec.field(name="Block ID", default="")
    manager: BlockManager = msgspec.field(name="Block Manager ID", default_factory=BlockManager)
    level: StorageLevel = msgspec.field(name="Storage Level", default_factory=StorageLevel)


class BlockUpdated(msgspec.Struct, gc=False):
    """A block was stored, moved or dropped. By default, such events are not logged."""

    info: BlockInfo = msgspec.field(name="Block Updated Info", default_factory=BlockInfo)


class Unpersisted(msgspec.Struct, gc=False):
    """A dataset is no longer to be kept in storage."""

    rdd: Number = msgspec.field(name="RDD ID", default=-1)


class ExecutorExcluded(msgspec.Struct, rename={"executor": "executorId"}):
    """Spark runs no more tasks on an executor, because too many failed there."""

    executor: str
    time: Number = 0


class ApplicationStart(msgspec.Struct):
    """The application began."""

    time: Number = msgspec.field(name="Timestamp")
    name: str = msgspec.field(name="App Name", default="")
    number: str | None = msgspec.field(name="App ID", default=None)


class ApplicationEnd(msgspec.Struct):
    """The application ended."""

    time: Number = msgspec.field(name="Timestamp")


class Environment(msgspec.Struct):
    """The settings of the application."""

    settings: Mapping[str, str] = msgspec.field(name="Spark Properties", default_factory=dict)


class LogVersion(msgspec.Struct):
    """The first line of a log."""

    spark: str = msgspec.field(name="Spark Version")


SparkEvent = (
    TaskStart
    | TaskEnd
    | StageSubmitted
    | StageCompleted
    | SqlStarted
    | SqlPlanned
    | SqlEnded
    | DriverMetrics
    | JobStart
    | JobEnd
    | ExecutorAdded
    | ExecutorRemoved
    | ExecutorExcluded
    | BlockUpdated
    | Unpersisted
    | ApplicationStart
    | ApplicationEnd
    | Environment
    | QueryStarted
    | QueryProgress
    | QueryTerminated
    | LogVersion
)

_QUERY = "org.apache.spark.sql.streaming.StreamingQueryListener$Query"
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
EVENT_TYPES: Mapping[str, type] = {
    f"{_SQL}ExecutionStart": SqlStarted,
    f"{_SQL}AdaptiveExecutionUpdate": SqlPlanned,
    f"{_SQL}ExecutionEnd": SqlEnded,
    "org.apache.spark.sql.execution.ui.SparkListenerDriverAccumUpdates": DriverMetrics,
    f"{_QUERY}StartedEvent": QueryStarted,
    f"{_QUERY}ProgressEvent": QueryProgress,
    f"{_QUERY}TerminatedEvent": QueryTerminated,
    "org.apache.spark.scheduler.SparkListenerExecutorExcluded": ExecutorExcluded,
    "org.apache.spark.scheduler.SparkListenerExecutorBlacklisted": ExecutorExcluded,
    "SparkListenerLogStart": LogVersion,
    "SparkListenerApplicationStart": ApplicationStart,
    "SparkListenerApplicationEnd": ApplicationEnd,
    "SparkListenerEnvironmentUpdate": Environment,
    "SparkListenerExecutorAdded": ExecutorAdded,
    "SparkListenerExecutorRemoved": ExecutorRemoved,
    "SparkListenerBlockUpdated": BlockUpdated,
    "SparkListenerUnpersistRDD": Unpersisted,
    "SparkListenerJobStart": JobStart,
    "SparkListenerJobEnd": JobEnd,
    "SparkListenerStageSubmitted": StageSubmitted,
    "SparkListenerStageCompleted": StageCompleted,
    "SparkListenerTaskStart": TaskStart,
    "SparkListenerTaskEnd": TaskEnd,
}
"""The events that are read. All others are skipped."""
