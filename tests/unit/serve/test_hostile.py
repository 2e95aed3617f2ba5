"""Every field of every body, with values that nobody means: each is answered, and the job lives on."""

from __future__ import annotations

import copy
from itertools import islice

import pytest

import rechannel as rc
from tests.support.asking import client_of

ODD = (
    None, True, -1, 0, 1, 0.5, 2**63, 10**19, "", "x", "0", "9" * 20, "users\x00", "☃", [], {}, [[]],
    [None], {"kind": "rescale"}, [0, 0], [-1], [10**19],
)  # fmt: skip

CHANGES = [
    {"kind": "rescale", "operator": "users", "tasks": 3},
    {"kind": "rebalance", "operator": "users", "tolerance": 0.1},
    {"kind": "move", "operator": "users", "bins": [0, 1], "task": 1},
    {"kind": "split", "operator": "users", "bin": 0, "into": 2},
    {"kind": "merge", "operator": "users", "bins": [0, 1]},
    {"kind": "place", "operator": "users", "task": 0, "executor": None},
    {"kind": "combine", "operator": "users", "mode": "on"},
    {"kind": "set_interval", "interval_ms": 0},
    {"kind": "set_in_flight", "timesteps": 1},
    {"kind": "set_bound", "source": "clicks", "most": 5},
    {"kind": "executors", "executors": 1},
    {"kind": "assign_workload", "operator": "users", "starts": [0], "owners": [0], "tasks": 1},
    {"kind": "assign_resources", "operator": "users", "cpus": 1, "memory_mb": None, "amounts": {}},
    {"kind": "assign_logic", "operator": "users", "function": "no.such:thing"},
]


def spots(value, path=()):
    """The way to every value inside a value."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for part, inner in pairs:
        yield (*path, part)
        if isinstance(inner, dict | list):
            yield from spots(inner, (*path, part))


def spoiled(body):
    """The body with each of its values exchanged for each odd one."""
    for path in spots(body):
        for odd in ODD:
            made = copy.deepcopy(body)
            spot = made
            for part in path[:-1]:
                spot = spot[part]
            spot[path[-1]] = odd
            yield made


@pytest.fixture
def survives(clicks, server, thorough):
    """Send bodies; every one is answered in the job's own words, and the job still works.

    Unless the run is thorough, one of 13: no divisor of the odd values, so that every field is met.
    """
    client = client_of(server)

    def send(route, bodies):
        for body in islice(bodies, 0, None, 1 if thorough else 13):
            answer = client.post(route, json=body)
            assert answer.status_code in {200, 202, 403, 404, 409, 422}, (body, answer.text)
            assert isinstance(answer.json(), dict)
            assert clicks.running.is_active, body
        clicks.push([("zoe", 1)])
        assert clicks.running.is_active

    with client:
        yield send


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change["kind"])
def test_spoiled_changes(survives, change):
    strategy = {"kind": "fluid", "bins": 8, "gap": 1, "budget_ms": 5.0, "prepare": True}
    survives("/plan", spoiled({"change": change, "strategy": strategy}))
    later = {"change": change, "at": 10**6, "supersede": False, "cause": "a test"}
    survives("/reconfigure", spoiled(later))


@pytest.mark.parametrize(
    "change",
    [
        rc.changes.rescale("users", tasks=1),
        rc.changes.move("users", [0, 1], task=1),
        [
            rc.changes.split("users", 0),
            rc.changes.set_bound("clicks", 5),
            rc.changes.combine("users", "on"),
        ],
    ],
    ids=str,
)
def test_spoiled_plans(survives, clicks, change):
    plan = clicks.running.plan(change, rc.strategies.all_at_once()).to_json()
    # A few moves and bins are as good as all.
    for step in plan["steps"]:
        step["moves"] = step["moves"][:2]
        for assignment in step["first"] + step["last"]:
            if assignment[1] == "starts":
                assignment[2] = assignment[2][:3]
    survives("/reconfigure", spoiled({"plan": plan}))


def test_spoiled_controllers(survives):
    wanted = {
        "path": "no.such:Thing", "parameters": {"operator": "users", "most": [1]}, "name": "one",
        "priority": 1, "dry_run": True, "seconds": 1.5, "failures": 3,
    }  # fmt: skip
    survives("/controllers", spoiled(wanted))
    survives("/controllers/one/pause", spoiled({"reason": "lunch"}))
    survives("/controllers/one/remove", ODD)
