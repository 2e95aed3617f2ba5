"""Where tasks are put: kept, wished for, balanced, and moved as little as possible."""

from __future__ import annotations

from collections import Counter

import pytest

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.reconfigure.placement import admitted_executors, moved_tasks, place, surplus


def executors(*cores: int) -> list[Executor]:
    return [Executor(id=str(i), host=f"h{i}", cores=n) for i, n in enumerate(cores)]


@pytest.mark.parametrize("there", [[], executors(8)], ids=["none", "one"])
def test_where_there_is_no_choice_nothing_is_placed(there: list[Executor]) -> None:
    assert place(4, {0: "0"}, {1: "0"}, there) == {}


@pytest.mark.parametrize(
    ("cores", "tasks", "loads"),
    [
        ((2, 2, 2), 6, [2, 2, 2]),
        ((2, 2, 2), 7, [3, 2, 2]),
        ((1, 1), 1, [1, 0]),
        ((4, 2), 6, [4, 2]),
        ((4, 1, 1), 12, [8, 2, 2]),
        ((4, 1), 3, [3, 0]),
    ],
)
def test_tasks_are_balanced_by_cores(cores: tuple[int, ...], tasks: int, loads: list[int]) -> None:
    placed = place(tasks, {}, {}, executors(*cores))
    assert sorted(placed) == list(range(tasks))
    assert [Counter(placed.values())[e.id] for e in executors(*cores)] == loads


def test_tasks_stay_where_they_ran_last() -> None:
    before = {0: "2", 1: "0", 2: "1", 3: "1", 4: "2", 5: "0"}
    assert place(6, before, {}, executors(2, 2, 2)) == before


def test_of_equal_claims_that_of_the_last_place_wins() -> None:
    before = {0: "2", 1: "0", 2: "1", 3: "2"}
    assert place(4, before, {}, executors(2, 2, 2)) == before


def test_tasks_of_a_dead_executor_go_to_the_others_and_no_other_moves() -> None:
    before = {0: "0", 1: "1", 2: "2", 3: "0", 4: "1", 5: "2"}
    after = place(6, before, {}, executors(2, 2))
    assert {task: at for task, at in after.items() if before[task] != "2"} == {
        0: "0", 1: "1", 3: "0", 4: "1"
    }  # fmt: skip
    assert Counter(after.values()) == {"0": 3, "1": 3}
    assert moved_tasks(before, after) == (2, 5)


def test_a_new_executor_gets_its_share_and_no_more() -> None:
    before = place(6, {}, {}, executors(2, 2))
    after = place(6, before, {}, executors(2, 2, 2))
    assert len(moved_tasks(before, after)) == 2
    assert Counter(after.values()) == {"0": 2, "1": 2, "2": 2}


def test_who_is_wanted_somewhere_is_there() -> None:
    wanted = {0: "1", 1: "1", 2: "1"}
    placed = place(4, {0: "0", 1: "0", 2: "0", 3: "0"}, wanted, executors(2, 2))
    assert placed == {0: "1", 1: "1", 2: "1", 3: "0"}


def test_a_wish_counts_as_load() -> None:
    placed = place(6, {}, {0: "0", 1: "0", 2: "0"}, executors(2, 2))
    assert Counter(placed.values()) == {"0": 3, "1": 3}


def test_a_wish_for_a_dead_executor_means_nothing() -> None:
    assert place(4, {0: "1"}, {0: "9"}, executors(2, 2))[0] == "1"


def test_tasks_that_are_no_more_mean_nothing() -> None:
    assert place(2, {7: "0", 0: "1"}, {5: "1"}, executors(2, 2)) == {0: "1", 1: "0"}


def test_ties_go_to_the_executor_named_first() -> None:
    assert place(1, {}, {}, list(reversed(executors(2, 2, 2)))) == {0: "2"}


@pytest.mark.parametrize(
    ("total", "given"), [(3, ()), (5, ()), (2, ("2",)), (1, ("2", "1")), (0, ("2", "1", "0"))]
)
def test_executors_with_the_fewest_tasks_are_given_back(total: int, given: tuple[str, ...]) -> None:
    placed = {"a": {0: "0", 1: "0", 2: "1"}, "b": {0: "0", 1: "1"}}
    assert surplus(total, executors(2, 2, 2), placed) == given


@pytest.mark.parametrize(
    ("known", "most", "used"),
    [("01", 2, "01"), ("01", 3, "012"), ("12", 2, "12"), ("0", 9, "0123"), ("", 0, "")],
)
def test_of_executors_that_are_kept_for_later_as_many_are_used_as_died(
    known: str, most: int, used: str
) -> None:
    found = admitted_executors(executors(2, 2, 2, 2), known, most)
    assert "".join(executor.id for executor in found) == used


def test_of_executors_with_as_many_tasks_the_youngest_goes() -> None:
    assert surplus(2, executors(2, 2, 2), {}) == ("2",)
    assert surplus(1, executors(1, 4), {"a": {0: "0", 1: "1"}}) == ("1",)
