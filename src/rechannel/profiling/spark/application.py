"""What an event log says of an application, beyond the times of its tasks: the facts that findings are made of.

Times are Unix milliseconds, durations milliseconds; 0 means that the log does not say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rechannel.profiling.spark.rows import TaskRows
from rechannel.profiling.spark.sql_events import PlanNode


@dataclass(frozen=True, slots=True, kw_only=True)
class Executor:
    """An executor. The driver of a local application is one, too."""

    name: str
    host: str = ""
    cores: int = 1
    added: int = 0
    removed: int = 0
    reason: str = ""
    """Why it was removed."""
    lost: bool = False
    """Whether it was removed against the will of Spark: not after idling, and not at the end."""
    excluded: int = 0
    """When Spark first decided to run no more tasks on it, because too many had failed there."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """A dataset that a stage reads or makes, and that is to be kept in storage."""

    rdd: int
    name: str = ""
    partitions: int = 0
    cached: int | None = None
    """How many partitions were in storage when the stage began; None if the log does not say, as by default: updates of
    blocks are logged if `spark.eventLog.logBlockUpdates.enabled` is set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """An attempt of a stage."""

    number: int
    attempt: int = 0
    name: str = ""
    """Its name for users."""
    parents: tuple[int, ...] = ()
    rdd: int = -1
    """The RDD that it computes; -1 if unknown."""
    tasks: int = 0
    submitted: int = 0
    """0 also if it was skipped, because its output was there."""
    completed: int = 0
    failure: str = ""
    """Why it failed, the first line; "" if it did not."""
    execution: int | None = None
    """Of Spark SQL."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes of the plan that it runs, from the leaves on."""
    details: tuple[str, ...] = ()
    """The same nodes with their arguments, cut to 300 characters each: keys of joins and aggregations are there.
    Numbers of columns (`#12`) are those of the first stage with the same nodes."""
    functions: tuple[str, ...] = ()
    """Names of the Python functions that it calls."""
    python: bool = False
    """Whether it has no plan and calls functions that a Python program gave to an RDD. They have no names."""
    stored: tuple[Stored, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """A job."""

    number: int
    start: int
    end: int = 0
    stages: tuple[int, ...] = ()
    execution: int | None = None
    root: int | None = None
    """The SQL execution of which `execution` is a part; the same if that is not a part of another."""
    batch: int | None = None
    query: str = ""
    """Id of the stream."""
    group: str = ""
    description: str = ""
    site: str = ""
    """Where the program called Spark (function, file and line); "" if unknown."""
    broadcast: bool = False
    """Whether it collects one side of a broadcast join."""
    failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Execution:
    """An execution of Spark SQL."""

    number: int
    start: int
    end: int = 0
    description: str = ""
    root: int | None = None
    """The execution of which it is a part; None if it is not a part of another."""
    failure: str = ""
    """Why it failed, the first line; "" if it did not."""
    writes: bool = False
    """Whether its plan writes files or tables, or to the sink of a stream."""
    plan: PlanNode | None = None
    """The last plan that the log has of it. Of very many executions, only the longest keep theirs."""
    metrics: Mapping[int, int] = field(default_factory=dict)
    """Values of metrics that the driver reported (sizes and times of broadcasts, numbers of files), by accumulator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A batch of Structured Streaming."""

    query: str
    """Name of the stream, or its id."""
    number: int
    start: int
    end: int
    rows: int = 0
    input_rate: float = 0.0
    """Rows per second that came in since the batch before."""
    process_rate: float = 0.0
    """Rows per second that it worked off."""
    phases: Mapping[str, int] = field(default_factory=dict)
    """Milliseconds by phase: addBatch, getBatch, latestOffset, queryPlanning, walCommit, commitOffsets, ..."""
    state_rows: int = 0
    state_bytes: int = 0
    state_commit_ms: int = 0
    """Summed over the tasks."""
    watermark: int = 0
    late_rows: int = 0
    """Rows that came after the watermark and were dropped."""
    source_backlog: int | None = None
    """Offsets that the source has and no batch has read, where the source says so."""
    interval: int = 0
    """Between triggers; 0 if the next batch begins at once or the log does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """A query of Structured Streaming."""

    query: str
    """Its id."""
    name: str = ""
    start: int = 0
    end: int = 0
    """About when it ended; 0 if it did not."""
    failed: bool = False
    earlier: tuple[tuple[int, int], ...] = ()
    """Start and end of earlier runs of the same query."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Application:
    """What a log says of an application."""

    name: str
    number: str = ""
    version: str = ""
    start: int = 0
    end: int = 0
    ended: bool = False
    """Whether the log has its end."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """Spark's properties, without those that look like secrets; with those that sessions changed, the last value."""
    executors: Mapping[str, Executor] = field(default_factory=dict)
    """Names of executors to the latest of that name."""
    jobs: Mapping[int, Job] = field(default_factory=dict)
    stages: Mapping[tuple[int, int], Stage] = field(default_factory=dict)
    """By number and attempt."""
    executions: Mapping[int, Execution] = field(default_factory=dict)
    batches: Sequence[Batch] = ()
    streams: Mapping[str, Stream] = field(default_factory=dict)
    """By id."""
    exceptions: Mapping[str, int] = field(default_factory=dict)
    """Number of attempts that failed with an exception, by its class."""
    tasks: TaskRows = field(default_factory=TaskRows)
    """One row per attempt of a task, with its stage and attempt of the stage; see `rows.TASK_ROW`."""

    @property
    def local(self) -> bool:
        """Whether the driver runs all tasks."""
        return set(self.tasks.executors) <= {"driver"}

    @property
    def dynamic(self) -> bool:
        """Whether executors come and go with the tasks that wait."""
        return self.settings.get("spark.dynamicAllocation.enabled") == "true"
