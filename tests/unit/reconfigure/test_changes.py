"""Changes and strategies as values: what they hold, how they are written, and what cannot be made."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError

import pytest

from rechannel import changes
from rechannel.dataflow.graph.naming import DerivedName
from rechannel.errors import RefusedError
from rechannel.model.routing import Routing
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import JOB, PROGRAM
from rechannel.reconfigure.changes.program import AssignLogic
from rechannel.reconfigure.changes.registry import KINDS
from rechannel.reconfigure.changes.together import Together, one_change, parts_of
from tests.support.changing import program

EVERY = [
    changes.assign_workload("counts", Routing.even(bins=3, tasks=2)),
    changes.assign_resources("counts", cpus=2, memory_mb=512, amounts={"gpu": 0.5}),
    AssignLogic(operator="counts", function="my.module:better"),
    changes.rescale("counts", tasks=8),
    changes.rebalance("counts", tolerance=0.2),
    changes.move("counts", [3, 4], 1),
    changes.split("counts", 3, into=4),
    changes.merge("counts", [3, 4]),
    changes.rewrite("counts"),
    changes.spread("pairs", ("a", 1), over=3, side="left"),
    changes.spread("pairs", bin=3, over=[1, 2]),
    changes.spread("pairs", hash=(1 << 64) - 1),
    changes.gather("pairs", 7),
    changes.gather("pairs"),
    changes.place("counts", 1, "7"),
    changes.place("counts", 1, None),
    changes.combine("counts", "off"),
    changes.set_interval(0),
    changes.set_in_flight(3),
    changes.set_bound("in", 100),
    changes.set_bound("in", None),
    changes.executors(4),
    program(operators={"new": {"tasks": 1}}, removed=("old",), logic={"counts": 2}),
    Together(changes=(changes.rescale("counts", tasks=8), changes.set_interval(50))),
]


def test_the_list_above_has_every_kind_of_change():
    known = {kind.kind for kind in KINDS}
    assert {change.kind for change in EVERY} == known


@pytest.mark.parametrize("change", EVERY, ids=str)
def test_a_change_is_read_as_it_was_written(change):
    data = json.loads(json.dumps(change.to_json(), allow_nan=False))
    assert KINDS.read(data) == change
    assert data["kind"] == change.kind


@pytest.mark.parametrize(
    ("change", "touched"),
    [
        (changes.rescale("counts", 2), {"counts"}),
        (changes.set_interval(5), {JOB}),
        (changes.set_bound("in", 5), {JOB}),
        (changes.executors(5), {JOB}),
        (program(), {PROGRAM}),
        (AssignLogic(operator="counts", function="a:b"), {PROGRAM}),
        (
            Together(
                changes=(changes.rescale("a", 2), changes.move("b", 0, 0), changes.set_interval(5))
            ),
            {"a", "b", JOB},
        ),
    ],
    ids=lambda value: str(sorted(value)) if isinstance(value, set) else str(value),
)
def test_a_change_says_what_it_touches(change, touched):
    assert change.touches() == touched


def test_a_change_is_shown_as_it_would_be_written():
    assert str(changes.rescale("counts", tasks=8)) == "rescale(operator='counts', tasks=8)"
    assert str(changes.place("counts", 1, None)) == "place(operator='counts', task=1)"
    assert str(program(3)) == "program 3"
    both = Together(changes=(changes.set_interval(50), changes.executors(2)))
    assert str(both) == "set_interval(interval_ms=50), executors(executors=2)"


@pytest.mark.parametrize(
    ("data", "told"),
    [
        ({}, "there is no change of kind 'None'"),
        ([], "expected a change as an object with a kind, got list"),
        ({"kind": "rescalate"}, "there is no change of kind 'rescalate'; there are .*'rescale'"),
        ({"kind": "rescale", "operator": "counts"}, "rescale: tasks: is missing"),
        ({"kind": "rescale", "operator": "counts", "tasks": 0}, "rescale: tasks: .*>= 1"),
        ({"kind": "rescale", "operator": "", "tasks": 1}, "rescale: operator: .*length >= 1"),
        ({"kind": "rescale", "operator": "a", "tasks": 1, "by": "x"}, "by: there is no such field"),
        (
            {"kind": "combine", "operator": "a", "mode": "maybe"},
            "combine: mode: there is no 'maybe'",
        ),
        ({"kind": "together", "changes": []}, "together: changes: .*length >= 1"),
        ({"kind": "together"}, "together: changes: expected a list"),
        ({"kind": "assign_logic", "operator": "a", "function": "nowhere"}, "function: .*regex"),
    ],
)
def test_anything_else_is_refused_and_the_field_is_named(data, told):
    with pytest.raises(RefusedError, match=told):
        KINDS.read(data)


def test_lists_of_changes_do_not_nest():
    inner = Together(changes=(changes.set_interval(5), changes.executors(2))).to_json()
    with pytest.raises(RefusedError, match="cannot contain another"):
        KINDS.read({"kind": "together", "changes": [inner]})


def test_a_list_of_changes_is_one_change():
    one, other = changes.set_interval(5), changes.executors(2)
    assert one_change(one) is one
    assert one_change([one]) is one
    assert one_change((one, other)) == Together(changes=(one, other))


def test_a_list_in_a_list_is_laid_flat():
    one, other, third = changes.set_interval(5), changes.executors(2), changes.set_in_flight(2)
    pair = Together(changes=(one, other))
    assert one_change([pair, third]) == Together(changes=(one, other, third))
    assert parts_of(pair) == (one, other)
    assert parts_of(third) == (third,)


@pytest.mark.parametrize(
    "given",
    [
        [], (), "rescale", None, 5, ["rescale"], ["a", "b"], strategies.fluid(),
        [changes.executors(2), strategies.fluid()],
    ],
    ids=repr,
)  # fmt: skip
def test_what_is_no_change_and_no_list_of_them_is_refused(given):
    with pytest.raises(RefusedError, match="expected a change or a list of changes"):
        one_change(given)


def test_a_change_cannot_be_changed():
    with pytest.raises(FrozenInstanceError):
        changes.rescale("counts", 2).tasks = 3


# Strategies ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "strategy",
    [
        strategies.all_at_once(prepare=False),
        strategies.batched(4, gap=2, budget_ms=1.5),
        strategies.fluid(budget_bytes=100),
        strategies.optimized(2, gap=1),
    ],
    ids=str,
)
def test_a_strategy_is_read_as_it_was_written(strategy):
    data = json.loads(json.dumps(strategy.to_json(), allow_nan=False))
    assert strategies.from_json(data) == strategy


def test_a_strategy_is_shown_without_what_is_usual():
    assert str(strategies.all_at_once()) == "all_at_once()"
    assert str(strategies.fluid(2, gap=3)) == "fluid(gap=3, bins=2)"


def test_what_is_no_strategy_is_refused_and_the_field_is_named():
    with pytest.raises(RefusedError, match="fluid: bins: expected int >= 1"):
        strategies.from_json({"kind": "fluid", "bins": 0})
    with pytest.raises(RefusedError, match="there is no strategy of kind"):
        strategies.from_json({})


def test_names_may_be_strings_of_a_derived_class():
    change = changes.rescale(DerivedName("rows.counts"), tasks=3)
    assert type(change.to_json()["operator"]) is str
    assert change.to_json() == changes.rescale("rows.counts", tasks=3).to_json()
