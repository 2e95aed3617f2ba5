"""The lines of Spark's event log, as far as a profile needs them: one JSON object each.

Fields are those of Spark's `JsonProtocol`, 2.1 to 4.3; a field that a version does not write has a
default. Times are milliseconds since 1970, durations are milliseconds, except for the shuffle
write time, which is nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def _named(name: str, default: object) -> object:
    return msgspec.field(name=name, default=default)


class ShuffleRead(msgspec.Struct):
    """Shuffle read metrics of a task."""

    fetch_wait: int = _named("Fetch Wait Time", 0)  # type: ignore[assignment]
    """Milliseconds."""
    remote_bytes: int = _named("Remote Bytes Read", 0)  # type: ignore[assignment]
    local_bytes: int = _named("Local Bytes Read", 0)  # type: ignore[assignment]


class ShuffleWrite(msgspec.Struct):
    """Shuffle write metrics of a task."""

    time: int = _named("Shuffle Write Time", 0)  # type: ignore[assignment]
    """Nanoseconds."""
    size: int = _named("Shuffle Bytes Written", 0)  # type: ignore[assignment]


class Metrics(msgspec.Struct):
    """Metrics of a task, ms."""

    deserialise: int = _named("Executor Deserialize Time", 0)  # type: ignore[assignment]
    run: int = _named("Executor Run Time", 0)  # type: ignore[assignment]
    gc: int = _named("JVM GC Time", 0)  # type: ignore[assignment]
    serialise: int = _named("Result Serialization Time", 0)  # type: ignore[assignment]
    read: ShuffleRead = msgspec.field(name="Shuffle Read Metrics", default_factory=ShuffleRead)
    write: ShuffleWrite = msgspec.field(name="Shuffle Write Metrics", default_factory=ShuffleWrite)


class TaskInfo(msgspec.Struct):
    """An attempt of a task."""

    number: int = msgspec.field(name="Task ID")
    launch: int = msgspec.field(name="Launch Time")
    executor: str = msgspec.field(name="Executor ID")
    index: int = _named("Index", 0)  # type: ignore[assignment]
    host: str = _named("Host", "")  # type: ignore[assignment]
    getting: int = _named("Getting Result Time", 0)  # type: ignore[assignment]
    """When the driver began to fetch the result; 0 if it never did."""
    finish: int = _named("Finish Time", 0)  # type: ignore[assignment]
    failed: bool = _named("Failed", False)  # type: ignore[assignment]
    killed: bool = _named("Killed", False)  # type: ignore[assignment]
    speculative: bool = _named("Speculative", False)  # type: ignore[assignment]


class TaskStart(msgspec.Struct):
    """A task was launched."""

    stage: int = msgspec.field(name="Stage ID")
    info: TaskInfo = msgspec.field(name="Task Info")


class EndReason(msgspec.Struct):
    """Why a task ended: Success, ExceptionFailure, ExecutorLostFailure, FetchFailed, TaskKilled,
    Resubmitted, ...
    """

    name: str = _named("Reason", "")  # type: ignore[assignment]


class TaskEnd(msgspec.Struct):
    """A task ended, for whatever reason."""

    stage: int = msgspec.field(name="Stage ID")
    info: TaskInfo = msgspec.field(name="Task Info")
    reason: EndReason = msgspec.field(name="Task End Reason", default_factory=EndReason)
    """Resubmitted: the task had succeeded earlier, and now its output was lost with its executor.
    """
    metrics: Metrics | None = msgspec.field(name="Task Metrics", default=None)
    """None if the executor did not report them: it was lost, or could not fetch."""


class Rdd(msgspec.Struct):
    """An RDD of a stage."""

    number: int = msgspec.field(name="RDD ID")
    name: str = _named("Name", "")  # type: ignore[assignment]
    scope: str = _named("Scope", "")  # type: ignore[assignment]
    """JSON with the name of the SQL node, or of the method that made it."""


class Counter(msgspec.Struct):
    """An accumulator that a stage used."""

    accumulator: int = _named("ID", -1)  # type: ignore[assignment]


class StageInfo(msgspec.Struct):
    """An attempt of a stage."""

    number: int = msgspec.field(name="Stage ID")
    name: str = _named("Stage Name", "")  # type: ignore[assignment]
    tasks: int = _named("Number of Tasks", 0)  # type: ignore[assignment]
    rdds: list[Rdd] = msgspec.field(name="RDD Info", default_factory=list)
    parents: list[int] = msgspec.field(name="Parent IDs", default_factory=list)
    submitted: int = _named("Submission Time", 0)  # type: ignore[assignment]
    completed: int = _named("Completion Time", 0)  # type: ignore[assignment]
    counters: list[Counter] = msgspec.field(name="Accumulables", default_factory=list)
    """Known once the stage has ended."""


class StageSubmitted(msgspec.Struct):
    """An attempt of a stage began."""

    info: StageInfo = msgspec.field(name="Stage Info")


class StageCompleted(msgspec.Struct):
    """An attempt of a stage ended, for whatever reason."""

    info: StageInfo = msgspec.field(name="Stage Info")


class PlanMetric(msgspec.Struct):
    """A metric of a node of a plan."""

    accumulator: int = _named("accumulatorId", -1)  # type: ignore[assignment]


class PlanNode(msgspec.Struct):
    """A node of a plan of Spark SQL."""

    name: str = _named("nodeName", "")  # type: ignore[assignment]
    text: str = _named("simpleString", "")  # type: ignore[assignment]
    """The node and its arguments."""
    children: list[PlanNode] = msgspec.field(default_factory=list)
    metrics: list[PlanMetric] = msgspec.field(default_factory=list)


class SqlPlanned(msgspec.Struct):
    """A SQL execution began, or its plan changed."""

    execution: int = msgspec.field(name="executionId")
    plan: PlanNode = msgspec.field(name="sparkPlanInfo", default_factory=PlanNode)


class SqlEnded(msgspec.Struct):
    """A SQL execution ended."""

    execution: int = msgspec.field(name="executionId")


class JobStart(msgspec.Struct):
    """A job began."""

    number: int = msgspec.field(name="Job ID")
    time: int = _named("Submission Time", 0)  # type: ignore[assignment]
    stages: list[StageInfo] = msgspec.field(name="Stage Infos", default_factory=list)
    properties: Mapping[str, str] | None = msgspec.field(name="Properties", default=None)
    """Local properties of the thread that submitted it."""


class JobEnd(msgspec.Struct):
    """A job ended."""

    number: int = msgspec.field(name="Job ID")
    time: int = _named("Completion Time", 0)  # type: ignore[assignment]


class ExecutorInfo(msgspec.Struct):
    """The resources of an executor."""

    host: str = _named("Host", "")  # type: ignore[assignment]
    cores: int = _named("Total Cores", 0)  # type: ignore[assignment]


class ExecutorAdded(msgspec.Struct):
    """An executor registered."""

    executor: str = msgspec.field(name="Executor ID")
    time: int = _named("Timestamp", 0)  # type: ignore[assignment]
    info: ExecutorInfo = msgspec.field(name="Executor Info", default_factory=ExecutorInfo)


class ExecutorRemoved(msgspec.Struct):
    """An executor was removed or lost."""

    executor: str = msgspec.field(name="Executor ID")
    time: int = _named("Timestamp", 0)  # type: ignore[assignment]


class Application(msgspec.Struct):
    """The application began or ended."""

    time: int = msgspec.field(name="Timestamp")
    name: str = _named("App Name", "")  # type: ignore[assignment]
    number: str | None = msgspec.field(name="App ID", default=None)


class StreamProgress(msgspec.Struct):
    """The progress of a batch of Structured Streaming."""

    query: str = _named("id", "")  # type: ignore[assignment]
    """Id of the query."""
    name: str | None = None
    """Name of the query, if it has one."""
    timestamp: str = ""
    """When the batch began, ISO 8601."""
    batch: int = _named("batchId", -1)  # type: ignore[assignment]
    durations: dict[str, int] = msgspec.field(name="durationMs", default_factory=dict)
    """Milliseconds by phase."""


class QueryProgress(msgspec.Struct):
    """A batch ended."""

    progress: StreamProgress = msgspec.field(default_factory=StreamProgress)


class LogVersion(msgspec.Struct):
    """The first line of a log."""

    spark: str = msgspec.field(name="Spark Version")


SparkEvent = (
    TaskStart
    | TaskEnd
    | StageSubmitted
    | StageCompleted
    | SqlPlanned
    | SqlEnded
    | JobStart
    | JobEnd
    | ExecutorAdded
    | ExecutorRemoved
    | Application
    | QueryProgress
    | LogVersion
)

_PROGRESS = "org.apache.spark.sql.streaming.StreamingQueryListener$QueryProgressEvent"
_SQL = "org.apache.spark.sql.execution.ui.SparkListenerSQL"
EVENT_TYPES: Mapping[str, type] = {
    f"{_SQL}ExecutionStart": SqlPlanned,
    f"{_SQL}AdaptiveExecutionUpdate": SqlPlanned,
    f"{_SQL}ExecutionEnd": SqlEnded,
    _PROGRESS: QueryProgress,
    "SparkListenerLogStart": LogVersion,
    "SparkListenerApplicationStart": Application,
    "SparkListenerApplicationEnd": Application,
    "SparkListenerExecutorAdded": ExecutorAdded,
    "SparkListenerExecutorRemoved": ExecutorRemoved,
    "SparkListenerJobStart": JobStart,
    "SparkListenerJobEnd": JobEnd,
    "SparkListenerStageSubmitted": StageSubmitted,
    "SparkListenerStageCompleted": StageCompleted,
    "SparkListenerTaskStart": TaskStart,
    "SparkListenerTaskEnd": TaskEnd,
}
"""The events that are read. All others are skipped."""

_DECODERS: Mapping[bytes, msgspec.json.Decoder[Any]] = {
    name.encode(): msgspec.json.Decoder(kind) for name, kind in EVENT_TYPES.items()
}
_PREFIX = b'{"Event":"'


class MalformedEventError(ValueError):
    """A line is not an event."""


def decode(line: bytes) -> SparkEvent | None:
    """Return the event of a line; None if a profile does not need it. Raises MalformedEventError."""
    if not line.startswith(_PREFIX):
        msg = "it does not begin with an event's name"
        raise MalformedEventError(msg)
    end = line.find(b'"', len(_PREFIX))
    if end < 0 or not line.endswith(b"}"):
        msg = "it is truncated"
        raise MalformedEventError(msg)
    decoder = _DECODERS.get(line[len(_PREFIX) : end])
    if decoder is None:
        return None
    try:
        event: SparkEvent = decoder.decode(line)
    except msgspec.MsgspecError as error:
        raise MalformedEventError(str(error)) from error
    return event
