"""What one task did in one timestep: its own measures, and Spark's where there are any."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from rechannel.telemetry.record import EMPTY, Record


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkTaskId(Record):
    """What Spark calls a task: `TaskContext.stageId()` and `TaskContext.taskAttemptId()`.

    The second is unique in a Spark application: retries and speculative copies differ in it.
    """

    stage: int
    task: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkMetrics(Record):
    """What Spark measured of a task that succeeded. Wall-clock times are of the driver's clock.

    launch_ms, finish_ms: when the driver sent the task off and had its result, in ms since 1970.
    run_ms: in the executor, without `deserialise_ms` (closure) and `result_serialise_ms`; the
    Python worker's time is part of it. cpu_ms: of the executor's thread, Python not included.
    gc_ms: collections of the executor's JVM while the task ran. shuffle_wait_ms: for blocks of
    other executors. shuffle_write_ms: writing shuffle files.
    """

    stage: int
    stage_attempt: int = 0
    partition: int
    attempt: int = 0
    speculative: bool = False
    executor: str
    host: str
    launch_ms: int
    finish_ms: int
    run_ms: float = 0.0
    cpu_ms: float = 0.0
    gc_ms: float = 0.0
    deserialise_ms: float = 0.0
    result_serialise_ms: float = 0.0
    shuffle_wait_ms: float = 0.0
    shuffle_write_ms: float = 0.0
    shuffle_read_bytes: int = 0
    shuffle_write_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentWritten(Record):
    """One new segment. level: how many merges its rows went through."""

    key: str
    level: int
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent(Record):
    """What a task sent to one consumer.

    operator, input: the consumer, and which of its inputs. offered: rows before map-side combine.
    rows: rows that were sent. keys: distinct keys among those offered, counted per chunk.
    """

    operator: str
    input: int
    offered: int
    rows: int
    keys: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept(Record):
    """Rows of one node that a task kept in an outbox file."""

    node: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFinished(Record):
    """One winning task of one operator in one timestep.

    attempt: the name of the winning attempt, as in the names of its files.
    started_ms, finished_ms: the task's function, on its worker's clock, in ms since 1970.
    cpu_ms: processor time of the worker process meanwhile.
    ms: by activity (wait, deserialise, lookup, fetch, process, merge, write, send, outbox). They do
    not overlap, and do not add up to the whole: what is not named is the time between them.
    rows_in, bytes_in: received. rows_out: made by the operator itself, before functions and
    map-side combine behind it. bytes_out: sent to consumers and kept in outboxes.
    keys, keys_found: distinct keys in the input, and those that had state. runs: of state read.
    rows_merged: rows of state rewritten. bytes_fetched: of state, from a store that hosts share
    into this host's cache; 0 where nothing had to be, or where there is no cache.
    counts: whatever else the task counted.
    bins: rows per bin of the routing table, as in the report (see `kernels.binned.unpack_bins`).
    spark_task: which Spark task it was. spark: what Spark measured; None in-process, over Spark
    Connect, and when Spark had forgotten the task. executor: None likewise.
    """

    KIND: ClassVar[str] = "task_finished"
    timestep: int
    operator: str
    task: int
    attempt: str
    host: str
    pid: int = 0
    executor: str | None = None
    started_ms: float
    finished_ms: float
    cpu_ms: float = 0.0
    ms: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    rows_in: int = 0
    rows_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    keys: int = 0
    keys_found: int = 0
    runs: int = 0
    rows_merged: int = 0
    bytes_fetched: int = 0
    counts: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    bins: str | None = None
    segments: tuple[SegmentWritten, ...] = ()
    sent: tuple[Sent, ...] = ()
    kept: tuple[Kept, ...] = ()
    spark_task: SparkTaskId | None = None
    spark: SparkMetrics | None = None

    def __post_init__(self) -> None:
        """Check the counts and freeze the mappings."""
        self.check_natural("timestep", "task", "rows_in", "rows_out", "bytes_in", "bytes_out")
        self.check_natural("keys", "keys_found", "runs", "rows_merged", "bytes_fetched")
        self.freeze("ms", "counts")

    @property
    def launch_ms(self) -> float:
        """When Spark launched the task; when its function began if Spark's figures are absent."""
        return self.started_ms if self.spark is None else self.spark.launch_ms

    @property
    def finish_ms(self) -> float:
        """When Spark had the result; when the function ended if Spark's figures are absent."""
        return self.finished_ms if self.spark is None else self.spark.finish_ms

    @property
    def busy_ms(self) -> float:
        """The function's duration without the time spent waiting for input."""
        return max(0.0, self.finished_ms - self.started_ms - self.ms.get("wait", 0.0))

    def measured(self, spark: SparkMetrics) -> TaskFinished:
        """The same task with Spark's figures."""
        return replace(self, spark=spark, executor=spark.executor)
