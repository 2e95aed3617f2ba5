"""Which executor should run which task: the search against brute force, and what it does in known situations."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.control.library.placing import (
    MOST_LOOKS,
    MOST_TASKS,
    Decision,
    Placing,
    Problem,
    decided,
)
from rechannel.control.library.traffic import TaskLoad, Traffic, together
from rechannel.model.buffers import IntArray
from rechannel.model.codec import decode, encode

MB = 1_000_000
TWO = {"a": 1, "b": 1}


def least_cost(problem: Problem) -> float:
    """By brute force."""
    executors = range(len(problem.slowness))
    placements = product(executors, repeat=len(problem.tasks))
    return min(problem.cost(np.array(at))[0] for at in placements)


@st.composite
def problems(draw: st.DrawFn, *, operators: int = 2, traffic: bool = True) -> Problem:
    tasks = draw(st.integers(1, 5))
    executors = draw(st.integers(2, 3))
    numbers = st.integers(0, tasks - 1)
    ends = draw(st.lists(st.tuples(numbers, numbers), max_size=6 if traffic else 0))
    costs = st.floats(0, 100, allow_subnormal=False)

    def of(values: st.SearchStrategy[float], size: int) -> np.ndarray:
        return np.array(draw(st.lists(values, min_size=size, max_size=size)))

    return Problem(
        tasks=[("op", task) for task in range(tasks)],
        operator=of(st.integers(0, operators - 1), tasks).astype(np.int64),
        at=of(st.integers(0, executors - 1), tasks).astype(np.int64),
        work=of(costs, tasks),
        slowness=of(st.floats(0.25, 4), executors) if traffic else np.ones(executors),
        source=np.array([source for source, _ in ends], dtype=np.int64),
        target=np.array([target for _, target in ends], dtype=np.int64),
        travel=of(costs, len(ends)),
    )


@given(problems())
def test_the_search_ends_where_no_single_step_saves_anything(problem: Problem):
    found = problem.best()
    cost = problem.cost(found)[0]
    assert least_cost(problem) - 1e-6 <= cost <= problem.cost(problem.at)[0]
    assert problem.least() <= least_cost(problem) + 1e-6
    assert all(problem.cost(other)[0] >= cost - 1e-5 for other in problem.neighbours(found))


@given(problems(operators=1, traffic=False))
def test_without_traffic_it_is_within_the_known_bound_of_the_optimum(problem: Problem):
    """A local optimum of moves is at most 2 - 2 / (m + 1) times the optimum on m equal machines (Finn, Horowitz)."""
    machines = len(problem.slowness)
    bound = 2 - 2 / (machines + 1)
    assert problem.cost(problem.best())[0] <= bound * least_cost(problem) + 1e-4


def loads(
    *busy: float, rows: int = 100, channels: tuple[tuple[str, int, int], ...] = ()
) -> Traffic:
    return Traffic(
        tasks=tuple(
            TaskLoad(
                task=n,
                rows=rows,
                busy_ms=ms,
                channels=tuple((o, t, size) for o, t, size in channels if t == n),
            )
            for n, ms in enumerate(busy)
        )
    )


def decision(
    traffic: dict[str, Traffic],
    places: dict[str, str],
    executors: dict[str, int] | None = None,
    *,
    slow: bool = False,
    least_ms: float = 0.001,
) -> Decision | None:
    """places: executors of the tasks of each operator, one letter each."""
    at = {name: tuple(letters) for name, letters in places.items()}
    known = Placing(samples=1, traffic=traffic, places=at)
    return decided(
        known, executors or TWO, slow_executors=slow, bytes_per_ms=MB / 10, least_ms=least_ms
    )


def letters(found: Decision | None, operator: str) -> str:
    assert found is not None
    return "".join(found.places[operator])


def test_tasks_of_an_overloaded_executor_are_spread():
    found = decision({"op": loads(10, 10, 10, 10)}, {"op": "aaaa"})
    assert sorted(letters(found, "op")) == ["a", "a", "b", "b"]
    assert found is not None
    assert (found.now_ms, found.then_ms, found.gain_ms) == (40, 20, 20)


def test_an_executor_with_more_cores_takes_more():
    found = decision({"op": loads(10, 10, 10, 10)}, {"op": "aaaa"}, {"a": 1, "b": 3})
    assert sorted(letters(found, "op")) == ["a", "b", "b", "b"]


def test_expensive_tasks_are_parted():
    found = decision({"op": loads(50, 10, 50, 10)}, {"op": "abab"})
    assert found is not None
    first, _, third, _ = letters(found, "op")
    assert first != third
    assert found.then_ms == 60


def test_an_executor_that_is_slow_is_left():
    traffic = {"op": loads(50, 10, 50, 10)}
    assert letters(decision(traffic, {"op": "abab"}, slow=True), "op") == "bbbb"


def test_an_executor_that_is_slow_for_one_operator_is_slow_for_another():
    traffic = {"one": loads(40, 10), "other": loads(80, 20)}
    found = decision(traffic, {"one": "ab", "other": "ab"}, slow=True)
    assert (letters(found, "one"), letters(found, "other")) == ("bb", "bb")


def test_heavy_channels_become_local_and_load_stays_balanced():
    channels = tuple(("one", task, MB) for task in range(4))
    traffic = {"one": loads(10, 10, 10, 10), "other": loads(10, 10, 10, 10, channels=channels)}
    found = decision(traffic, {"one": "abab", "other": "baba"})
    assert found is not None
    assert found.now_ms == 20 + 20 + 2 * 10  # each executor receives two megabytes
    assert found.then_ms == 20 + 20
    places = {"one": "abab", "other": "baba"} | {n: letters(found, n) for n in found.places}
    assert places["one"] == places["other"]


def test_traffic_within_an_executor_costs_nothing():
    channels = tuple(("one", task, MB) for task in range(4))
    traffic = {"one": loads(10, 10, 10, 10), "other": loads(10, 10, 10, 10, channels=channels)}
    assert decision(traffic, {"one": "abab", "other": "abab"}) is None


def test_nothing_is_decided_without_placed_tasks_or_with_too_many():
    assert decision({"op": loads(10, 10)}, {}) is None
    assert decision({}, {"op": "ab"}) is None
    assert decision({"op": loads(10, 10)}, {"op": "cc"}) is None  # an executor that is gone
    many = loads(*[10.0] * (MOST_TASKS + 1))
    assert decision({"op": many}, {"op": "a" * (MOST_TASKS + 1)}) is None
    assert (
        decision({"op": loads(*[10.0] * 60)}, {"op": "a" * 60}) is None
    )  # over what one request may place


@pytest.mark.parametrize("slow", [False, True])
def test_an_even_placement_stays(slow: bool):
    assert decision({"op": loads(10, 10, 10, 10)}, {"op": "abab"}, slow=slow) is None


def test_the_search_is_bounded(monkeypatch: pytest.MonkeyPatch):
    looks = 0
    cost = Problem.cost

    def counting(self: Problem, at: IntArray) -> tuple[float, float]:
        nonlocal looks
        looks += 1
        return cost(self, at)

    monkeypatch.setattr(Problem, "cost", counting)
    tasks = 50
    executors = {str(number): 1 for number in range(100)}
    known = Placing(
        samples=1,
        traffic={"op": loads(*range(1, tasks + 1))},
        places={"op": ("0",) * tasks},
    )
    found = decided(known, executors, slow_executors=False, bytes_per_ms=MB)
    assert found is not None
    assert found.then_ms < found.now_ms
    assert looks < MOST_LOOKS + tasks * (len(executors) + tasks)


def test_a_gain_below_the_least_is_not_looked_for():
    traffic = {"op": loads(10, 10, 10, 11)}
    assert decision(traffic, {"op": "abab"}, least_ms=0.1) is None
    found = decision({"op": loads(10, 10, 10, 10)}, {"op": "aaab"}, least_ms=10)
    assert found is not None
    assert decision({"op": loads(10, 10, 10, 10)}, {"op": "aaab"}, least_ms=11) is None


def test_samples_are_summed_and_begin_anew_when_tasks_move():
    one = {"op": loads(10, 20, channels=(("up", 0, 5), ("up", 1, 7)))}
    places = {"op": {0: "a", 1: "b"}}
    known = Placing().sampled(one, places)
    assert (known.samples, known.traffic) == (0, {})
    known = known.sampled(one, places).sampled(one, places)
    assert known.samples == 2
    assert known.traffic == together(one, one)
    first, second = known.traffic["op"].tasks
    assert (first.rows, first.busy_ms, first.channels) == (200, 20, (("up", 0, 10),))
    assert (second.rows, second.busy_ms, second.channels) == (200, 40, (("up", 1, 14),))
    assert decode(Placing, encode(known)) == known
    assert known.sampled(one, {"op": {0: "a", 1: "a"}}).samples == 0
