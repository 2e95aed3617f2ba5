"""Targets that even out load, and move as little as that takes."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing, even_starts
from rechannel.reconfigure.balance import evened, load_of_tasks, rebalanced, rescaled, widths


def placed(*owners: int, tasks: int | None = None) -> Routing:
    """Even bins at these tasks."""
    return Routing(starts=even_starts(len(owners)), owners=owners, tasks=tasks or max(owners) + 1)


def moved(before: Routing, after: Routing) -> int:
    return sum(a != b for a, b in zip(before.owners, after.owners, strict=True))


def counts(routing: Routing) -> list[int]:
    return [routing.owners.count(task) for task in range(routing.tasks)]


def fewest_moves(routing: Routing, tasks: int) -> int:
    """Brute force: the balanced placement that is nearest."""
    base, extra = divmod(routing.bins, tasks)
    wanted = sorted([base] * (tasks - extra) + [base + 1] * extra)
    return min(
        sum(a != b for a, b in zip(routing.owners, owners, strict=True))
        for owners in product(range(tasks), repeat=routing.bins)
        if sorted(owners.count(task) for task in range(tasks)) == wanted
    )


def test_widths_are_shares_of_the_hash_space():
    routing = Routing(starts=(0, SPACE // 4, SPACE // 2), owners=(0, 0, 0), tasks=1)
    assert widths(routing).tolist() == [0.25, 0.25, 0.5]


def test_load_of_a_task_is_that_of_its_bins_and_a_task_may_have_none():
    assert load_of_tasks(placed(0, 2, 0), np.array([1.0, 2.0, 4.0])).tolist() == [5.0, 0.0, 2.0]


@pytest.mark.parametrize(
    ("owners", "tasks", "after"),
    [
        # A new task takes a share of everybody, neighbours together.
        ((0, 0, 0, 1, 1, 1), 3, (0, 0, 2, 1, 1, 2)),
        # A task that goes gives all it has.
        ((0, 0, 1, 1, 2, 2), 2, (0, 0, 1, 1, 1, 0)),
        # The odd bin stays with whom it was.
        ((0, 1, 1), 2, (0, 1, 1)),
        ((0, 0, 0, 0), 4, (0, 1, 2, 3)),
        ((0, 1, 2, 3), 1, (0, 0, 0, 0)),
        # More tasks than bins: nobody has to give anything.
        ((0, 1), 4, (0, 1)),
    ],
)
def test_rescaling_moves_what_it_has_to(owners, tasks, after):
    routing = rescaled(placed(*owners), tasks)
    assert (routing.owners, routing.tasks) == (after, tasks)


@pytest.mark.parametrize("tasks", [1, 2, 3, 4])
@pytest.mark.parametrize(
    "owners", [(0, 0, 0, 0, 0, 0), (0, 1, 0, 1, 0, 1), (2, 2, 1, 1, 0, 2), (3, 3, 3, 0, 0, 1)]
)
def test_rescaling_is_even_and_moves_the_fewest_bins_there_could_be(owners, tasks):
    before = placed(*owners)
    after = rescaled(before, tasks)
    assert max(counts(after)) - min(counts(after)) <= 1
    assert moved(before, after) == fewest_moves(before, tasks)


def test_bins_that_lost_their_task_stay_with_their_neighbours():
    after = rescaled(Routing.even(bins=16, tasks=4), 3)
    borders = sum(a != b for a, b in zip(after.owners, after.owners[1:], strict=False))
    assert borders <= 4


def test_where_widths_differ_tasks_get_equal_shares_of_the_hash_space():
    starts = (0, SPACE // 2, SPACE // 2 + SPACE // 4)
    routing = rescaled(Routing(starts=starts, owners=(0, 0, 0), tasks=1), 2)
    assert routing.owners == (0, 1, 1)


def test_as_many_tasks_as_before_even_out_what_is_uneven_and_leave_what_is_not():
    assert counts(evened(placed(0, 0, 0, 0, 1, tasks=3))) == [2, 2, 1]
    for even in (placed(1, 0, 1, 2, 0), placed(0, 1, tasks=4), Routing.even(bins=16, tasks=3)):
        assert evened(even) is even


def test_where_widths_differ_nothing_moves_that_makes_nothing_more_even():
    """Seven bins of three tasks, one of them cut: another task would have the odd one."""
    even = Routing.even(bins=7, tasks=3)
    cut = even.with_starts(sorted({*even.starts, SPACE // 14}))
    assert rescaled(cut, 3) != cut
    assert evened(cut) is cut


def test_the_busiest_gives_to_the_idlest_as_long_as_that_helps():
    # 8 to 2 becomes 4 to 6: above the bound, but no bin is small enough for another move.
    assert rebalanced(placed(0, 0, 1), [4, 4, 2], 0.1).owners == (1, 0, 1)


def test_the_move_that_evens_out_best_is_made_first():
    after = rebalanced(placed(0, 0, 0, 1, tasks=2), [5, 3, 2, 0], 0.0)
    assert after.owners == (1, 0, 0, 1)


def test_nothing_moves_within_the_tolerance():
    before = placed(0, 0, 1, 1)
    assert rebalanced(before, [3, 3, 2, 2], 0.25) == before
    assert rebalanced(before, [3, 2, 1, 1], 0.1) != before


def test_nothing_moves_where_no_move_helps():
    before = placed(0, 1, tasks=3)
    assert rebalanced(before, [9, 1, 0][:2], 0.0) == before


def test_bins_without_load_stay():
    before = placed(0, 0, 0, 1)
    assert rebalanced(before, [6, 0, 0, 0], 0.0) == before


def test_equal_load_is_left_alone():
    before = placed(0, 1, 2)
    assert rebalanced(before, [1, 1, 1], 0.0) == before


def test_a_task_without_bins_gets_some():
    after = rebalanced(placed(0, 0, 0, 0, tasks=2), [1, 1, 1, 1], 0.0)
    assert counts(after) == [2, 2]


def test_one_hot_bin_is_left_alone_by_all_others():
    heat = [100, 1, 1, 1, 1, 1, 1, 1]
    before = placed(0, 0, 0, 0, 1, 1, 1, 1)
    after = rebalanced(before, heat, 0.0)
    assert load_of_tasks(after, np.array(heat, dtype=float)).max() == 100
