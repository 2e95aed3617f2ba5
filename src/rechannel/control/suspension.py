"""When a controller is suspended: after failures in a row, as many as its installation allows. Pure."""

from __future__ import annotations

from rechannel.control.board import Seat
from rechannel.control.events import ControlEvent, Failed, Handled


def suspended_by(seat: Seat, event: ControlEvent) -> str:
    """Return why an event that is about to happen suspends a controller; "" = it does not.

    Failures are callbacks that raise or overrun their time, and operations to which every reply has failed: what holds
    up or fails all tasks would do so in each timestep.
    """
    most = seat.installed.failures
    if isinstance(event, Failed) and seat.failures + 1 >= most:
        return f"{seat.failures + 1} callbacks in a row have failed"
    over = seat.operation
    if not isinstance(event, Handled) or event.callback != "complete" or over is None:
        return ""
    if not over.lost or seat.lost + 1 < most:
        return ""
    errors = [failure.error for report in over.reports or () for failure in report.failures]
    last = f", such as: {errors[0].strip().splitlines()[-1][:500]}" if errors else ""
    return f"every reply to {seat.lost + 1} operations in a row has failed{last}"
