"""Requests the changes that controllers want, once each, and brings back the answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol

from rechannel.control.board import Board, PendingRequest, Seat, origin_of
from rechannel.control.conflicts import judged
from rechannel.control.events import Answered, ControlEvent
from rechannel.control.loading import Find
from rechannel.dataflow.identity.digests import path_of
from rechannel.dataflow.identity.logic import find_loaded
from rechannel.engine.reconfigure.reconfigurer import Judge, Reconfigurer
from rechannel.errors import RechannelError, RefusedError
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.changes.together import parts_of
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.requests import Request


class Offer(Protocol):
    """Opens what a change needs, such as the next version of the program; see `switch.offered_change`."""

    def __call__(self, change: Change, *, supersede: bool) -> AbstractContextManager[Change]:
        """Raises RefusedError, DataflowError when it is entered."""


@dataclass(frozen=True, kw_only=True)
class Runs:
    """The driver that a controller runs in."""

    pool: Callable[[], Executor]
    """Runs what takes time; only changes that switch the program do."""
    module: str | None
    """Module of the controller's class; None = this driver does not have it."""
    find: Find | None
    """Returns what an import path of an allowed module names; None = none is allowed."""


class ControllerRequests:
    """The requests of all controllers of one driver. Belongs to the driver's thread."""

    def __init__(self, changes: Reconfigurer, clock: Callable[[], float], offer: Offer) -> None:
        """clock: Unix milliseconds. offer: opens the next version of the program for a change that needs one."""
        self._changes, self._clock, self._offer = changes, clock, offer
        # By serial: a controller that was removed and installed again did not make the requests of the first one.
        self._asked: dict[tuple[int, int], Future[str]] = {}
        self._inherited: set[tuple[int, int]] = set()

    def inherit(self, board: Board) -> None:
        """Take over requests that an earlier driver has journalled and not answered."""
        self._inherited = {(s.serial, p.number) for s in board.seats.values() for p in s.pending}

    def request(
        self, board: Callable[[], Board], seat: Seat, pending: PendingRequest, runs: Runs
    ) -> None:
        """Request a change that a controller wants, unless that has been done. board: as the journal has it."""
        key = seat.serial, pending.number
        if key in self._asked:
            return
        answer = Future[str]()
        self._asked[key] = answer
        if (
            pending.reconfiguration
        ):  # an earlier driver has requested it, and could not note the answer
            answer.set_result(pending.reconfiguration)
            return
        try:
            request = self._checked(seat, pending, runs)
            judged = partial(_judged, board, seat)
            request_now = judged(self._changes.coordination, request)
        except (RechannelError, ValueError, KeyError) as error:
            answer.set_exception(RefusedError(str(error)))
            return
        if any(part.switches_program for part in parts_of(request.change)):
            opening = runs.pool().submit(self._offered, request, request_now, judged, answer)
            opening.add_done_callback(partial(_failed, answer))
        else:
            self._changes.request(request, judged).add_done_callback(partial(_answered, answer))

    def _checked(self, seat: Seat, pending: PendingRequest, runs: Runs) -> Request:
        """Return a request as a value. Raises RefusedError, ValueError, KeyError."""
        body = pending.request
        reason = f": {body['reason']}" if body["reason"] else ""
        change = KINDS.read(body["change"])
        if (seat.serial, pending.number) in self._inherited:
            check_functions(change, runs.module, runs.find)
        if seat.installed.dry_run:
            raise RefusedError("dry run: it is not carried out")
        return Request(
            change=change,
            strategy=strategies.from_json(body["strategy"]),
            cause=f"controller {seat.name!r}{reason}",
            supersede=body["supersede"],
            origin=origin_of(seat, pending),
        )

    def _offered(self, request: Request, now: Request, judged: Judge, answer: Future[str]) -> None:
        """Open the next version of the program, and request it. Raises what opening it raises.

        now: the request as it is judged before the version is opened, which takes time.
        """
        opened = self._offer(request.change, supersede=now.supersede)
        made = opened.__enter__()

        def over(done: Future[str]) -> None:
            error = done.exception()
            with suppress(Exception):  # it has the error already
                opened.__exit__(type(error) if error else None, error, None)
            _answered(answer, done)

        asked = self._changes.request(replace(request, change=made), judged)
        asked.add_done_callback(over)

    def answers(self, board: Board) -> list[ControlEvent]:
        """Return the events of the requests that have been answered."""
        events: list[ControlEvent] = []
        names = {seat.serial: name for name, seat in board.seats.items()}
        for (serial, number), answer in list(self._asked.items()):
            if not answer.done():
                continue
            del self._asked[serial, number]
            if serial not in names:
                continue
            error = answer.exception()
            events.append(
                Answered(
                    controller=names[serial],
                    time_ms=int(self._clock()),
                    request=number,
                    reconfiguration="" if error else answer.result(),
                    refusal="" if error is None else f"refused: {error}",
                )
            )
        return events


def check_functions(change: Change, module: str | None, find: Find | None) -> None:
    """Check that a change which the journal names has only functions that this driver's owner provides.

    These are functions of the controller's own module, and of modules that are allowed. A user who can write to the
    state directory can name no others. Raises RefusedError, DataflowError.
    """
    for path in (path for part in parts_of(change) for path in part.imports):
        own = path.partition(":")[0] == module and path_of(find_loaded(path)) == path
        if own:
            continue
        if find is None:
            msg = (
                f"an earlier driver has journalled it, and {path!r} is neither in the controller's own module nor in"
                " one that is allowed: name its module in rc.Job(allow=...), or have the controller request it again"
            )
            raise RefusedError(msg)
        find(path)


def _judged(
    board: Callable[[], Board], seat: Seat, coordination: Coordination, request: Request
) -> Request:
    return judged(board(), coordination, seat, request)


def _answered(answer: Future[str], done: Future[str]) -> None:
    error = done.exception()
    if error is None:
        answer.set_result(done.result())
    else:
        answer.set_exception(error)


def _failed(answer: Future[str], opening: Future[None]) -> None:
    """Pass on the error of what was to be opened. What went well answers itself."""
    error = None if opening.cancelled() else opening.exception()
    if error is not None and not answer.done():
        answer.set_exception(error)
