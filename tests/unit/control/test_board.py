"""Controllers and their operations, folded from events."""

import pytest

from rechannel.control.board import LOG_KEPT, Board, Seat
from rechannel.control.events import (
    Answered,
    Called,
    Completed,
    ControlEvent,
    Dropped,
    Failed,
    Handled,
    Installed,
    Paused,
    Removed,
    Unpaused,
)
from rechannel.errors import NotReadyError
from rechannel.model.codec import decode, encode
from rechannel.reconfigure.events import Requested

AT = {"controller": "one", "time_ms": 5}
MOMENT = {"timestep": 0, "time_ms": 0, "calls": 0}
WANTED = {"change": {"kind": "rescale"}, "strategy": {}, "supersede": False, "reason": ""}


def folded(*events: ControlEvent) -> Board:
    board = Board()
    for event in (Installed(**AT, path="m:C", state={"n": 0}), *events):
        board = board.after(event)
    return board


def begun(**fields: object) -> Handled:
    given = {"callback": "begin", "operation": "one-1.1", "state": {"n": 1}, "moment": MOMENT}
    return Handled(**AT, **{**given, **fields})


def seat(board: Board) -> Seat:
    return board.seat("one")


def test_an_operation_travels_completes_and_is_over():
    board = folded(begun())
    assert [sent.id for sent in board.waiting] == ["one-1.1"]
    assert seat(board).state == {"n": 1}
    assert seat(board).operation.before == {"n": 0}
    board = board.intended(["one-1.1"], 7)
    assert board.waiting == ()
    assert [sent.id for sent in board.travelling(7)] == ["one-1.1"]
    board = board.committed([Completed(operation="one-1.1")])
    assert seat(board).operation.reports == ()
    done = Handled(**AT, callback="complete", operation="one-1.1", state={"n": 2})
    board = board.after(done)
    assert seat(board).operation is None
    assert seat(board).state == {"n": 2}


def test_a_withdrawn_timestep_gives_its_operations_back():
    board = folded(begun()).intended(["one-1.1"], 7).withdrawn(6)
    assert [sent.id for sent in board.waiting] == ["one-1.1"]
    later = folded(begun()).intended(["one-1.1"], 7).withdrawn(8)
    assert later.travelling(7)


def test_requests_wait_for_their_answers():
    board = folded(begun(operation="", requests=(WANTED, WANTED)))
    assert [pending.number for pending in seat(board).pending] == [1, 2]
    board = board.after(Answered(**AT, request=1, reconfiguration="r4"))
    board = board.after(Answered(**AT, request=2, refusal="refused: no"))
    assert seat(board).pending == ()
    texts = [line.text for line in seat(board).log]
    assert texts == ["request 1: reconfiguration r4", "request 2: refused: no"]


def test_a_blocking_operation_follows_its_change():
    board = folded(begun(blocking=True, changes=True, requests=(WANTED,)))
    accepted = board.after(Answered(**AT, request=1, reconfiguration="r4"))
    assert seat(accepted).operation.reconfiguration == "r4"
    refused = board.after(Answered(**AT, request=1, refusal="refused: no"))
    assert seat(refused).operation is None


def test_failures_count_and_leave_the_state():
    board = folded(begun())
    board = board.after(Failed(**AT, callback="complete", operation="one-1.1", error="it"))
    assert seat(board).failures == 1
    assert seat(board).operation is None
    assert seat(board).state == {"n": 1}
    board = board.after(Paused(**AT, reason="too many", suspended=True))
    assert seat(board).suspended
    board = board.after(Unpaused(**AT))
    assert (seat(board).paused, seat(board).failures) == ("", 0)


def test_a_dropped_operation_is_over():
    board = folded(begun(), Dropped(**AT, operation="one-1.1", reason="gone"))
    assert seat(board).operation is None
    assert seat(board).sent == 1


def test_calls_count():
    assert seat(folded(Called(**AT), Called(**AT))).calls == 2


def test_a_call_is_answered_by_an_operation_that_waits_and_not_by_one_that_travels():
    waits = folded(begun(), Called(**AT))
    assert seat(waits).operation.urgent
    assert seat(waits).last_begun.calls == seat(waits).calls == 1
    travels = folded(begun()).intended(["one-1.1"], 7).after(Called(**AT))
    assert (seat(travels).last_begun.calls, seat(travels).calls) == (0, 1)


def test_a_removed_controller_comes_back_as_another_one():
    board = folded(begun(), Removed(**AT))
    assert board.seats == {}
    assert board.committed([Completed(operation="one-1.1")]) == board
    board = board.after(Installed(**AT, path="m:C", state={"n": 9}))
    assert (seat(board).serial, seat(board).state) == (2, {"n": 9})


def test_a_controller_that_is_installed_again_keeps_its_state():
    board = folded(begun()).after(Installed(**AT, path="m:C", priority=2, state={"n": 0}))
    assert (seat(board).serial, seat(board).state) == (1, {"n": 1})
    assert seat(board).installed.priority == 2


def test_a_log_is_bounded():
    lines = [begun(operation="", notes=(f"line {n}" + "x" * 5_000,)) for n in range(LOG_KEPT + 9)]
    log = seat(folded(*lines)).log
    assert len(log) == LOG_KEPT
    assert log[-1].text.startswith(f"line {LOG_KEPT + 8}")
    assert len(log[-1].text) == 2_000


def test_what_cannot_happen_is_refused():
    with pytest.raises(ValueError, match="there is no controller 'one'"):
        Board().after(Called(**AT))
    with pytest.raises(ValueError, match=r"one-1\.1 is not over"):
        folded(begun()).after(begun(operation="one-1.2"))
    with pytest.raises(ValueError, match="there is no operation"):
        folded().intended(["x"], 3)
    with pytest.raises(NotReadyError, match="there is no controller 'x'; there are \\['one'\\]"):
        folded().seat("x")


def test_controllers_stay_in_the_order_of_their_installation():
    board = Board()
    for name in ("b", "c", "a"):
        board = board.after(Installed(controller=name, time_ms=1, path="m:C"))
    data = encode(board)
    by_name = {**data, "seats": dict(sorted(data["seats"].items()))}  # as files have it
    assert list(decode(Board, by_name).seats) == list(board.seats) == ["b", "c", "a"]


def test_a_board_is_a_record():
    board = folded(begun(blocking=True, changes=True, requests=(WANTED,))).intended(["one-1.1"], 3)
    assert decode(Board, encode(board)) == board


def test_a_pending_request_knows_the_reconfiguration_that_was_accepted_for_it():
    board = folded(begun(operation="", requests=(WANTED, WANTED)))
    board = board.changed(requested(origin="c1/2"))
    assert [pending.reconfiguration for pending in seat(board).pending] == ["", "r9"]
    assert board.changed(requested(origin="c2/1")) == board
    assert board.changed(requested(origin="")) == board


def test_a_reconfiguration_that_supersedes_others_counts_as_their_end():
    board = folded(begun(operation="", requests=(WANTED,)))
    board = board.changed(requested(origin="c1/1", supersedes=("r1", "r2")))
    assert seat(board).changes_failed == 2
    assert seat(board).pending[0].reconfiguration == "r9"


def requested(**fields: object) -> Requested:
    return Requested(id="r9", time_ms=6, change={}, strategy={}, cause="", **fields)
