"""The event stream: everything a job tells about itself, in the order in which it happened.

Every event is a value with one JSON form. Progress, profiler, scaling and dashboard are readers of
this stream, of a running job or of a saved file alike. Times named `at_ms` are the driver's clock,
in milliseconds since 1970; durations are milliseconds. Both are what clocks said: where one was set
back, a duration may be negative.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from rechannel.model.codec import Json, decode, encode
from rechannel.telemetry.record import EMPTY, Record
from rechannel.telemetry.task_finished import TaskFinished

FORMAT = 1
"""Version of the event file. A new event, or a new field with a default, does not change it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(Record):
    """A driver took up the job, for the first time or again.

    job: the job's name. engine: "spark" or "in-process". versions: of rechannel, python, spark.
    tasks: by operator, as the first configuration has it. timestep: the first one to run.
    backlog: committed timesteps that sinks may lag behind before none is begun; None = not told.
    """

    KIND: ClassVar[str] = "job_started"

    job: str
    at_ms: int
    engine: str
    timestep: int = 0
    tasks: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    versions: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    backlog: int | None = None

    def __post_init__(self) -> None:
        """Check the count and freeze the mappings."""
        self.check_natural("backlog")
        self.freeze("tasks", "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStopped(Record):
    """The driver stopped. error: what stopped it, None for a stop that was asked for."""

    KIND: ClassVar[str] = "job_stopped"

    job: str
    at_ms: int
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepStarted(Record):
    """The intent of a timestep is in the journal, and its tasks may run.

    now_ms: the timestep's own time, which timeouts compare with; a replay has the same.
    offsets: by source, `start` and `end` of the range it reads, as far as they differ: see `ranges.py`.
    rows_expected: rows in the range, where sources can tell. configuration: its version.
    """

    KIND: ClassVar[str] = "timestep_started"

    timestep: int
    now_ms: int
    at_ms: int
    offsets: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    rows_expected: int | None = None
    configuration: int | None = None

    def __post_init__(self) -> None:
        """Check the counts and freeze the offsets."""
        self.check_natural("timestep", "rows_expected")
        self.freeze("offsets")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFinished(Record):
    """All tasks of an operator are done with a timestep."""

    KIND: ClassVar[str] = "operator_finished"

    timestep: int
    operator: str
    at_ms: int

    def __post_init__(self) -> None:
        """Check the timestep."""
        self.check_natural("timestep")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSize(Record):
    """Rows and bytes in the runs of an operator's state; rows that a newer run hides count too."""

    rows: int
    bytes: int

    def __post_init__(self) -> None:
        """Check the counts."""
        self.check_natural("rows", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepCommitted(Record):
    """A timestep is in the journal for good.

    duration_ms: from TimestepStarted.at_ms to at_ms. phases: milliseconds by phase: plan, run
    and commit one after the other, then release. rows_in: read from sources. rows_out: handed to sinks.
    state: by stateful operator, after this timestep.
    """

    KIND: ClassVar[str] = "timestep_committed"

    timestep: int
    at_ms: int
    duration_ms: float
    phases: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    rows_in: int = 0
    rows_out: int = 0
    state: Mapping[str, StateSize] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        """Check the counts and freeze the mappings."""
        self.check_natural("timestep", "rows_in", "rows_out")
        self.freeze("phases", "state")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepFailed(Record):
    """A timestep failed and nothing of it was committed.

    error: name of the exception's class. message: its text.
    operator: whose task failed, where that is known. again_ms: until it runs again; None = it does not.
    """

    KIND: ClassVar[str] = "timestep_failed"

    timestep: int
    at_ms: int
    error: str
    message: str = ""
    operator: str | None = None
    again_ms: float | None = None

    def __post_init__(self) -> None:
        """Check the timestep."""
        self.check_natural("timestep")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPublished(Record):
    """A sink has the rows of a committed timestep.

    rows, bytes: where they are known. again: published a second time, after a restart.
    """

    KIND: ClassVar[str] = "sink_published"

    timestep: int
    sink: str
    at_ms: int
    duration_ms: float = 0.0
    rows: int | None = None
    bytes: int | None = None
    again: bool = False

    def __post_init__(self) -> None:
        """Check the counts."""
        self.check_natural("timestep", "rows", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Record):
    """Something worth knowing that is none of the above.

    topic: one word, for filters. cause: the id of the request that led to it.
    data: figures, as JSON.
    """

    KIND: ClassVar[str] = "note"

    at_ms: int
    topic: str
    text: str
    timestep: int | None = None
    cause: str | None = None
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)

    def __post_init__(self) -> None:
        """Check the timestep and freeze the figures."""
        self.check_natural("timestep")
        self.freeze("data")


Event: TypeAlias = (
    JobStarted
    | JobStopped
    | TimestepStarted
    | TaskFinished
    | OperatorFinished
    | TimestepCommitted
    | TimestepFailed
    | SinkPublished
    | Note
)

EVENTS: tuple[type[Event], ...] = (
    JobStarted,
    JobStopped,
    TimestepStarted,
    TaskFinished,
    OperatorFinished,
    TimestepCommitted,
    TimestepFailed,
    SinkPublished,
    Note,
)

_BY_KIND: Mapping[str, type[Event]] = {event.KIND: event for event in EVENTS}


def event_to_json(event: Event) -> dict[str, Json]:
    """Return an event as it is written: its kind as `event`, and its fields."""
    return {"event": event.KIND, **encode(event)}


def event_from_json(data: Mapping[str, Json]) -> Event | None:
    """Invert `event_to_json`; None for a kind that this version does not know.

    Raises TypeError, ValueError or KeyError for what is not an event.
    """
    kind = _BY_KIND.get(data["event"])
    return None if kind is None else decode(kind, data)
