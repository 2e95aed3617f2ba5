"""The heaviest keys of tasks, by side, merged."""

from functools import reduce
from itertools import permutations

import pytest

from rechannel.control.library.hotkeys import MOST_KEYS, AskHotKeys, HotKey, HotKeys, Rows, heats
from rechannel.kernels.protocol.control import HeavyKey, TaskView
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT

ASK = AskHotKeys()


def task(rows: int, *keys: HeavyKey) -> TaskView:
    return TaskView(
        operator="o", task=0, timestep=1, stream_ms=0, blocking=False, rows_in=rows, heaviest=keys
    )


def heavy(number: int, left: int, right: int) -> HeavyKey:
    return HeavyKey(key=(number,), hash=number, rows=left + right, rows_by_side=(left, right))


def replies(*views: TaskView) -> HotKeys:
    found = [ASK.on_complete(view) for view in views]
    merged = reduce(ASK.merge, found)
    assert all(reduce(ASK.merge, order) == merged for order in permutations(found))
    return merged


def test_a_key_that_one_task_has_counts_as_it_is():
    found = replies(task(100, heavy(7, 60, 10)), task(50, heavy(3, 0, 20)))
    first, second = heats(found, {})
    assert (first.hash, first.key, first.side) == (7, "7", LEFT)
    assert first.share == pytest.approx(70 / 150)
    assert (second.side, second.share) == (RIGHT, pytest.approx(20 / 150))
    assert found.sided


def test_the_share_of_a_key_is_the_same_however_many_tasks_share_it():
    alone = replies(task(100, heavy(7, 60, 10)), task(50))
    shared = replies(task(65, heavy(7, 25, 10)), task(95, heavy(7, 35, 10)))
    (before,), (after,) = heats(alone, {}), heats(shared, {7: LEFT})
    assert before == after


def test_rows_of_the_right_side_may_be_the_ones_that_are_dealt_out():
    shared = replies(task(45, heavy(7, 5, 30)), task(115, heavy(7, 5, 30)))
    (heat,) = heats(shared, {7: RIGHT})
    assert (heat.side, heat.share) == (RIGHT, pytest.approx(65 / 155))


def test_an_operator_with_one_input_has_no_sides():
    found = replies(task(10, HeavyKey(key=("x",), hash=1, rows=9)))
    assert not found.sided
    assert found.keys == (HotKey(hash=1, key="'x'", left=Rows(sum=9, most=9)),)
    assert [(heat.side, heat.share) for heat in heats(found, {})] == [(None, 0.9)]


def test_no_more_than_the_heaviest_are_kept():
    many = replies(*(task(9, *(heavy(4 * n + i, n, 0) for i in range(4))) for n in range(6)))
    assert [key.received for key in many.keys[:5]] == [5, 5, 5, 5, 4]
    views = [ASK.on_complete(task(9, heavy(n, n, 0))) for n in range(2 * MOST_KEYS)]
    assert len(reduce(ASK.merge, views).keys) == MOST_KEYS


def test_without_rows_nothing_is_hot():
    assert heats(HotKeys(), {}) == ()
