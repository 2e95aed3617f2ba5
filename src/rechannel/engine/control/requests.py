"""Requests the changes that controllers want, once each, and brings back the answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from rechannel.control.board import Board, PendingRequest, Seat
from rechannel.control.conflicts import supersedes
from rechannel.control.events import Answered, ControlEvent
from rechannel.engine.reconfigure.reconfigurer import Reconfigurer
from rechannel.errors import RechannelError, RefusedError
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.requests import Request


class ControllerRequests:
    """The requests of all controllers of one driver. Belongs to the driver's thread."""

    def __init__(self, changes: Reconfigurer, clock: Callable[[], float]) -> None:
        """clock: Unix milliseconds."""
        self._changes, self._clock = changes, clock
        # By serial: a controller that was removed and installed again did not make the requests of the first one.
        self._asked: dict[tuple[int, int], Future[str]] = {}

    def request(self, board: Board, seat: Seat, pending: PendingRequest) -> None:
        """Request a change that a controller wants, unless that has been done."""
        key = seat.serial, pending.number
        if key in self._asked:
            return
        origin, answer = f"c{seat.serial}/{pending.number}", Future[str]()
        self._asked[key] = answer
        known = next((r for r in self._changes.coordination.records if r.origin == origin), None)
        if known is not None:  # an earlier driver has requested it, and could not note the answer
            answer.set_result(known.id)
        elif seat.installed.dry_run:
            answer.set_exception(RefusedError("dry run: it is not carried out"))
        else:
            self._asked[key] = self._requested(board, seat, pending.request, origin)

    def _requested(
        self, board: Board, seat: Seat, body: Mapping[str, Any], origin: str
    ) -> Future[str]:
        answer: Future[str] = Future()
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
                origin=origin,
            )
        except (RechannelError, ValueError, KeyError) as error:
            answer.set_exception(RefusedError(str(error)))
            return answer
        return self._changes.request(request)

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
