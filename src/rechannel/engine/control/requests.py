"""Requests the changes that controllers want, once each, and brings back the answers."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from functools import partial
from typing import Protocol

from rechannel.control.board import Board, PendingRequest, Seat, origin_of
from rechannel.control.conflicts import supersedes
from rechannel.control.events import Answered, ControlEvent
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer
from rechannel.errors import RechannelError, RefusedError
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.requests import Request


class Offer(Protocol):
    """Opens what a change needs, such as the next version of the program; see `switch.offered_change`."""

    def __call__(self, change: Change, *, supersede: bool) -> AbstractContextManager[Change]:
        """Raises RefusedError, DataflowError when it is entered."""


class ControllerRequests:
    """The requests of all controllers of one driver. Belongs to the driver's thread."""

    def __init__(self, changes: Reconfigurer, clock: Callable[[], float], offer: Offer) -> None:
        """clock: Unix milliseconds. offer: opens the next version of the program for a change that needs one."""
        self._changes, self._clock, self._offer = changes, clock, offer
        # By serial: a controller that was removed and installed again did not make the requests of the first one.
        self._asked: dict[tuple[int, int], Future[str]] = {}

    def request(
        self, board: Board, seat: Seat, pending: PendingRequest, pool: Callable[[], Executor]
    ) -> None:
        """Request a change that a controller wants, unless that has been done.

        pool: runs what takes time; only changes that switch the program do.
        """
        key = seat.serial, pending.number
        if key in self._asked:
            return
        answer = Future[str]()
        self._asked[key] = answer
        if (
            pending.reconfiguration
        ):  # an earlier driver has requested it, and could not note the answer
            answer.set_result(pending.reconfiguration)
        elif seat.installed.dry_run:
            answer.set_exception(RefusedError("dry run: it is not carried out"))
        else:
            self._requested(board, seat, pending, pool, answer)

    def _requested(
        self,
        board: Board,
        seat: Seat,
        pending: PendingRequest,
        pool: Callable[[], Executor],
        answer: Future[str],
    ) -> None:
        body = pending.request
        reason = f": {body['reason']}" if body["reason"] else ""
        try:
            change = KINDS.read(body["change"])
            request = Request(
                change=change,
                strategy=strategies.from_json(body["strategy"]),
                cause=f"controller {seat.name!r}{reason}",
                supersede=supersedes(
                    board, self._changes.coordination, seat, change, asked=body["supersede"]
                ),
                origin=origin_of(seat, pending),
            )
        except (RechannelError, ValueError, KeyError) as error:
            answer.set_exception(RefusedError(str(error)))
            return
        if change.switches_program:
            opening = pool().submit(self._offered, request, answer)
            opening.add_done_callback(partial(_failed, answer))
        else:
            self._changes.request(request).add_done_callback(partial(_answered, answer))

    def _offered(self, request: Request, answer: Future[str]) -> None:
        """Open the next version of the program, and request it. Raises what opening it raises."""
        opened = self._offer(request.change, supersede=request.supersede)
        made = opened.__enter__()

        def over(done: Future[str]) -> None:
            error = done.exception()
            with suppress(Exception):  # it has the error already
                opened.__exit__(type(error) if error else None, error, None)
            _answered(answer, done)

        self._changes.request(replace(request, change=made)).add_done_callback(over)

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
