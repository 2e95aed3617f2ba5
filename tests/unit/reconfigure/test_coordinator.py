"""Which step of which reconfiguration a timestep begins with: every rule of the coordinator, on paper."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel import changes
from rechannel.errors import RefusedError, UnknownOperatorError
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.together import Together
from rechannel.reconfigure.coordination import Coordination
from rechannel.reconfigure.moment import EventMoment
from rechannel.reconfigure.record import Phase
from rechannel.reconfigure.requests import planned_route
from tests.support.changing import (
    ALL_TO_1,
    Paper,
    configuration,
    keyed,
    moved,
)

# Asking --------------------------------------------------------------------------------------------


def test_requests_are_numbered_and_kept_in_their_order():
    paper = Paper()
    assert [paper.ask(changes.executors(n)) for n in (1, 2, 3)] == ["r1", "r2", "r3"]
    assert [record.id for record in paper.state.records] == ["r1", "r2", "r3"]
    assert paper.state.serial == 3


def test_nothing_happens_when_a_request_is_refused():
    paper = Paper()
    for change, error in (
        (changes.move("counts", 99, 0), RefusedError),
        (changes.rescale("nobody", 3), UnknownOperatorError),
    ):
        with pytest.raises(error):
            paper.ask(change)
    assert paper.state == Coordination()


def test_a_change_is_judged_against_what_will_be():
    paper = Paper()
    with pytest.raises(RefusedError, match="rescale it first"):
        paper.ask(changes.move("counts", 0, 2))
    paper.ask(changes.rescale("counts", 3))
    paper.ask(changes.move("counts", 0, 2))
    paper.step(2)
    assert paper.owners()[0] == 2


def test_what_is_under_way_is_judged_by_where_it_leads():
    paper = Paper()
    paper.ask(changes.rescale("counts", 1), strategies.fluid())
    paper.step()
    assert paper.configuration.operators["counts"].tasks == 2
    with pytest.raises(RefusedError, match="tasks 0 to 0"):
        paper.ask(changes.move("counts", 0, 1))


def test_what_is_not_possible_any_more_is_left_out_of_the_judgement():
    paper = Paper()
    paper.ask(changes.move("counts", 7, 0))
    paper.configuration = configuration(counts=keyed(2, 4), sums=keyed())
    paper.ask(changes.move("counts", 3, 0))
    paper.step(2)
    assert paper.phases() == {"r1": "failed", "r2": "done"}


def test_what_began_before_earlier_ones_is_judged_before_them():
    """r2 is for a timestep and under way; r1, asked for before it, has to wait for it."""
    paper = Paper()
    paper.ask(changes.move("counts", [4, 5], 0), ready=False)
    paper.ask(changes.rescale("counts", 1), strategies.fluid(), at=1)
    paper.step()
    assert paper.phases() == {"r1": "waiting", "r2": "moving"}
    with pytest.raises(RefusedError, match="tasks 0 to 0"):
        paper.ask(changes.move("counts", 0, 1))


def test_a_timestep_and_a_time_are_too_much():
    with pytest.raises(RefusedError, match="a change has one moment"):
        Paper().ask(ALL_TO_1, at=5, at_ms=5)
    with pytest.raises(RefusedError, match="a change has one moment"):
        Paper().ask(ALL_TO_1, at=5, at_event=EventMoment(us=5))


def test_a_change_for_the_past_is_refused_with_what_is_possible():
    paper = Paper(timestep=5, time_ms=100)
    with pytest.raises(
        RefusedError, match="timestep 4 has already begun; the next possible one is 5"
    ):
        paper.ask(ALL_TO_1, at=4)
    with pytest.raises(
        RefusedError,
        match=r"time 1970-01-01T00:00:00.099Z has passed: .*T00:00:00.100Z",
    ):
        paper.ask(ALL_TO_1, at_ms=99)
    paper.ask(ALL_TO_1, at=5)
    paper.ask(ALL_TO_1, at_ms=100)


def test_a_route_can_be_looked_at():
    paper = Paper()
    assert len(planned_route(paper.configuration, ALL_TO_1, paper.now).moves) == 4


# Beginning -----------------------------------------------------------------------------------------


def test_a_change_holds_from_one_timestep_on():
    paper = Paper()
    id_ = paper.ask(ALL_TO_1)
    paper.step()
    assert (moved(paper), paper.phase(id_), paper.configuration.version) == (4, "done", 2)
    assert paper.step(2) == [[], []]


def test_nothing_begins_before_it_is_prepared():
    paper = Paper()
    id_ = paper.ask(ALL_TO_1, ready=False)
    assert paper.step(2) == [[], []]
    paper.prepare(id_)
    assert paper.step(2) == [["r1"], []]


def test_it_is_done_when_the_timestep_of_its_last_step_is_committed():
    paper = Paper(drained=False)
    paper.ask(changes.move("counts", [0, 1], 1), strategies.fluid())
    paper.begin()
    paper.begin()
    paper.commit(1)
    assert paper.phase("r1") == "moving"
    paper.commit(2)
    assert paper.phase("r1") == "done"


def test_what_is_so_already_is_done_at_once():
    paper = Paper()
    paper.ask(changes.move("counts", 0, 0))
    assert paper.step() == [[]]
    record = paper.state.find("r1")
    assert (record.phase, record.reason) == (Phase.DONE, "nothing had to change")
    assert record.last_timestep is None


def test_what_is_no_longer_possible_when_its_turn_comes_fails_and_nothing_has_happened():
    paper = Paper()
    paper.ask(changes.move("counts", 7, 0))
    before = paper.configuration = configuration(counts=keyed(2, 4), sums=keyed())
    paper.step()
    record = paper.state.find("r1")
    assert (record.phase, record.taken) == (Phase.FAILED, ())
    assert "bins 0 to 3" in record.reason
    assert paper.configuration == before


def test_a_decision_changes_nothing():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    before = paper.state, paper.configuration
    assert paper.decide() == paper.decide()
    assert (paper.state, paper.configuration) == before


# Side by side, one after the other -----------------------------------------------------------------


def test_of_two_changes_of_one_operator_the_earlier_one_is_finished_first():
    paper = Paper()
    paper.ask(changes.move("counts", [0, 1], 1), strategies.fluid())
    paper.ask(changes.move("counts", [0, 1], 0), strategies.fluid())
    assert paper.step(5) == [["r1"], ["r1"], ["r2"], ["r2"], []]
    assert moved(paper) == 0


def test_the_later_one_waits_for_the_earlier_one_to_be_prepared_and_to_be_committed():
    paper = Paper()
    paper.ask(changes.move("counts", 0, 1), ready=False)
    paper.ask(changes.move("counts", 1, 1))
    assert paper.step() == [[]]
    paper.prepare("r1")
    assert [paper.begin(), paper.begin()] == [["r1"], []]
    paper.commit()
    assert paper.begin() == ["r2"]


def test_changes_of_different_operators_go_side_by_side():
    paper = Paper()
    paper.ask(changes.move("counts", [0, 1], 1), strategies.fluid())
    paper.ask(changes.move("sums", [0, 1], 1), strategies.fluid())
    paper.ask(changes.set_interval(50))
    assert paper.step(2) == [["r1", "r2", "r3"], ["r1", "r2"]]
    assert (moved(paper), moved(paper, "sums"), paper.configuration.interval_ms) == (2, 2, 50)
    assert paper.configuration.version == 6


def test_a_list_of_changes_waits_for_every_operator_it_touches():
    paper = Paper()
    paper.ask(changes.move("sums", [0, 1], 1), strategies.fluid())
    both = Together(changes=(changes.move("counts", 0, 1), changes.move("sums", 2, 1)))
    paper.ask(both)
    paper.ask(changes.move("counts", 1, 1))
    assert paper.step(4) == [["r1"], ["r1"], ["r2"], ["r3"]]


def test_a_list_of_changes_holds_from_one_timestep_on():
    paper = Paper()
    paper.ask([changes.rescale("counts", 3), changes.move("sums", 0, 1), changes.set_interval(7)])
    paper.step()
    here = paper.configuration
    assert (here.operators["counts"].tasks, moved(paper, "sums"), here.interval_ms) == (3, 1, 7)


# Another driver ------------------------------------------------------------------------------------


def test_what_was_prepared_is_prepared_again_and_what_is_under_way_goes_on():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.move("sums", 0, 1), ready=False)
    paper.ask(changes.set_interval(5), ready=False)
    paper.step()
    paper.prepare("r2")
    paper.resume()
    assert paper.phases() == {"r1": "moving", "r2": "waiting", "r3": "waiting"}
    assert [record.drivers for record in paper.state.records] == [1, 1, 1]
    assert paper.step(3) == [["r1"]] * 3
    assert paper.phase("r1") == "done"


def test_what_the_next_driver_cannot_do_is_rolled_back():
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.ask(changes.move("sums", 0, 1))
    paper.resume(lambda record: "no such function" if record.id == "r1" else None)
    assert paper.phases() == {"r1": "failed", "r2": "waiting"}
    assert paper.state.find("r1").reason == "rolled back: no such function"


def test_one_that_is_planned_but_made_no_step_is_rolled_back_as_well():
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.fold(paper.decide().events)
    paper.resume(lambda _: "no such function")
    assert paper.phase("r1") == "failed"


def test_one_that_has_made_a_step_goes_on_whatever_the_driver_can():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.step()
    paper.resume(lambda _: "no such function")
    assert paper.phase("r1") == "moving"


def test_one_that_is_planned_is_led_on_by_the_next_driver():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.fold(paper.decide().events)
    paper.resume()
    assert paper.step(4) == [["r1"]] * 4
    assert moved(paper) == 4


def test_one_whose_last_step_is_committed_is_over_even_if_its_driver_could_not_say_so():
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.begin()
    paper.resume()
    assert paper.phase("r1") == "done"


def test_one_whose_last_step_runs_again_is_not_over_yet():
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.begin()
    paper.drained = False
    paper.resume()
    assert paper.phase("r1") == "moving"
    paper.commit()
    assert paper.phase("r1") == "done"


# Steps that do not fit -----------------------------------------------------------------------------


def test_a_step_that_does_not_fit_any_more_ends_it_and_what_was_done_stays():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.step()
    paper.configuration = configuration(counts=keyed(2, 4), sums=keyed())
    before = paper.configuration
    assert paper.step() == [[]]
    record = paper.state.find("r1")
    assert record.phase is Phase.FAILED
    assert "its next step no longer fits (operator 'counts' has no bin" in record.reason
    assert (len(record.taken), paper.configuration) == (1, before)


def test_a_step_of_an_operator_that_is_gone_does_not_fit():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.step()
    paper.configuration = configuration(sums=keyed())
    paper.step()
    assert paper.phase("r1") == "failed"


def test_behind_a_step_of_its_own_it_fails_at_the_next_border():
    """Events are journalled before the steps of a border."""
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.assign_resources("counts", cpus=2), at=2)
    paper.step()
    counts = paper.configuration.operators["counts"]
    paper.configuration = paper.configuration.with_operator(
        "counts", replace(counts, routing=counts.routing.with_owners({2: 1}))
    )
    assert paper.begin() == ["r1", "r2"]
    assert paper.phase("r1") == "moving"
    assert paper.begin() == []
    assert paper.phase("r1") == "failed"
    assert paper.owners() == [1, 1, 1, 0, 1, 1, 1, 1]
