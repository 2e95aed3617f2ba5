"""What users write: a controller, and what it sees and does through its `Control`. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, TypeAlias, TypeVar

from rechannel.control.operation import Operation
from rechannel.control.triggers import Trigger, by_hand
from rechannel.errors import NotReadyError, RefusedError
from rechannel.kernels.protocol.control import Reply
from rechannel.kernels.tasks.report import FailedReply
from rechannel.model.configuration import Configuration
from rechannel.profiling.job.shares import CriticalShares
from rechannel.reconfigure.arguments import strategy_of
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.plan import Plan
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.strategies import Strategy
from rechannel.replayed import Replay

State: TypeAlias = Any
"""A controller's own state: a value that JSON can hold, or a frozen dataclass of such values."""

S = TypeVar("S")

NAMES = re.compile("[A-Za-z0-9_-]{1,100}")

MOST_CALLBACK_SECONDS = 600.0

MOST_METRICS = 100
"""Figures that a controller shows at most."""

MOST_OPERATOR_CHARACTERS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskReply:
    """What one of the last tasks delivers: the replies gathered on all paths that end in it."""

    operation: str
    timestep: int
    replies: Mapping[str, Reply]
    """By operator, merged."""
    failures: Sequence[FailedReply] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """A completed control operation: all of its replies are in."""

    operation: str
    timestep: int
    """The timestep that it travelled with."""
    replies: Mapping[str, Reply]
    """By operator, merged over all of its tasks. An operator whose tasks have all failed or had no reply is absent."""
    failures: Sequence[FailedReply] = ()
    failed: int = 0
    """How many replies failed, those beyond `failures` included."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeRequest:
    """A change that a controller requests."""

    change: Change
    strategy: Strategy | None = None
    supersede: bool = False
    reason: str = ""


@dataclass(kw_only=True)
class Control(Generic[S]):
    """What a controller sees of its stream in one callback, and what it does about it."""

    name: str
    """The controller's own name."""
    state: S
    """Its state. What is assigned is committed when the callback has returned; an exception undoes it."""
    timestep: int
    """The latest committed timestep."""
    time_ms: int
    """Wall clock, Unix milliseconds."""
    configuration: Configuration
    """What the next timestep runs under."""
    progress: Sequence[Any] = ()
    """`TimestepProgress` of the latest committed timesteps, oldest first; none right after a restart."""
    tasks: Sequence[Any] = ()
    """`TimestepTasks` of the latest committed timesteps, oldest first: what each task received and took."""
    changes: Sequence[Record] = ()
    """Reconfigurations that are open or were finished lately, oldest first."""
    dry_run: bool = False
    """Whether what it requests is only written to its log."""
    serial: int = 0
    """Number of the controller's installation, which the origin of its own changes names."""
    configurations: Sequence[tuple[int, Configuration]] = ()
    """(timestep, what holds from it on) of the latest timesteps, ascending, as far as the journal keeps them."""
    bytes_per_bin: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Expected bytes of state, by operator."""
    ms_per_byte: float = 0.0
    """Measured cost of a byte of state that moves, in the timestep in which it moves."""
    rows_per_bin: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """Rows received over the last timesteps, by operator, shape (bins,)."""
    judge: Callable[[Change], str] = field(default=lambda _: "", repr=False)
    """What `refusal` asks."""
    planner: Callable[[Change, Strategy], Plan] | None = field(default=None, repr=False)
    """What `plan` calls; None where no job runs."""
    executors: Mapping[str, int] = field(default_factory=dict)
    """Cores of each executor, by its id, if Spark has several and tasks are placed on them; else empty."""
    places: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Executor of each task of operators with state, by operator; empty where `executors` is."""
    requests: list[ChangeRequest] = field(default_factory=list)
    """What `reconfigure` was called with in this callback."""
    notes: list[str] = field(default_factory=list)
    """What `note` was called with in this callback."""
    metrics: dict[str, dict[str, float | None]] = field(default_factory=dict)
    """What `metric` was called with in this callback, by name and operator."""
    profiler: Callable[..., CriticalShares | None] = field(default=lambda **_: None, repr=False)
    """What `profile` calls."""
    replayer: Callable[..., Replay] | None = field(default=None, repr=False)
    """What `replay` calls; None where no job runs."""

    def reconfigure(
        self,
        change: Change,
        *,
        strategy: Strategy | None = None,
        supersede: bool = False,
        reason: str = "",
    ) -> None:
        """Request a change of the stream, exactly once, when the callback has returned.

        A refusal is in the controller's log and in `job.controllers`; it raises nothing here.
        """
        self.requests.append(
            ChangeRequest(change=change, strategy=strategy, supersede=supersede, reason=reason)
        )

    def refusal(self, change: Change) -> str:
        """Return why a change would be refused as the stream is now; "" if it would not. Nothing is requested.

        Changes that are under way do not count: whether a request may supersede them is decided when it is made.
        """
        return self.judge(change)

    def plan(self, change: Change, *, strategy: Strategy | None = None) -> Plan:
        """Return what a change would do, and at what cost, after all open changes. Nothing is requested.

        strategy: None = all at once. The plan has no channels in its topology.

        Raises RefusedError, UnknownOperatorError if a request would be refused, and NotReadyError in a test that
        made the Control itself.
        """
        if self.planner is None:
            msg = "no stream runs here, and a plan needs its state: test it with rc.testing.Harness"
            raise NotReadyError(msg)
        return self.planner(change, strategy_of(strategy))

    def replay(
        self, timesteps: range | int, *, logic: Mapping[str, Any] | None = None, examples: int = 10
    ) -> Replay:
        """Run committed timesteps again in a sandbox, with the same or other logic; see `RunningJob.replay`.

        Nothing of the stream changes. The time that it takes is the callback's, and callbacks of other
        controllers wait for it: give few timesteps, and enough `seconds`.

        Raises RefusedError, NotReadyError, UnknownOperatorError as `RunningJob.replay`, and NotReadyError in a
        test harness, which runs no job.
        """
        if self.replayer is None:
            msg = "no job runs here, and only a running job replays timesteps: test it with rc.Job"
            raise NotReadyError(msg)
        return self.replayer(timesteps, logic=logic, examples=examples)

    def profile(self, *, timesteps: int = 20, after: int = -1) -> CriticalShares | None:
        """Return what the critical path of the latest timesteps is made of; None if none of them is known as a whole.

        The latest 40 are kept, or fewer if they have very many tasks. It takes about 20 ms for some hundred tasks, and
        seconds the first time in a process.

        timesteps: how many at most. after: the latest timestep that does not count, such as that of a change.

        Raises SetUpError without the packages of `rechannel[profile]`.
        """
        return self.profiler(after=after, most=timesteps)

    def requested(self, record: Record) -> bool:
        """Whether the controller itself has requested a change."""
        return record.origin.startswith(f"c{self.serial}/")

    def configuration_at(self, timestep: int) -> Configuration | None:
        """Return what a timestep ran under; None if the journal does not keep it any more."""
        for since, configuration in reversed(self.configurations):
            if since <= timestep:
                return configuration
        return None

    def note(self, text: str) -> None:
        """Add a line to the controller's log."""
        self.notes.append(text)

    def metric(self, name: str, value: float | None, *, operator: str = "") -> None:
        """Show a figure in `status.metrics` and to Prometheus, until it is set again; None takes it away.

        A controller has at most `MOST_METRICS` of them. They are committed with its state.
        operator: whose figure it is, if the controller has one for each.

        Raises RefusedError for a name or a value that is invalid.
        """
        if not isinstance(name, str) or not NAMES.fullmatch(name):
            msg = f"metric {name!r}: a metric's name has 1 to 100 letters, digits, '-' and '_'"
            raise RefusedError(msg)
        if not isinstance(operator, str) or len(operator) > MOST_OPERATOR_CHARACTERS:
            msg = f"metric {name!r}: operator={operator!r} is no name of an operator"
            raise RefusedError(msg)
        number = None if value is None else float(value)
        if number is not None and not math.isfinite(number):
            msg = f"metric {name!r}: {value!r} is not a finite number"
            raise RefusedError(msg)
        self.metrics.setdefault(name, {})[operator] = number


