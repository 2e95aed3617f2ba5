"""The lines of Spark's event log, as far as they matter here: one JSON object each, whose first field says what it is.

Fields are those of Spark's `JsonProtocol`, 2.1 to 4.3; what a version does not write is missing and has a default.
Times are milliseconds since 1970, durations milliseconds, but for the shuffle's write time, which is nanoseconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec


def _named(name: str, default: object) -> object:
    return msgspec.field(name=name, default=default)


class ShuffleRead(msgspec.Struct):
    """Of a task."""

    fetch_wait: int = _named("Fetch Wait Time", 0)  # type: ignore[assignment]
    remote_bytes: int = _named("Remote Bytes Read", 0)  # type: ignore[assignment]
    local_bytes: int = _named("Local Bytes Read", 0)  # type: ignore[assignment]


class ShuffleWrite(msgspec.Struct):
    """Of a task. time: ns."""

    time: int = _named("Shuffle Write Time", 0)  # type: ignore[assignment]
    size: int = _named("Shuffle Bytes Written", 0)  # type: ignore[assignment]


class Metrics(msgspec.Struct):
    """Of a task."""

    deserialise: int = _named("Executor Deserialize Time", 0)  # type: ignore[assignment]
    run: int = _named("Executor Run Time", 0)  # type: ignore[assignment]
    gc: int = _named("JVM GC Time", 0)  # type: ignore[assignment]
    serialise: int = _named("Result Serialization Time", 0)  # type: ignore[assignment]
    read: ShuffleRead = msgspec.field(name="Shuffle Read Metrics", default_factory=ShuffleRead)
    write: ShuffleWrite = msgspec.field(name="Shuffle Write Metrics", default_factory=ShuffleWrite)


class TaskInfo(msgspec.Struct):
    """Of an attempt of a task."""

    number: int = msgspec.field(name="Task ID")
    launch: int = msgspec.field(name="Launch Time")
    executor: str = msgspec.field(name="Executor ID")
    index: int = _named("Index", 0)  # type: ignore[assignment]
    host: str = _named("Host", "")  # type: ignore[assignment]
    getting: int = _named("Getting Result Time", 0)  # type: ignore[assignment]
    finish: int = _named("Finish Time", 0)  # type: ignore[assignment]
    failed: bool = _named("Failed", False)  # type: ignore[assignment]
    killed: bool = _named("Killed", False)  # type: ignore[assignment]
    speculative: bool = _named("Speculative", False)  # type: ignore[assignment]


class TaskStart(msgspec.Struct):
    """A task was launched."""

    stage: int = msgspec.field(name="Stage ID")
    info: TaskInfo = msgspec.field(name="Task Info")


class EndReason(msgspec.Struct):
    """Why a task ended: Success, ExceptionFailure, ExecutorLostFailure, FetchFailed, TaskKilled, Resubmitted, ..."""

    name: str = _named("Reason", "")  # type: ignore[assignment]


class TaskEnd(msgspec.Struct):
    """A task ended, in whatever way. metrics: None where the executor did not tell: it was lost, or could not fetch.

    Resubmitted: what is said of a task that had ended well before, when its output is lost with its executor.
    """

    stage: int = msgspec.field(name="Stage ID")
    info: TaskInfo = msgspec.field(name="Task Info")
    reason: EndReason = msgspec.field(name="Task End Reason", default_factory=EndReason)
    metrics: Metrics | None = msgspec.field(name="Task Metrics", default=None)


class Rdd(msgspec.Struct):
    """Of a stage. scope: JSON with the name of the SQL node, or of the method that made it."""

    number: int = msgspec.field(name="RDD ID")
    name: str = _named("Name", "")  # type: ignore[assignment]
    scope: str = _named("Scope", "")  # type: ignore[assignment]


class Counter(msgspec.Struct):
    """An accumulator that a stage counted with."""

    accumulator: int = _named("ID", -1)  # type: ignore[assignment]


class StageInfo(msgspec.Struct):
    """Of an attempt of a stage. counters: known when it is over."""

    number: int = msgspec.field(name="Stage ID")
    name: str = _named("Stage Name", "")  # type: ignore[assignment]
    tasks: int = _named("Number of Tasks", 0)  # type: ignore[assignment]
    rdds: list[Rdd] = msgspec.field(name="RDD Info", default_factory=list)
    parents: list[int] = msgspec.field(name="Parent IDs", default_factory=list)
    submitted: int = _named("Submission Time", 0)  # type: ignore[assignment]
    completed: int = _named("Completion Time", 0)  # type: ignore[assignment]
    counters: list[Counter] = msgspec.field(name="Accumulables", default_factory=list)


class StageSubmitted(msgspec.Struct):
    """An attempt of a stage begins."""

    info: StageInfo = msgspec.field(name="Stage Info")


class StageCompleted(msgspec.Struct):
    """An attempt of a stage is over, in whatever way."""

    info: StageInfo = msgspec.field(name="Stage Info")


class PlanMetric(msgspec.Struct):
    """Of a node of a plan."""

    accumulator: int = _named("accumulatorId", -1)  # type: ignore[assignment]


class PlanNode(msgspec.Struct):
    """A node of a plan of Spark SQL. text: it with what it works on."""

    name: str = _named("nodeName", "")  # type: ignore[assignment]
    text: str = _named("simpleString", "")  # type: ignore[assignment]
    children: list[PlanNode] = msgspec.field(default_factory=list)
    metrics: list[PlanMetric] = msgspec.field(default_factory=list)


class SqlPlanned(msgspec.Struct):
    """An execution of SQL began, or its plan was changed."""

    execution: int = msgspec.field(name="executionId")
    plan: PlanNode = msgspec.field(name="sparkPlanInfo", default_factory=PlanNode)


class SqlEnded(msgspec.Struct):
    """An execution of SQL is over."""

    execution: int = msgspec.field(name="executionId")


class JobStart(msgspec.Struct):
    """properties: local ones of the thread that asked for it."""

    number: int = msgspec.field(name="Job ID")
    time: int = _named("Submission Time", 0)  # type: ignore[assignment]
    stages: list[StageInfo] = msgspec.field(name="Stage Infos", default_factory=list)
    properties: Mapping[str, str] | None = msgspec.field(name="Properties", default=None)


class JobEnd(msgspec.Struct):
    """A job ended."""

    number: int = msgspec.field(name="Job ID")
    time: int = _named("Completion Time", 0)  # type: ignore[assignment]


class ExecutorInfo(msgspec.Struct):
    """What an executor has."""

    host: str = _named("Host", "")  # type: ignore[assignment]
    cores: int = _named("Total Cores", 0)  # type: ignore[assignment]


class ExecutorAdded(msgspec.Struct):
    """An executor came."""

    executor: str = msgspec.field(name="Executor ID")
    time: int = _named("Timestamp", 0)  # type: ignore[assignment]
    info: ExecutorInfo = msgspec.field(name="Executor Info", default_factory=ExecutorInfo)


class ExecutorRemoved(msgspec.Struct):
    """An executor went, or was lost."""

    executor: str = msgspec.field(name="Executor ID")
    time: int = _named("Timestamp", 0)  # type: ignore[assignment]


class Application(msgspec.Struct):
    """Its begin or its end."""

    time: int = msgspec.field(name="Timestamp")
    name: str = _named("App Name", "")  # type: ignore[assignment]
    number: str | None = msgspec.field(name="App ID", default=None)


class StreamProgress(msgspec.Struct):
    """Of a batch of Structured Streaming. timestamp: when it began, ISO 8601. durations: ms by phase.

    query: an id. name: what its user called it, or nothing.
    """

    query: str = _named("id", "")  # type: ignore[assignment]
    name: str | None = None
    timestamp: str = ""
    batch: int = _named("batchId", -1)  # type: ignore[assignment]
    durations: dict[str, int] = msgspec.field(name="durationMs", default_factory=dict)


class QueryProgress(msgspec.Struct):
    """A batch is over."""

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
"""Events that are read. All others are known to exist and left alone."""

_DECODERS: Mapping[bytes, msgspec.json.Decoder[Any]] = {
    name.encode(): msgspec.json.Decoder(kind) for name, kind in EVENT_TYPES.items()
}
_PREFIX = b'{"Event":"'


class MalformedEventError(ValueError):
    """A line is not an event."""


def decode(line: bytes) -> SparkEvent | None:
    """The event of a line; None for one that does not matter. Raises MalformedEventError."""
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
