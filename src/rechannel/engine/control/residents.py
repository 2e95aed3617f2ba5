"""Which controllers of the journal a driver has, and why it does not have the others.

Code is not kept in a state directory. A controller comes from the program that starts the driver, from `job.control`,
or, if it was installed by its import path, from there: as far as the owner of this driver allows its module.
"""

from __future__ import annotations

from collections.abc import Iterable

from rechannel.control.board import Board, Seat
from rechannel.control.controller import Installation
from rechannel.control.loading import Find, Wanted
from rechannel.engine.control.callbacks import Hosted
from rechannel.errors import RechannelError
from rechannel.model.codec import Json

ABSENT = "the program that started the job does not have it: give it to rc.Job(controllers=...)"
"""Why a controller that the journal knows does not run in this driver."""

NOT_ALLOWED = (
    "it was installed by its import path, and its module is not allowed in this driver: name it in rc.Job(allow=...),"
    " job.serve(allow=...) or rechannel run --allow"
)
"""The same, of one that can be made again."""


class Residents:
    """The controllers of one driver, by name."""

    def __init__(self) -> None:
        """None yet."""
        self._hosted: dict[str, Hosted] = {}
        self._reasons: dict[str, str] = {}

    def __contains__(self, name: str) -> bool:
        """Whether this driver has a controller of a name."""
        return name in self._hosted

    def get(self, name: str) -> Hosted | None:
        """The controller of a name, if this driver has it."""
        return self._hosted.get(name)

    def add(self, name: str, hosted: Hosted) -> None:
        """Take a controller."""
        self._hosted[name] = hosted
        self._reasons.pop(name, None)

    def pop(self, name: str) -> Hosted | None:
        """Give a controller away, or forget why it is not here."""
        self._reasons.pop(name, None)
        return self._hosted.pop(name, None)

    def explain(self, name: str, reason: str) -> None:
        """Note why a controller is not here."""
        self._reasons[name] = reason

    def absent(self, seat: Seat) -> str | None:
        """Why this driver does not have a controller; None = it has."""
        if seat.name in self._hosted:
            return None
        known = self._reasons.get(seat.name)
        return known or (ABSENT if seat.installed.parameters is None else NOT_ALLOWED)

    def made_again(self, board: Board, find: Find) -> list[tuple[Seat, Hosted]]:
        """Return absent controllers that were installed by their path, as far as `find` lets them be imported."""
        return list(self._made_again(board.seats.values(), find))

    def _made_again(self, seats: Iterable[Seat], find: Find) -> Iterable[tuple[Seat, Hosted]]:
        for seat in seats:
            if seat.name in self._hosted or seat.installed.parameters is None:
                continue
            try:
                hosted, _ = hosted_from(Wanted.of(seat.installed).made(find))
            except RechannelError as error:
                self._reasons[seat.name] = f"it cannot be made again: {error}"
            else:
                yield seat, hosted

    def readmit(self, board: Board, found: Iterable[tuple[Seat, Hosted]]) -> tuple[str, ...]:
        """Take controllers that were made again, unless they were removed or installed anew meanwhile."""
        names = []
        for seat, hosted in found:
            now = board.seats.get(seat.name)
            if now is not None and now.serial == seat.serial and seat.name not in self._hosted:
                self.add(seat.name, hosted)
                names.append(seat.name)
        return tuple(names)


def hosted_from(installation: Installation) -> tuple[Hosted, Json]:
    """A controller as a driver has it, with its first state. Raises RefusedError."""
    return Hosted.of(installation.controller, installation.name, installation.seconds)