class Controller:
    """A program that runs inside a stream. Derive from it, and override what is needed.

    The callbacks are Chi's (Mai et al., VLDB'18). They run in a thread of their own, one at a time, in the order in
    which controllers were installed; the stream does not wait for them. A callback may run again after a crash; what
    it has assigned and requested counts once.
    """

    trigger: Trigger = by_hand()
    """When `on_begin` is called, if no operation of the controller is under way."""

    def on_init(self) -> State:
        """Return the first state, when the controller is installed.

        Called again at every start of a driver, and when a suspended controller is admitted again; its result is not
        used then.
        """
        return None

    def unfit(self, configuration: Configuration) -> str:
        """Return why the controller could not work on a stream that is configured like this; "" if it could.

        Asked when it is installed for the first time, which is then refused.
        """
        del configuration
        return ""

    def on_begin(self, control: Control[Any]) -> Operation | None:
        """The trigger has fired. Return the operation to send; None = none, only `control` was used."""
        del control
        return None

    def on_next(self, control: Control[Any], reply: TaskReply) -> None:
        """The reply of one of the last tasks is in."""

    def on_complete(self, control: Control[Any], outcome: Outcome) -> None:
        """All replies are in, and the timestep of the operation is committed."""

    def on_dispose(self, control: Control[Any]) -> None:
        """The controller is removed."""


