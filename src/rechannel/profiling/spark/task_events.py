"""Events of tasks: attempts that were launched, and that ended, with their metrics.

These are most lines of a log, so that only what is needed is decoded.
"""

from __future__ import annotations

import msgspec

from rechannel.profiling.spark.numbers import Number


class ShuffleRead(msgspec.Struct, gc=False):
    """Shuffle read metrics of a task."""

    fetch_wait: Number = msgspec.field(name="Fetch Wait Time", default=0)
    """Milliseconds."""
    remote_bytes: Number = msgspec.field(name="Remote Bytes Read", default=0)
    local_bytes: Number = msgspec.field(name="Local Bytes Read", default=0)
    rows: Number = msgspec.field(name="Total Records Read", default=0)


class ShuffleWrite(msgspec.Struct, gc=False):
    """Shuffle write metrics of a task."""

    time: Number = msgspec.field(name="Shuffle Write Time", default=0)
    """Nanoseconds."""
    size: Number = msgspec.field(name="Shuffle Bytes Written", default=0)
    rows: Number = msgspec.field(name="Shuffle Records Written", default=0)


class Input(msgspec.Struct, gc=False):
    """What a task read from files, tables or the cache."""

    size: Number = msgspec.field(name="Bytes Read", default=0)
    rows: Number = msgspec.field(name="Records Read", default=0)


class Output(msgspec.Struct, gc=False):
    """What a task wrote to files or tables."""

    rows: Number = msgspec.field(name="Records Written", default=0)


class Metrics(msgspec.Struct, gc=False):
    """Metrics of a task: ms and bytes."""

    deserialise: Number = msgspec.field(name="Executor Deserialize Time", default=0)
    run: Number = msgspec.field(name="Executor Run Time", default=0)
    cpu: Number = msgspec.field(name="Executor CPU Time", default=0)
    """Nanoseconds."""
    peak: Number = msgspec.field(name="Peak Execution Memory", default=0)
    result: Number = msgspec.field(name="Result Size", default=0)
    gc: Number = msgspec.field(name="JVM GC Time", default=0)
    serialise: Number = msgspec.field(name="Result Serialization Time", default=0)
    spill_memory: Number = msgspec.field(name="Memory Bytes Spilled", default=0)
    spill_disk: Number = msgspec.field(name="Disk Bytes Spilled", default=0)
    read: ShuffleRead = msgspec.field(name="Shuffle Read Metrics", default_factory=ShuffleRead)
    write: ShuffleWrite = msgspec.field(name="Shuffle Write Metrics", default_factory=ShuffleWrite)
    input: Input = msgspec.field(name="Input Metrics", default_factory=Input)
    output: Output = msgspec.field(name="Output Metrics", default_factory=Output)


class TaskInfo(msgspec.Struct, gc=False, kw_only=True):
    """An attempt of a task."""

    number: Number = msgspec.field(name="Task ID")
    index: Number = msgspec.field(name="Index", default=0)
    launch: Number = msgspec.field(name="Launch Time")
    executor: str = msgspec.field(name="Executor ID")
    speculative: bool = msgspec.field(name="Speculative", default=False)
    getting: Number = msgspec.field(name="Getting Result Time", default=0)
    """When the driver began to fetch the result; 0 if it never did."""
    finish: Number = msgspec.field(name="Finish Time", default=0)
    failed: bool = msgspec.field(name="Failed", default=False)
    killed: bool = msgspec.field(name="Killed", default=False)


class TaskStart(msgspec.Struct, gc=False, kw_only=True):
    """A task was launched."""

    stage: Number = msgspec.field(name="Stage ID")
    attempt: Number = msgspec.field(name="Stage Attempt ID", default=0)
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

    stage: Number = msgspec.field(name="Stage ID")
    attempt: Number = msgspec.field(name="Stage Attempt ID", default=0)
    reason: EndReason = msgspec.field(name="Task End Reason", default_factory=EndReason)
    """Resubmitted: the task had succeeded earlier, and now its output was lost with its executor.
    """
    info: TaskInfo = msgspec.field(name="Task Info")
    metrics: Metrics | None = msgspec.field(name="Task Metrics", default=None)
    """None if the executor did not report them: it was lost, or could not fetch."""
