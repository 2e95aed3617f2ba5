"""What the event log of an application says that it needs: values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

StageKind = Literal["source", "shuffle", "own"]
"""What decides on the number of its tasks: the source; the shuffle partitions; the program."""
Origin = Literal["given", "measured", "assumed"]
"""Where a number comes from. assumed: the log does not say it, and a note says what was taken in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageCost:
    """What a stage of every batch costs."""

    name: str
    """The nodes of its plan, or its name."""
    kind: StageKind
    tasks: int
    """That it had, the median of batches."""
    rows: float
    """Of a batch at the rate and interval that are advised for."""
    fixed_ms: float
    """Of a task, whatever it receives."""
    fixed_low_ms: float
    fixed_high_ms: float
    row_ms: float
    heaviest: float
    """Rows of the heaviest task over the mean of the tasks, the median of batches."""
    samples: int
    """Tasks from which this was fitted."""
    tasks_ms: float
    """Of all its tasks together, measured, the median of batches."""
    busy: float
    """Share of the time of its tasks in which their Java threads worked: the rest is Python, waiting, or other programs
    on the machine."""
    points: tuple[tuple[float, float], ...] = ()
    """Some of its tasks: what each received, in rows, and took, in milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Predicted:
    """A batch with some number of cores and shuffle partitions, at the rate and interval that are advised for."""

    cores: int
    executors: int
    """0 if the driver runs all tasks."""
    partitions: int
    """Of a shuffle."""
    batch_ms: float
    low_ms: float
    high_ms: float
    """The ends of its interval: what the measurements leave open."""
    used: float
    """Share of the interval between batches that is used; the stream keeps up with less than 1."""
    keeps: bool
    """Whether it stays within the utilisation that is allowed."""
    binds: str
    """The longest part of the batch: "driver", or the name of a stage."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryAdvice:
    """What a query of Structured Streaming needs."""

    name: str
    rate: float
    """Rows per second."""
    rate_from: Origin
    interval_ms: float
    """Between the starts of batches."""
    interval_from: Origin
    utilisation: float
    batches: int
    """From which this was computed."""
    left_out: int
    """Batches of the warm-up."""
    measured_ms: float
    """The median batch."""
    measured_rows: float
    """Of the median batch."""
    driver_ms: float
    """Of a batch in which no stage runs: planning, writing offsets, committing."""
    phases_ms: dict[str, float]
    """The phases of a batch as Spark reports them, the medians."""
    stages: tuple[StageCost, ...]
    """In the order in which they run."""
    now: Predicted
    """What it had. Its number of cores is that of the application."""
    advised: Predicted
    hangs_on: str
    """The stage whose costs leave most of the interval of `advised` open; "" if that is narrow."""
    others: tuple[Predicted, ...]
    """Other numbers of cores, each with the best partitions."""
    state_partitions: int | None
    """Partitions of the state, which its checkpoint fixes; None without state."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Replayed:
    """An application with some number of cores."""

    cores: int
    executors: int
    """0 if the driver runs all tasks."""
    seconds: float
    core_seconds: float
    """That are paid for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsAdvice:
    """What an application of batch jobs needs."""

    now: Replayed
    advised: Replayed
    """The least cores with which it hardly takes longer than with any number."""
    least_seconds: float
    """With any number of cores: the driver, and chains of tasks that wait for each other."""
    others: tuple[Replayed, ...]
    """From 1 core on; each is the replay of the tasks that were measured."""
    busy: float
    """Share of the cores' time in which tasks ran."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogAdvice:
    """What an application needs, from its event log."""

    title: str
    cores: int
    """The most that it had at a time."""
    executors: int
    """That had them; 0 if the driver runs all tasks."""
    executor_cores: int
    """Of each executor that is advised."""
    queries: tuple[QueryAdvice, ...]
    jobs: JobsAdvice | None
    """None for an application that only streams, or without tasks."""
    notes: tuple[str, ...] = ()
    """What is missing in the log or could not be advised, and what that means."""
