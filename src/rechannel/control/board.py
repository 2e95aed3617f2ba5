"""All controllers and their operations as one value, the fold of their events. Pure.

installed --handled(begin)--> sent --intent--> travelling --commit--> completed --handled(complete)--> installed
                                     ^                |
                                     +--withdrawn-----+
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rechannel.control.events import (
    Answered,
    Called,
    Completed,
    ControlEvent,
    Dropped,
    Failed,
    Handled,
    Installed,
    Paused,
    Removed,
    Unpaused,
)
from rechannel.control.triggers import Moment
from rechannel.errors import NotReadyError
from rechannel.kernels.tasks.report import ControlReport
from rechannel.model.codec import Json
from rechannel.reconfigure.events import Event, Finished, Requested

LOG_KEPT = 64
"""Lines of a controller's log that stay."""

LINE_CHARACTERS = 2_000


@dataclass(frozen=True, kw_only=True)
class SentOperation:
    """A control operation that is not over."""

    id: str
    before: Json = None
    """State of the controller before `on_begin`: after a restart it runs again to make the handler."""
    urgent: bool = False
    """Whether it has a timestep of its own if no rows arrive."""
    blocking: bool = False
    request: int = 0
    """Number of the request for the change that the operation makes; 0 = it makes none."""
    reconfiguration: str = ""
    """Id of that change, once it is accepted."""
    timestep: int | None = None
    """The timestep that it travels with; None = the next one that is decided."""
    reports: tuple[ControlReport, ...] | None = None
    """What its last tasks have delivered, once that timestep is committed."""

    @property
    def lost(self) -> bool:
        """Whether every reply to it has failed."""
        reports = self.reports or ()
        return any(r.failures or r.more for r in reports) and not any(r.replies for r in reports)


@dataclass(frozen=True, kw_only=True)
class PendingRequest:
    """A change that a controller has requested and that is not yet answered."""

    number: int
    request: Mapping[str, Json]
    reconfiguration: str = ""
    """Id of the reconfiguration that was accepted for it; the answer is journalled after that."""


@dataclass(frozen=True, kw_only=True)
class LogLine:
    """A line of a controller's log."""

    time_ms: int
    text: str


