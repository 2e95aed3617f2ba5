"""What a committed timestep did, as values: `job.last_progress`, `job.recent_progress`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from rechannel.model.facts import Facts


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowestTask(Facts):
    """The task of an operator that was busy longest in a timestep."""

    task: int
    """Number of the task, from 0."""
    host: str
    executor: str | None
    """Id in Spark; None without Spark."""
    busy_ms: float
    ms: Mapping[str, float]
    """Milliseconds by activity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLag(Facts):
    """What has arrived at a source and is not read. None = not known: the source cannot tell."""

    at_ms: int
    """When the source was looked at, Unix milliseconds."""
    rows: int | None = None
    bytes: int | None = None
    """As the source stores them, or, of a source that counts rows, about as many as they have in memory."""
    seconds: float | None = None
    """For how long the oldest of the rows has waited."""
    at_least: bool = False
    """Whether it has waited longer: it was there before this driver first looked."""
    estimated: str | None = None
    """ "rows" or "bytes": which of the two is estimated from the other, by what was read lately; None = neither."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorProgress(Facts):
    """What the tasks of one operator did in a timestep, in total."""

    tasks: int
    rows_in: int
    rows_out: int
    rows_late: int
    """Rows that came after their window, key or match had ended."""
    rows_dead: int
    """Dead letters."""
    bytes_in: int
    bytes_out: int
    keys: int
    """Keys that received rows."""
    ms: Mapping[str, float]
    """Milliseconds by activity, summed over the tasks."""
    slowest_task: SlowestTask | None
    finished_ms: int | None
    """Unix time at which the last task was done."""
    state_rows: int | None
    """Rows of state after the timestep; None without state."""
    state_bytes: int | None
    watermark_ms: int | None = None
    """Event time up to which it expects no more rows, Unix milliseconds; None without event time, before its first row,
    and when its input has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BadRows(Facts):
    """How many rows of an operator were bad."""

    rows: int
    """That it received."""
    bad: int
    """Those that left as dead letters, or that do not meet an expectation."""
    failed: Mapping[str, int]
    """By expectation: those that do not meet it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkProgress(Facts):
    """How a sink published a timestep."""

    at_ms: int
    """Unix time."""
    duration_ms: float
    rows: int | None
    bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepProgress(Facts):
    """What a committed timestep did. Times in Unix milliseconds, durations in milliseconds."""

    timestep: int
    now_ms: int | None
    """The timestep's own time, which timeouts compare with; the same when it is replayed."""
    started_ms: int | None
    committed_ms: int
    duration_ms: float
    configuration: int | None
    """Version of the configuration that it ran under."""
    phases: Mapping[str, float]
    """Durations of the parts of the timestep, by name."""
    rows_in: int
    """Rows read from sources."""
    rows_out: int
    """Rows handed to sinks."""
    input_rows_per_second: float | None
    """`rows_in` by the time since the previous timestep began; None for the first."""
    processed_rows_per_second: float | None
    """`rows_in` by the duration."""
    output_rows_per_second: float | None
    """`rows_out` by the duration."""
    operators: Mapping[str, OperatorProgress]
    sources: Mapping[str, Any]
    """By source: `start` and `end` of what was read, in its own offsets, as far as the two differ."""
    sinks: Mapping[str, SinkProgress]
    """By sink that has published the timestep. Sinks publish after the commit."""
    failures: int
    """How often the timestep failed before it succeeded."""
    troubles: Mapping[str, str]
    """By topic: what failed next to the stream and is retried."""
    backlog: Mapping[str, int | None] = field(default_factory=dict)
    """By source: rows that had arrived when the timestep was decided, and that it left unread; None if not known."""
    lag: Mapping[str, SourceLag] = field(default_factory=dict)
    """By source: the same in rows, bytes and seconds."""
    bad_rows: Mapping[str, BadRows] = field(default_factory=dict)
    """By operator that has dead letters or expectations, stateless ones included."""
