"""The coordinator: changes for a timestep, a time or an event time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from rechannel import changes
from rechannel.errors import RefusedError
from rechannel.model.eventtime import ENDED, NEVER
from rechannel.reconfigure import strategies
from rechannel.reconfigure.moment import EventMoment, watermark
from rechannel.reconfigure.plan import plan
from rechannel.reconfigure.strategies import AllAtOnce
from tests.support.changing import (
    ALL_TO_1,
    EVEN,
    Paper,
    moved,
)


def test_a_change_for_a_timestep_holds_from_exactly_there_and_waits_for_no_preparation():
    paper = Paper()
    paper.ask(ALL_TO_1, at=3)
    assert paper.step(4) == [[], [], ["r1"], []]
    assert [list(c.operators["counts"].routing.owners) == EVEN for c in paper.kept.values()] == [
        True, True, False, False,
    ]  # fmt: skip
    assert "ready" not in paper.state.find("r1").times


def test_a_change_for_a_time_holds_from_the_first_timestep_that_is_not_before_it():
    paper = Paper(time_ms=100)
    paper.ask(ALL_TO_1, at_ms=150)
    made = []
    for time_ms in (100, 149, 150, 200):
        paper.time_ms = time_ms
        made += paper.step()
    assert made == [[], [], ["r1"], []]


def test_a_change_for_an_event_time_holds_when_all_of_its_operators_have_come_to_it():
    paper = Paper(event_times={"counts": NEVER, "sums": NEVER, "joined": 10**9})
    both = EventMoment(us=150, operators=("counts", "sums"))
    paper.ask(ALL_TO_1, at_event=both)
    made = []
    for counts, sums in ((NEVER, 100), (149, 200), (150, 150), (150, 151)):
        paper.event_times.update(counts=counts, sums=sums)
        made += paper.step()
    assert made == [[], [], ["r1"], []]
    assert paper.state.find("r1").at_event == both


def test_whose_event_time_counts():
    paper = Paper(event_times={"counts": 100, "sums": 50})
    paper.ask(ALL_TO_1, at_event=EventMoment(us=200))
    assert paper.state.find("r1").at_event.operators == ("counts",)
    paper.ask(changes.set_interval(7), at_event=EventMoment(us=200))
    assert paper.state.find("r2").at_event.operators == ("counts", "sums")
    paper.ask(changes.set_interval(8), at_event=EventMoment(us=90, operators=("sums",)))
    assert paper.state.find("r3").at_event.operators == ("sums",)


def test_an_event_time_that_is_over_or_that_nobody_has_is_refused():
    with pytest.raises(RefusedError, match="no operator of this job has event time"):
        Paper().ask(ALL_TO_1, at_event=EventMoment(us=1))
    paper = Paper(event_times={"counts": 3_000_000})
    with pytest.raises(RefusedError, match=r"'sums' has no event time.*\['counts'\]"):
        paper.ask(ALL_TO_1, at_event=EventMoment(us=1, operators=("sums",)))
    two = datetime(1970, 1, 1, 2, 0, 2, tzinfo=timezone(timedelta(hours=2)))
    with pytest.raises(RefusedError, match=r"00:00:02.* has passed: it has come to .*00:00:03"):
        paper.ask(ALL_TO_1, at_event=watermark(two))
    paper.event_times["counts"] = ENDED
    with pytest.raises(RefusedError, match="come to the end"):
        paper.ask(ALL_TO_1, at_event=EventMoment(us=1))
    with pytest.raises(RefusedError, match="needs a time zone"):
        watermark(datetime(1970, 1, 1))  # noqa: DTZ001 - that is what is refused
    assert watermark(datetime(1970, 1, 1, 0, 0, 0, 7, tzinfo=UTC), "x") == EventMoment(
        us=7, operators=("x",)
    )


def test_when_nobody_can_tell_the_event_time_any_more_the_change_fails():
    paper = Paper(event_times={"counts": 0, "sums": 0})
    paper.ask(ALL_TO_1, at_event=EventMoment(us=9, operators=("counts", "sums")))
    paper.event_times.pop("sums")
    assert paper.step() == [[]]
    paper.event_times.clear()
    paper.step()
    record = paper.state.find("r1")
    assert (record.phase, "no operator reports event time" in record.reason) == ("failed", True)


def test_until_then_it_blocks_nobody():
    paper = Paper()
    paper.ask(changes.move("counts", 0, 1), at=3)
    paper.ask(changes.move("counts", 1, 1))
    assert paper.step(3) == [["r2"], [], ["r1"]]


def test_what_another_one_has_still_to_move_is_moved_at_once():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid(gap=5, budget_bytes=10))
    paper.ask(changes.split("counts", 7), at=3)
    assert paper.step(3) == [["r1"], [], ["r1", "r1", "r1", "r2"]]
    assert paper.owners() == [1] * 9
    assert paper.phases() == {"r1": "done", "r2": "done"}


def test_another_operator_is_not_hurried():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.move("sums", 0, 1), at=2)
    assert paper.step(4) == [["r1"], ["r1", "r2"], ["r1"], ["r1"]]


def test_nothing_of_the_same_operator_begins_beside_a_change_for_this_timestep():
    """It would be led on from a configuration that it was not planned for."""
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid(), ready=False)
    paper.ask(changes.merge("counts", [0, 1]), at=2)
    paper.step()
    paper.prepare("r1")
    assert paper.step() == [["r2"]]
    paper.step(5)
    assert paper.phases() == {"r1": "done", "r2": "done"}
    assert paper.owners() == [1] * 7


def test_of_two_for_one_timestep_the_earlier_one_is_made_at_once():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid(), at=2)
    paper.ask(changes.move("counts", [0, 1, 2, 3], 0), strategies.fluid(), at=2)
    assert paper.step(5) == [[], ["r1"] * 4 + ["r2"], ["r2"], ["r2"], ["r2"]]
    assert moved(paper) == 0
    assert paper.phases() == {"r1": "done", "r2": "done"}


def test_two_for_one_timestep_of_different_operators_keep_their_strategies():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid(), at=1)
    paper.ask(changes.move("sums", [0, 1], 1), strategies.fluid(), at=1)
    assert paper.step(3) == [["r1", "r2"], ["r1", "r2"], ["r1"]]


def test_one_that_began_behind_another_goes_on_when_that_one_is_committed():
    paper = Paper(drained=False)
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.move("counts", [0, 1], 0), strategies.fluid(), at=2)
    assert [paper.begin() for _ in range(3)] == [["r1"], ["r1"] * 3 + ["r2"], []]
    paper.commit()
    assert paper.begin() == ["r2"]
    assert paper.owners() == [0, 0, 1, 1, 1, 1, 1, 1]


def test_one_that_began_behind_another_is_hurried_like_any_other():
    """r1 has made its last step but is not committed; r2 began at its timestep; r3 is due now."""
    paper = Paper(drained=False)
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.move("counts", [0, 1, 2], 0), strategies.fluid(), at=2)
    paper.ask(changes.merge("counts", [0, 1]), at=3)
    made = [paper.begin() for _ in range(3)]
    assert made == [["r1"], ["r1"] * 3 + ["r2"], ["r2"] * 2 + ["r3"]]
    paper.commit()
    assert set(paper.phases().values()) == {"done"}
    assert paper.owners() == [0, 0, 1, 1, 1, 1, 1]


def test_what_is_due_waits_for_the_timestep_that_an_earlier_change_needs():
    """Only a timestep can write state anew: in an idle stream r2 would begin amid the steps of r1."""
    paper = Paper()
    paper.ask(changes.rewrite("counts"), strategies.fluid())
    paper.ask(changes.merge("counts", [0, 1]), at=2)
    paper.ask(changes.move("sums", [0], 1), at=2)
    assert paper.step() == [["r1"]]
    paper.idle = True
    assert paper.step() == [["r3"]]
    paper.idle = False
    assert paper.step() == [["r1"] * 7 + ["r2"]]
    assert set(paper.phases().values()) == {"done"}


def test_until_then_nothing_else_is_judged_by_it():
    paper = Paper()
    paper.ask(changes.rescale("counts", 1), at=100)
    paper.ask(changes.move("counts", [0], 1))
    assert paper.step() == [["r2"]]


def test_until_then_nothing_else_is_planned_by_it():
    paper = Paper()
    paper.ask(changes.rescale("counts", 4), at=100)
    made = plan(paper.state, changes.rescale("counts", 3), AllAtOnce(), paper.now, 1e-6)
    paper.ask(made.change, steps=made.steps)
    paper.step(2)
    assert paper.phase("r2") == "done"