@dataclass(frozen=True, kw_only=True)
class Seat:
    """One installed controller."""

    name: str
    serial: int
    """Number of the installation in this state directory."""
    installed: Installed
    state: Json = None
    sent: int = 0
    """How many operations it has sent."""
    begun: Mapping[str, Any] | None = None
    """What its trigger saw when it last began."""
    calls: int = 0
    """How often it was called by hand."""
    operation: SentOperation | None = None
    pending: tuple[PendingRequest, ...] = ()
    requested: int = 0
    """How many changes it has requested."""
    failures: int = 0
    """Callbacks that have failed in a row."""
    failed: int = 0
    """Callbacks that have failed."""
    lost: int = 0
    """Operations in a row to which every reply has failed."""
    metrics: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Figures that it shows, by name and operator."""
    paused: str = ""
    """Why it is paused; "" = it is not."""
    suspended: bool = False
    changes_done: int = 0
    """How many changes of the stream, its own and others, were done since it was installed."""
    changes_failed: int = 0
    """How many ended otherwise."""
    log: tuple[LogLine, ...] = ()

    @property
    def last_begun(self) -> Moment | None:
        """What its trigger saw when it last began; None = it never did."""
        return None if self.begun is None else Moment(**self.begun)

    def logged(self, time_ms: int, *texts: str) -> Seat:
        """Return it with more lines in its log."""
        lines = [LogLine(time_ms=time_ms, text=text[:LINE_CHARACTERS]) for text in texts]
        return replace(self, log=(*self.log, *lines)[-LOG_KEPT:])


@dataclass(frozen=True, kw_only=True)
class Board:
    """All controllers, in the order of their installation."""

    serial: int = 0
    """How many installations there ever were."""
    seats: Mapping[str, Seat] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Put them in their order: a snapshot has them by name."""
        serials = [seat.serial for seat in self.seats.values()]
        if serials != sorted(serials):
            seats = dict(sorted(self.seats.items(), key=lambda item: item[1].serial))
            object.__setattr__(self, "seats", seats)

    def seat(self, name: str) -> Seat:
        """The controller of a name. Raises NotReadyError if there is none."""
        if name not in self.seats:
            msg = f"there is no controller {name!r}; there are {sorted(self.seats)}"
            raise NotReadyError(msg)
        return self.seats[name]

    @property
    def waiting(self) -> tuple[SentOperation, ...]:
        """Operations that travel with the next timestep."""
        sent = (seat.operation for seat in self.seats.values())
        return tuple(o for o in sent if o is not None and o.timestep is None)

    def travelling(self, timestep: int) -> tuple[SentOperation, ...]:
        """Operations that travel with a timestep."""
        sent = (seat.operation for seat in self.seats.values())
        return tuple(o for o in sent if o is not None and o.timestep == timestep)

    def after(self, event: ControlEvent) -> Board:
        """The state after one more event. Raises ValueError if it cannot happen."""
        if isinstance(event, Installed):
            return self._installed(event)
        seat = self.seats.get(event.controller)
        if seat is None:
            msg = f"{event.kind}: there is no controller {event.controller!r}"
            raise ValueError(msg)
        if isinstance(event, Removed):
            left = {n: s for n, s in self.seats.items() if n != event.controller}
            return replace(self, seats=left)
        return self._with(_AFTER[type(event)](seat, event))

    def intended(self, operations: Iterable[str], timestep: int) -> Board:
        """The state after the intent of a timestep that operations travel with. Raises ValueError."""
        board = self
        for id_ in operations:
            seat = board._of(id_)
            assert seat.operation is not None  # noqa: S101 - `_of` has found it there
            board = board._with(replace(seat, operation=replace(seat.operation, timestep=timestep)))
        return board

    def withdrawn(self, timestep: int) -> Board:
        """The state after timesteps from one on were withdrawn: their operations travel with the next one."""
        board = self
        for seat in self.seats.values():
            sent = seat.operation
            if sent is not None and sent.timestep is not None and sent.timestep >= timestep:
                back = replace(sent, timestep=None, reports=None)
                board = board._with(replace(seat, operation=back))
        return board

    def committed(self, completed: Sequence[Completed]) -> Board:
        """The state after a commit. An operation whose controller is gone is forgotten."""
        board = self
        for each in completed:
            try:
                seat = board._of(each.operation)
            except ValueError:
                continue
            assert seat.operation is not None  # noqa: S101 - `_of` has found it there
            done = replace(seat.operation, reports=each.reports)
            board = board._with(replace(seat, operation=done))
        return board

    def changed(self, event: Event) -> Board:
        """The state after an event of a reconfiguration: one of a controller is known from here on to be accepted.

        All controllers count those that are over.
        """
        if not self.seats:
            return self
        if isinstance(event, Requested):
            return self._accepted(event)._counted(failed=len(event.supersedes))
        if isinstance(event, Finished):
            done = event.outcome == "done"
            return self._counted(done=int(done), failed=int(not done))
        return self

    def _accepted(self, event: Requested) -> Board:
        """With the id of a reconfiguration in the request that it carries out, if a controller has made that."""
        for seat in self.seats.values():
            for pending in seat.pending:
                if event.origin == origin_of(seat, pending):
                    known = replace(pending, reconfiguration=event.id)
                    left = tuple(known if p is pending else p for p in seat.pending)
                    return self._with(replace(seat, pending=left))
        return self

    def _counted(self, *, done: int = 0, failed: int = 0) -> Board:
        if not done and not failed:
            return self
        seats = {
            name: replace(
                seat,
                changes_done=seat.changes_done + done,
                changes_failed=seat.changes_failed + failed,
            )
            for name, seat in self.seats.items()
        }
        return replace(self, seats=seats)

    def _of(self, operation: str) -> Seat:
        for seat in self.seats.values():
            if seat.operation is not None and seat.operation.id == operation:
                return seat
        msg = f"there is no operation {operation!r}"
        raise ValueError(msg)

    def _with(self, seat: Seat) -> Board:
        return replace(self, seats={**self.seats, seat.name: seat})

    def _installed(self, event: Installed) -> Board:
        """With a new controller, or one that goes on with its state under other settings."""
        before, serial = self.seats.get(event.controller), self.serial + 1
        if before is not None:
            return self._with(
                replace(before, installed=event).logged(event.time_ms, "installed again")
            )
        seat = Seat(name=event.controller, serial=serial, installed=event, state=event.state)
        return replace(self._with(seat), serial=serial)


