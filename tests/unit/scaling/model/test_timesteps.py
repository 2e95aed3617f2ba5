"""Cores and tasks of a micro-batch engine: compared with trying every number."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.model.costs import exact_cost
from rechannel.scaling.model.timesteps import (
    Pace,
    Turn,
    best_tasks,
    fit,
    turn_ms,
)
from tests.unit.scaling.one_by_one import least_cores, slots

HERON = {
    "flatmap": Turn(rate=1e6 / 60, cost=exact_cost(0, 60e3 / 1e5)),
    "count": Turn(rate=20e6 / 60, cost=exact_cost(0, 60e3 / 1e6)),
}

turns = st.builds(
    Turn,
    rate=st.floats(0, 1e5),
    cost=st.builds(exact_cost, st.floats(0, 50), st.floats(0, 0.05)),
    heaviest=st.floats(1, 4),
)
paces = st.builds(
    Pace,
    interval_ms=st.floats(100, 5000),
    utilisation=st.floats(0.3, 1),
    in_flight=st.integers(1, 3),
    driver_ms=st.floats(0, 50),
    launch_ms=st.floats(0, 2),
)


def test_with_a_core_for_every_task_it_is_ds2():
    pace = Pace(interval_ms=1000, utilisation=1)
    assert {name: slots(turn, pace) for name, turn in HERON.items()} == {"flatmap": 10, "count": 20}
    assert least_cores(HERON, pace).cores == 30


def test_a_fixed_cost_is_paid_by_every_task():
    turn = Turn(rate=1000, cost=exact_cost(100, 1.0))
    assert (
        slots(turn, Pace(interval_ms=1000, utilisation=1)) == 2
    )  # 100 + 1000 / 2 ms; one task would need 1100
    assert slots(turn, Pace(interval_ms=100, utilisation=1)) is None


@given(turns, paces, st.integers(1, 60))
def test_no_number_of_tasks_has_a_shorter_turn(turn, pace, cores):
    best = best_tasks(turn, pace, cores)
    shortest = min(turn_ms(turn, pace, tasks, cores) for tasks in range(1, 2 * cores + 2))
    assert turn_ms(turn, pace, best, cores) == pytest.approx(shortest)


@given(st.dictionaries(st.sampled_from("abcd"), turns, min_size=1), paces)
def test_no_fewer_cores_keep_the_interval(operators, pace):
    found = least_cores(operators, pace, most=60)
    first = next((cores for cores in range(1, 61) if fit(operators, pace, cores).keeps), None)
    assert (found.cores, found.keeps) == ((60, False) if first is None else (first, True))


def test_what_binds_is_named():
    heavy = {
        "a": Turn(rate=1000, cost=exact_cost(0, 0.1)),
        "b": Turn(rate=1000, cost=exact_cost(900, 0)),
    }
    pace = Pace(interval_ms=1000, in_flight=2)
    assert fit(heavy, pace, 4).binds == "b"
    assert fit(HERON, Pace(interval_ms=1000, in_flight=9), 4).binds == "cores"
    assert fit(heavy, Pace(interval_ms=1000, driver_ms=5000), 4).binds == "timestep"


@pytest.mark.parametrize(
    "wrong", [{"interval_ms": 0}, {"utilisation": 1.5}, {"in_flight": 0}, {"driver_ms": -1}]
)
def test_a_pace_that_makes_no_sense_is_refused(wrong):
    with pytest.raises(RefusedError, match="give"):
        Pace(**({"interval_ms": 1000} | wrong))
