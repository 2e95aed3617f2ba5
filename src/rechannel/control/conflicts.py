"""What happens to a request of a controller that meets open changes. Pure.

A change that waits for a moment of its own, such as a rescale at midnight, is not met. Of the others, the rules say, in
this order:

1. A change that people have requested is never superseded: the controller's request is refused.
2. A change of a controller with a higher priority is not superseded either.
3. A change of a controller with a lower priority, or of one that is not installed any more, is superseded.
4. At equal priority, and among requests of one controller, the request decides: it supersedes with `supersede=True`,
   and is refused without.
"""

from __future__ import annotations

from dataclasses import replace

from rechannel.control.board import Board, Seat
from rechannel.errors import RefusedError
from rechannel.reconfigure.coordination import Coordination, meet
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.requests import Request


def judged(board: Board, coordination: Coordination, seat: Seat, request: Request) -> Request:
    """Return a controller's request with what it supersedes. Raises RefusedError.

    coordination: of the moment at which the request is accepted or refused. request.supersede: what was asked for.
    """
    met = [r for r in coordination.open if meet(r.touches, request.change.touches())]
    spared = frozenset(record.id for record in met if record.scheduled)
    met = [record for record in met if record.id not in spared]
    for record in met:
        if not record.origin:
            _refuse(record, "people requested it")
        other, mine = seat_of(board, record), seat.installed.priority
        if other is None:
            continue
        if other.installed.priority > mine:
            _refuse(
                record, f"its controller has priority {other.installed.priority}, this one {mine}"
            )
        elif other.installed.priority == mine and not request.supersede:
            _refuse(record, "the two have equal priority, and supersede=True was not given")
    return replace(request, supersede=bool(met), spares=spared)


def seat_of(board: Board, record: Record) -> Seat | None:
    """The controller that has requested a change; None = people did, or it is not installed any more."""
    serial, _, _ = record.origin.removeprefix("c").partition("/")
    return next((s for s in board.seats.values() if str(s.serial) == serial), None)


def _refuse(record: Record, why: str) -> None:
    touched = ", ".join(sorted(record.touches))
    msg = f"reconfiguration {record.id} ({record.cause}) is changing {touched}, and {why}"
    raise RefusedError(msg)
