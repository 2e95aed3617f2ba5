"""Handles on the controllers of a running job."""

from __future__ import annotations

from typing import Any

from rechannel.control.board import Seat
from rechannel.control.events import Called, ControlEvent, Paused, Removed, Unpaused
from rechannel.engine.control.host import ControlHost
from rechannel.engine.reconfigure.calls import wait_for
from rechannel.monitoring import ControllerStatus


class ControllerHandle:
    """One installed controller. All methods may be called from any thread.

    Every method raises NotReadyError once the controller is removed.
    """

    def __init__(self, host: ControlHost, name: str) -> None:
        """Of one driver."""
        self._host = host
        self.name = name

    @property
    def status(self) -> ControllerStatus:
        """What it is doing, and the latest lines of its log."""
        seat = self._seat
        return ControllerStatus(
            name=seat.name,
            path=seat.installed.path,
            running=self._host.runs(seat.name),
            absent=self._host.absent(seat.name),
            parameters=seat.installed.parameters,
            paused=seat.paused or None,
            suspended=seat.suspended,
            priority=seat.installed.priority,
            dry_run=seat.installed.dry_run,
            operations=seat.sent,
            operation=None if seat.operation is None else seat.operation.id,
            requests=seat.requested,
            failures=seat.failures,
            failed=seat.failed,
            metrics=seat.metrics,
            log=tuple(line.text for line in seat.log),
        )

    @property
    def state(self) -> Any:
        """Its own state as of the last callback, as JSON values."""
        return self._seat.state

    @property
    def _seat(self) -> Seat:
        return self._host.board.seat(self.name)

    def pause(self, reason: str = "paused in Python") -> None:
        """Let it begin no operation until `resume`; one that is under way completes."""
        self._command(Paused, reason=reason)

    def resume(self) -> None:
        """Let it go on after a pause or a suspension."""
        self._command(Unpaused)

    def trigger(self) -> None:
        """Have it begin at the next timestep boundary, whatever its trigger says."""
        self._command(Called)

    def remove(self) -> None:
        """Remove it and its state. Changes that it has requested go on."""
        self._command(Removed)

    def _command(self, kind: type[ControlEvent], **fields: Any) -> None:
        wait_for(self._host.command(kind, self.name, **fields), f"the call of {self.name!r}")

    def __repr__(self) -> str:
        seat = self._host.board.seats.get(self.name)
        if seat is None:
            return f"<Controller {self.name!r}: removed>"
        doing = seat.paused and f"paused ({seat.paused})"
        return f"<Controller {self.name!r}: {doing or 'active'}, {seat.sent} operations>"
