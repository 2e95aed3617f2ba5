"""When a controller begins a control operation. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from rechannel.errors import RefusedError

EventName: TypeAlias = Literal[
    "change_done", "change_failed", "executor_lost", "measured", "watermark"
]
EVENTS: tuple[EventName, ...] = (
    "change_done",
    "change_failed",
    "executor_lost",
    "measured",
    "watermark",
)
METRICS = ("duration_ms", "rows_in", "rows_out", "input_rows_per_second", "failures")
"""Fields of `TimestepProgress` that `when` compares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What triggers look at, at a timestep boundary."""

    timestep: int
    """The latest committed one."""
    time_ms: int
    """Wall clock, Unix milliseconds."""
    events: Mapping[str, int] = field(default_factory=dict)
    """How often each event has happened since the job began; for "watermark" its time, Unix milliseconds."""
    progress: Mapping[str, float] = field(default_factory=dict)
    """Metrics of the latest committed timestep."""
    calls: int = 0
    """How often the controller was called by hand."""
    measured: int = 0
    """The latest timestep whose tasks are known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trigger:
    """Base of all triggers."""

    def due(self, now: Moment, last: Moment | None) -> bool:
        """Whether the controller begins. last: when it last began; None = never."""
        return now.calls > (0 if last is None else last.calls)

    def urgent(self, now: Moment, last: Moment | None) -> bool:
        """Whether an operation that begins now has a timestep of its own if no rows arrive."""
        return Trigger.due(self, now, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class ByHand(Trigger):
    """Only when `job.controllers[name].trigger()` is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Every(Trigger):
    """Every n timesteps, or every n seconds."""

    timesteps: int | None = None
    seconds: float | None = None

    def due(self, now: Moment, last: Moment | None) -> bool:
        """See `Trigger.due`."""
        if last is None or Trigger.due(self, now, last):
            return True
        if self.timesteps is not None:
            return now.timestep >= last.timestep + self.timesteps
        # A clock that was set back must not silence it until the old time comes again.
        passed_ms = now.time_ms - last.time_ms
        return passed_ms < 0 or passed_ms >= (self.seconds or 0) * 1e3

    def urgent(self, now: Moment, last: Moment | None) -> bool:
        """Unless it goes by timesteps: then an idle stream would make one for each."""
        return self.timesteps is None or Trigger.due(self, now, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class On(Trigger):
    """Once for each occurrence of an event; occurrences while an operation is under way count as one."""

    event: EventName
    at_ms: int | None = None
    """For "watermark": the event time, Unix milliseconds."""

    def due(self, now: Moment, last: Moment | None) -> bool:
        """See `Trigger.due`."""
        if Trigger.due(self, now, last):
            return True
        if self.event == "measured":
            return now.measured > (0 if last is None else last.measured)
        count = now.events.get(self.event, 0)
        before = 0 if last is None else last.events.get(self.event, 0)
        if self.event != "watermark":
            return count > before
        return self.at_ms is not None and before < self.at_ms <= count

    def urgent(self, now: Moment, last: Moment | None) -> bool:
        """Unless it goes by timesteps, as "measured" does: then an idle stream would make one for each."""
        return self.event != "measured" or Trigger.due(self, now, last)


@dataclass(frozen=True, slots=True, kw_only=True)
class When(Trigger):
    """Whenever a metric of the latest timestep is out of bounds, at most once per timestep."""

    metric: str
    above: float | None = None
    below: float | None = None

    def due(self, now: Moment, last: Moment | None) -> bool:
        """See `Trigger.due`."""
        if Trigger.due(self, now, last):
            return True
        value = now.progress.get(self.metric)
        if value is None or (last is not None and now.timestep <= last.timestep):
            return False
        over = self.above is not None and value > self.above
        return over or (self.below is not None and value < self.below)


KINDS: tuple[type[Trigger], ...] = (ByHand, Every, On, When)
"""Every kind of trigger. The driver's thread asks them, so they are not the user's own classes."""


def by_hand() -> Trigger:
    """Begin only when called by hand, as controllers with any other trigger can be too."""
    return ByHand()


def every(*, timesteps: int | None = None, seconds: float | None = None) -> Trigger:
    """Begin at the first boundary, and then every n timesteps or every n seconds. Raises RefusedError."""
    given = [value for value in (timesteps, seconds) if value is not None]
    if len(given) != 1 or isinstance(given[0], bool) or given[0] <= 0:
        msg = f"every(timesteps={timesteps}, seconds={seconds}): give one of the two, above 0"
        raise RefusedError(msg)
    return Every(timesteps=timesteps, seconds=seconds)


def on(event: EventName, *, at_ms: int | None = None) -> Trigger:
    """Begin after an event: a change is done or has failed, an executor is lost, a watermark has passed `at_ms`, or
    `Control.tasks` has another timestep ("measured").

    Raises RefusedError for other events, and for a watermark without its time.
    """
    if event not in EVENTS:
        msg = f"on({event!r}): there is no such event; there are {', '.join(EVENTS)}"
        raise RefusedError(msg)
    if (event == "watermark") != (at_ms is not None):
        msg = 'on("watermark", at_ms=...) needs the event time, Unix milliseconds; other events have none'
        raise RefusedError(msg)
    return On(event=event, at_ms=at_ms)


def when(metric: str, *, above: float | None = None, below: float | None = None) -> Trigger:
    """Begin after each timestep in which a metric is above or below a bound. Raises RefusedError."""
    if metric not in METRICS:
        msg = f"when({metric!r}): there is no such metric; there are {', '.join(METRICS)}"
        raise RefusedError(msg)
    if above is None and below is None:
        msg = f"when({metric!r}): give above= or below="
        raise RefusedError(msg)
    return When(metric=metric, above=above, below=below)
