"""What is known of a stream, as advice: what a policy says of it now, and what its controllers have decided. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rechannel.control.board import Board
from rechannel.model.configuration import Configuration
from rechannel.scaling.decided import DECISIONS, decisions_in
from rechannel.scaling.measured import Machines
from rechannel.scaling.needs.asked import Asked
from rechannel.scaling.needs.making import needs_of
from rechannel.scaling.needs.measuring import windows_of
from rechannel.scaling.needs.values import ControllerDecisions, StreamAdvice
from rechannel.telemetry.facts import TimestepProgress
from rechannel.telemetry.recent_tasks import TimestepTasks


def stream_advice(
    title: str,
    progress: Sequence[TimestepProgress],
    tasks: Sequence[TimestepTasks],
    board: Board,
    asked: Asked,
    *,
    configurations: Iterable[Configuration] = (),
    machines: Machines | None = None,
    notes: Iterable[str] = (),
) -> StreamAdvice:
    """Return advice for a stream.

    progress, tasks: of the latest committed timesteps, oldest first. configurations: those that are known. machines:
    None = what tasks were seen on. notes: what else there is to say. Raises RefusedError as the policy does.
    """
    windows, assumed = windows_of(progress, tasks, asked, configurations, machines)
    needs, operators = needs_of(windows, asked) if windows else (None, {})
    return StreamAdvice(
        title=title,
        operators=operators,
        needs=needs,
        controllers=controllers_in(board),
        notes=(*notes, *assumed),
    )


def controllers_in(board: Board) -> tuple[ControllerDecisions, ...]:
    """Return the controllers that show decisions, in the order of their installation."""
    return tuple(
        ControllerDecisions(
            name=seat.name, dry_run=seat.installed.dry_run, decisions=decisions_in(seat.state)
        )
        for seat in board.seats.values()
        if isinstance(seat.state, Mapping) and isinstance(seat.state.get(DECISIONS), list)
    )
