"""What becomes of a controller's request that meets open changes."""

import pytest

import rechannel as rc
from rechannel.control.board import Board, Seat
from rechannel.control.conflicts import judged
from rechannel.control.events import Installed
from rechannel.errors import RefusedError
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.requests import Request
from rechannel.reconfigure.strategies import AllAtOnce

CHANGE = rc.changes.rescale("counts", 3)


def board(**priorities: int) -> Board:
    """Controllers in the order of their installation: the first has serial 1."""
    found = Board()
    for name, priority in priorities.items():
        event = Installed(controller=name, time_ms=1, path="m:C", state=0, priority=priority)
        found = found.after(event)
    return found


def record(origin: str, **fields: object) -> Record:
    given = {"id": "r1", "change": rc.changes.rescale("counts", 2), "cause": "it", **fields}
    return Record(strategy=AllAtOnce(), origin=origin, **given)


def judge(now: Board, name: str, *records: Record, supersede: bool = False) -> Request:
    seat: Seat = now.seat(name)
    request = Request(change=CHANGE, strategy=AllAtOnce(), supersede=supersede)
    return judged(now, Coordination(serial=9, records=records), seat, request)


def test_what_meets_nothing_supersedes_nothing():
    over = record("", phase=Phase.DONE)
    elsewhere = record("", change=rc.changes.rescale("others", 2))
    assert not judge(board(mine=0), "mine", over, elsewhere, supersede=True).supersede


def test_a_change_of_people_is_never_superseded():
    with pytest.raises(RefusedError, match=r"reconfiguration r1 .* people requested it"):
        judge(board(mine=9), "mine", record(""), supersede=True)


@pytest.mark.parametrize("supersede", [False, True])
def test_priorities_decide(supersede):
    now = board(low=-1, mine=0, high=1)
    assert judge(now, "mine", record("c1/1"), supersede=supersede).supersede
    with pytest.raises(RefusedError, match="its controller has priority 1, this one 0"):
        judge(now, "mine", record("c3/1"), supersede=supersede)


def test_at_equal_priority_the_request_decides():
    now = board(other=0, mine=0)
    assert judge(now, "mine", record("c1/1"), supersede=True).supersede
    with pytest.raises(RefusedError, match="equal priority, and supersede=True was not given"):
        judge(now, "mine", record("c1/1"))


def test_a_change_of_a_controller_that_is_gone_is_superseded():
    assert judge(board(mine=0), "mine", record("c7/1")).supersede


@pytest.mark.parametrize("moment", [{"at_timestep": 9}, {"at_ms": 9}])
def test_a_change_that_waits_for_its_moment_stays_and_is_in_nobodys_way(moment):
    waits = record("", **moment)
    found = judge(board(mine=0), "mine", waits)
    assert (found.supersede, found.spares) == (False, {"r1"})
    lower = record("c1/1", id="r2")
    found = judge(board(low=-1, mine=0), "mine", waits, lower)
    assert (found.supersede, found.spares) == (True, {"r1"})
    with pytest.raises(RefusedError, match="people requested it"):
        judge(board(mine=0), "mine", record("", phase=Phase.MOVING, **moment))
