"""Plans from outside: what a job made comes through unchanged, everything else is refused field by field."""

from __future__ import annotations

import copy
import json

import pytest

import rechannel as rc
from rechannel.reconfigure.plan import FORMAT
from rechannel.serve.bodies import ReconfigureBody
from rechannel.serve.failures import MalformedError
from rechannel.serve.reading import read_body


def read(plan):
    return read_body(ReconfigureBody, json.dumps({"plan": plan}).encode())


CHANGES = [
    rc.changes.rescale("users", tasks=5),
    rc.changes.rescale("users", tasks=1),
    rc.changes.rescale("clicks", tasks=3),
    rc.changes.move("users", [0, 1], task=1),
    rc.changes.split("users", 3, into=4),
    rc.changes.merge("users", [3, 4]),
    rc.changes.combine("users", "off"),
    rc.changes.set_interval(250),
    rc.changes.set_in_flight(2),
    rc.changes.set_bound("clicks", 10, bytes=1 << 20),
    [
        rc.changes.rescale("users", tasks=3),
        rc.changes.rescale("totals", tasks=3),
        rc.changes.set_interval(1),
    ],
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
@pytest.mark.parametrize(
    "strategy",
    [rc.strategies.all_at_once(), rc.strategies.fluid(gap=2), rc.strategies.optimized(budget_ms=5)],
    ids=str,
)
def test_every_plan_of_a_job_comes_through(clicks, change, strategy):
    plan = clicks.running.plan(change, strategy)
    assert read(plan.to_json()).to_change().to_json() == plan.to_json()


@pytest.fixture
def plan(clicks):
    return clicks.running.plan(rc.changes.split("users", 3), rc.strategies.fluid()).to_json()


def wrong_plans():
    def edit(path, value):
        def apply(plan):
            spot = plan
            for part in path[:-1]:
                spot = spot[part]
            spot[path[-1]] = value
            return plan

        return apply

    first = ["steps", 0, "first"]
    yield "format", edit(["format"], FORMAT + 1)
    yield "topology", edit(["topology", "operators", 0, "kept"], [[2, 1]])
    yield "format as text", edit(["format"], "1")
    yield "steps as text", edit(["steps"], "steps")
    yield "no steps", lambda plan: {k: v for k, v in plan.items() if k != "steps"}
    yield "another field", edit(["colour"], "red")
    yield "another field of a step", edit(["steps", 0, "colour"], "red")
    yield "a field of a job that is none", edit(first, [[None, "version", 9]])
    yield "the program", edit(first, [[None, "dataflow", 9]])
    yield "an operator that goes", edit(first, [["users", "removed", True]])
    yield "an operator that comes", edit(first, [["other", "new", {}]])
    yield "logic", edit(first, [["users", "logic", 2]])
    yield "routing", edit(first, [["users", "routing", None]])
    yield "tasks as text", edit(first, [["users", "tasks", "3"]])
    yield "a million tasks", edit(first, [["users", "tasks", 10**6]])
    yield "starts as numbers", edit(first, [["users", "starts", [0, 1]]])
    yield "starts that are none", edit(first, [["users", "starts", ["x"]]])
    yield "an operator that is no name", edit(first, [[5, "tasks", 3]])
    yield "half an assignment", edit(first, [["users", "tasks"]])
    yield "sizes as text", edit(["steps", 0, "moves"], [["users", "0", "9", 0, 1, "much"]])
    yield "a negative task", edit(["steps", 0, "moves"], [["users", "0", "9", 0, -1, 1]])
    yield "hashes as numbers", edit(["steps", 0, "moves"], [["users", 0, 9, 0, 1, 1]])
    yield "a cost that is none", edit(["cost_ms"], None)


@pytest.mark.parametrize(
    ("what", "spoil"), list(wrong_plans()), ids=lambda one: one if isinstance(one, str) else ""
)
def test_every_other_plan_is_malformed(plan, what, spoil):
    with pytest.raises(MalformedError):
        read(spoil(copy.deepcopy(plan)))


def test_plans_of_the_program_are_not_replayed(plan):
    logic = {"kind": "assign_logic", "operator": "users", "function": "m:f"}
    program = {"kind": "change_program", "version": 2, "text": "other users"}
    for change in (logic, program, {"kind": "together", "changes": [program]}):
        with pytest.raises(rc.RechannelError, match="switches the program is not replayed"):
            read({**plan, "change": change}).to_change()


def test_a_plan_keeps_its_strategy(plan):
    same, other = plan["strategy"], {"kind": "batched"}
    body = {"plan": plan, "strategy": same}
    assert read_body(ReconfigureBody, json.dumps(body).encode()).to_change().bins == 0
    body = {"plan": plan, "strategy": other}
    with pytest.raises(rc.RechannelError, match="the plan was made for fluid"):
        read_body(ReconfigureBody, json.dumps(body).encode()).to_change()