@dataclass(frozen=True, kw_only=True)
class Installation:
    """A controller as it is installed; `install` makes one."""

    name: str
    controller: Controller
    path: str = ""
    """Import path of the class; "" if it cannot be imported by name."""
    parameters: Mapping[str, Any] | None = None
    """Arguments of its constructor, if it was installed by its path."""
    priority: int = 0
    dry_run: bool = False
    seconds: float = 10.0
    failures: int = 3


def install(
    controller: Controller,
    *,
    name: str | None = None,
    priority: int = 0,
    dry_run: bool = False,
    seconds: float = 10.0,
    failures: int = 3,
) -> Installation:
    """Return a controller with settings, for `rc.Job(controllers=[...])` and `job.control(...)`.

    Args:
        controller: an instance of a class derived from `Controller`.
        name: by which it is listed, paused and removed; by default the name of its class in lower case.
        priority: a request of a controller supersedes open changes of controllers with a lower one.
        dry_run: its requests are written to its log and not carried out.
        seconds: that a callback may take.
        failures: after how many callbacks in a row that failed it is suspended.

    Raises:
        RefusedError: an argument is out of its range.
    """
    if not isinstance(controller, Controller):
        msg = f"{controller!r} is no controller: give an instance of a class derived from rc.control.Controller"
        raise RefusedError(msg)
    kind = type(controller)
    chosen = kind.__name__.lower() if name is None else name
    check_settings(chosen, seconds, failures)
    return Installation(
        name=chosen,
        controller=controller,
        path=f"{kind.__module__}:{kind.__qualname__}",
        priority=priority,
        dry_run=dry_run,
        seconds=float(seconds),
        failures=failures,
    )


def check_settings(name: str | None, seconds: float, failures: int) -> None:
    """Raise RefusedError for an argument of `install` that is out of its range. name: None = by default."""
    if name is not None and (not isinstance(name, str) or not NAMES.fullmatch(name)):
        msg = f"name={name!r}: a controller's name has 1 to 100 letters, digits, '-' and '_'"
        raise RefusedError(msg)
    if not 0 < seconds <= MOST_CALLBACK_SECONDS:
        msg = f"seconds={seconds}: give more than 0 and at most {MOST_CALLBACK_SECONDS:g}"
        raise RefusedError(msg)
    if failures < 1:
        msg = f"failures={failures}: give at least 1"
        raise RefusedError(msg)


def installations(given: Sequence[Controller | Installation]) -> dict[str, Installation]:
    """Return controllers by name. Raises RefusedError for two of one name."""
    out: dict[str, Installation] = {}
    for each in given:
        made = each if isinstance(each, Installation) else install(each)
        if made.name in out:
            msg = (
                f"two controllers have the name {made.name!r}: give one of them another with"
                " rc.control.install(..., name=)"
            )
            raise RefusedError(msg)
        out[made.name] = made
    return out
