"""The decision about the interval, on a simple queue."""

import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rechannel.control.library.pacing import (
    LASTING,
    Course,
    Goal,
    Sample,
    Size,
    acceptable,
    fitted,
    learnt,
    next_interval,
)
from tests.unit.control.library.queueing import Queue, settled_at, simulated, turns

GOAL = Goal(share=0.8, least_ms=20, most_ms=60_000)
STEPS = (1, 2, 4, 1)
QUEUES = st.builds(
    lambda fixed, share, rate, delay: (Queue(a=fixed, b=share / rate, delay=delay), rate),
    st.floats(5, 500),
    st.floats(0.05, 0.2),
    st.floats(0.5, 50),
    st.sampled_from([1, 2]),
)
"""Cost of timesteps, and the rate of the first step of load, which is 5 to 20 % of the capacity."""


@settings(max_examples=100)
@given(QUEUES)
def test_it_settles_within_ten_timesteps_with_at_most_one_turn_per_step_of_load(drawn):
    queue, rate = drawn
    for factor, steps in zip(STEPS, simulated(queue, [rate * f for f in STEPS], GOAL), strict=True):
        assert settled_at(steps) <= 10
        assert turns(steps) <= 1
        busy = steps[-1].busy_ms / steps[-1].interval
        load = queue.b * rate * factor
        assert busy <= 0.91 + 0.1 * (load > 0.6)  # it sustains the input
        shortest = queue.a / (max(0.8, (1 + load) / 2) - load)
        assert steps[-1].interval <= 2.5 * max(20, shortest)


@settings(max_examples=100)
@given(QUEUES, st.integers(0, 1_000))
def test_measurements_that_vary_by_five_percent_do_not_make_it_oscillate(drawn, seed):
    queue, rate = drawn
    noisy = Queue(a=queue.a, b=queue.b, delay=queue.delay, noise=0.05)
    for steps in simulated(noisy, [rate * f for f in STEPS], GOAL, seed=seed):
        assert turns(steps) <= 1
        late = [step for step in steps[11:] if step.chosen is not None]
        assert len(late) <= 1


@pytest.mark.parametrize("seed", range(40))
def test_timesteps_that_now_and_then_take_long_do_not_make_it_oscillate(seed):
    """Their times are log-normal; some 5 % take a fifth longer or more."""
    queue = Queue(a=10 + 10 * seed, b=0.005 * (1 + seed % 4) / 5, wild=0.1)
    for steps in simulated(queue, [50 * f / (1 + seed % 4) * 0.6 for f in STEPS], GOAL, seed=seed):
        assert turns(steps) <= 1


SIZES = (Size(rows=100, busy_ms=80, timestep=1),)
"""An interval of 100 ms is best; 90 and 120 ms are within the dead band."""


@pytest.mark.parametrize(
    ("interval", "course", "chosen", "outside"),
    [
        (100, Course(), 100, 0),
        (87, Course(), 87, 1),  # a little outside once
        (87, Course(outside=1), 100, 1),
        (40, Course(), 100, 1),  # far outside
        (10, Course(), 40, 1),  # at most four times as long
        (300, Course(), 140, 1),  # damped
        (300, Course(way=1, turned_at=1.1), 300, 1),  # a second turn at the same load
        (300, Course(way=1, turned_at=2.0), 140, 1),  # the load has changed since
        (87, Course(outside=1, way=-1, turned_at=1.0), 87, 2),
        (70, Course(way=-1, turned_at=1.0), 100, 1),  # it has to keep up
    ],
)
def test_when_the_interval_changes(interval, course, chosen, outside):
    made, after = next_interval(SIZES, 1.0, interval, GOAL, course)
    assert (made, after.outside) == (chosen, outside)


def test_rows_of_a_load_that_fits_have_the_latency_that_was_asked_for():
    goal = Goal(share=0.8, least_ms=20, most_ms=60_000, latency_ms=1_000, overhead=0.05)
    queue = Queue(a=40, b=0.15)
    for steps in simulated(queue, [1, 2, 4, 1], goal):
        late = [step for step in steps[10:] if step.lag_ms > 1_050]
        assert late == []
        assert steps[-1].interval > 350  # the overhead wants it long


