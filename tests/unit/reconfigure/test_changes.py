"""Changes and strategies as values: what they hold, how they are written, and what cannot be made."""

from __future__ import annotations

import json

import pytest

from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine
from rechannel.model.routing import Routing
from rechannel.reconfigure import ask, changes, strategies
from rechannel.reconfigure.changes import JOB, PROGRAM, AssignLogic, Together
from tests.support.changing import program

EVERY = [
    ask.assign_workload("counts", Routing.even(bins=3, tasks=2)),
    ask.assign_resources("counts", cpus=2, memory_mb=512, amounts={"gpu": 0.5}),
    AssignLogic(operator="counts", function="my.module:better"),
    ask.rescale("counts", tasks=8),
    ask.rebalance("counts", tolerance=0.2),
    ask.move("counts", [3, 4], 1),
    ask.split("counts", 3, into=4),
    ask.merge("counts", [3, 4]),
    ask.rewrite("counts"),
    ask.place("counts", 1, "7"),
    ask.place("counts", 1, None),
    ask.combine("counts", "off"),
    ask.set_interval(0),
    ask.set_in_flight(3),
    ask.set_bound("in", 100),
    ask.set_bound("in", None),
    ask.executors(4),
    program(operators={"new": {"tasks": 1}}, removed=("old",), logic={"counts": 2}),
    Together(changes=(ask.rescale("counts", tasks=8), ask.set_interval(50))),
]


def test_the_list_above_has_every_kind_of_change():
    known = {part.model_fields["kind"].default for part in _kinds(changes.Change)}
    assert {change.kind for change in EVERY} == known


def _kinds(union):
    return union.__origin__.__args__


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_a_change_is_read_as_it_was_written(change):
    data = json.loads(json.dumps(changes.to_json(change), allow_nan=False))
    assert changes.from_json(data) == change
    assert data["kind"] == change.kind


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (ask.rescale("counts", 2), {"counts"}),
        (ask.set_interval(5), {JOB}),
        (ask.set_bound("in", 5), {JOB}),
        (ask.executors(5), {JOB}),
        (program(), {PROGRAM}),
        (AssignLogic(operator="counts", function="a:b"), {PROGRAM}),
        (
            Together(changes=(ask.rescale("a", 2), ask.move("b", 0, 0), ask.set_interval(5))),
            {"a", "b", JOB},
        ),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_change_says_what_it_touches(change, touched):
    assert change.touches() == touched


def test_a_change_is_shown_as_it_would_be_written():
    assert str(ask.rescale("counts", tasks=8)) == "rescale(operator='counts', tasks=8)"
    assert str(ask.place("counts", 1, None)) == "place(operator='counts', task=1)"
    assert str(program(3)) == "program 3"
    both = Together(changes=(ask.set_interval(50), ask.executors(2)))
    assert str(both) == "set_interval(interval_ms=50), executors(executors=2)"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "value: Unable to extract tag"),
        ({"kind": "rescalate"}, "rescalate"),
        ({"kind": "rescale", "operator": "counts"}, "rescale.tasks: Field required"),
        ({"kind": "rescale", "operator": "counts", "tasks": 0}, "rescale.tasks: .*greater than 0"),
        ({"kind": "rescale", "operator": "", "tasks": 1}, "rescale.operator: .*at least 1"),
        ({"kind": "rescale", "operator": "a", "tasks": 1, "by": "x"}, "rescale.by: Extra"),
        ({"kind": "combine", "operator": "a", "mode": "maybe"}, "combine.mode: .*'auto', 'on'"),
        ({"kind": "together", "changes": []}, "together.changes: .*at least 1"),
        ({"kind": "assign_logic", "operator": "a", "function": "nowhere"}, "function: .*pattern"),
    ],
)
def test_what_is_no_change_is_refused_and_the_field_is_named(data, told):
    with pytest.raises(RefusedError, match=f"this is no change: .*{told}"):
        changes.from_json(data)


def test_lists_of_changes_do_not_nest():
    inner = changes.to_json(Together(changes=(ask.set_interval(5), ask.executors(2))))
    with pytest.raises(RefusedError, match="do not nest"):
        changes.from_json({"kind": "together", "changes": [inner]})


def test_a_list_of_changes_is_one_change():
    one, other = ask.set_interval(5), ask.executors(2)
    assert changes.one_change(one) is one
    assert changes.one_change([one]) is one
    assert changes.one_change((one, other)) == Together(changes=(one, other))


def test_a_list_in_a_list_is_laid_flat():
    one, other, third = ask.set_interval(5), ask.executors(2), ask.set_in_flight(2)
    pair = Together(changes=(one, other))
    assert changes.one_change([pair, third]) == Together(changes=(one, other, third))
    assert changes.parts_of(pair) == (one, other)
    assert changes.parts_of(third) == (third,)


@pytest.mark.parametrize(
    "given",
    [[], (), "rescale", None, 5, ["rescale"], ["a", "b"], ask.fluid(), [ask.executors(2), ask.fluid()]],
    ids=repr,
)  # fmt: skip
def test_what_is_no_change_and_no_list_of_them_is_refused(given):
    with pytest.raises(RefusedError, match="a change or a list of changes is wanted"):
        changes.one_change(given)


def test_a_change_cannot_be_changed():
    with pytest.raises(ValueError, match="frozen"):
        ask.rescale("counts", 2).tasks = 3


# Strategies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [
        ask.all_at_once(prepare=False),
        ask.batched(4, gap=2, budget_ms=1.5),
        ask.fluid(budget_bytes=100),
        ask.optimized(2, gap=1),
    ],
    ids=str,
)
def test_a_strategy_is_read_as_it_was_written(strategy):
    data = json.loads(json.dumps(strategies.to_json(strategy), allow_nan=False))
    assert strategies.from_json(data) == strategy


def test_a_strategy_is_shown_without_what_is_usual():
    assert str(ask.all_at_once()) == "all_at_once()"
    assert str(ask.fluid(2, gap=3)) == "fluid(gap=3, bins=2)"


def test_what_is_no_strategy_is_refused_and_the_field_is_named():
    with pytest.raises(RefusedError, match=r"this is no strategy: fluid.bins: .*greater than 0"):
        strategies.from_json({"kind": "fluid", "bins": 0})
    with pytest.raises(RefusedError, match=r"this is no strategy: value: "):
        strategies.from_json({})


def test_modes_of_combining_are_known_by_name_and_by_value():
    assert ask.combine("counts", "on") == ask.combine("counts", Combine.ON)


@pytest.mark.parametrize(
    "make",
    [
        lambda: ask.rescale("counts", tasks="4"),
        lambda: changes.from_json({"kind": "rescale", "operator": "counts", "tasks": "4"}),
        lambda: ask.rescale("counts", tasks=True),
        lambda: ask.move("counts", ["3"], 1),
        lambda: ask.set_interval("50"),
        lambda: ask.rebalance("counts", tolerance="0.1"),
        lambda: ask.fluid(bins="2"),
        lambda: strategies.from_json({"kind": "fluid", "budget_ms": "50"}),
        lambda: ask.batched(gap="1"),
    ],
)
def test_a_number_is_no_text_whoever_asks(make):
    with pytest.raises(RefusedError, match="should be a number, not "):
        make()
