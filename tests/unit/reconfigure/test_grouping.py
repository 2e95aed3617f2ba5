"""Moves in groups, as the strategies of Megaphone make them."""

from __future__ import annotations

import subprocess
import sys

import pytest

from rechannel.reconfigure import grouping
from rechannel.reconfigure.grouping import matched, within
from rechannel.reconfigure.steps import Assign, BinMove, Route
from rechannel.reconfigure.strategies import AllAtOnce, Batched, Fluid, Optimized, steps_of


def moves(*pairs: tuple[int, int], size: float = 1.0) -> tuple[BinMove, ...]:
    """Bin after bin from one task to another."""
    return tuple(
        BinMove(operator="counts", lo=i, hi=i + 1, source=a, target=b, size=size)
        for i, (a, b) in enumerate(pairs)
    )


FIVE = moves((0, 1), (0, 1), (0, 1), (0, 1), (0, 1))


def lengths(groups) -> list[int]:
    return [len(group) for group in groups]


def pairs(group) -> list[tuple[int, int]]:
    return [(move.source, move.target) for move in group]


def test_all_at_once_is_one_group():
    assert list(AllAtOnce().groups(FIVE)) == [FIVE]


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [(Fluid(), [1] * 5), (Fluid(bins=2), [2, 2, 1]), (Batched(bins=4), [4, 1]), (Batched(), [5])],
    ids=str,
)
def test_fluid_and_batched_take_so_many_bins(strategy, expected):
    groups = list(strategy.groups(FIVE))
    assert lengths(groups) == expected
    assert tuple(move for group in groups for move in group) == FIVE


def test_optimized_lets_pairs_move_side_by_side():
    """Two tasks to two others, all with all: two steps of two transfers each, not four."""
    groups = list(Optimized().groups(moves((0, 2), (0, 3), (1, 2), (1, 3))))
    assert lengths(groups) == [2, 2]
    for group in groups:
        assert sorted(move.source for move in group) == [0, 1]
        assert sorted(move.target for move in group) == [2, 3]


def test_optimized_transfers_so_many_bins_of_a_pair():
    assert lengths(matched(FIVE, 2)) == [2, 2, 1]


def test_a_task_that_takes_in_a_step_does_not_give_in_it():
    groups = [pairs(group) for group in matched(moves((0, 1), (1, 2), (2, 3), (3, 0)), 1)]
    assert groups == [[(0, 1), (2, 3)], [(1, 2), (3, 0)]]
    three = [pairs(group) for group in matched(moves((0, 1), (1, 2), (2, 0)), 1)]
    assert sorted(three) == [[(0, 1)], [(1, 2)], [(2, 0)]]


def test_a_task_that_gives_and_takes_costs_no_transfer_of_others():
    """1 to 4 alone would block both others, which can go together."""
    groups = [pairs(group) for group in matched(moves((1, 4), (3, 1), (4, 2)), 1)]
    assert groups == [[(3, 1), (4, 2)], [(1, 4)]]


def test_bins_that_are_rewritten_at_their_task_keep_it_busy():
    groups = [pairs(group) for group in matched(moves((0, 0), (0, 1), (1, 1), (2, 2)), 1)]
    assert groups == [[(0, 0), (1, 1), (2, 2)], [(0, 1)]]


def test_tasks_of_other_operators_are_other_tasks():
    one, other = moves((0, 1))[0], moves((1, 0))[0]
    other = BinMove(operator="sums", lo=0, hi=1, source=other.source, target=other.target)
    assert lengths(matched((one, other), 1)) == [2]


def test_tasks_are_matched_again_only_when_a_pair_has_nothing_left(monkeypatch):
    asked = []
    matching = grouping._matching
    monkeypatch.setattr(grouping, "_matching", lambda of: asked.append(list(of)) or matching(of))
    groups = list(matched(moves(*[(0, 2)] * 5, *[(1, 3)] * 9, (1, 2)), 2))
    assert lengths(groups) == [4, 4, 3, 2, 1, 1]
    assert len(asked) == 3


def test_a_matching_is_the_same_in_every_process():
    """Sets of texts are in another order in every process; a plan must not be."""
    program = (
        "from rechannel.reconfigure.grouping import matched\n"
        "from rechannel.reconfigure.steps import BinMove\n"
        "moves = [BinMove(operator='counts', lo=8 * a + b, hi=8 * a + b + 1, source=a, target=b)"
        " for a in range(5) for b in range(5, 7)]\n"
        "print([[m.lo for m in group] for group in matched(moves, 1)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(filter(None, sys.path))},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }
    assert len(told) == 1


def test_a_group_is_cut_where_it_passes_the_budget():
    sizes = [4.0, 4.0, 4.0, 20.0, 1.0, 9.0]
    group = [
        BinMove(operator="counts", lo=i, hi=i + 1, source=0, target=1, size=size)
        for i, size in enumerate(sizes)
    ]
    cut = [[move.size for move in part] for part in within(group, 10.0)]
    # A bin beyond the budget goes alone; 1 + 9 is the budget and not beyond it.
    assert cut == [[4.0, 4.0], [4.0], [20.0], [1.0, 9.0]]
    assert list(within([], 10.0)) == []


def test_steps_of_a_route_keep_the_budget():
    found = Route(moves=FIVE, first=(Assign(operator="counts", name="tasks", value=2),))
    assert [len(s.moves) for s in steps_of(found, AllAtOnce())] == [5]
    assert [len(s.moves) for s in steps_of(found, AllAtOnce(), 2.0)] == [2, 2, 1]
    assert [len(s.moves) for s in steps_of(found, Batched(bins=3), 2.0)] == [2, 1, 2]
    assert [len(s.moves) for s in steps_of(found, Fluid(), 0.5)] == [1] * 5
    assert [len(s.first) for s in steps_of(found, AllAtOnce(), 2.0)] == [1, 0, 0]


def test_without_moves_there_are_no_groups():
    assert steps_of(Route(), Optimized()) == ()
    assert list(matched((), 3)) == []