def test_a_bound_on_overhead_makes_intervals_longer():
    a, b, rate = 20.0, 0.1, 2.0
    _, short, _ = acceptable(a, b, rate, GOAL)
    goal = Goal(share=0.8, least_ms=20, most_ms=60_000, overhead=0.1)
    _, best, _ = acceptable(a, b, rate, goal)
    assert best > short
    assert a / (a + b * rate * best) == pytest.approx(0.1)


def test_an_input_above_the_capacity_has_no_interval():
    assert acceptable(20.0, 1.0, 1.0, GOAL)[1] == math.inf
    steps = simulated(Queue(a=20, b=1), [1.5], GOAL)[0]
    assert all(step.chosen is None or step.chosen > step.interval for step in steps)


def test_the_cost_is_fitted_to_timesteps_of_different_sizes():
    sizes = tuple(Size(rows=n, busy_ms=30 + 0.2 * n, timestep=n) for n in (100, 200, 900))
    assert fitted(sizes) == pytest.approx((30, 0.2))


@pytest.mark.parametrize(
    ("points", "cost"),
    [
        ([(100, 50), (110, 80)], (80, 0)),  # sizes that are alike
        ([(100, 50), (900, 40)], (45, 0)),  # larger ones are not slower
        ([(100, 10), (1_000, 200)], (0, 0.15)),  # no fixed cost
    ],
)
def test_a_fit_that_makes_no_sense_is_replaced_by_a_careful_one(points, cost):
    sizes = tuple(Size(rows=n, busy_ms=ms, timestep=0) for n, ms in points)
    assert fitted(sizes) == pytest.approx(cost)


def test_timesteps_of_one_size_are_smoothed():
    sizes: tuple[Size, ...] = ()
    for timestep, ms in enumerate((10, 20)):
        sample = Sample(timestep=timestep, rows=100, busy_ms=ms, span_ms=50)
        sizes = learnt(sizes, sample)
    assert sizes == (Size(rows=100, busy_ms=12.5, timestep=1),)  # 20 is more than 1.5 times 10


@pytest.mark.parametrize(
    ("since", "fixed", "shrinks"), [(1, 55, False), (1, 25, True), (95, 55, True)]
)
def test_a_settled_interval_shrinks_only_where_it_is_twice_as_long_as_it_has_to_be(
    since, fixed, shrinks
):
    """Longest acceptable intervals: 85 and 38 ms. The load began 99 timesteps ago, or 5."""
    sizes = (Size(rows=100, busy_ms=fixed, timestep=100),)
    course = Course(outside=99, rate=1.0, since=since)
    chosen, after = next_interval(sizes, 1.1, 100, GOAL, course)
    assert (chosen < 100) == shrinks
    assert (after.rate, after.since) == (1.0, since)


def test_a_settled_interval_does_not_follow_a_few_long_timesteps():
    """Busy for 99 % of the interval: more than the 98 % that are acceptable."""
    sizes = (Size(rows=100, busy_ms=99, timestep=100),)
    course, chosen = Course(rate=1.0, since=1), []
    for _ in range(LASTING + 2):
        interval, course = next_interval(sizes, 1.0, 100, GOAL, course)
        chosen.append(interval)
    assert chosen[:-1] == [100] * (LASTING + 1)
    assert chosen[-1] > 100


def test_timesteps_that_still_fit_do_not_make_a_settled_interval_longer():
    """Busy for 95 % of the interval: too much for a new load, and not for a settled one."""
    sizes = (Size(rows=100, busy_ms=95, timestep=100),)
    outside = Course(outside=99, rate=1.0, since=1)
    assert next_interval(sizes, 1.0, 100, GOAL, outside)[0] == 100
    assert next_interval(sizes, 1.0, 100, GOAL, replace(outside, since=95))[0] > 100


def test_another_load_lets_an_interval_shrink_again():
    sizes = (Size(rows=100, busy_ms=55, timestep=100),)
    chosen, after = next_interval(sizes, 0.5, 100, GOAL, Course(outside=1, rate=1.0, since=1))
    assert chosen < 100
    assert (after.rate, after.since) == (0.5, 100)
