"""Events of tasks: attempts that were launched, and that ended, with their metrics.

These are most lines of a log, so that only what is needed is decoded.
"""

from __future__ import annotations

import msgspec


class ShuffleRead(msgspec.Struct, gc=False):
    """Shuffle read metrics of a task."""

    fetch_wait: int = msgspec.field(name="Fetch Wait Time", default=0)
    """Milliseconds."""
    remote_bytes: int = msgspec.field(name="Remote Bytes Read", default=0)
    local_bytes: int = msgspec.field(name="Local Bytes Read", default=0)
    rows: int = msgspec.field(name="Total Records Read", default=0)


class ShuffleWrite(msgspec.Struct, gc=False):
    """Shuffle write metrics of a task."""

    time: int = msgspec.field(name="Shuffle Write Time", default=0)
    """Nanoseconds."""
    size: int = msgspec.field(name="Shuffle Bytes Written", default=0)
    rows: int = msgspec.field(name="Shuffle Records Written", default=0)


class Input(msgspec.Struct, gc=False):
    """What a task read from files, tables or the cache."""

    size: int = msgspec.field(name="Bytes Read", default=0)
    rows: int = msgspec.field(name="Records Read", default=0)


class Output(msgspec.Struct, gc=False):
    """What a task wrote to files or tables."""

    size: int = msgspec.field(name="Bytes Written", default=0)
    rows: int = msgspec.field(name="Records Written", default=0)


class Metrics(msgspec.Struct, gc=False):
    """Metrics of a task: ms and bytes."""

    deserialise: int = msgspec.field(name="Executor Deserialize Time", default=0)
    run: int = msgspec.field(name="Executor Run Time", default=0)
    cpu: int = msgspec.field(name="Executor CPU Time", default=0)
    """Nanoseconds."""
    peak: int = msgspec.field(name="Peak Execution Memory", default=0)
    result: int = msgspec.field(name="Result Size", default=0)
    gc: int = msgspec.field(name="JVM GC Time", default=0)
    serialise: int = msgspec.field(name="Result Serialization Time", default=0)
    spill_memory: int = msgspec.field(name="Memory Bytes Spilled", default=0)
    spill_disk: int = msgspec.field(name="Disk Bytes Spilled", default=0)
    read: ShuffleRead = msgspec.field(name="Shuffle Read Metrics", default_factory=ShuffleRead)
    write: ShuffleWrite = msgspec.field(name="Shuffle Write Metrics", default_factory=ShuffleWrite)
    input: Input = msgspec.field(name="Input Metrics", default_factory=Input)
    output: Output = msgspec.field(name="Output Metrics", default_factory=Output)


class TaskInfo(msgspec.Struct, gc=False, kw_only=True):
    """An attempt of a task."""

    number: int = msgspec.field(name="Task ID")
    index: int = msgspec.field(name="Index", default=0)
    launch: int = msgspec.field(name="Launch Time")
    executor: str = msgspec.field(name="Executor ID")
    locality: str = msgspec.field(name="Locality", default="")
    speculative: bool = msgspec.field(name="Speculative", default=False)
    getting: int = msgspec.field(name="Getting Result Time", default=0)
    """When the driver began to fetch the result; 0 if it never did."""
    finish: int = msgspec.field(name="Finish Time", default=0)
    failed: bool = msgspec.field(name="Failed", default=False)
    killed: bool = msgspec.field(name="Killed", default=False)


class TaskStart(msgspec.Struct, gc=False, kw_only=True):
    """A task was launched."""

    stage: int = msgspec.field(name="Stage ID")
    attempt: int = msgspec.field(name="Stage Attempt ID", default=0)
    info: TaskInfo = msgspec.field(name="Task Info")


class EndReason(msgspec.Struct, gc=False):
    """Why a task ended: Success, ExceptionFailure, ExecutorLostFailure, FetchFailed, TaskKilled,
    Resubmitted, ...
    """

    name: str = msgspec.field(name="Reason", default="")
    kill: str = msgspec.field(name="Kill Reason", default="")
    """Why it was killed. Since Spark 2.4."""
    error: str = msgspec.field(name="Class Name", default="")
    """Class of the exception."""


class TaskEnd(msgspec.Struct, gc=False, kw_only=True):
    """A task ended, for whatever reason."""

    stage: int = msgspec.field(name="Stage ID")
    attempt: int = msgspec.field(name="Stage Attempt ID", default=0)
    reason: EndReason = msgspec.field(name="Task End Reason", default_factory=EndReason)
    """Resubmitted: the task had succeeded earlier, and now its output was lost with its executor.
    """
    info: TaskInfo = msgspec.field(name="Task Info")
    metrics: Metrics | None = msgspec.field(name="Task Metrics", default=None)
    """None if the executor did not report them: it was lost, or could not fetch."""
