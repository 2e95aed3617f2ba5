"""What one task did in one timestep: its own figures, and Spark's if there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from rechannel.telemetry.record import EMPTY, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTaskId(Record):
    """Spark's ids of a task."""

    stage: int
    """`TaskContext.stageId()`."""
    task: int
    """`TaskContext.taskAttemptId()`, unique in a Spark application: retries and speculative copies differ in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMetrics(Record):
    """What Spark measured of a task that succeeded. Instants are on the driver's clock, in ms since 1970."""

    stage: int
    stage_attempt: int = 0
    partition: int
    attempt: int = 0
    speculative: bool = False
    executor: str
    host: str
    launch_ms: int
    """When the driver launched the task."""
    finish_ms: int
    """When the driver received its result."""
    run_ms: float = 0.0
    """Time in the executor, including the Python worker, without the two below."""
    cpu_ms: float = 0.0
    """Processor time of the executor's thread, without the Python worker."""
    gc_ms: float = 0.0
    """Garbage collection in the executor's JVM while the task ran."""
    deserialise_ms: float = 0.0
    """Deserialising the task's closure."""
    result_serialise_ms: float = 0.0
    """Serialising the task's result."""
    shuffle_wait_ms: float = 0.0
    """Waiting for blocks of other executors."""
    shuffle_write_ms: float = 0.0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWritten(Record):
    """A new segment."""

    key: str
    level: int
    """How many merges its rows went through."""
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Record):
    """What a task sent to one consumer."""

    operator: str
    """The consumer."""
    input: int
    """Which of the consumer's inputs."""
    offered: int
    """Rows before map-side combine."""
    rows: int
    """Rows that were sent."""
    keys: int
    """Distinct keys among the rows offered, counted per chunk."""
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Record):
    """Rows of one node that a task wrote to a file of its sink buffer."""

    node: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedRows(Record):
    """Rows of one node that may be bad."""

    node: str
    rows: int
    """That it received."""
    bad: int = 0
    """Those that left as dead letters, or that do not meet an expectation."""
    failed: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """By expectation: those that do not meet it."""

    def __post_init__(self) -> None:
        """Check the counts and freeze the mapping."""
        self.check_natural("rows", "bad")
        self.freeze("failed")


NAMED_COUNTS = frozenset(
    (
        "rows_in",
        "rows_out",
        "bytes_in",
        "keys",
        "keys_found",
        "runs",
        "rows_merged",
        "bytes_fetched",
    )
)
"""What tasks count that is a field of its own in `TaskFinished`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(Record):
    """The winning attempt of one task of one operator in one timestep."""

    KIND: ClassVar[str] = "task_finished"

    timestep: int
    operator: str
    task: int
    attempt: str
    """Name of the attempt, as in the names of its files."""
    host: str
    pid: int = 0
    executor: str | None = None
    """Spark's id of the executor; None wherever `spark` is."""
    started_ms: float
    """When the task's function began, on its worker's clock, in ms since 1970."""
    finished_ms: float
    """When the task's function ended, likewise."""
    cpu_ms: float = 0.0
    """Processor time of the worker process meanwhile."""
    ms: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    """Milliseconds by activity: wait, deserialise, lookup, fetch, process, merge, write, send, outbox.

    They do not overlap. The time between them has no name, so their sum is less than the whole.
    """
    rows_in: int = 0
    """Rows received."""
    rows_out: int = 0
    """Rows made by the operator itself, before functions and map-side combine downstream."""
    bytes_in: int = 0
    """Bytes received."""
    bytes_out: int = 0
    """Bytes sent to consumers and written to sink buffers."""
    keys: int = 0
    """Distinct keys in the input."""
    keys_found: int = 0
    """Keys in the input that had state."""
    runs: int = 0
    """Runs of state that were read."""
    rows_merged: int = 0
    """Rows of state that were rewritten."""
    bytes_fetched: int = 0
    """Bytes of state fetched from a shared store into this host's cache; 0 without a cache."""
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Everything else that the task counted."""
    bins: str | None = None
    """Rows per bin of the routing table, packed: see `kernels.tasks.binned.unpack_bins`."""
    segments: tuple[SegmentWritten, ...] = ()
    sent: tuple[Sent, ...] = ()
    kept: tuple[Kept, ...] = ()
    judged: tuple[JudgedRows, ...] = ()
    spark_task: SparkTaskId | None = None
    """None in-process."""
    spark: SparkMetrics | None = None
    """None in-process, over Spark Connect, and if Spark had already forgotten the task."""

    def __post_init__(self) -> None:
        """Check the counts and freeze the mappings."""
        self.check_natural("timestep", "task", "rows_in", "rows_out", "bytes_in", "bytes_out")
        self.check_natural("keys", "keys_found", "runs", "rows_merged", "bytes_fetched")
        self.freeze("ms", "counts")

    @property
    def launch_ms(self) -> float:
        """When Spark launched the task, or when its function began if Spark's figures are absent."""
        return self.started_ms if self.spark is None else self.spark.launch_ms

    @property
    def finish_ms(self) -> float:
        """When Spark had the result, or when the function ended if Spark's figures are absent."""
        return self.finished_ms if self.spark is None else self.spark.finish_ms

    @property
    def busy_ms(self) -> float:
        """Duration of the function without the time spent waiting for input."""
        return max(0.0, self.finished_ms - self.started_ms - self.ms.get("wait", 0.0))

    @property
    def tasks(self) -> int:
        """This one."""
        return 1

    @property
    def slowest(self) -> TaskFinished:
        """This one."""
        return self

    @property
    def rows_kept(self) -> int:
        """Rows written to sink buffers."""
        return sum(kept.rows for kept in self.kept)

    def measured(self, spark: SparkMetrics) -> TaskFinished:
        """Return the same task with Spark's figures."""
        return replace(self, spark=spark, executor=spark.executor)
