"""What is known of a stream, as advice: what a policy says of it now, and what its controllers have decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from rechannel.control.board import Board
from rechannel.model.configuration import Configuration
from rechannel.scaling.decided import DECISIONS, Decided, decisions_in, story
from rechannel.scaling.measured import Machines
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.needs.making import needs_of
from rechannel.scaling.needs.measuring import windows_of
from rechannel.scaling.needs.values import ControllerDecisions, StreamAdvice
from rechannel.telemetry.events import DecisionMade
from rechannel.telemetry.saved import SavedRun


def stream_advice(
    run: SavedRun,
    board: Board,
    asked: Asked,
    *,
    configurations: Iterable[Configuration] = (),
    machines: Machines | None = None,
    notes: Iterable[str] = (),
) -> StreamAdvice:
    """Return advice for a stream.

    run: what it has measured. configurations: those that are known. machines: None = what tasks were seen on. notes:
    what else there is to say. Raises RefusedError as the policy does.
    """
    windows, assumed = windows_of(run.progress, run.tasks, asked, configurations, machines)
    needs, operators = needs_of(windows, asked) if windows else (None, {})
    return StreamAdvice(
        title=run.job,
        operators=operators,
        needs=needs,
        controllers=controllers_in(board, run.decisions),
        notes=(*notes, *assumed),
    )


def controllers_in(
    board: Board, told: Iterable[DecisionMade] = ()
) -> tuple[ControllerDecisions, ...]:
    """Return the controllers that show decisions, in the order of their installation.

    told: decisions in the telemetry, oldest first. It may have more than a controller remembers, also of one that was
    removed; and the journal may have later ones.
    """
    known: dict[str, list[Decided]] = {}
    for event in told:
        made = decided_of(event)
        if made is not None:
            known.setdefault(event.controller, []).append(made)
    remembered = {
        seat.name: decisions_in(seat.state)
        for seat in board.seats.values()
        if isinstance(seat.state, Mapping) and isinstance(seat.state.get(DECISIONS), list)
    }
    dry = {name: seat.installed.dry_run for name, seat in board.seats.items()}
    return tuple(
        ControllerDecisions(
            name=name,
            dry_run=dry.get(name, False),
            decisions=story((*known.get(name, ()), *remembered.get(name, ()))),
        )
        for name in {**remembered, **known}
    )


def decided_of(event: DecisionMade) -> Decided | None:
    """Return a decision as the telemetry has it; None for one whose figures have another shape."""
    told = {
        name: getattr(event, name) for name in ("timestep", "at_ms", "outcome", "why", "became")
    }
    try:
        return Decided.from_dict({**event.data, **told})
    except (KeyError, TypeError, ValueError):
        return None
