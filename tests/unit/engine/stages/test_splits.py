"""Which task of a front reads which splits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.engine.stages.splits import assign

SIZES = st.lists(st.integers(0, 100), max_size=20)


def layout(sizes: list[int]) -> list[dict[str, int]]:
    return [{"order": i, "size": size} for i, size in enumerate(sizes)]


@given(SIZES, st.integers(1, 8))
def test_every_split_is_read_once_and_in_order(sizes: list[int], tasks: int):
    splits = layout(sizes)
    assigned = assign(splits, tasks)
    assert [split for chunk in assigned for split in chunk] == splits
    assert 1 <= len(assigned) <= tasks
    assert all(assigned) or not splits


def test_no_splits_are_one_task_that_reads_nothing():
    assert assign([], 3) == [[]]


@pytest.mark.parametrize(
    ("sizes", "tasks", "expected"),
    [
        ([1, 1, 1, 1], 2, [[1, 1], [1, 1]]),
        ([1, 1, 1, 1], 4, [[1], [1], [1], [1]]),
        ([1, 1], 4, [[1], [1]]),
        ([10, 1, 1], 2, [[10], [1, 1]]),
        ([1, 1, 10], 2, [[1, 1], [10]]),
        ([0, 0], 2, [[0, 0]]),
    ],
)
def test_tasks_read_about_the_same_amount(sizes, tasks, expected):
    assert [[s["size"] for s in chunk] for chunk in assign(layout(sizes), tasks)] == expected


def test_a_split_without_a_size_counts_as_one():
    assert assign([{"order": 0}, {"order": 1}], 2) == [[{"order": 0}], [{"order": 1}]]
