"""The coordinator: strategies, gaps, budgets, and plans that are replayed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rechannel import changes
from rechannel.errors import RefusedError
from rechannel.reconfigure import steps as steps_module
from rechannel.reconfigure import strategies
from rechannel.reconfigure.coordinator import decide
from rechannel.reconfigure.plan import plan
from rechannel.reconfigure.steps import Assign, Sizes, Step
from tests.support.changing import (
    ALL_TO_1,
    Paper,
    moved,
    sized,
)

real = steps_module._move


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
        with pytest.raises(RefusedError, match=r"no longer lead to the result .* plan again"):
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
