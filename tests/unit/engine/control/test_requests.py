"""A change of a controller is requested once, whatever the next driver still knows of it."""

from concurrent.futures import Future

import pytest

import rechannel as rc
from rechannel.control.board import Board
from rechannel.control.events import Handled, Installed
from rechannel.engine.control.requests import ControllerRequests, Runs, check_functions
from rechannel.errors import RefusedError
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.events import Requested

AT = {"controller": "one", "time_ms": 5}
HERE = __name__


def function(row):
    """A function that a change may name."""
    return row


def wanted(**change: object) -> dict[str, object]:
    return {
        "change": change or {"kind": "set_in_flight", "timesteps": 3},
        "strategy": {"kind": "all_at_once"},
        "supersede": False,
        "reason": "",
    }


class Changes:
    """Takes requests. It knows no earlier reconfiguration, as a journal that has forgotten them."""

    coordination = Coordination()

    def __init__(self):
        self.requested = []

    def request(self, request, judged):
        self.requested.append(judged(self.coordination, request))
        answer = Future()
        answer.set_result("r77")
        return answer


def board(body: dict[str, object]) -> Board:
    found = Board().after(Installed(**AT, path="m:C", state=0))
    begun = Handled(**AT, callback="begin", operation="", state=0, moment={}, requests=(body,))
    return found.after(begun)


def answers_of(now: Board, changes: Changes, *, inherited: bool = False) -> list[str]:
    requests = ControllerRequests(changes, lambda: 6.0, offer=None)
    if inherited:
        requests.inherit(now)
    (seat,) = now.seats.values()
    (pending,) = seat.pending
    for _ in range(2):
        runs = Runs(pool=None, module=None, find=None)
        requests.request(lambda: now, seat, pending, runs)
    return [event.reconfiguration or event.refusal for event in requests.answers(now)]


def test_a_request_that_nobody_has_made_is_made_once():
    changes = Changes()
    assert answers_of(board(wanted()), changes) == ["r77"]
    assert [request.origin for request in changes.requested] == ["c1/1"]


def test_a_request_that_an_earlier_driver_has_made_is_only_answered():
    changes = Changes()
    event = Requested(id="r9", time_ms=6, change={}, strategy={}, cause="", origin="c1/1")
    assert answers_of(board(wanted()).changed(event), changes) == ["r9"]
    assert changes.requested == []


def test_a_request_that_only_the_journal_names_brings_no_function_of_its_own():
    changes = Changes()
    forged = board(wanted(kind="assign_logic", operator="counts", function="os:system"))
    (refusal,) = answers_of(forged, changes, inherited=True)
    assert (
        "'os:system' is neither in the controller's own module nor in one that is allowed"
        in refusal
    )
    assert changes.requested == []


def test_functions_of_the_controllers_module_and_of_allowed_modules_may_be_named():
    looked = []
    own = rc.changes.assign_logic("counts", f"{HERE}:function")
    check_functions(own, HERE, None)
    check_functions(own, "elsewhere", looked.append)
    assert looked == [f"{HERE}:function"]
    for path in (f"{HERE}:rc", f"{HERE}:Changes.nothing", f"{HERE}:pytest.raises"):
        with pytest.raises(RefusedError, match="neither in the controller's own module"):
            check_functions(rc.changes.assign_logic("counts", path), HERE, None)
