"""How changes and strategies are written in Python: wrong arguments are refused by name, before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest

from rechannel import changes as c
from rechannel.errors import RefusedError
from rechannel.model.configuration import Combine
from rechannel.model.routing import Routing
from rechannel.reconfigure import strategies as s
from rechannel.reconfigure.changes.registry import KINDS, python_names, requestable

INFINITE = float("inf")


@pytest.mark.parametrize(
    ("change", "fields"),
    [
        (c.rescale("a", 3), {"operator": "a", "tasks": 3}),
        (c.rebalance("a"), {"operator": "a", "tolerance": 0.1}),
        (c.rebalance("a", tolerance=0), {"operator": "a", "tolerance": 0.0}),
        (c.move("a", 3, 1), {"operator": "a", "bins": [3], "task": 1}),
        (c.move("a", range(2), 1), {"operator": "a", "bins": [0, 1], "task": 1}),
        (c.split("a", 3), {"operator": "a", "bin": 3, "into": 2}),
        (c.merge("a", [1, 2]), {"operator": "a", "bins": [1, 2]}),
        (c.rewrite("a"), {"operator": "a"}),
        (c.place("a", 0, "7"), {"operator": "a", "task": 0, "executor": "7"}),
        (c.combine("a", "auto"), {"operator": "a", "mode": "auto"}),
        (c.combine("a", Combine.ON), {"operator": "a", "mode": "on"}),
        (c.set_interval(50), {"interval_ms": 50}),
        (c.set_in_flight(2), {"timesteps": 2}),
        (c.set_bound("in", None), {"source": "in", "most": None, "bytes": None}),
        (c.executors(3), {"executors": 3}),
        (
            c.assign_workload("a", Routing(starts=(0, 9), owners=(1, 0), tasks=2)),
            {"operator": "a", "starts": [0, 9], "owners": [1, 0], "tasks": 2},
        ),
        (
            c.assign_resources("a"),
            {"operator": "a", "cpus": 1, "memory_mb": None, "amounts": {}},
        ),
        (
            c.assign_resources(cpus=2, amounts={"gpu": 1}),
            {"operator": None, "cpus": 2, "memory_mb": None, "amounts": {"gpu": 1.0}},
        ),
        (c.assign_logic("a", "m:f"), {"operator": "a", "function": "m:f"}),
    ],
    ids=str,
)
def test_every_name_makes_the_change_of_its_kind(change, fields):
    data = change.to_json()
    assert data == {"kind": data["kind"], **fields}
    assert data["kind"] in python_names()
    assert KINDS.read(data) == change


def test_python_has_every_change_that_can_be_requested_and_those_that_hold_functions():
    only_in_python = {"change_logic", "add", "remove", "change_dataflow"}
    assert set(python_names()) == {kind.kind for kind in requestable()} | only_in_python
    assert set(dir(c)) == {
        *python_names(),
        "Plan",
        "Routing",
        "UpgradePlan",
        "migrate",
        "watermark",
    }
    for name, function in python_names().items():
        assert getattr(c, name) is function


@pytest.mark.parametrize(
    ("strategy", "fields"),
    [
        (s.all_at_once(prepare=False), {"kind": "all_at_once", "prepare": False}),
        (s.batched(), {"kind": "batched", "bins": 16}),
        (s.fluid(gap=4), {"kind": "fluid", "bins": 1, "gap": 4}),
        (s.optimized(2, budget_ms=5), {"kind": "optimized", "bins": 2, "budget_ms": 5.0}),
    ],
    ids=str,
)
def test_every_name_makes_the_strategy_of_its_kind(strategy, fields):
    usual = {"gap": 0, "budget_bytes": None, "budget_ms": None, "prepare": True}
    assert strategy.to_json() == {**usual, **fields}


def test_numbers_may_come_from_numpy():
    assert c.move("a", np.int64(3), 1) == c.move("a", 3, 1)
    assert c.move("a", np.array([3, 4]), 1) == c.move("a", [3, 4], 1)
    assert c.rescale("a", np.int32(3)) == c.rescale("a", 3)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: c.rescale("a", 0), "rescale: tasks: expected int >= 1, got 0"),
        (lambda: c.rescale("a", 2.5), "rescale: tasks: expected int, got float"),
        (lambda: c.rescale("a", "4"), "rescale: tasks: expected int, got str"),
        (lambda: c.rescale("a", True), "rescale: tasks: expected int, got bool"),
        (lambda: c.rescale("", 2), "rescale: operator: expected str of length >= 1"),
        (lambda: c.rescale(None, 2), "rescale: operator: expected str"),
        (lambda: c.rescale("", 0), "operator: .*; tasks: "),
        (lambda: c.rebalance("a", tolerance=-1), "rebalance: tolerance"),
        (lambda: c.rebalance("a", tolerance="0.1"), "rebalance: tolerance: expected float"),
        (lambda: c.rebalance("a", tolerance=INFINITE), "rebalance: tolerance"),
        (lambda: c.move("a", [], 1), "move: bins: .*length >= 1"),
        (lambda: c.move("a", None, 1), r"move: bins\[0\]"),
        (lambda: c.move("a", ["3"], 1), r"move: bins\[0\]: expected int, got str"),
        (lambda: c.move("a", [0, -1], 1), r"move: bins\[1\]: expected int >= 0, got -1"),
        (lambda: c.move("a", 0, -1), "move: task"),
        (lambda: c.split("a", 0, into=1), "split: into"),
        (lambda: c.split("a", 0, into=65537), "split: into"),
        (lambda: c.merge("a", [1]), "merge: bins: .*length >= 2"),
        (lambda: c.combine("a", "maybe"), "combine: mode: there is no 'maybe' here"),
        (lambda: c.set_interval(-1), "set_interval: interval_ms"),
        (lambda: c.set_interval("50"), "set_interval: interval_ms: expected int"),
        (lambda: c.set_in_flight(65), "set_in_flight: timesteps"),
        (lambda: c.set_bound("in", 0), "set_bound: most"),
        (lambda: c.executors(0), "executors: executors"),
        (lambda: c.assign_resources("a", cpus=0), "assign_resources: cpus"),
        (lambda: c.assign_resources("a", amounts={"gpu": 0}), "assign_resources: amounts"),
        # A journal entry cannot hold an infinite number.
        (lambda: c.assign_resources("a", amounts={"gpu": INFINITE}), "assign_resources: amounts"),
        (lambda: s.fluid(budget_ms=INFINITE), "fluid: budget_ms"),
        (lambda: s.fluid(budget_ms=float("nan")), "fluid: budget_ms"),
        (lambda: s.fluid(0), "fluid: bins"),
        (lambda: s.fluid("2"), "fluid: bins: expected int, got str"),
        (lambda: s.batched(budget_bytes=0), "batched: budget_bytes"),
        (lambda: s.batched(gap="1"), "batched: gap: expected int, got str"),
        (lambda: s.optimized(gap=-1), "optimized: gap"),
        (lambda: s.all_at_once(prepare="perhaps"), "all_at_once: prepare"),
    ],
)
def test_wrong_arguments_are_refused_by_name(make, told):
    with pytest.raises(RefusedError, match=told):
        make()
