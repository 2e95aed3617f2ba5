"""How changes are asked for in Python: arguments that cannot be are refused by name, before anything is sent."""

from __future__ import annotations

import numpy as np
import pytest

from rechannel.errors import RefusedError
from rechannel.model.routing import Routing
from rechannel.reconfigure import ask
from rechannel.reconfigure import changes as c
from rechannel.reconfigure import strategies as s

INFINITE = float("inf")


@pytest.mark.parametrize(
    ("asked", "value"),
    [
        (ask.rescale("a", tasks=3), c.Rescale(operator="a", tasks=3)),
        (ask.rebalance("a"), c.Rebalance(operator="a", tolerance=0.1)),
        (ask.rebalance("a", tolerance=0), c.Rebalance(operator="a", tolerance=0.0)),
        (ask.move("a", 3, 1), c.Move(operator="a", bins=(3,), task=1)),
        (ask.move("a", range(2), 1), c.Move(operator="a", bins=(0, 1), task=1)),
        (ask.split("a", 3), c.Split(operator="a", bin=3, into=2)),
        (ask.merge("a", [1, 2]), c.Merge(operator="a", bins=(1, 2))),
        (ask.place("a", 0, "7"), c.Place(operator="a", task=0, executor="7")),
        (ask.combine("a", "auto"), c.SetCombine(operator="a", mode="auto")),
        (ask.set_interval(50), c.SetInterval(interval_ms=50)),
        (ask.set_in_flight(2), c.SetInFlight(timesteps=2)),
        (ask.set_bound("in", None), c.SetBound(source="in", most=None)),
        (ask.executors(3), c.SetExecutors(executors=3)),
        (
            ask.assign_workload("a", Routing(starts=(0, 9), owners=(1, 0), tasks=2)),
            c.AssignWorkload(operator="a", starts=(0, 9), owners=(1, 0), tasks=2),
        ),
        (ask.assign_resources("a"), c.AssignResources(operator="a", cpus=1, amounts={})),
        (ask.assign_resources(cpus=2), c.AssignResources(operator=None, cpus=2)),
        (ask.all_at_once(prepare=False), s.AllAtOnce(prepare=False)),
        (ask.batched(), s.Batched(bins=16, gap=0, prepare=True)),
        (ask.fluid(gap=4), s.Fluid(bins=1, gap=4)),
        (ask.optimized(2, budget_ms=5), s.Optimized(bins=2, budget_ms=5.0)),
    ],
    ids=str,
)
def test_every_function_makes_the_value_of_its_name(asked, value):
    assert asked == value


def test_numbers_may_come_from_numpy():
    assert ask.move("a", np.int64(3), 1) == ask.move("a", 3, 1)
    assert ask.move("a", np.array([3, 4]), 1) == ask.move("a", [3, 4], 1)
    assert ask.rescale("a", np.int32(3)) == ask.rescale("a", 3)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: ask.rescale("a", 0), "rescale: tasks: .*greater than 0"),
        (lambda: ask.rescale("a", 2.5), "rescale: tasks: .*fractional"),
        (lambda: ask.rescale("", 2), "rescale: operator"),
        (lambda: ask.rescale(None, 2), "rescale: operator"),
        (lambda: ask.rebalance("a", tolerance=-1), "rebalance: tolerance"),
        (lambda: ask.rebalance("a", tolerance=INFINITE), "rebalance: tolerance"),
        (lambda: ask.move("a", [], 1), "move: bins: .*at least 1"),
        (lambda: ask.move("a", None, 1), "move: bins"),
        (lambda: ask.move("a", [0, -1], 1), "move: bins.1"),
        (lambda: ask.move("a", 0, -1), "move: task"),
        (lambda: ask.split("a", 0, into=1), "split: into"),
        (lambda: ask.split("a", 0, into=65537), "split: into"),
        (lambda: ask.merge("a", [1]), "merge: bins: .*at least 2"),
        (lambda: ask.combine("a", "maybe"), "combine: mode"),
        (lambda: ask.set_interval(-1), "set_interval: interval_ms"),
        (lambda: ask.set_in_flight(65), "set_in_flight: timesteps"),
        (lambda: ask.set_bound("in", 0), "set_bound: most"),
        (lambda: ask.executors(0), "executors: executors"),
        (lambda: ask.assign_resources("a", cpus=0), "assign_resources: cpus"),
        (lambda: ask.assign_resources("a", amounts={"gpu": 0}), "assign_resources: amounts.gpu"),
        # No number that a journal entry cannot hold.
        (lambda: ask.assign_resources("a", amounts={"gpu": INFINITE}), "amounts.gpu: .*finite"),
        (lambda: ask.fluid(budget_ms=INFINITE), "fluid: budget_ms: .*finite"),
        (lambda: ask.fluid(0), "fluid: bins"),
        (lambda: ask.batched(budget_bytes=0), "batched: budget_bytes"),
        (lambda: ask.optimized(gap=-1), "optimized: gap"),
        (lambda: ask.all_at_once(prepare="perhaps"), "all_at_once: prepare"),
    ],
)
def test_what_cannot_be_is_refused_and_the_argument_is_named(make, told):
    with pytest.raises(RefusedError, match=told):
        make()
