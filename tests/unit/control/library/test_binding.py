"""What binds a timestep, and how bins are moved away from slow executors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.control.library.binding import Load, bounds_of, slowness_of
from rechannel.control.library.shifting import evened
from rechannel.model.routing import Routing
from rechannel.profiling.job.shares import CriticalShares
from rechannel.reconfigure.balance import load_of_tasks


def shares(kinds: dict[str, float], tasks: dict[int, float]) -> CriticalShares:
    return CriticalShares(
        first=1, last=8, timesteps=8, mean_ms=100.0, kinds=kinds, tasks={"counts": tasks}
    )


def load(rows: list[float], busy_ms: list[float], at: str) -> Load:
    return Load(operator="counts", rows=np.array(rows), busy_ms=np.array(busy_ms), at=tuple(at))


def test_kinds_of_activities_add_up_to_causes():
    kinds = {"commit": 0.2, "control message": 0.1, "receive": 0.15, "process": 0.5, "idle": 0.05}
    found = bounds_of(shares(kinds, {}), [], {}, 4)
    assert {b.cause: pytest.approx(b.share) for b in found} == {
        "scheduling": 0.3,
        "communication": 0.15,
        "processing": 0.5,
    }
    assert found[0].cause == "processing"


def test_a_task_with_more_rows_is_skew():
    found = bounds_of(
        shares({"process": 1.0}, {0: 0.9}),
        [load([70, 10, 10, 10], [70, 10, 10, 10], "abcd")],
        dict.fromkeys("abcd", 1),
        4,
    )
    # Of 70 ms, 25 would be left: the mean.
    assert (found[0].cause, found[0].executors) == ("skew", ())
    assert found[0].gain == pytest.approx(0.9 * (1 - 25 / 70))
    assert next(b.gain for b in found if b.cause == "processing") == pytest.approx(
        1 - found[0].gain
    )


def test_a_task_whose_rows_take_longer_where_it_is_has_a_slow_machine():
    found = bounds_of(
        shares({"process": 1.0}, {1: 1.0}),
        [load([10, 10, 10], [10, 40, 10], "abc")],
        dict.fromkeys("abc", 1),
        3,
    )
    assert (found[0].cause, found[0].executors) == ("machine", ("b",))
    # 30 ms of work, on two executors and a quarter.
    assert found[0].gain == pytest.approx(1 - 30 / 2.25 / 40)


def test_executors_with_more_tasks_than_others_are_a_matter_of_places():
    found = bounds_of(
        shares({"process": 1.0}, {1: 1.0}), [load([10] * 4, [10] * 4, "aaab")], {"a": 1, "b": 1}, 2
    )
    assert found[1].cause == "machine"
    assert found[1].gain == pytest.approx(1 - 20 / 30)


@pytest.mark.parametrize("one", [load([10], [10], "a"), load([10, 10], [0, 0], "ab")])
def test_one_task_and_no_work_are_no_straggler(one):
    found = bounds_of(shares({"process": 1.0}, {0: 1.0}), [one], {"a": 1, "b": 1}, 2)
    assert {bound.cause for bound in found} == {"scheduling", "communication", "processing"}


def test_of_two_executors_the_slower_one_is_slow():
    assert slowness_of([load([10, 10], [10, 30], "ab")], "ab") == {"a": 1.0, "b": 3.0}
    assert slowness_of([load([10, 0], [10, 0], "ab")], "ab") == {"a": 1.0}


@given(
    weights=st.lists(st.integers(0, 100), min_size=8, max_size=24),
    slowness=st.lists(st.sampled_from([1.0, 2.0, 4.0]), min_size=2, max_size=4),
    tasks=st.integers(2, 8),
)
def test_moving_bins_never_makes_a_turn_longer_and_keeps_all_of_them(weights, slowness, tasks):
    routing = Routing.even(bins=len(weights), tasks=min(tasks, len(weights)))
    at = np.arange(routing.tasks) % len(slowness)
    rows, per_row = np.array(weights, dtype=np.float64), np.array(slowness)

    def turn(of: Routing) -> float:
        there = np.bincount(at, load_of_tasks(of, rows), minlength=len(per_row))
        return float((there * per_row).max())

    made = evened(routing, rows, at, per_row)
    assert (made.starts, made.tasks) == (routing.starts, routing.tasks)
    assert turn(made) <= turn(routing)
    used = per_row[np.unique(at)]
    least = rows.sum() / (1 / used).sum()
    # No further move of one bin helps, so what is left over is less than the heaviest bin on one executor.
    assert turn(made) <= least + rows.max() * used.max() + 1e-6
