"""Which step of which reconfiguration a timestep begins with: every rule of the coordinator, on paper."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest

from rechannel import changes
from rechannel.errors import NotReadyError, RefusedError, UnknownOperatorError
from rechannel.model.configuration import Combine, Resources
from rechannel.model.eventtime import ENDED, NEVER
from rechannel.reconfigure import steps as steps_module
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.together import Together
from rechannel.reconfigure.coordination import KEPT, KEPT_BYTES, Coordination, Now
from rechannel.reconfigure.coordinator import NEAR, beginning, decide, settled, soon
from rechannel.reconfigure.events import Finished, Planned, Prepared, Requested, Stepped
from rechannel.reconfigure.facts import Facts
from rechannel.reconfigure.moment import EventMoment, watermark
from rechannel.reconfigure.plan import plan
from rechannel.reconfigure.record import Phase
from rechannel.reconfigure.requests import Request, accept, planned_route
from rechannel.reconfigure.steps import Assign, Sizes, Step
from tests.support.changing import Paper, configuration, keyed, program, sized, two

real = steps_module._move

EVEN = [0, 0, 0, 0, 1, 1, 1, 1]
"""Tasks of the eight bins of an operator, before anything."""

ALL_TO_1 = changes.move("counts", [0, 1, 2, 3], 1)


def moved(paper: Paper, operator: str = "counts") -> int:
    """How many bins are elsewhere than in the beginning."""
    return sum(a != b for a, b in zip(paper.owners(operator), EVEN, strict=True))


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
    with pytest.raises(RefusedError, match="time 99 ms has passed: the stream is at 100 ms"):
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


# At a timestep, at a time --------------------------------------------------------------------------


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


# Strategies, gaps, budgets -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "bins"),
    [
        (strategies.all_at_once(), [4]),
        (strategies.batched(3), [3, 1]),
        (strategies.fluid(), [1, 1, 1, 1]),
        (strategies.fluid(2, gap=2), [2, 0, 0, 2]),
        (strategies.batched(4, budget_bytes=20), [2, 2]),
        (strategies.batched(4, budget_bytes=5), [1, 1, 1, 1]),
        (strategies.batched(4, budget_ms=0.3), [3, 1]),
        (strategies.batched(4, budget_ms=0.3, budget_bytes=20, gap=1), [2, 0, 2]),
    ],
    ids=str,
)
def test_a_strategy_says_how_many_bins_move_at_which_border(strategy, bins):
    paper = Paper(size=10.0)
    paper.ask(ALL_TO_1, strategy)
    made = []
    for _ in range(len(bins) + 1):
        before = paper.owners()
        paper.step()
        made.append(sum(a != b for a, b in zip(before, paper.owners(), strict=True)))
    assert made == [*bins, 0]
    assert paper.phase("r1") == "done"


def test_a_budget_that_has_shrunk_cuts_steps_that_are_planned():
    paper = Paper(size=10.0)
    paper.ask(ALL_TO_1, strategies.batched(2, budget_bytes=20))
    paper.step()
    (stepped,) = decide(paper.state, replace(paper.now, budget=lambda _: 10.0)).steps
    assert stepped.moves == 1


def test_a_budget_cuts_where_the_plan_did_not_and_a_bin_is_never_cut():
    paper = Paper(size=10.0)
    made = plan(paper.state, ALL_TO_1, strategies.all_at_once(), paper.now, 1.0)
    paper.ask(ALL_TO_1, strategies.batched(budget_bytes=15), steps=made.steps)
    paper.step()
    assert [moved(paper)] == [1]
    paper.step(3)
    assert paper.phase("r1") == "done"
    assert [taken.bins for taken in paper.state.find("r1").taken] == [1, 1, 1, 1]


def test_a_budget_is_what_a_timestep_may_pay_for_all_operators():
    paper = Paper(size=10.0)
    paper.ask(ALL_TO_1, strategies.fluid(budget_bytes=30))
    paper.ask(changes.move("sums", [0, 1, 2, 3], 1), strategies.batched(4, budget_bytes=30))
    made = paper.step(4)
    assert [paper.state.moved_at(t) for t in (1, 2, 3, 4)] == [30.0, 20.0, 20.0, 10.0]
    assert made == [["r1", "r2"], ["r1", "r2"], ["r1", "r2"], ["r1"]]


def test_whoever_has_no_budget_left_waits_and_goes_on_alone_even_beyond_it():
    paper = Paper(size=10.0)
    paper.ask(changes.move("counts", [0, 1], 1), strategies.fluid())
    paper.ask(changes.move("sums", [0, 1], 1), strategies.fluid(budget_bytes=5))
    paper.ask(changes.set_interval(7), strategies.fluid(budget_bytes=5))
    assert paper.step(5) == [["r1", "r3"], ["r1"], ["r2"], ["r2"], []]
    assert set(paper.phases().values()) == {"done"}


def test_bins_without_state_move_beside_whatever_others_move():
    paper = Paper(size=10.0)
    paper.ask(ALL_TO_1)
    paper.ask(changes.move("sums", [0, 1], 1), strategies.batched(budget_bytes=5))
    sizes = Sizes(bins={"counts": sized(paper.configuration, 10.0).bins["counts"]})
    assert [s.id for s in decide(paper.state, replace(paper.now, sizes=sizes)).steps] == [
        "r1",
        "r2",
    ]


def test_bins_without_state_cost_nothing():
    paper = Paper(size=0.0)
    paper.ask(ALL_TO_1, strategies.batched(4, budget_bytes=1))
    assert paper.step(2) == [["r1"], []]


def test_a_budget_holds_while_a_stream_is_idle():
    paper = Paper(idle=True, size=10.0)
    paper.ask(ALL_TO_1, strategies.batched(4, budget_bytes=20))
    assert paper.begin() == ["r1"]
    assert moved(paper) == 2


@pytest.mark.parametrize("turns", [0, 1, 2, 3])
def test_a_look_at_an_idle_stream_counts_as_a_timestep_of_a_gap(turns):
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid(gap=2))
    paper.step()
    made = decide(paper.state, replace(paper.now, turns={"r1": turns})).steps
    assert bool(made) == (turns >= 2)


def test_bytes_moved_at_a_border_are_those_of_all_steps_made_there():
    paper = Paper(size=10.0)
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.split("counts", 7), at=2)
    paper.ask(changes.move("sums", [0, 1], 1), at=2)
    paper.step(3)
    assert [paper.state.moved_at(t) for t in (0, 1, 2, 3)] == [0, 10.0, 50.0, 0]


# Changes of the program ----------------------------------------------------------------------------


def test_a_change_of_the_program_holds_until_nothing_is_under_way():
    paper = Paper(drained=False)
    paper.ask(program(2))
    decision = paper.decide()
    assert (decision.hold, decision.steps) == (True, ())
    assert decision.configuration == paper.configuration
    assert paper.begin() == []
    assert paper.phase("r1") == "ready"
    paper.drained = True
    assert paper.begin() == ["r1"]
    assert paper.configuration.dataflow == 2


def test_whoever_goes_side_by_side_with_a_program_is_held_as_well():
    paper = Paper(drained=False)
    paper.ask(changes.set_interval(5))
    paper.ask(program(2))
    assert paper.decide().hold
    assert paper.begin() == []
    assert paper.configuration.interval_ms == 0
    paper.drained = True
    assert paper.begin() == ["r1", "r2"]


def test_a_change_of_the_program_excludes_all_but_the_jobs_own_numbers():
    paper = Paper()
    paper.ask(changes.move("counts", [0, 1], 1), strategies.fluid())
    paper.ask(program(2))
    paper.ask(changes.move("sums", 0, 1))
    paper.ask(changes.set_interval(5))
    assert paper.step(4) == [["r1", "r4"], ["r1"], ["r2"], ["r3"]]


def test_of_two_changes_of_the_program_the_earlier_one_is_finished_first():
    paper = Paper()
    paper.ask(program(2))
    paper.ask(program(3))
    assert paper.step(2) == [["r1"], ["r2"]]
    assert paper.configuration.dataflow == 3


def test_what_this_driver_cannot_begin_fails_at_its_border():
    paper = Paper()
    paper.ask(program(2))
    paper.ask(changes.set_interval(7))
    decision = decide(paper.state, paper.now, lambda r: "no functions" if r.id == "r1" else None)
    assert [(event.id, event.reason) for event in decision.events[:1]] == [("r1", "no functions")]
    assert [step.id for step in decision.steps] == ["r2"]
    assert (decision.configuration.dataflow, decision.configuration.interval_ms) == (1, 7)


def test_a_program_that_began_is_not_led_back_and_not_superseded():
    paper = Paper()
    change = [program(2), ALL_TO_1]
    paper.ask(change, strategies.fluid())
    paper.step()
    with pytest.raises(RefusedError, match="r1 has switched the program"):
        paper.abort("r1")
    with pytest.raises(RefusedError, match="r1 has switched the program"):
        paper.ask(changes.rescale("counts", 4), supersede=True)
    assert paper.phases() == {"r1": "moving"}


def test_a_program_that_has_not_begun_can_be_superseded():
    paper = Paper()
    paper.ask(program(2))
    paper.ask(program(3), supersede=True)
    paper.step()
    assert paper.phases() == {"r1": "superseded", "r2": "done"}


# Superseding ---------------------------------------------------------------------------------------


def test_a_change_that_supersedes_goes_on_from_what_was_done():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.ask(changes.rescale("counts", 3), ready=False)
    paper.ask(changes.move("sums", 0, 1), strategies.fluid())
    paper.step(2)
    paper.ask(changes.move("counts", 7, 0), supersede=True)
    assert paper.phases() == {
        "r1": "superseded", "r2": "superseded", "r3": "done", "r4": "ready",
    }  # fmt: skip
    assert paper.state.find("r1").reason == "superseded by r4"
    paper.step()
    assert paper.owners() == [1, 1, 0, 0, 1, 1, 1, 0]


def test_it_is_judged_without_what_it_supersedes():
    paper = Paper()
    paper.ask(changes.rescale("counts", 4), ready=False)
    with pytest.raises(RefusedError, match="tasks 0 to 1"):
        paper.ask(changes.move("counts", 0, 3), supersede=True)
    assert paper.phases() == {"r1": "waiting"}
    paper.ask(changes.move("counts", 0, 3))


def counted(paper: Paper) -> list[int]:
    """How many bins every task owns."""
    return [paper.owners().count(t) for t in range(paper.configuration.operators["counts"].tasks)]


@pytest.mark.parametrize(("tasks", "half"), [(8, [2, 4, 1, 1, 0, 0, 0, 0]), (1, [6, 2])])
@pytest.mark.parametrize("after", [1, 2, 8])
def test_a_half_done_rescale_is_superseded_by_any_number_of_tasks(tasks, half, after):
    """The one that it went to, the one that it came from, another one: all lead to an even share."""
    paper = Paper()
    paper.ask(changes.rescale("counts", tasks), strategies.fluid())
    paper.step(2)
    assert counted(paper) == half
    paper.ask(changes.rescale("counts", after), supersede=True)
    paper.step()
    assert counted(paper) == [8 // after] * after
    assert paper.phases() == {"r1": "superseded", "r2": "done"}


def test_a_rescale_that_failed_half_way_is_asked_for_again():
    paper = Paper()
    paper.ask(changes.rescale("counts", 4), strategies.fluid())
    paper.step()
    paper.fold([Finished(id="r1", time_ms=0, outcome="failed")])
    paper.ask(changes.rescale("counts", 4))
    paper.step()
    assert counted(paper) == [2, 2, 2, 2]
    paper.ask(changes.rescale("counts", 4))
    paper.step()
    assert paper.state.find("r3").reason == "nothing had to change"


def test_where_there_is_nothing_to_supersede_it_is_a_change_like_any_other():
    paper = Paper()
    paper.ask(ALL_TO_1, supersede=True)
    assert paper.step() == [["r1"]]


# Aborting ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ready", [False, True])
def test_one_that_has_not_begun_just_ends(ready):
    paper = Paper()
    paper.ask(ALL_TO_1, ready=ready)
    paper.abort("r1")
    record = paper.state.find("r1")
    assert (record.phase, record.reason) == (Phase.ABORTED, "aborted")
    assert paper.step(2) == [[], []]
    assert moved(paper) == 0


def test_one_that_is_planned_but_made_no_step_just_ends():
    """Its driver died between the plan and the timestep."""
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.fold(paper.decide().events)
    assert paper.phase("r1") == "moving"
    paper.abort("r1")
    assert paper.phase("r1") == "superseded"
    assert paper.step() == [[]]


def test_one_that_is_under_way_is_led_back_by_the_same_strategy():
    paper = Paper()
    before = paper.configuration
    paper.ask(ALL_TO_1, strategies.fluid(gap=1))
    paper.step(4)
    assert moved(paper) == 2
    paper.abort("r1")
    assert paper.phase("r1") == "reversing"
    assert paper.step(4) == [["r1"], [], ["r1"], []]
    record = paper.state.find("r1")
    assert (record.phase, record.reason, len(record.taken)) == (Phase.UNDONE, "aborted", 4)
    assert replace(paper.configuration, version=1) == before


def test_tasks_and_numbers_are_led_back_too():
    paper = Paper()
    before = paper.configuration
    change = [
        changes.rescale("counts", 4),
        changes.combine("counts", "off"),
        changes.set_interval(50),
    ]
    paper.facts = Facts(combinable=frozenset({"counts"}))
    paper.ask(change, strategies.fluid())
    paper.step()
    here = paper.configuration
    assert (here.operators["counts"].tasks, here.interval_ms) == (4, 50)
    assert here.operators["counts"].combine is Combine.OFF
    paper.abort("r1")
    paper.step(3)
    assert replace(paper.configuration, version=1) == before
    assert paper.phase("r1") == "undone"


def test_what_else_has_changed_meanwhile_is_not_led_back():
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.step()
    counts = paper.configuration.operators["counts"]
    paper.configuration = paper.configuration.with_operator(
        "counts", replace(counts, combining=False)
    )
    paper.ask(changes.move("sums", 0, 1))
    paper.abort("r1")
    paper.step(2)
    assert (moved(paper), moved(paper, "sums")) == (0, 1)
    assert paper.configuration.operators["counts"].combining is False


def test_a_budget_holds_on_the_way_back():
    paper = Paper(size=10.0)
    paper.ask(ALL_TO_1, strategies.batched(2, budget_bytes=10))
    paper.step(3)
    paper.abort("r1")
    paper.step(4)
    assert [taken.bins for taken in paper.state.find("r1").taken] == [1] * 6
    assert moved(paper) == 0


def test_one_that_has_made_its_last_step_cannot_be_aborted():
    paper = Paper(drained=False)
    paper.ask(ALL_TO_1)
    paper.begin()
    with pytest.raises(
        RefusedError, match="r1 has made its last step; request the opposite change"
    ):
        paper.abort("r1")
    paper.commit()
    assert paper.phase("r1") == "done"


def test_what_is_over_or_led_back_already_cannot_be_aborted():
    paper = Paper()
    paper.ask(ALL_TO_1)
    paper.step()
    with pytest.raises(RefusedError, match="r1 is done"):
        paper.abort("r1")
    paper.ask(changes.move("counts", [0, 1], 0), strategies.fluid())
    paper.step()
    paper.abort("r2")
    with pytest.raises(RefusedError, match="r2 is reversing"):
        paper.abort("r2")


def test_nobody_can_abort_what_was_never_asked_for():
    with pytest.raises(NotReadyError, match=r"no reconfiguration 'r7'; there are \[\]"):
        Paper().abort("r7")


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


# Plans ---------------------------------------------------------------------------------------------


def test_a_plan_is_replayed_step_by_step():
    paper = Paper()
    made = plan(paper.state, ALL_TO_1, strategies.fluid(), paper.now, 1.0)
    steps = made.steps[::-1]
    paper.ask(ALL_TO_1, strategies.all_at_once(), steps=steps)
    paper.step()
    assert paper.owners() == [0, 0, 0, 1, 1, 1, 1, 1]
    paper.step(3)
    assert (moved(paper), paper.phase("r1")) == (4, "done")


def test_a_plan_for_another_configuration_is_refused():
    paper = Paper()
    steps = plan(paper.state, ALL_TO_1, strategies.fluid(), paper.now, 1.0).steps
    paper.ask(changes.move("counts", 0, 1))
    with pytest.raises(RefusedError, match=r"does not fit the present configuration .* plan again"):
        paper.ask(ALL_TO_1, steps=steps)
    assert list(paper.phases()) == ["r1"]


def test_a_plan_that_leads_elsewhere_than_its_change_is_refused():
    paper = Paper()
    steps = plan(paper.state, ALL_TO_1, strategies.fluid(), paper.now, 1.0).steps
    for wrong in (steps[1:], ()):
        with pytest.raises(RefusedError, match=r"no longer lead to where .* plan again"):
            paper.ask(ALL_TO_1, steps=wrong)


@pytest.mark.parametrize(
    "assign",
    [
        Assign(operator=None, name="colour", value=1),
        Assign(operator=None, name="executors", value="many"),
        Assign(operator="counts", name="tasks", value="many"),
        Assign(operator="counts", name="colour", value=1),
        Assign(operator="nobody", name="tasks", value=1),
        Assign(operator="counts", name="starts", value=None),
        Assign(operator="new", name="new", value=None),
    ],
    ids=str,
)
def test_a_plan_that_is_nonsense_is_refused(assign):
    with pytest.raises(RefusedError, match="plan again"):
        Paper().ask(ALL_TO_1, steps=(Step(first=(assign,)),))


def test_a_plan_that_sets_a_field_again_and_again_is_refused():
    """Each time costs as much as there are bins."""
    more = Step(first=(Assign(operator="counts", name="tasks", value=3),))
    with pytest.raises(RefusedError, match=r"more than once; plan again"):
        Paper().ask(changes.rescale("counts", 3), steps=(more, more))


def test_a_request_is_judged_at_the_price_of_one_step_however_many_are_left(monkeypatch):
    paper = Paper()
    paper.ask(ALL_TO_1, strategies.fluid())
    paper.step()
    made = []
    monkeypatch.setattr(steps_module, "_move", lambda *given: made.append(given) or real(*given))
    paper.ask(changes.set_interval(5))
    assert [len(moves) for _, moves in made] == [3]


def test_a_plan_that_does_not_fit_when_its_turn_comes_fails():
    paper = Paper()
    steps = plan(paper.state, ALL_TO_1, strategies.fluid(), paper.now, 1.0).steps
    paper.ask(ALL_TO_1, steps=steps, ready=False)
    paper.ask(changes.move("counts", 0, 1), at=1)
    paper.step()
    paper.prepare("r1")
    assert paper.step() == [[]]
    assert paper.phases() == {"r1": "failed", "r2": "done"}


def test_a_plan_for_what_is_so_already_is_done():
    paper = Paper()
    paper.ask(changes.move("counts", 0, 0), steps=())
    paper.step()
    assert paper.phase("r1") == "done"


# The state as a value ------------------------------------------------------------------------------


def asked(number: int) -> Requested:
    now = Now(timestep=1, time_ms=0, configuration=configuration(counts=keyed()))
    request = Request(change=changes.executors(1), strategy=strategies.all_at_once())
    event = accept(Coordination(serial=number - 1), request, now)
    assert isinstance(event, Requested)
    return event


def test_requests_come_in_the_order_of_their_numbers():
    with pytest.raises(ValueError, match="the next reconfiguration is r1, not r2"):
        Coordination().after(asked(2))


def test_events_belong_to_somebody():
    with pytest.raises(ValueError, match="prepared of r1, which does not exist"):
        Coordination().after(Prepared(id="r1", time_ms=0))


def test_of_those_that_are_over_the_latest_stay():
    state = Coordination()
    for number in range(1, KEPT + 4):
        state = state.after(asked(number))
    for number in range(2, KEPT + 4):
        state = state.after(Finished(id=f"r{number}", time_ms=0, outcome="aborted"))
    assert [record.id for record in state.records[:2]] == ["r1", "r4"]
    assert (len(state.records), len(state.open), state.serial) == (KEPT + 1, 1, KEPT + 3)


def test_what_ends_last_stays_however_long_ago_it_was_asked_for():
    state = Coordination()
    for number in range(1, KEPT + 4):
        state = state.after(asked(number))
    for number in range(2, KEPT + 4):
        state = state.after(Finished(id=f"r{number}", time_ms=number, outcome="aborted"))
    state = state.after(Finished(id="r1", time_ms=0, outcome="aborted"))  # the clock went back
    assert state.find("r1").phase is Phase.ABORTED
    assert len(state.records) == KEPT


def test_those_that_are_over_have_a_bound_in_bytes():
    state = Coordination()
    for number in (1, 2, 3, 4):
        state = state.after(asked(number))
    long = "x" * (KEPT_BYTES // 2)
    for number in (3, 1, 2):
        event = Finished(id=f"r{number}", time_ms=number, outcome="aborted", reason=long)
        state = state.after(event)
        assert state.find(f"r{number}").reason == long
    assert [record.id for record in state.records] == ["r2", "r4"]
    assert state.find("r4").open


def test_a_step_of_a_record_without_steps_cannot_happen():
    state = Coordination().after(asked(1))
    state = state.after(Planned(id="r1", time_ms=0, steps=(), base={}))
    with pytest.raises(ValueError, match="no step left"):
        state.after(Stepped(id="r1", time_ms=0, timestep=1))
    assert [event.outcome for event in settled(state, 0, 5)] == ["done"]


def soon_ids(paper: Paper) -> list[str]:
    return [record.id for record in soon(paper.state, paper.now)]


def test_what_begins_within_a_few_timesteps_is_soon():
    paper = Paper()
    later = paper.ask(changes.move("counts", 0, 1), at=NEAR + 3)
    assert (paper.step(2), soon_ids(paper)) == ([[], []], [])  # it is not prepared
    paper.prepare(later)
    assert soon_ids(paper) == [later]
    paper.timestep -= 1
    assert soon_ids(paper) == []


def test_what_is_for_a_time_is_soon_by_the_pace_of_timesteps():
    paper = Paper(configuration=replace(two(), interval_ms=1000))
    later = paper.ask(changes.move("counts", 0, 1), at_ms=20_000)
    paper.prepare(later)
    paper.time_ms = 20_000 - NEAR * 1000 - 1
    assert soon_ids(paper) == []
    paper.time_ms += 1
    assert soon_ids(paper) == [later]


def test_what_waits_for_others_is_soon_when_they_have_few_steps_left_and_begins_where_they_lead():
    paper = Paper(configuration=configuration(counts=keyed(bins=32)))
    first = paper.ask(changes.rescale("counts", 4), strategies.fluid())
    second = paper.ask(changes.rescale("counts", 8))
    assert soon_ids(paper) == []
    while len(paper.state.find(first).left) != NEAR:
        paper.step()
        assert soon_ids(paper) in ([], [second])
    assert soon_ids(paper) == [second]
    begins = beginning(paper.state, paper.state.find(second), paper.now).configuration
    routing = begins.operators["counts"].routing
    assert routing is not None
    assert (paper.owners().count(3), routing.owners.count(3)) == (0, 8)


def test_what_begins_with_the_next_timestep_is_as_warm_as_it_gets():
    paper = Paper()
    paper.ask(changes.move("counts", 0, 1))
    assert soon_ids(paper) == []


def test_resources_of_the_job_are_those_of_every_operator():
    paper = Paper()
    paper.ask([changes.set_interval(5), changes.assign_resources(cpus=2)])
    assert paper.state.find("r1").touches == {"*job", "in", "counts", "sums"}
    paper.ask(changes.assign_resources("counts"))
    paper.step(3)
    assert [paper.phase("r1"), paper.phase("r2")] == ["done", "done"]
    found = {name: o.resources for name, o in paper.configuration.operators.items()}
    assert found == {"in": Resources(cpus=2), "counts": None, "sums": Resources(cpus=2)}
    said = plan(paper.state, changes.assign_resources(), strategies.all_at_once(), paper.now, 1.0)
    assert [affected.operator for affected in said.affected] == ["in", "sums"]