def origin_of(seat: Seat, pending: PendingRequest) -> str:
    """What a reconfiguration names as its origin: no other request of the state directory has the same."""
    return f"c{seat.serial}/{pending.number}"


def _paused(seat: Seat, event: Paused) -> Seat:
    seat = replace(seat, paused=event.reason or "paused", suspended=event.suspended)
    word = "suspended" if event.suspended else "paused"
    return seat.logged(event.time_ms, f"{word}: {event.reason}")


def _unpaused(seat: Seat, event: Unpaused) -> Seat:
    return replace(seat, paused="", suspended=False, failures=0, lost=0).logged(
        event.time_ms, "resumed"
    )


def _called(seat: Seat, event: Called) -> Seat:
    sent, begun, calls = seat.operation, seat.begun, seat.calls + 1
    if sent is not None and sent.timestep is None:  # it is the answer
        sent, begun = replace(sent, urgent=True), {**(begun or {}), "calls": calls}
    seat = replace(seat, calls=calls, operation=sent, begun=begun)
    return seat.logged(event.time_ms, "called by hand")


def _handled(seat: Seat, event: Handled) -> Seat:
    requests = tuple(
        PendingRequest(number=number, request=request)
        for number, request in enumerate(event.requests, seat.requested + 1)
    )
    sent: SentOperation | None = None
    if event.callback == "begin" and event.operation:
        if seat.operation is not None:
            msg = f"controller {seat.name!r} sends {event.operation}, and {seat.operation.id} is not over"
            raise ValueError(msg)
        sent = SentOperation(
            id=event.operation,
            before=seat.state,
            urgent=event.urgent,
            blocking=event.blocking,
            request=seat.requested + 1 if event.changes else 0,
        )
    over = seat.operation if event.callback == "complete" else None
    lost = over is not None and over.lost
    seat = replace(
        seat,
        state=event.state,
        sent=seat.sent + (sent is not None),
        begun=event.moment if event.callback == "begin" else seat.begun,
        operation=sent,
        pending=(*seat.pending, *requests),
        requested=seat.requested + len(requests),
        # What has begun an operation has gone well once that is completed.
        failures=0 if sent is None else seat.failures,
        lost=seat.lost if over is None else seat.lost + 1 if lost else 0,
        metrics=shown(seat.metrics, event.metrics),
    )
    texts = (f"every reply to operation {event.operation} has failed",) if lost else ()
    return seat.logged(event.time_ms, *texts, *event.notes)


def shown(
    metrics: Mapping[str, Mapping[str, float]], new: Mapping[str, Mapping[str, float | None]]
) -> Mapping[str, Mapping[str, float]]:
    """Return the metrics of a controller after it has set some anew; None takes one away."""
    if not new:
        return metrics
    out = dict(metrics)
    for name, values in new.items():
        both = {**out.pop(name, {}), **values}
        if left := {operator: value for operator, value in both.items() if value is not None}:
            out[name] = left
    return out


def _failed(seat: Seat, event: Failed) -> Seat:
    seat = replace(
        seat,
        failures=seat.failures + 1,
        failed=seat.failed + 1,
        begun=event.moment if event.callback == "begin" else seat.begun,
        operation=_without(seat, event.operation),
    )
    return seat.logged(event.time_ms, f"on_{event.callback} failed: {event.error}")


def _without(seat: Seat, operation: str) -> SentOperation | None:
    return None if seat.operation and seat.operation.id == operation else seat.operation


def _dropped(seat: Seat, event: Dropped) -> Seat:
    seat = replace(seat, operation=_without(seat, event.operation))
    return seat.logged(event.time_ms, f"operation {event.operation} is dropped: {event.reason}")


def _answered(seat: Seat, event: Answered) -> Seat:
    seat = replace(seat, pending=tuple(p for p in seat.pending if p.number != event.request))
    sent = seat.operation
    if sent is not None and sent.request == event.request:
        sent = None if event.refusal else replace(sent, reconfiguration=event.reconfiguration)
        seat = replace(seat, operation=sent)
    text = f"request {event.request}: " + (
        event.refusal or f"reconfiguration {event.reconfiguration}"
    )
    return seat.logged(event.time_ms, text)


_AFTER: Mapping[type[ControlEvent], Any] = {
    Paused: _paused,
    Unpaused: _unpaused,
    Called: _called,
    Dropped: _dropped,
    Handled: _handled,
    Failed: _failed,
    Answered: _answered,
}
