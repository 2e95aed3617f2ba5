"""A change of a controller is requested once, whatever the next driver still knows of it."""

from concurrent.futures import Future
from types import SimpleNamespace

from rechannel.control.board import Board, PendingRequest
from rechannel.control.events import Handled, Installed
from rechannel.engine.control.requests import ControllerRequests
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.events import Requested

AT = {"controller": "one", "time_ms": 5}
WANTED = {
    "change": {"kind": "set_in_flight", "timesteps": 3},
    "strategy": {"kind": "all_at_once"},
    "supersede": False,
    "reason": "",
}


class Changes:
    """Takes requests. It knows no earlier reconfiguration, as a journal that has forgotten them."""

    coordination = Coordination()

    def __init__(self):
        self.requested = []

    def request(self, request):
        self.requested.append(request)
        answer = Future()
        answer.set_result("r77")
        return answer


def board() -> Board:
    found = Board().after(Installed(**AT, path="m:C", state=0))
    return found.after(
        Handled(**AT, callback="begin", operation="", state=0, moment={}, requests=(WANTED,))
    )


def answers_of(now: Board, changes: Changes) -> list[str]:
    requests = ControllerRequests(changes, lambda: 6.0, offer=None)
    (seat,) = now.seats.values()
    (pending,) = seat.pending
    assert isinstance(pending, PendingRequest)
    for _ in range(2):
        requests.request(now, seat, pending, SimpleNamespace)
    return [event.reconfiguration for event in requests.answers(now)]


def test_a_request_that_nobody_has_made_is_made_once():
    changes = Changes()
    assert answers_of(board(), changes) == ["r77"]
    assert [request.origin for request in changes.requested] == ["c1/1"]


def test_a_request_that_an_earlier_driver_has_made_is_only_answered():
    changes = Changes()
    event = Requested(id="r9", time_ms=6, change={}, strategy={}, cause="", origin="c1/1")
    assert answers_of(board().changed(event), changes) == ["r9"]
    assert changes.requested == []
