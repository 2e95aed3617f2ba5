"""The decisions that callbacks of controllers have left, as events for telemetry. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from rechannel.control.board import Board
from rechannel.control.events import ControlEvent, Handled
from rechannel.scaling.decided import Decided, decisions_since
from rechannel.telemetry.events import DecisionMade


def decisions_of(board: Board, events: Iterable[ControlEvent]) -> Iterator[DecisionMade]:
    """Yield what was decided in events that the board does not know yet, oldest first."""
    for event in events:
        seat = board.seats.get(event.controller)
        if isinstance(event, Handled) and seat is not None and event.state != seat.state:
            for made in decisions_since(seat.state, event.state):
                yield decision_made(event.controller, made)


def decision_made(controller: str, made: Decided) -> DecisionMade:
    """Return a decision of a controller as an event."""
    told = {"timestep", "at_ms", "outcome", "why", "became"}
    return DecisionMade(
        at_ms=made.at_ms,
        controller=controller,
        timestep=made.timestep,
        outcome=made.outcome,
        why=made.why,
        became=made.became,
        data={name: value for name, value in made.to_dict().items() if name not in told and value},
    )
