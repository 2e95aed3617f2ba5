"""Many operators at once: the same answers as one by one."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.scaling.model.cores import Turns, least_cores_each
from rechannel.scaling.model.costs import exact_cost
from rechannel.scaling.model.fits import task_costs
from rechannel.scaling.model.optimal import targets_of
from rechannel.scaling.model.timesteps import Pace, Turn, best_tasks, fit, fit_of
from rechannel.scaling.model.topology import topology
from tests.unit.scaling.one_by_one import least_cores, task_cost


def test_every_operator_gets_the_line_that_it_would_get_alone():
    random = np.random.default_rng(3)
    rows = random.integers(0, 1000, (5, 40)).astype(float)
    fixed, row = (
        np.array([[0.0], [5], [20], [100], [3]]),
        np.array([[0.1], [0.05], [0], [0.2], [1]]),
    )
    ms = np.maximum(fixed + row * rows + random.normal(0, 1, rows.shape), 0.01)
    ms[:, ::7] *= 8
    rows[4] = 500.0  # tells nothing apart
    there = np.ones(rows.shape, dtype=bool)
    there[1, 30:] = there[2, 2:] = False
    together = task_costs(rows, ms, there)
    for place in range(5):
        here = there[place]
        alone, one = task_cost(rows[place][here], ms[place][here]), together.of(place)
        assert one.samples == alone.samples == here.sum()
        if place in (2, 4):  # two tasks, and equal rows: nothing is fixed, or all
            assert (one.fixed_ms, one.steep[0]) == (0, 0)
            assert one.flat == pytest.approx(alone.flat)
            continue
        middle = alone.fixed_ms + alone.row_ms * rows[place][here].mean()
        error, half = (alone.flat[0] - alone.fixed_ms) / 2, middle / 2
        trust = half**2 / (half**2 + error**2)
        assert one.fixed_ms == pytest.approx(trust * alone.fixed_ms, rel=0.05, abs=1e-9)
        assert one.flat[0] - one.fixed_ms == pytest.approx(2 * error * trust**0.5, rel=0.05)
        assert one.ms(rows[place][here].mean()) == pytest.approx(middle, rel=0.05)


@pytest.mark.parametrize(("noise", "fixed"), [(0.001, 20), (1000.0, 0)])
def test_what_the_tasks_do_not_tell_is_taken_to_be_proportional(noise, fixed):
    random = np.random.default_rng(5)
    rows = 1000 + random.normal(0, 10, (1, 60))
    ms = np.maximum(20 + 0.1 * rows + noise * random.normal(0, 0.02, rows.shape), 1.0)
    cost = task_costs(rows, ms, np.ones(rows.shape, dtype=bool)).of(0)
    assert cost.fixed_ms == pytest.approx(fixed, abs=5)
    assert cost.ms(1000) == pytest.approx(120, rel=0.1)
    assert (cost.flat[0] - cost.steep[0] > 60) == (noise > 1)


def test_operators_without_tasks_and_without_rows():
    there = np.array([[False, False], [True, True]])
    costs = task_costs(np.zeros((2, 2)), np.full((2, 2), 7.0), there)
    assert costs.known.tolist() == [False, True]
    assert costs.fixed_ms[:, 1].tolist() == [7.0] * 3
    assert not costs.row_ms.any()
    assert not costs.fixed_ms[:, 0].any()


turns = st.builds(
    Turn,
    rate=st.floats(0, 1e5),
    cost=st.builds(exact_cost, st.floats(0, 50), st.floats(0, 0.05)),
    heaviest=st.floats(1, 4),
    most_tasks=st.integers(1, 300),
)
paces = st.builds(
    Pace,
    interval_ms=st.floats(100, 5000),
    utilisation=st.floats(0.3, 1),
    in_flight=st.integers(1, 3),
    driver_ms=st.floats(0, 50),
    launch_ms=st.floats(0, 2),
)


def arrays(suppositions: list[list[Turn]], pace: Pace) -> Turns:
    def of(read):
        return np.array([[float(read(turn)) for turn in each] for each in suppositions])

    return Turns(
        rows=of(lambda turn: turn.rate * pace.interval_ms / 1e3),
        fixed_ms=of(lambda turn: turn.cost.fixed_ms),
        row_ms=of(lambda turn: turn.cost.row_ms),
        heaviest=of(lambda turn: turn.heaviest),
        most_tasks=of(lambda turn: turn.most_tasks),
    )


@given(st.lists(st.tuples(turns, turns), min_size=1, max_size=3), paces, st.integers(1, 3000))
def test_every_supposition_gets_the_cores_that_it_would_get_alone(pairs, pace, most):
    suppositions = [list(pair) for pair in pairs]
    cores, keeps = least_cores_each(arrays(suppositions, pace), pace, most=most)
    for place, each in enumerate(suppositions):
        alone = least_cores(dict(enumerate(each)), pace, most=most)
        assert keeps[place] == alone.keeps
        assert not alone.keeps or cores[place] == alone.cores
        assert 1 <= cores[place] <= most


@given(st.lists(turns, min_size=1, max_size=4), paces, st.integers(1, 3000))
def test_where_no_number_of_cores_does_the_answer_comes_near_and_one_core_less_does_not(
    given_turns, pace, most
):
    hurried = replace(pace, driver_ms=2 * pace.in_flight * pace.interval_ms)
    one = arrays([given_turns], hurried)
    cores, keeps = least_cores_each(one, hurried, most=most)
    assert not keeps[0]

    def used(number):
        return one.at_best(hurried, np.array([[float(number)]])).used[0]

    nearest = used(most)
    assert used(cores[0]) <= 1.05 * nearest
    if cores[0] > 1:
        assert used(cores[0] - 1) > 1.05 * nearest


@given(st.lists(turns, min_size=1, max_size=4), paces, st.integers(1, 100))
def test_tasks_turns_and_bounds_are_those_of_one_by_one(given_turns, pace, cores):
    together = arrays([given_turns], pace)
    at = np.full((1, 1), float(cores))
    best = together.at_best(pace, at)
    named = dict(enumerate(given_turns))
    alone = fit(named, pace, cores)
    assert best.turns_ms.sum() == pytest.approx(sum(alone.turns_ms.values()))
    assert best.used[0] == pytest.approx(alone.used, rel=1e-6)
    assert max(best.tasks[0]) <= cores
    some = {name: best_tasks(turn, pace, cores) + 3 for name, turn in named.items()}
    present = np.array([[float(number) for number in some.values()]])
    took = together.took(pace, present, at)
    together_used = together.taken(pace, present, at, took).used[0]
    assert together_used == pytest.approx(fit_of(named, pace, cores, some).used)


def test_if_no_number_of_cores_does_the_least_that_comes_near():
    # 900 ms are fixed; 800 are allowed. The rows add 1000 ms / cores: 20 cores come within 5 % of 900.
    pace = Pace(interval_ms=1000)
    one = arrays([[Turn(rate=1000, cost=exact_cost(900, 1.0))]], pace)
    cores, keeps = least_cores_each(one, pace, most=10_000)
    assert not keeps[0]
    assert 900 + 1000 / cores[0] <= 1.05 * (900 + 0.1) < 900 + 1000 / (cores[0] - 1)


def test_targets_travel_along_the_edges():
    graph = topology([("s", "a"), ("s", "b"), ("a", "c"), ("b", "c")])
    ratios = {("s", "a"): 1.0, ("s", "b"): 0.5, ("a", "c"): 2.0, ("b", "c"): 1.0}
    assert targets_of(graph, ratios, {"s": 10.0}) == {"s": 10, "a": 10, "b": 5, "c": 25}
