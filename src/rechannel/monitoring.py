"""What a running job reports: the types of `job.status`, `job.last_progress`, `job.history()`, `job.sinks`,
`job.savepoints`, `job.acts`, `job.advice()`, `job.nodes`, `job.bins()`, `job.flow()`.

All are frozen values with `to_dict()`, which returns plain JSON values. `read_events` reads the telemetry log of a
state directory.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rechannel.model.facts import Facts
from rechannel.replayed import LettersOf, Replay, ReplayedLetters, ReplayedRows, ReplayedState
from rechannel.scaling.decided import Decided
from rechannel.scaling.needs.values import (
    Amount,
    ControllerDecisions,
    CostFit,
    CurvePoint,
    OperatorNeed,
    StreamAdvice,
    StreamNeeds,
    WindowFigures,
)
from rechannel.telemetry.events import Event
from rechannel.telemetry.facts import (
    BadRows,
    OperatorProgress,
    SinkProgress,
    SlowestTask,
    SourceLag,
    TimestepProgress,
)
from rechannel.telemetry.reading import read_events
from rechannel.telemetry.words import status_text

__all__ = [
    "Act",
    "Amount",
    "BadRows",
    "ControllerDecisions",
    "ControllerStatus",
    "CostFit",
    "CriticalPath",
    "CurvePoint",
    "DataflowNode",
    "Decided",
    "EditedState",
    "Flow",
    "JobListener",
    "JobStatus",
    "LatencyFigures",
    "LettersOf",
    "OperatorBins",
    "OperatorNeed",
    "OperatorProgress",
    "OperatorStatus",
    "PhaseTimes",
    "ReconfigurationSummary",
    "Replay",
    "ReplayedLetters",
    "ReplayedRows",
    "ReplayedState",
    "SavepointStatus",
    "SinkProgress",
    "SinkStatus",
    "SlowestTask",
    "SourceLag",
    "Steps",
    "StreamAdvice",
    "StreamNeeds",
    "TimestepProgress",
    "WindowFigures",
    "read_events",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorStatus(Facts):
    """What an operator has after the last committed timestep, and what it has lost since the driver started."""

    tasks: int
    """Of the next timestep."""
    state_rows: int | None
    """None without state."""
    state_bytes: int | None
    rows_late: int
    """Rows that came after their window, key or match had ended, and were dropped."""
    rows_dead: int
    """Dead letters."""
    watermark_ms: int | None
    """Event time up to which it expects no more rows, Unix milliseconds; None without event time, before its first row,
    and when its input has ended."""
    event_time_lag_s: float | None
    """How much earlier its watermark is than the time of the driver, in seconds; None if there is no watermark."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus(Facts):
    """What a job is doing."""

    name: str
    active: bool
    message: str
    """ "running", "stopping" (it finishes the timesteps in flight), "stopped", or "failed: " and why."""
    timestep: int
    """The last committed one; 0 before the first."""
    configuration: int
    """Version of the configuration that the next timestep runs under."""
    retries: int
    """How often a timestep, or reading the sources' offsets, failed and was retried since the start."""
    troubles: Mapping[str, str]
    """By topic: what fails next to the stream and is retried."""
    committed_ms: int | None = None
    """When the last timestep was committed, Unix milliseconds; None before the first of this driver."""
    open_since_ms: int | None = None
    """When the oldest timestep that is not committed began, or was retried, Unix milliseconds; None if there is
    none."""
    lag: Mapping[str, SourceLag] = field(default_factory=dict)
    """By source: the lag of the stream at it."""
    operators: Mapping[str, OperatorStatus] = field(default_factory=dict)
    bad_rows: Mapping[str, BadRows] = field(default_factory=dict)
    """By operator that has dead letters or expectations: since this driver started."""

    def __str__(self) -> str:
        """Return it as a text of some lines."""
        return status_text(self.to_dict())


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerStatus(Facts):
    """What a controller is doing."""

    name: str
    path: str
    """Import path of its class."""
    running: bool
    """Whether this driver has it; False if the program that started the job was not given it."""
    absent: str | None
    """Why this driver does not have it, and what to do; None = it has."""
    parameters: Mapping[str, Any] | None
    """Arguments of its constructor, if it was installed by its path."""
    paused: str | None
    """Why it begins no operation; None = it does."""
    suspended: bool
    """Whether it was paused because its callbacks failed."""
    priority: int
    dry_run: bool
    """Whether its requests are only written to its log."""
    operations: int
    """How many control operations it has sent."""
    operation: str | None
    """Id of the one that is not over."""
    requests: int
    """How many changes it has requested."""
    failures: int
    """Callbacks that have failed in a row."""
    failed: int
    """Callbacks that have failed since it was installed."""
    metrics: Mapping[str, Mapping[str, float]]
    """Figures that it shows, by name and operator ("" = of none)."""
    log: tuple[str, ...]
    """Its latest lines, oldest first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkStatus(Facts):
    """How far a sink is behind the commits, and why."""

    owed: int
    """Committed timesteps that it has not published."""
    oldest: int | None
    """The first of them."""
    failures: int
    """Failed attempts at that one."""
    error: str | None
    """The last failure."""
    quarantine: str | None
    """Why the sink is in quarantine; None = it is not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedState(Facts):
    """What `Job.edit_state` has done to the state of an operator, or would do."""

    operator: str
    timestep: int
    """The latest committed one, whose state it is."""
    changed: int
    """Rows whose state differs, of keys that stay."""
    added: int
    """Rows of new keys."""
    removed: int
    """Rows of keys that are gone."""
    same: int
    """Rows that are as before."""
    done: bool
    """Whether the state was edited; False for a plan, and if nothing differs."""

    def __str__(self) -> str:
        what = "is edited" if self.done else "would be edited"
        what = what if self.changed or self.added or self.removed else "does not change"
        return (
            f"State of {self.operator!r} as of timestep {self.timestep} {what}: {self.changed:,} rows changed,"
            f" {self.added:,} added, {self.removed:,} removed, {self.same:,} as before"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SavepointStatus(Facts):
    """A committed timestep that has a name, and whose state is kept."""

    name: str
    timestep: int
    time_ms: int
    """When it got its name, Unix milliseconds."""
    cause: str
    """Who gave it, and why."""
    program: int
    """Version of the dataflow that the state is of."""
    files: int
    """Segments that it keeps."""
    bytes: int
    """Their size; other versions may need them too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Act(Facts):
    """What was done to a state directory beside its timesteps and reconfigurations."""

    kind: str
    """upgrade, return, fork, savepoint, savepoint dropped, reset or edit."""
    time_ms: int
    """When, Unix milliseconds."""
    timestep: int | None
    """The latest committed timestep at that time; None before the first."""
    what: str
    """In words."""
    cause: str
    """Who asked, and why; empty if that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Steps(Facts):
    """Numbers of steps of a reconfiguration: made, and left."""

    made: int
    left: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PhaseTimes(Facts):
    """Durations of the phases of a reconfiguration, milliseconds; None = not reached, or skipped."""

    prepare: int | None
    """From the request until everything was prepared that can be prepared ahead."""
    synchronize: int | None
    """From then until the timestep boundary of the first step."""
    update: int | None
    """From there until the timestep of the last step was committed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LatencyFigures(Facts):
    """Durations of some timesteps, milliseconds."""

    p50: float
    p99: float
    max: float
    timesteps: int
    """How many were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReconfigurationSummary(Facts):
    """What a reconfiguration did so far."""

    id: str
    change: str
    strategy: str
    cause: str
    phase: str
    """waiting, ready, moving or reversing; done, undone, aborted, superseded or failed when it is over."""
    reason: str
    """Why it ended in another way than done; empty otherwise."""
    steps: Steps
    bins: int
    """Bins that moved."""
    bytes: int
    """Bytes of state in them."""
    first_timestep: int | None
    """Timestep of the first step; None before it."""
    last_timestep: int | None
    phases_ms: PhaseTimes
    times: Mapping[str, int]
    """Unix milliseconds at which it entered each phase."""
    prepared: Mapping[str, Any]
    """What was prepared ahead."""
    drivers: int
    """Drivers that worked on it."""
    latency_ms: Mapping[str, LatencyFigures]
    """Durations of timesteps "before", "during" and "after" it, as far as they were measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DataflowNode(Facts):
    """A node of the running dataflow."""

    name: str
    kind: str
    """source, sink, map, transform, union, ..., or the kind of an operator with state."""
    upstreams: tuple[str, ...]
    """Names of the nodes whose rows it receives."""
    keys: tuple[str, ...] = ()
    """Key columns of an operator with state."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorBins(Facts):
    """The bins of an operator: which task owns each, and what it has. Lists are in the order of hashes."""

    tasks: int
    bins: int
    owners: tuple[int, ...]
    """Task of each bin in the next timestep; empty if there are very many bins."""
    bytes: tuple[int, ...]
    """Bytes of state of each bin, estimated from the sizes of its segments."""
    rows: tuple[float, ...] | None
    """Rows that each bin received in a timestep, on average over the latest ones; None if that is not known yet."""
    timesteps: int
    """Over how many of them."""
    moving: tuple[tuple[int, int], ...] = ()
    """(bin, task): bins that open reconfigurations still have to move, and the task that gets each."""
    spread: tuple[int, ...] = ()
    """Bins whose rows several tasks share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CriticalPath(Facts):
    """What the critical path of some timesteps is made of, as shares of it."""

    first: int
    last: int
    """Timesteps."""
    timesteps: int
    """How many of them count: those of which every event is known."""
    mean_ms: float
    """Length of a timestep."""
    kinds: Mapping[str, float]
    """By kind of activity or message."""
    operators: Mapping[str, float]
    """By operator: of what its tasks did."""
    tasks: Mapping[str, int]
    """By operator: its task with the largest share."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flow(Facts):
    """What went from operator to operator in the latest timesteps, and what took their time."""

    first: int | None
    last: int | None
    """Timesteps; None before the first."""
    seconds: float
    """From the launch of their first task to the end of their last."""
    rows: Mapping[str, Mapping[str, int]]
    """Rows that arrived, by sender and receiver."""
    critical: CriticalPath | None
    """None if it is not known."""
    unknown: str = ""
    """Why not, as a sentence."""


class JobListener:
    """Is called when a job does something, in a thread of its own; see `RunningJob.listen`. Override what you need."""

    def on_started(self, status: JobStatus) -> None:
        """The listener is called from now on."""

    def on_progress(self, progress: TimestepProgress) -> None:
        """A timestep is committed. They come in order; those that a slow listener has missed do not come."""

    def on_events(self, events: Sequence[Event], missed: int) -> None:
        """Things have happened: events as `read_events` yields them, oldest first, up to a second late.

        The first ones may be of just before. missed: how many events before these a slow listener has missed. None come
        if this is not overridden.
        """

    def on_reconfigured(self, summary: ReconfigurationSummary) -> None:
        """A reconfiguration is over; its phase says how it ended."""

    def on_terminated(self, status: JobStatus) -> None:
        """The job has ended; the message of its status says how. Nothing comes after it."""
