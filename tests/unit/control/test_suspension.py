"""When a controller is suspended."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel.control.board import Board, Seat, SentOperation
from rechannel.control.events import ControlEvent, Failed, Handled, Installed, Paused, Unpaused
from rechannel.control.suspension import suspended_by
from rechannel.kernels.tasks.report import ControlReport, FailedReply

FAILURE = FailedReply(operator="counts", task=0, error="Traceback\nit took longer than 1 s\n")
LOST = ControlReport(operation="one-1.1", failures=(FAILURE,))
EMPTY = ControlReport(operation="one-1.1")
GOOD = ControlReport(operation="one-1.1", replies={"counts": 3}, failures=(FAILURE,))

RAISED = Failed(controller="one", time_ms=2, callback="begin", operation="", error="it raised")
BEGUN = Handled(controller="one", time_ms=2, callback="begin", operation="")
SENT = replace(BEGUN, operation="one-1.1")
UNREADABLE = replace(RAISED, callback="complete", operation="one-1.1")
COMPLETED = replace(SENT, callback="complete")


def seat(**fields: object) -> Seat:
    board = Board().after(Installed(controller="one", time_ms=1, path="m:C"))
    return replace(board.seat("one"), **fields)  # type: ignore[arg-type]


def after(there: Seat, *events: ControlEvent, reports: tuple[ControlReport, ...] = ()) -> Seat:
    """The seat after events, and the reports of an operation that is under way before the last of them."""
    for number, event in enumerate(events):
        if number == len(events) - 1 and there.operation is not None:
            there = replace(there, operation=replace(there.operation, reports=reports))
        there = Board(seats={"one": there}).after(event).seat("one")
    return there


@pytest.mark.parametrize(
    ("reports", "lost"),
    [
        ((), False),
        ((EMPTY,), False),
        ((LOST,), True),
        ((EMPTY, LOST), True),
        ((replace(EMPTY, more=2),), True),
        ((LOST, GOOD), False),
        ((GOOD,), False),
    ],
)
def test_an_operation_is_lost_if_every_reply_has_failed(
    reports: tuple[ControlReport, ...], lost: bool
):
    assert SentOperation(id="one-1.1", reports=reports).lost is lost


def test_callbacks_that_fail_in_a_row_suspend():
    there = seat()
    for _ in range(2):
        assert suspended_by(there, RAISED) == ""
        there = after(there, RAISED)
    assert suspended_by(there, RAISED) == "3 callbacks in a row have failed"
    assert suspended_by(after(there, BEGUN), RAISED) == ""


def test_an_operation_that_is_begun_does_not_end_the_row():
    """Else a controller would never be suspended whose `on_complete` always fails."""
    there = seat()
    for _ in range(2):
        there = after(there, SENT, UNREADABLE, reports=(GOOD,))
    assert there.failures == 2
    there = after(there, SENT)
    assert suspended_by(there, UNREADABLE) == "3 callbacks in a row have failed"
    assert after(there, COMPLETED, reports=(GOOD,)).failures == 0


def test_operations_that_are_lost_in_a_row_suspend():
    there = seat()
    for number in (1, 2):
        there = after(there, SENT, COMPLETED, reports=(LOST,))
        assert (there.lost, there.failures, there.failed) == (number, 0, 0)
        assert there.log[-1].text == "every reply to operation one-1.1 has failed"
        there = after(there, BEGUN)  # it has nothing to do with operations
    sent = after(there, SENT)
    for reports, reason in (
        (
            (LOST,),
            "every reply to 3 operations in a row has failed, such as: it took longer than 1 s",
        ),
        ((GOOD,), ""),
    ):
        known = replace(sent, operation=replace(sent.operation, reports=reports))
        assert suspended_by(known, COMPLETED) == reason
    assert after(sent, COMPLETED, reports=(GOOD,)).lost == 0


def test_a_controller_that_is_resumed_begins_anew():
    there = replace(seat(), failures=3, lost=3)
    paused = Paused(controller="one", time_ms=3, reason="it failed", suspended=True)
    there = after(there, paused, Unpaused(controller="one", time_ms=4))
    assert (there.failures, there.lost) == (0, 0)
