"""Hosts the controllers of one driver: calls them, journals what they decide, and attaches their operations.

Everything here belongs to the driver's thread, but for the callbacks, which run in a thread of their own, and for
`install` and its like, which any thread may call. What a callback decides counts once it is in the journal; a driver
that restarts goes on from there.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import asdict, replace
from typing import Any

from rechannel.control.board import Board, Seat, SentOperation
from rechannel.control.controller import Control, Installation
from rechannel.control.events import (
    ControlEvent,
    Dropped,
    Failed,
    Handled,
    Installed,
    Paused,
    Removed,
)
from rechannel.control.loading import Find
from rechannel.control.suspension import suspended_by
from rechannel.control.triggers import Moment, On
from rechannel.engine.control.callback_thread import CallbackThread
from rechannel.engine.control.callbacks import Callback, Hosted, Returned, is_quiet
from rechannel.engine.control.decisions import decisions_of
from rechannel.engine.control.executor_watch import ExecutorWatch
from rechannel.engine.control.happenings import Executors, Happenings
from rechannel.engine.control.messages import Messages
from rechannel.engine.control.requests import ControllerRequests, Offer, Runs
from rechannel.engine.control.residents import ABSENT, Residents, hosted_from
from rechannel.engine.journal.entries import Controlling
from rechannel.engine.journal.log import Journal
from rechannel.engine.program.position import StreamPosition
from rechannel.engine.reconfigure.asking import Measurements
from rechannel.engine.reconfigure.calls import Calls, wait_for
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer
from rechannel.engine.stages.runner import Placed
from rechannel.errors import RefusedError, first_sentence, one_sentence
from rechannel.logs import fields
from rechannel.model.configuration import Configuration
from rechannel.model.eventtime import Times
from rechannel.profiling.job.shares import CriticalShares
from rechannel.replayed import Replay
from rechannel.telemetry.events import DecisionMade

_LOG = logging.getLogger("rechannel")

MOST_CONTROLLERS = 100
"""Controllers of a job."""


EXECUTOR_LOST = On(event="executor_lost")


class ControlHost:
    """The controllers of one driver."""

    def __init__(  # noqa: PLR0913 - the seams of the host, each given from outside
        self,
        *,
        journal: Journal,
        changes: Reconfigurer,
        progress: Callable[[], Sequence[Any]],
        tasks: Callable[[], Sequence[Any]] = tuple,
        profile: Callable[..., CriticalShares | None] = lambda **_: None,
        clock: Callable[[], float],
        wake: Callable[[], None],
        given: Mapping[str, Installation],
        offer: Offer,
        find: Find | None = None,
        executors: Executors = tuple,
        placed: Callable[[], Placed] = Placed,
        tell: Callable[..., None] = lambda *_: None,
        decided: Callable[[DecisionMade], None] = lambda _: None,
        executor: Executor | None = None,
    ) -> None:
        """Take the parts; nothing runs yet.

        progress: `TimestepProgress` of the latest timesteps. tasks: `TimestepTasks` of them.
        profile: what `Control.profile` calls.
        clock: Unix milliseconds. given: those of the program.
        offer: opens the next version of the program for a change that needs one.
        find: what imports those that were installed by their path; None = none may be.
        wake: makes the driver's thread look here. executors: ids of those that take tasks.
        placed: where tasks run. tell: takes (controller, timestep, metrics) for telemetry.
        decided: takes each decision of a controller for telemetry.
        executor: runs callbacks; None = a thread of its own.
        """
        self._journal, self._changes = journal, changes
        self._progress, self._clock, self._wake = progress, clock, wake
        self._tasks, self._profile = tasks, profile
        self._thread = CallbackThread(wake, executor)
        self._calls, self._placed = Calls(wake), placed
        self._tell, self._decided = tell, decided
        self._given, self._find = given, find
        self._residents = Residents()
        self.replayer: Callable[..., Replay] | None = None
        """What `Control.replay` calls; a running job has one."""
        self.messages = Messages(lambda: self.board, lambda: changes.coordination)
        """Those of its operations. They belong to the driver's thread."""
        self._begun: dict[int, Moment] = {}
        """When controllers last began, of those of whose callback nothing was journalled; by serial."""
        self._requests = ControllerRequests(changes, clock, offer)
        self._happenings = Happenings(executors)
        self._watch = ExecutorWatch(self._happenings, clock, wake)
        self._known: tuple[tuple[int | None, int], Measurements] | None = None

    # What other threads may call -----------------------------------------------------------------

    @property
    def board(self) -> Board:
        """All controllers, as the journal has them."""
        return self._journal.state.board

    def runs(self, name: str) -> bool:
        """Whether this driver has a controller of that name."""
        return name in self._residents

    def absent(self, name: str) -> str | None:
        """Why this driver does not have a controller; None = it has. Raises NotReadyError if there is none."""
        return self._residents.absent(self.board.seat(name))

    def readmit(self, find: Find) -> tuple[str, ...]:
        """Make absent controllers again that were installed by their path, as far as `find` lets them be imported.

        Returns their names. Each goes on with its state; why another one cannot be made, `absent` says.
        """
        found = self._residents.made_again(self.board, find)

        def judge(_: StreamPosition) -> Callable[[], tuple[str, ...]]:
            return lambda: self._residents.readmit(self.board, found)

        return wait_for(self._calls.submit(judge), "the return of controllers") if found else ()

    def install(self, installation: Installation) -> Future[None]:
        """Install a controller. Raises RefusedError if its `on_init` fails or takes too long, or it does not fit."""
        hosted, state = hosted_from(installation)
        event = self._event(installation, state)

        def judge(position: StreamPosition) -> Callable[[], None]:
            _check_fit(installation, position.configuration)
            if event.controller in self.board.seats and event.controller in self._residents:
                msg = (
                    f"there is a controller {event.controller!r} already: remove it first, or give this one another"
                    " name with rc.control.install(..., name=)"
                )
                raise RefusedError(msg)
            if len({*self.board.seats, event.controller}) > MOST_CONTROLLERS:
                msg = f"a job has at most {MOST_CONTROLLERS} controllers: remove one first"
                raise RefusedError(msg)
            return lambda: self._installed(event, hosted)

        return self._calls.submit(judge)

    def _event(self, installation: Installation, state: Any) -> Installed:
        return Installed(
            controller=installation.name,
            time_ms=int(self._clock()),
            path=installation.path,
            parameters=(None if installation.parameters is None else dict(installation.parameters)),
            priority=installation.priority,
            dry_run=installation.dry_run,
            seconds=installation.seconds,
            failures=installation.failures,
            state=state,
        )

    def command(self, kind: type[ControlEvent], name: str, **fields: Any) -> Future[None]:
        """Pause, resume, call or remove a controller. The future raises NotReadyError if there is none."""

        def judge(position: StreamPosition) -> Callable[[], None]:
            self.board.seat(name)
            event = kind(controller=name, time_ms=int(self._clock()), **fields)
            return lambda: self._commanded(event, position)

        return self._calls.submit(judge)

    # The driver's thread -------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """Whether `turn` may have something to do."""
        return bool(self._calls.pending or self._thread.has_results or self.board.seats)

    def resume(self, position: Callable[[], StreamPosition]) -> None:
        """Take the controllers that the program of this driver has, before anything runs.

        Those that the journal knows go on with their state; operations that were under way get their handlers again.
        What was installed by its path is made again if its module is allowed. Raises RefusedError if the `on_init` of
        one that is new fails, or if it does not fit the stream.
        """
        events = [
            event for each in self._given.values() for event in self._given_again(each, position)
        ]
        self._append(events)
        if self._find is not None:
            found = self._residents.made_again(self.board, self._find)
            self._residents.readmit(self.board, found)
        self._happenings.resume(self.board)
        self._requests.inherit(self.board)
        for seat in self.board.seats.values():
            self._append(self._remade(seat, position))

    def _given_again(
        self, installation: Installation, position: Callable[[], StreamPosition]
    ) -> Iterator[ControlEvent]:
        """Take a controller of the program. Yields its installation if it is new, or has other settings."""
        known = self.board.seats.get(installation.name)
        try:
            if known is None:
                _check_fit(installation, position().configuration)
            hosted, state = hosted_from(installation)
        except RefusedError as error:
            if known is None:
                raise
            _LOG.warning(
                "%s; the stream goes on without it",
                one_sentence(error),
                extra=fields("controller_absent", controller=installation.name, reason=error),
            )
            self._residents.explain(installation.name, str(error))
            return
        self._residents.add(installation.name, hosted)
        event = self._event(installation, state)
        if known is None or known.installed.settings != event.settings:
            yield event

    def _remade(self, seat: Seat, position: Callable[[], StreamPosition]) -> list[ControlEvent]:
        """Make the handler of an operation again. Returns the events of a failure."""
        sent, hosted = seat.operation, self._residents.get(seat.name)
        if sent is None:
            return []
        if hosted is None:
            return [self._dropped(seat, sent, self._residents.absent(seat) or ABSENT)]
        callback = self._callback(hosted, seat, position())
        moment = asdict(self._moment(seat))
        again = replace(callback, state=sent.before, moment=moment).again(sent)
        if again.message is None or again.operation is None:
            return self._counted(seat, again.event)
        self.messages.add(again.operation, again.message)
        return []

    def turn(self, position: StreamPosition) -> bool:
        """Journal what callbacks have decided, request their changes, and begin what is due.

        Returns whether anything happened.
        """
        happened = self._calls.answer(position)
        events: list[ControlEvent] = []
        for serial, returned in self._thread.results():
            events += self._taken(serial, returned)
        self._append(events)
        self._append(self._requests.answers(self.board))
        self.messages.forget()
        times = self._journal.state.times
        self._happenings.at([times.get(n, Times()).watermark for n in position.event_times])
        self._look_at_executors(position)
        for seat in self.board.seats.values():
            for pending in seat.pending:
                self._requests.request(lambda: self.board, seat, pending, self._runs(seat))
            sent = seat.operation
            if sent is not None and (why := self.messages.stuck(sent)):
                self._append([self._dropped(seat, sent, why)])
            happened |= self._call(self.board.seats[seat.name], position)
        return happened or bool(events)

    def _runs(self, seat: Seat) -> Runs:
        hosted = self._residents.get(seat.name)
        module = None if hosted is None else type(hosted.controller).__module__
        return Runs(pool=self._thread.pool, module=module, find=self._find)

    def _taken(self, serial: int, returned: Returned) -> list[ControlEvent]:
        """Take what a callback has left; returns what is to be journalled."""
        seat = next((s for s in self.board.seats.values() if s.serial == serial), None)
        if seat is None:
            return []
        event = returned.event
        if isinstance(event, Handled) and event.callback == "begin" and seat.paused:
            return []  # it was paused meanwhile: as if it had not begun
        if isinstance(event, Handled) and is_quiet(seat, event):
            self._begun[serial] = Moment(**event.moment or {})
            return []
        self._begun.pop(serial, None)
        if returned.message is not None and returned.operation is not None:
            self.messages.add(returned.operation, returned.message)
        if isinstance(event, Handled) and event.operation and event.moment:
            # If it was called meanwhile, this operation is the answer.
            called = event.moment["calls"] < seat.calls
            moment = {**event.moment, "calls": seat.calls}
            event = replace(event, urgent=event.urgent or called, moment=moment)
        return self._counted(seat, event)

    def _counted(self, seat: Seat, event: ControlEvent) -> list[ControlEvent]:
        """Return an event, and with the last failure that a controller is allowed also its suspension."""
        reason = suspended_by(seat, event)
        if not reason:
            return [event]
        error = f", last {first_sentence(event.error)}" if isinstance(event, Failed) else ""
        _LOG.warning(
            "controller %r is suspended: %s%s",
            seat.name,
            reason,
            error,
            extra=fields("controller_suspended", controller=seat.name, reason=reason),
        )
        pause = Paused(controller=seat.name, time_ms=event.time_ms, reason=reason, suspended=True)
        return [event, pause]

    def _call(self, seat: Seat, position: StreamPosition) -> bool:
        """Begin the callback that is due, if one is and none runs. Returns whether it has begun."""
        hosted = self._residents.get(seat.name)
        if hosted is None or self._thread.runs(seat.serial):
            return False
        sent = seat.operation
        if sent is not None:
            known = self.messages.operation(sent.id)
            if sent.reports is None or known is None:
                return False
            callback = self._callback(hosted, seat, position)
            self._thread.call(callback, lambda: callback.complete(sent, known))
            return True
        moment = self._moment(seat)
        last = self._begun.get(seat.serial) or seat.last_begun
        if seat.paused or seat.pending or not hosted.trigger.due(moment, last):
            return False
        urgent = hosted.trigger.urgent(moment, last)
        callback = self._callback(hosted, seat, position)
        callback = replace(callback, urgent=urgent, moment=asdict(moment))
        self._thread.call(callback, callback.begin)
        return True

    def _callback(self, hosted: Hosted, seat: Seat, position: StreamPosition) -> Callback:
        measured, placed = self._measured(position), self._placed()
        asking = self._changes.asking(position, measured, placed.tasks)
        control = Control(
            name=seat.name,
            state=None,
            timestep=self._journal.state.last_committed or 0,
            time_ms=int(self._clock()),
            configuration=position.configuration,
            progress=tuple(self._progress()),
            tasks=self._tasks(),
            profiler=self._profile,
            changes=self._changes.coordination.records,
            dry_run=seat.installed.dry_run,
            serial=seat.serial,
            configurations=self._journal.state.configurations,
            rows_per_bin=measured.rows,
            bytes_per_bin=measured.bytes,
            judge=asking.refusal,
            planner=asking.plan,
            ms_per_byte=asking.ms_per_byte,
            replayer=self.replayer,
            executors=placed.executors,
            places=placed.tasks,
        )
        return Callback(
            hosted=hosted,
            seat=seat,
            state=seat.state,
            control=control,
        )

    def _measured(self, position: StreamPosition) -> Measurements:
        """Return what was measured of rows and state; the same for all callbacks of a timestep boundary."""
        key = self._journal.state.last_committed, position.configuration.version
        if self._known is None or self._known[0] != key:
            self._known = key, self._changes.measurements(position.configuration)
        return self._known[1]

    def _moment(self, seat: Seat) -> Moment:
        timestep = self._journal.state.last_committed or 0
        now_ms = int(self._clock())
        return self._happenings.moment(seat, timestep, now_ms, self._progress(), self._tasks())

    def _look_at_executors(self, position: StreamPosition) -> None:
        """Ask the cluster for its executors, if a controller waits for the loss of one."""
        hosted = map(self._residents.get, self.board.seats)
        if any(each is not None and each.trigger == EXECUTOR_LOST for each in hosted):
            wanted = position.configuration.executors
            self._watch.turn(position.timestep, wanted, self._thread.pool)

    def _dropped(self, seat: Seat, sent: SentOperation, reason: str) -> Dropped:
        return Dropped(
            controller=seat.name, time_ms=int(self._clock()), operation=sent.id, reason=reason
        )

    def close(self) -> None:
        """Begin no more callbacks, and answer no more calls."""
        self._thread.close()
        self._calls.close()

    def _installed(self, event: Installed, hosted: Hosted) -> None:
        self._append([event])
        self._residents.add(event.controller, hosted)

    def _commanded(self, event: ControlEvent, position: StreamPosition) -> None:
        seat = self.board.seat(event.controller)
        self._append([event])
        if not isinstance(event, Removed):
            return
        hosted = self._residents.pop(event.controller)
        self._begun.pop(seat.serial, None)
        self._thread.forget(seat.serial)
        if hosted is not None:
            self._thread.pool().submit(self._callback(hosted, seat, position).dispose)

    def _append(self, events: Sequence[ControlEvent]) -> None:
        decisions = list(decisions_of(self.board, events))
        if events:
            self._journal.append(Controlling(events=tuple(events)))
        for made in decisions:
            self._decided(made)
        for event in events:
            if isinstance(event, Handled) and event.metrics:
                self._tell(event.controller, self._journal.state.last_committed, event.metrics)


def _check_fit(installation: Installation, configuration: Configuration) -> None:
    """Raise RefusedError if a controller could not work on a stream that is configured like this."""
    reason = installation.controller.unfit(configuration)
    if reason:
        raise RefusedError(f"controller {installation.name!r} is not installed: {reason}")
