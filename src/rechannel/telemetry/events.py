"""The event stream: what happens in a job, in the order in which it happens.

Every event is a value with one JSON form. Progress, the profiler and metrics read this stream, of a
running job or of a saved file. Times named `at_ms` are on the driver's clock, in milliseconds since
1970; durations are milliseconds. If a clock is set back, a duration may be negative.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from rechannel.model.codec import Json, decode, encode
from rechannel.sources.backlog import Backlog
from rechannel.telemetry.record import EMPTY, Record
from rechannel.telemetry.task_finished import TaskFinished
from rechannel.telemetry.tasks_finished import TasksFinished

FORMAT = 1
"""Version of the event file. A new kind of event, or a new field with a default, keeps it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStarted(Record):
    """A driver started the job, for the first time or again."""

    KIND: ClassVar[str] = "job_started"

    job: str
    at_ms: int
    engine: str
    """"spark" or "in-process"."""
    timestep: int = 0
    """The first timestep that this driver runs."""
    tasks: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """Number of tasks by operator, in the first configuration."""
    versions: Mapping[str, str] = field(default_factory=lambda: EMPTY)
    """Of rechannel, python and spark."""
    backlog: int | None = None
    """How many committed timesteps may wait for sinks before the driver begins no other; None in early logs."""

    def __post_init__(self) -> None:
        """Check the count and freeze the mappings."""
        self.check_natural("backlog")
        self.freeze("tasks", "versions")


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStopped(Record):
    """The driver stopped."""

    KIND: ClassVar[str] = "job_stopped"

    job: str
    at_ms: int
    error: str | None = None
    """What stopped it; None after a requested stop."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepStarted(Record):
    """The intent of a timestep is in the journal, and its tasks may run."""

    KIND: ClassVar[str] = "timestep_started"

    timestep: int
    now_ms: int
    """The timestep's own time, which timeouts compare with; the same in a replay."""
    at_ms: int
    offsets: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """By source: `start` and `end` of the range that is read, where they differ; see `ranges.py`."""
    rows_expected: int | None = None
    """Rows in the range; None if the sources cannot tell."""
    configuration: int | None = None
    """Version of the configuration."""
    backlog: Mapping[str, Backlog] = field(default_factory=lambda: EMPTY)
    """By source that can tell: what had arrived and is left unread; empty in a replay."""
    inline: bool = False
    """Whether the driver runs it itself."""

    def __post_init__(self) -> None:
        """Check the counts and freeze the mappings."""
        self.check_natural("timestep", "rows_expected")
        self.freeze("offsets", "backlog")


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorFinished(Record):
    """All tasks of an operator have finished a timestep."""

    KIND: ClassVar[str] = "operator_finished"

    timestep: int
    operator: str
    at_ms: int

    def __post_init__(self) -> None:
        """Check the timestep."""
        self.check_natural("timestep")


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSize(Record):
    """Size of an operator's runs of state. Rows that a newer run hides are included."""

    rows: int
    bytes: int

    def __post_init__(self) -> None:
        """Check the counts."""
        self.check_natural("rows", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepCommitted(Record):
    """A timestep is committed in the journal."""

    KIND: ClassVar[str] = "timestep_committed"

    timestep: int
    at_ms: int
    duration_ms: float
    """From `TimestepStarted.at_ms` to `at_ms`."""
    phases: Mapping[str, float] = field(default_factory=lambda: EMPTY)
    """Milliseconds by phase: plan, run and commit, one after the other, and then release."""
    rows_in: int = 0
    """Rows read from sources."""
    rows_out: int = 0
    """Rows passed to sinks."""
    state: Mapping[str, StateSize] = field(default_factory=lambda: EMPTY)
    """By stateful operator, after this timestep."""
    watermarks: Mapping[str, int] = field(default_factory=lambda: EMPTY)
    """By operator with event time that has seen a row and whose input has not ended: Unix milliseconds."""

    def __post_init__(self) -> None:
        """Check the counts and freeze the mappings."""
        self.check_natural("timestep", "rows_in", "rows_out")
        self.freeze("phases", "state", "watermarks")


@dataclass(frozen=True, slots=True, kw_only=True)
class TimestepFailed(Record):
    """A timestep failed; nothing of it was committed."""

    KIND: ClassVar[str] = "timestep_failed"

    timestep: int
    at_ms: int
    error: str
    """Name of the exception's class."""
    message: str = ""
    operator: str | None = None
    """The operator whose task failed, if known."""
    again_ms: float | None = None
    """Milliseconds until it is retried; None = it is not."""

    def __post_init__(self) -> None:
        """Check the timestep."""
        self.check_natural("timestep")


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkPublished(Record):
    """A sink published a committed timestep."""

    KIND: ClassVar[str] = "sink_published"

    timestep: int
    sink: str
    at_ms: int
    duration_ms: float = 0.0
    rows: int | None = None
    """Rows published; None if unknown."""
    bytes: int | None = None
    """Bytes published; None if unknown."""
    again: bool = False
    """Whether it was published a second time, after a restart."""

    def __post_init__(self) -> None:
        """Check the counts."""
        self.check_natural("timestep", "rows", "bytes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Note(Record):
    """Anything else worth recording."""

    KIND: ClassVar[str] = "note"

    at_ms: int
    topic: str
    """One word, to filter by."""
    text: str
    timestep: int | None = None
    cause: str | None = None
    """Id of the request that led to it."""
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """Figures, as JSON."""

    def __post_init__(self) -> None:
        """Check the timestep and freeze the figures."""
        self.check_natural("timestep")
        self.freeze("data")


@dataclass(frozen=True, slots=True, kw_only=True)
class DecisionMade(Record):
    """A controller has decided something, or says what became of a decision: then all of it comes again."""

    KIND: ClassVar[str] = "decision_made"

    at_ms: int
    """When it was made; with `controller` and `timestep`, it says which decision this is."""
    controller: str
    timestep: int
    """The last one that it was made from."""
    outcome: str
    why: str
    became: str = ""
    """What became of it; "" as long as that is open, and where nothing was requested."""
    data: Mapping[str, Any] = field(default_factory=lambda: EMPTY)
    """What was wanted, and its evidence, as JSON: the other fields of `rechannel.monitoring.Decided`."""

    def __post_init__(self) -> None:
        """Check the timestep and freeze the figures."""
        self.check_natural("timestep")
        self.freeze("data")


Event: TypeAlias = (
    JobStarted
    | JobStopped
    | TimestepStarted
    | TaskFinished
    | TasksFinished
    | OperatorFinished
    | TimestepCommitted
    | TimestepFailed
    | SinkPublished
    | DecisionMade
    | Note
)

EVENTS: tuple[type[Event], ...] = (
    JobStarted,
    JobStopped,
    TimestepStarted,
    TaskFinished,
    TasksFinished,
    OperatorFinished,
    TimestepCommitted,
    TimestepFailed,
    SinkPublished,
    DecisionMade,
    Note,
)

_BY_KIND: Mapping[str, type[Event]] = {event.KIND: event for event in EVENTS}


_TASKS_OF_ONE = 10
"""Tasks in columns that take the room of one event: some 150 bytes each, decoded. An event of one takes some 1,700."""


def weight_of(events: Iterable[Event]) -> int:
    """Return how many events these are by their room, which is what bounds of memory go by."""
    return sum(
        max(1, event.number // _TASKS_OF_ONE) if isinstance(event, TasksFinished) else 1
        for event in events
    )


def event_to_json(event: Event) -> dict[str, Json]:
    """Return an event as it is written: its kind as `event`, and its fields."""
    return {"event": event.KIND, **encode(event)}


def event_from_json(data: Mapping[str, Json]) -> Event | None:
    """Invert `event_to_json`; None for a kind that this version does not know.

    Raises TypeError, ValueError or KeyError for what is not an event.
    """
    kind = _BY_KIND.get(data["event"])
    return None if kind is None else decode(kind, data)
