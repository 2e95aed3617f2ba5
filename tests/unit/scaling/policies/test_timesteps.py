"""DS2 for timesteps: one step to the right cores, its interval, skew, and what it does when it knows little."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.model.costs import exact_cost
from rechannel.scaling.model.timesteps import Pace, Turn
from rechannel.scaling.policies.policy import Advice, Arrivals, Tasks
from rechannel.scaling.policies.samples import (
    GROUPS,
    KEPT,
    RECENT,
    added,
    for_operators,
    none_of,
    points_of,
)
from rechannel.scaling.policies.skew import heaviest, skews
from rechannel.scaling.policies.timesteps import TimestepDs2
from tests.unit.scaling.one_by_one import least_cores

from .windows import activity, batches, linear, tasks_of

COSTS = {"flatmap": (4.0, 0.1), "count": (6.0, 0.02)}
RATIO = 5.0


def short(rate: float, tasks: int, start_s: float):
    """A window of one timestep of ten seconds."""
    count = tasks_of(
        rate, tasks, fixed_ms=5, row_ms=1, timesteps=1, interval_ms=10_000, most_tasks=64
    )
    return batches(
        activities={"flatmap": count},
        rate=rate,
        executors=tasks,
        start_s=start_s,
        interval_ms=10_000,
        durations_ms=(10.0 * rate / tasks,),
    )


def test_a_short_window_in_which_the_load_grows_is_not_decided_on():
    policy, memory = TimestepDs2(), None
    for n in range(3):
        advice, memory = policy.decide(short(500, 1, 10.0 * n), memory)
    assert advice is None
    advice, memory = policy.decide(short(1_000, 1, 30), memory)  # half of it at 500, half at 1,500
    assert advice is not None
    assert advice.reason == "what arrives has just changed; one more window tells by how much"
    assert (advice.parallelism, advice.executors) == ({}, None)
    advice, memory = policy.decide(short(1_500, 1, 40), memory)
    assert advice.executors == 2
    advice, memory = policy.decide(short(3_000, 1, 50), memory)
    assert advice.executors == 4  # it grows on: nothing is waited for twice


def test_a_load_that_shrinks_is_decided_on_at_once():
    policy, memory = TimestepDs2(), None
    for n in range(3):
        _, memory = policy.decide(short(3_000, 4, 10.0 * n), memory)
    assert policy.decide(short(500, 4, 30), memory)[0].executors == 1


@pytest.mark.parametrize(
    ("took_ms", "executors"), [(10_000, 6), (12_500, 6), (20_000, 8), (30_000, 9)]
)
def test_what_is_missed_until_the_decision_holds_is_caught_up_with(took_ms, executors):
    """4,000 rows a second of 1 ms need 5 executors at 80 %, and the fixed part of a task one more.

    Of timesteps twice as long as their interval, half of what arrives in 30 s is missed: 3,000 rows a second for 20 s,
    for which the cores may be used fully.
    """
    seen = short(4_000, 4, 0)
    seen = replace(seen, cores=replace(seen.cores, durations_ms=(float(took_ms),)))
    policy = TimestepDs2(delay_s=30, catch_up_s=20, most_offset=1)
    advice, _ = policy.decide(seen, None)
    assert advice.executors == executors


def varied(tasks: int, random: np.random.Generator) -> np.ndarray:
    """Shares of rows that differ by some percent, as those of hashed keys do."""
    shares = 1 + 0.05 * random.standard_normal(tasks)
    return shares / shares.sum()


def stream(
    rate: float,
    tasks: dict[str, int],
    *,
    executors: int = 2,
    arriving: float | None = None,
    start_s: float = 0.0,
    driver_ms: float = 0.0,
    took: float = 1.0,
    shares=None,
    **of_cores,
):
    """A window of ten timesteps of a second, that take what the model says times `took`."""
    random = np.random.default_rng(int(start_s) + 1)
    made, whole = {}, driver_ms
    for name, arrives in (("flatmap", rate), ("count", rate * RATIO)):
        fixed, row = COSTS[name]
        own = (shares or {}).get(name)
        made[name] = tasks_of(
            arrives,
            tasks[name],
            fixed_ms=fixed,
            row_ms=row,
            timesteps=10,
            interval_ms=1000,
            shares=varied(tasks[name], random) if own is None else own,
            ratio=RATIO,
            **(of_cores.get(name) or {}),
        )
        waves = -(-tasks[name] // (2 * executors))
        rows = made[name].reports.records_in / 10
        whole += waves * (fixed + row * float(rows.max()))
    return batches(
        executors=executors,
        cores_per_executor=2,
        start_s=start_s,
        activities=made,
        rate=arriving or rate,
        interval_ms=1000.0,
        durations_ms=(whole * took,) * 10,
        driver_ms=driver_ms,
    )


def right_cores(rate: float, *, utilisation: float = 0.8, driver_ms: float = 0.0) -> int:
    turns = {
        name: Turn(rate=rate * (RATIO if name == "count" else 1), cost=exact_cost(*COSTS[name]))
        for name in COSTS
    }
    pace = Pace(interval_ms=1000, utilisation=utilisation, driver_ms=driver_ms)
    return least_cores(turns, pace).cores


def decided(seen, policy: TimestepDs2 | None = None) -> Advice | None:
    return (policy or TimestepDs2()).decide(seen, None)[0]


def in_full(seen, policy: TimestepDs2 | None = None) -> Advice:
    advice, _ = (policy or TimestepDs2()).in_full(seen, None)
    assert advice is not None
    return advice


@settings(max_examples=30)
@given(
    st.floats(500, 60_000),
    st.integers(1, 40),
    st.integers(2, 80),
    st.floats(0, 100),
)
def test_one_step_from_any_start(rate, executors, tasks, driver_ms):
    seen = stream(
        rate, {"flatmap": tasks, "count": tasks}, executors=executors, driver_ms=driver_ms
    )
    advice = decided(seen)
    right = right_cores(rate, driver_ms=driver_ms)
    # Tasks differ by some percent, and the heaviest of them counts.
    most = right_cores(rate * 1.25, driver_ms=driver_ms)
    present = {"flatmap": tasks, "count": tasks}
    executors_then = executors if advice is None else (advice.executors or executors)
    assert -(-right // 2) <= executors_then <= -(-most // 2)
    after = present if advice is None else present | advice.parallelism
    again = decided(
        stream(rate, after, executors=executors_then, driver_ms=driver_ms), TimestepDs2(gain=0.2)
    )
    assert again is None or abs(again.executors - executors_then) <= 1 + executors_then // 8


def test_ten_times_the_load_is_foreseen_in_one_step_although_tasks_have_a_fixed_cost():
    equal = {name: np.array([0.24, 0.26, 0.25, 0.25]) for name in COSTS}
    seen = stream(2_000, {"flatmap": 4, "count": 4}, arriving=20_000, shares=equal)
    advice = decided(seen)
    # At 1.04 times the mean: 10 + (2080 + 2080) / C <= 800 ms, so 6 cores.
    assert advice.evidence["cores"] == right_cores(20_000) == 6
    assert advice.executors == 3


def test_an_evaluation_says_what_binds_and_what_it_hangs_on():
    advice = decided(stream(20_000, {"flatmap": 4, "count": 4}))
    evidence = advice.evidence
    assert evidence["keeps"]
    assert evidence["binds"] == "timestep"
    assert evidence["used"] <= 1
    assert evidence["hangs_on"] in COSTS
    assert evidence["cores_low"] <= evidence["cores"] <= evidence["cores_high"]
    assert evidence["operators"]["flatmap"]["fixed_ms"] == pytest.approx(4, rel=0.01)
    assert evidence["operators"]["count"]["row_ms"] == pytest.approx(0.02, rel=0.01)
    assert advice.low.keys() == advice.high.keys() == {"flatmap", "count"}
    assert "keep an interval of 1000 ms at 80%" in advice.reason


def test_equal_tasks_leave_an_interval_and_another_parallelism_closes_it():
    equal = {name: np.full(4, 1 / 4) for name in COSTS}
    seen = stream(20_000, {"flatmap": 4, "count": 4}, shares=equal)
    policy = TimestepDs2()
    advice, memory = policy.decide(seen, None)
    wide = advice.evidence["cores_high"] - advice.evidence["cores_low"]
    equal = {name: np.full(16, 1 / 16) for name in COSTS}
    seen = stream(20_000, {"flatmap": 16, "count": 16}, shares=equal, executors=8)
    advice, _ = policy.decide(seen, memory)
    assert wide > 2
    assert advice.evidence["cores_high"] - advice.evidence["cores_low"] <= 1


def test_a_backlog_is_worked_off_within_the_catch_up_time():
    seen = stream(10_000, {"flatmap": 4, "count": 4})
    late = Arrivals(rate=10_000, backlog=600_000)
    behind = replace(seen, arrivals={"source": late})
    target = in_full(behind).evidence["operators"]["flatmap"]["target_per_s"]
    assert target == pytest.approx(20_000)
    ignoring = in_full(behind, TimestepDs2(catch_up_s=None))
    assert ignoring.evidence["operators"]["flatmap"]["target_per_s"] == 10_000


def test_time_that_no_task_reports_multiplies_costs():
    policy, memory = TimestepDs2(), None
    for number in range(4):
        seen = stream(10_000, {"flatmap": 4, "count": 4}, start_s=10.0 * number, took=1.3)
        advice, memory = policy.in_full(seen, memory)
    assert advice.evidence["offset"] == pytest.approx(1.3, rel=0.01)
    assert advice.evidence["cores"] >= right_cores(13_000)
    assert in_full(seen, TimestepDs2(most_offset=1)).evidence["offset"] == 1


def test_windows_of_few_timesteps_are_compared_together():
    policy, memory, offsets = TimestepDs2(), None, []
    for number in range(3):
        seen = stream(10_000, {"flatmap": 4, "count": 4}, start_s=10.0 * number, took=1.5)
        two = replace(seen.cores, durations_ms=seen.cores.durations_ms[:2])
        less = {
            name: replace(
                each, reports=replace(each.reports, records_in=each.reports.records_in / 5)
            )
            for name, each in seen.activities.items()
        }
        advice, memory = policy.in_full(replace(seen, cores=two, activities=less), memory)
        offsets.append(advice.evidence["offset"])
    assert offsets == [1, 1, pytest.approx(1.5, rel=0.02)]


def test_tasks_stay_if_others_are_hardly_better():
    # 21 tasks on 20 cores take two waves; 19 take one that is hardly longer than that of 20.
    rate = 60_000
    seen = stream(rate, {"flatmap": 19, "count": 21}, executors=10)
    advice = decided(seen, TimestepDs2(gain=0.1, utilisation=1))
    assert advice.parallelism["count"] != 21
    slots = 2 * advice.executors
    kept = stream(rate, {"flatmap": slots - 1, "count": slots}, executors=advice.executors)
    assert decided(kept, TimestepDs2(gain=0.15, utilisation=1)) is None


def test_no_number_of_cores_is_enough():
    equal = {name: np.array([0.2, 0.3, 0.5]) for name in COSTS}
    seen = stream(100, {"flatmap": 3, "count": 3}, shares=equal, driver_ms=900.0)
    advice = decided(seen)
    assert not advice.evidence["keeps"]
    assert "lengthen the interval" in advice.reason
    assert advice.executors < 10


def hot(share: float, tasks: int) -> np.ndarray:
    return np.array([share, *[(1 - share) / (tasks - 1)] * (tasks - 1)])


@pytest.mark.parametrize(
    ("measured", "remedy"),
    [
        ({}, "rebalance"),
        ({"heaviest_bin": 0.02, "heaviest_key": 0.02}, "rebalance"),
        ({"heaviest_bin": 0.5, "heaviest_key": 0.01}, "split"),
        ({"heaviest_bin": 0.5}, "split"),
        ({"heaviest_bin": 0.5, "heaviest_key": 0.49}, "spread"),
    ],
)
def test_skew_asks_for_another_change_than_more_tasks(measured, remedy):
    seen = stream(
        40_000,
        {"flatmap": 8, "count": 8},
        executors=4,
        shares={"count": hot(0.5, 8)},
        count=measured,
    )
    counts = seen.activities["count"]
    received = counts.reports.records_in.sum(keepdims=True)
    assert heaviest([counts], received, np.array([8.0])) == pytest.approx(4)
    advice = decided(seen)
    assert advice.remedies == {"count": remedy}
    assert f"4.0 times the mean: {remedy}" in advice.reason
    after = advice.evidence["operators"]["count"]["heaviest_after"]
    assert after == pytest.approx(4 if not measured else 1, abs=0.2)
    without, then = advice.evidence["cores_without_remedies"], advice.evidence["cores"]
    assert (without > then) == bool(measured)


def test_skew_of_an_operator_without_bins_has_no_remedy():
    shares = {"count": hot(0.5, 8)}
    tasks = {"flatmap": 8, "count": 8}
    advice = decided(stream(40_000, tasks, executors=4, shares=shares, count={"has_bins": False}))
    assert advice.remedies == {}
    assert advice.evidence["operators"]["count"]["heaviest_after"] == pytest.approx(4)


def test_skew_that_costs_next_to_nothing_needs_nothing():
    light = activity([50.0, 10, 10, 10], [1.0] * 4, heaviest_bin=0.6)
    tasks, work_ms = np.array([4.0, 4.0]), np.array([10.0, 1000.0])
    times = heaviest([light, light], np.array([80.0, 80.0]), tasks)
    assert skews([light, light], times, work_ms, tasks, 800.0).remedies == {1: "split"}
    assert heaviest([activity([0.0], [0.0])], np.zeros(1), np.ones(1)) == 1


def test_operators_that_nothing_has_reached_stay_and_so_do_executors():
    seen = stream(1000, {"flatmap": 4, "count": 4}, executors=9)
    idle = activity([0.0] * 4, [0.0] * 4)
    quiet = replace(seen, activities=seen.activities | {"count": idle})
    advice = in_full(quiet)
    assert advice.executors == 9
    assert "count" not in advice.parallelism
    assert in_full(seen).executors < 9
    nothing = replace(seen, activities={"flatmap": idle, "count": idle})
    assert decided(nothing) is None


def test_an_engine_without_timesteps_is_refused():
    with pytest.raises(RefusedError, match="give the cores of the engine"):
        TimestepDs2().decide(
            linear(1, {"flatmap": 1, "count": 1}, {"flatmap": 1, "count": 1}), None
        )


@settings(max_examples=20)
@given(st.floats(1000, 50_000), st.floats(1, 3))
def test_more_arrives_no_fewer_cores(rate, factor):
    tasks = {"flatmap": 6, "count": 6}
    cores = [
        in_full(stream(1000, tasks, executors=3, arriving=each)).executors
        for each in (rate, rate * factor)
    ]
    assert cores[0] <= cores[1]


@pytest.mark.parametrize(
    "wrong", [{"utilisation": 0}, {"catch_up_s": 0}, {"most_offset": 0.5}, {"gain": -1}]
)
def test_settings_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RefusedError, match="give"):
        TimestepDs2(**wrong)


class TestSamples:
    def test_a_straight_line_stays_one_and_stragglers_are_left_out(self):
        random = np.random.default_rng(2)
        rows = random.integers(0, 1000, 1000).astype(float)
        ms = 5 + 0.1 * rows
        ms[::10] *= 20
        (x, y), counts = points_of([Tasks(rows=rows, ms=ms), None])
        assert counts.tolist() == [GROUPS, 0]
        assert y[0] == pytest.approx(5 + 0.1 * x[0], rel=0.15)
        assert x[0, -1] - x[0, 0] > 600

    def test_few_tasks_are_points_themselves(self):
        (x, y), counts = points_of([Tasks(rows=np.array([3.0, 1]), ms=np.array([4.0, 2]))])
        assert (x[0, :2].tolist(), y[0, :2].tolist(), counts) == ([3, 1], [4, 2], [2])

    def test_the_last_windows_are_kept_and_those_with_fewest_and_most_rows(self):
        samples = none_of(("a",))
        for number in (5, 1, 4, 9, 3, 2, 6, 7, 8):
            one = Tasks(rows=np.array([float(number)]), ms=np.array([1.0]))
            samples = added(samples, {"a": one})
        assert sorted(samples.rows[samples.there].tolist()) == [1, 2, 6, 7, 8, 9]

    def test_what_is_too_old_makes_room(self):
        samples = none_of(("a",))
        for number in (1, *[5] * (KEPT + RECENT + 2)):
            one = Tasks(rows=np.array([float(number)]), ms=np.array([1.0]))
            samples = added(samples, {"a": one})
        assert samples.rows[samples.there].tolist() == [5] * (RECENT + 2)

    def test_operators_come_and_go(self):
        samples = added(none_of(("a", "b")), {"b": Tasks(rows=np.ones(1), ms=np.ones(1))})
        other = for_operators(samples, ("b", "c"))
        assert other.there.sum(axis=1).tolist() == [1, 0]
        assert for_operators(other, ("b", "c")) is other
