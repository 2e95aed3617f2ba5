"""What a task costs: parts that are known come back, outliers do not matter, and what cannot be told apart is said."""

import numpy as np
import pytest

from rechannel.scaling.model.fits import task_costs


def task_cost(rows, ms):
    """The cost of one operator."""
    return task_costs(rows[None], ms[None], np.ones((1, len(rows)), dtype=bool)).of(0)


def tasks(
    spread: float, *, noise: float = 1.0, count: int = 200, fixed: float = 20, per_row: float = 0.01
):
    """Rows and milliseconds of tasks whose rows differ by a share of their mean."""
    random = np.random.default_rng(7)
    rows = np.maximum(0, 10_000 * (1 + spread * random.standard_normal(count)))
    return rows, fixed + per_row * rows + noise * random.standard_normal(count)


def test_both_parts_are_found_where_rows_differ():
    cost = task_cost(*tasks(0.5))
    assert cost.fixed_ms == pytest.approx(20, abs=1)
    assert cost.row_ms == pytest.approx(0.01, rel=0.02)
    assert cost.steep[0] <= cost.fixed_ms <= cost.flat[0]


def test_slow_tasks_that_have_another_reason_do_not_matter():
    rows, ms = tasks(0.5)
    ms[::10] *= 6
    cost = task_cost(rows, ms)
    assert cost.fixed_ms == pytest.approx(20, abs=3)
    assert cost.row_ms == pytest.approx(0.01, rel=0.05)


def test_equal_tasks_do_not_tell_the_parts_apart():
    cost = task_cost(np.full(50, 1000.0), np.full(50, 30.0))
    assert (cost.flat, cost.steep) == ((30.0, 0.0), (0.0, pytest.approx(0.03)))
    assert cost.ms(1000) == pytest.approx(30)


@pytest.mark.parametrize("spread", [0.02, 0.1, 1])
def test_the_truth_lies_within_the_interval(spread):
    cost = task_cost(*tasks(spread, noise=2))
    assert cost.steep[0] - 1 <= 20 <= cost.flat[0] + 1
    assert cost.flat[1] * 0.98 <= 0.01 <= cost.steep[1] * 1.02


def test_more_tasks_narrow_the_interval():
    few, many = task_cost(*tasks(0.1, count=30)), task_cost(*tasks(0.1, count=3000))
    assert many.flat[0] - many.steep[0] < few.flat[0] - few.steep[0]


def test_tasks_without_rows_are_all_fixed_and_tasks_without_time_say_nothing():
    assert task_cost(np.zeros(4), np.full(4, 7.0)).flat == (7.0, 0.0)
    for rows, ms in ((np.ones(4), np.zeros(4)), (np.array([np.nan]), np.array([1.0]))):
        assert task_cost(rows, ms).samples == 0
