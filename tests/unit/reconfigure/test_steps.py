"""A change as steps: what is first, what moves, what is last, and what does not fit."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from functools import reduce

import pytest

from rechannel.model.codec import decode, encode
from rechannel.model.configuration import Combine, Configuration, OperatorConfiguration, Resources
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.reconfigure.steps import (
    Assign,
    BinMove,
    Route,
    Sizes,
    Step,
    apply_step,
    apply_steps,
    joined,
    route,
)
from rechannel.reconfigure.strategies import AllAtOnce, Fluid, steps_of
from tests.support.changing import configuration, keyed

HALF, QUARTER = SPACE // 2, SPACE // 4


def at(*owners: int, tasks: int = 2, **more) -> OperatorConfiguration:
    """Even bins at these tasks."""
    even = Routing.even(bins=len(owners), tasks=tasks)
    return OperatorConfiguration(tasks=tasks, routing=replace(even, owners=owners), **more)


def move(lo: int, hi: int, source: int, target: int, operator: str = "counts") -> BinMove:
    return BinMove(operator=operator, lo=lo, hi=hi, source=source, target=target)


def way(
    old: OperatorConfiguration, new: OperatorConfiguration, sizes: Sizes | None = None
) -> Route:
    """From one configuration of an operator to another; the way leads there."""
    here, there = configuration(counts=old), configuration(counts=new)
    found = route(here, there, sizes or Sizes())
    for strategy in (AllAtOnce(), Fluid()):
        made = reduce(apply_step, steps_of(found, strategy), here)
        assert replace(made, version=1) == there
    return found


def names(assigns: tuple[Assign, ...]) -> list[str]:
    return [assign.name for assign in assigns]


def test_between_equals_there_is_nothing_to_do():
    found = way(at(0, 1), at(0, 1))
    assert not found
    assert steps_of(found, AllAtOnce()) == ()


def test_a_bin_moves():
    found = way(at(0, 1), at(1, 1))
    assert found == Route(moves=(move(0, HALF, 0, 1),))
    assert found


def test_tasks_are_added_before_and_taken_away_behind_the_moves():
    more = way(at(0, 0), at(0, 2, tasks=3))
    assert (names(more.first), len(more.moves), names(more.last)) == (["tasks"], 1, [])
    fewer = way(at(0, 2, tasks=3), at(0, 0))
    assert (names(fewer.first), len(fewer.moves), names(fewer.last)) == ([], 1, ["tasks"])


def test_bins_are_cut_before_and_joined_behind_the_moves():
    fine, coarse = at(0, 0, 1, 1), at(0, 1)
    cut = way(coarse, fine)
    assert (names(cut.first), cut.moves, names(cut.last)) == (["starts"], (), [])
    joined = way(fine, coarse)
    assert (names(joined.first), joined.moves, names(joined.last)) == ([], (), ["starts"])


def test_bins_with_other_borders_are_cut_at_both_borders_and_joined():
    thirds = (0, SPACE // 3, SPACE * 2 // 3)
    new = OperatorConfiguration(tasks=2, routing=Routing(starts=thirds, owners=(0, 1, 0), tasks=2))
    found = way(at(0, 1), new)
    assert found.first[0].value == [str(s) for s in (0, thirds[1], HALF, thirds[2])]
    assert found.moves == (move(thirds[1], HALF, 0, 1), move(thirds[2], SPACE, 1, 0))
    assert found.last[0].value == [str(s) for s in thirds]


def test_everything_that_is_no_placement_of_bins_is_first():
    new = at(
        0,
        1,
        combine=Combine.OFF,
        combining=False,
        logic=3,
        resources=Resources(cpus=2),
        placement={1: "7"},
    )
    found = way(at(0, 1), new)
    assert names(found.first) == ["combine", "combining", "logic", "resources", "placement"]
    assert (found.moves, found.last) == ((), ())
    assert names(way(new, at(0, 1)).first) == names(found.first)


def test_an_operator_without_state_only_gets_other_tasks():
    found = way(OperatorConfiguration(tasks=2), OperatorConfiguration(tasks=5))
    assert found.first == (Assign(operator="counts", name="tasks", value=5),)


def test_operators_come_and_go():
    here, there = configuration(old=keyed(), same=keyed()), configuration(same=keyed(), new=keyed())
    found = route(here, there, Sizes())
    assert [(a.operator, a.name) for a in found.first] == [("new", "new"), ("old", "removed")]
    assert replace(reduce(apply_step, steps_of(found, AllAtOnce()), here), version=1) == there


def test_an_operator_that_gets_or_loses_state_is_another_one():
    assert names(way(OperatorConfiguration(tasks=2), at(0, 1)).first) == ["new"]
    assert names(way(at(0, 1), OperatorConfiguration(tasks=2)).first) == ["new"]


def test_numbers_of_the_job_are_set_first():
    here = configuration(counts=at(0, 1))
    there = replace(here, interval_ms=5, in_flight=2, dataflow=2, executors=4)
    there = replace(there, bounds={"in": 3}, byte_bounds={"in": 9})
    found = route(here, there, Sizes())
    assert {a.name: a.value for a in found.first} == {
        "interval_ms": 5, "in_flight": 2, "dataflow": 2, "bounds": {"in": 3}, "byte_bounds": {"in": 9}, "executors": 4,
    }  # fmt: skip
    (step,) = steps_of(found, AllAtOnce())
    assert step.programs
    assert apply_step(here, step) == replace(there, version=2)


def test_only_another_dataflow_is_a_change_of_the_program():
    assert Step(last=(Assign(operator=None, name="dataflow", value=2),)).programs
    assert not Step(first=(Assign(operator="dataflow", name="tasks", value=2),)).programs
    assert not Step(moves=(move(0, 1, 0, 1),)).programs


def test_what_is_no_move_goes_with_the_first_and_the_last_group():
    first, last = Assign(operator="a", name="x", value=1), Assign(operator="a", name="y", value=1)
    one, other = move(0, 1, 0, 1), move(1, 2, 0, 1)
    found = Route(first=(first,), moves=(one, other), last=(last,))
    assert found.in_groups([(one,), (), (other,)]) == (
        Step(first=(first,), moves=(one,)),
        Step(moves=(other,), last=(last,)),
    )
    assert replace(found, moves=()).in_groups([]) == (Step(first=(first,), last=(last,)),)
    assert Route().in_groups([()]) == ()


# Sizes ---------------------------------------------------------------------------------------------


def test_state_is_spread_evenly_within_a_bin():
    sizes = Sizes(bins={"counts": ((0, HALF), (100.0, 10.0))})
    assert sizes.of("counts", 0, HALF) == 100.0
    assert sizes.of("counts", 0, QUARTER) == 50.0
    assert sizes.of("counts", QUARTER, HALF + QUARTER) == 55.0
    assert sizes.of("counts", HALF + QUARTER, SPACE) == 5.0
    assert sizes.of("nobody", 0, SPACE) == 0.0


def test_a_move_knows_the_bytes_it_moves():
    sizes = Sizes(bins={"counts": ((0, HALF), (100.0, 10.0))})
    found = way(at(0, 1), at(1, 0), sizes)
    assert [moved.size for moved in found.moves] == [100.0, 10.0]
    assert Step(moves=found.moves).size == 110.0


# Applying ------------------------------------------------------------------------------------------


def test_every_step_is_another_version():
    here = configuration(counts=at(0, 1))
    assert apply_step(here, Step()) == replace(here, version=2)


def test_a_step_is_a_difference_what_else_has_changed_stays():
    here = configuration(counts=at(0, 1, combining=False), sums=keyed(3, 3))
    step = Step(moves=(move(0, HALF, 0, 1),))
    changed = apply_step(here, step)
    assert changed.operators["counts"] == at(1, 1, combining=False)
    assert changed.operators["sums"] == here.operators["sums"]


def test_steps_are_joined_as_far_as_they_lead_to_the_same_place():
    cut = Assign(operator="counts", name="starts", value=["0", str(QUARTER), str(HALF)])
    whole = Assign(operator="counts", name="starts", value=["0", str(HALF)])
    steps = [
        Step(first=(cut,)),
        Step(moves=(move(0, QUARTER, 0, 1),)),
        Step(moves=(move(QUARTER, HALF, 0, 1),), last=(whole,)),
        Step(moves=(move(0, HALF, 1, 0),)),
        Step(moves=(move(0, HALF, 0, 1),)),
        Step(first=(Assign(operator=None, name="interval_ms", value=5),)),
    ]
    few = list(joined(steps))
    assert [len(step.moves) for step in few] == [2, 2, 0]
    here = configuration(counts=at(0, 1))
    made = reduce(apply_step, steps, here)
    assert replace(apply_steps(here, steps), version=made.version) == made
    assert list(joined(())) == []


def test_steps_that_are_joined_do_not_fit_where_one_of_them_would_not():
    here = configuration(counts=at(0, 1))
    twice, nowhere = move(0, HALF, 0, 1), move(0, HALF, 0, 2)
    for steps in ([twice, twice], [nowhere, move(0, HALF, 2, 0)]):
        with pytest.raises(ValueError, match="has no"):
            apply_steps(here, [Step(moves=(one,)) for one in steps])


def test_moves_of_several_operators_are_one_step():
    here = configuration(a=at(0, 1), b=at(0, 1))
    step = Step(moves=(move(0, HALF, 0, 1, "a"), move(HALF, SPACE, 1, 0, "b")))
    changed = apply_step(here, step)
    assert changed.operators["a"] == at(1, 1)
    assert changed.operators["b"] == at(0, 0)


def test_a_place_of_a_task_that_is_gone_meanwhile_is_left_out():
    here = configuration(counts=at(0, 0, placement={1: "7"}))
    gone = apply_step(here, Step(last=(Assign(operator="counts", name="tasks", value=1),)))
    assert gone.operators["counts"].placement == {}
    placed = Assign(operator="counts", name="placement", value=[[0, "5"], [1, "7"]])
    assert apply_step(gone, Step(first=(placed,))).operators["counts"].placement == {0: "5"}


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (Step(moves=(move(0, QUARTER, 0, 1),)), r"no bin \[0, .*\) at task 0"),
        (Step(moves=(move(0, HALF, 1, 0),)), "no bin .* at task 1"),
        (Step(moves=(move(0, HALF, 0, 1, "in"),)), "'in' has no bins"),
        (Step(first=(Assign(operator="counts", name="starts", value=["0"]),)), "move them"),
        (Step(first=(Assign(operator="in", name="starts", value=["0"]),)), "'in' has no bins"),
        (Step(first=(Assign(operator="counts", name="colour", value=1),)), "no field 'colour'"),
        (Step(last=(Assign(operator="counts", name="tasks", value=1),)), "one of 1 tasks"),
    ],
)
def test_a_step_that_does_not_fit_says_why(step, told):
    with pytest.raises(ValueError, match=told):
        apply_step(configuration(counts=at(0, 1)), step)


def test_a_step_of_an_operator_that_is_gone_does_not_fit():
    for step in (
        Step(moves=(move(0, HALF, 0, 1, "gone"),)),
        Step(first=(Assign(operator="gone", name="removed", value=True),)),
    ):
        with pytest.raises(KeyError, match="gone"):
            apply_step(configuration(counts=at(0, 1)), step)


def test_a_step_is_read_as_it_was_written():
    step = Step(
        first=(Assign(operator=None, name="bounds", value={"in": 3}),),
        moves=(replace(move(HALF, SPACE, 0, 1), size=12.0),),
        last=(Assign(operator="counts", name="starts", value=["0", str(HALF)]),),
    )
    assert decode(Step, json.loads(json.dumps(encode(step)))) == step


OTHER_OPERATOR = {
    "tasks": 3,
    "routing": at(0, 1, 0, 0).routing,
    "combine": Combine.OFF,
    "combining": False,
    "logic": 2,
    "resources": Resources(cpus=2),
    "placement": {0: "7"},
}

OTHER_JOB = {
    "operators": {"counts": at(1, 1, 0, 0)},
    "interval_ms": 50,
    "in_flight": 2,
    "dataflow": 2,
    "bounds": {"rows": 10},
    "byte_bounds": {"rows": 10},
    "executors": 3,
}


@pytest.mark.parametrize("name", [one.name for one in fields(OperatorConfiguration)])
def test_every_field_of_an_operator_can_change(name):
    old = at(0, 0, 1, 1)
    other = {name: OTHER_OPERATOR[name]}
    if name == "tasks":
        other["routing"] = replace(old.routing, tasks=3)
    found = way(old, replace(old, **other))
    assert found.first or found.moves or found.last


@pytest.mark.parametrize(
    "name", [one.name for one in fields(Configuration) if one.name != "version"]
)
def test_every_field_of_a_configuration_can_change(name):
    here = configuration(counts=at(0, 0, 1, 1))
    there = replace(here, **{name: OTHER_JOB[name]})
    found = route(here, there, Sizes())
    made = reduce(apply_step, steps_of(found, AllAtOnce()), here)
    assert found.first or found.moves or found.last
    assert replace(made, version=1) == there
