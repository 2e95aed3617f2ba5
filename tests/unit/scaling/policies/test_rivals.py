"""Rivals of DS2: their published formulas, with numbers computed by hand."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.policies.dhalion import DOWN, UP, Dhalion, Used, pressures
from rechannel.scaling.policies.dynamic_allocation import (
    Batches,
    DynamicAllocation,
    Requested,
    StreamingDynamicAllocation,
)
from rechannel.scaling.policies.policy import Policy
from rechannel.scaling.policies.registry import POLICIES, policy_named
from rechannel.scaling.policies.threshold import Threshold

from .windows import activity, batches, linear


def pressed(
    source: float,
    flatmap: float = 0.0,
    *,
    start_s: float = 0.0,
    instances: int = 2,
    **of_flatmap: object,
):
    """A window in which the source and flatmap wait for room for these shares of the time."""
    seen = linear(100, {"flatmap": instances, "count": 3}, {"flatmap": 100, "count": 100})
    flat = activity([10.0] * instances, [1.0] * instances, blocked=flatmap)
    made = {
        "source": activity([100.0], [1.0], blocked=source),
        "flatmap": replace(flat, **of_flatmap),
        "count": activity([10.0] * 3, [1.0] * 3),
    }
    return replace(seen, activities=made, start_s=start_s, end_s=start_s + 60)


class TestDhalion:
    @pytest.mark.parametrize(
        ("share", "instances", "more"),
        [(0.5, 2, 4), (0.2, 2, 3), (0.75, 3, 12), (0.9, 2, 10), (1.0, 2, 10)],
    )
    def test_the_factor(self, share, instances, more):
        # 0.5: 2 (1 + 1); 0.2: 2 (1 + 1/4) = 2.5; 0.75: 3 (1 + 3); above 0.8 the factor is at most 5.
        advice, _ = Dhalion().decide(pressed(share, instances=instances), None)
        assert advice.parallelism == {"flatmap": more}

    def test_back_pressure_comes_from_what_does_not_wait_itself(self):
        assert pressures(pressed(0.6, 0.3), 0.02) == {"count": 0.3}
        assert pressures(pressed(0.6, 0.01), 0.02) == {"flatmap": 0.6}
        assert pressures(pressed(0.02), 0.02) == {}

    def test_a_source_that_does_not_report_waits_for_what_it_does_not_emit(self):
        seen = linear(400, {"flatmap": 1, "count": 9}, {"flatmap": 100, "count": 100}, backlog=3000)
        assert pressures(seen, 0.02) == {"flatmap": 0.75}

    @pytest.mark.parametrize(("each", "more"), [(0.05, 5), (0.2, 20), (0.01, 5)])
    def test_heron_adds_up_what_instances_cause(self, each, more):
        # 4 x 0.05 is 0.2: 4 (1 + 1/4); 4 x 0.2 is 0.8: 4 (1 + 4); 4 x 0.01 is 0.04: 4 (1 + 1/24).
        seen = pressed(0.0, instances=4, pressing=(each,) * 4)
        advice, _ = Dhalion().decide(seen, None)
        assert advice.parallelism == {"flatmap": more}

    def test_one_operator_is_helped_where_several_cause_it(self):
        seen = pressed(0.0, pressing=(0.4, 0.4))
        count = replace(seen.activities["count"], pressing=(0.3, 0.3, 0.3))
        seen = replace(seen, activities={**seen.activities, "count": count})
        assert pressures(seen, 0.02) == pytest.approx({"flatmap": 0.8, "count": 0.9})
        assert Dhalion().decide(seen, None)[0].parallelism == {"count": 15}

    def test_nothing_is_decided_while_an_action_settles(self):
        _, log = Dhalion().decide(pressed(0.5), None)
        assert Dhalion().decide(pressed(0.5, start_s=239), log) == (None, log)
        assert Dhalion().decide(pressed(0.5, start_s=240), log)[0] is not None

    @pytest.mark.parametrize(
        ("of_flatmap", "diagnosis"),
        [
            ({"queued": (30.0, 31.0)}, "under-provisioned"),
            ({"queued": (1.0, 21.0)}, "slow instance"),
            (
                {"reports": activity([10.0, 16.0], [1.0, 1.0]).reports, "queued": (1.0, 50.0)},
                "skewed data",
            ),
        ],
    )
    def test_diagnoses(self, of_flatmap, diagnosis):
        seen = pressed(0.5, **of_flatmap)
        assert Dhalion().diagnosis(seen.activities["flatmap"]) == diagnosis
        advised = Dhalion().decide(seen, None)[0] is not None
        assert advised == (diagnosis == "under-provisioned")

    def test_what_did_not_help_three_times_is_on_the_blacklist(self):
        policy, log, advised = Dhalion(wait_s=0), None, []
        for number in range(5):
            advice, log = policy.decide(pressed(0.5, start_s=60 * number), log)
            advised.append(advice is not None)
        assert advised == [True, True, True, False, False]
        assert [each.helped for each in log] == [False] * 3

    def test_what_helped_is_not(self):
        policy, log = Dhalion(wait_s=0), None
        for number in range(6):
            share = 0.5 - 0.05 * number
            advice, log = policy.decide(pressed(share, start_s=60 * number), log)
            assert advice is not None
        assert [each.helped for each in log] == [True] * 5 + [None]

    def test_operators_without_work_shrink_if_that_is_asked_for(self):
        assert Dhalion().decide(pressed(0.0), None)[0] is None
        advice, log = Dhalion(scale_down=0.5).decide(pressed(0.0, instances=5), None)
        assert advice.parallelism == {"flatmap": 3, "count": 2}
        assert {each.action for each in log} == {DOWN}
        bad = tuple(
            Used(at_s=-600, operator="count", action=DOWN, pressure=0.0, helped=False)
            for _ in range(3)
        )
        advice, _ = Dhalion(scale_down=0.5).decide(pressed(0.0, instances=5), bad)
        assert advice.parallelism == {"flatmap": 3}

    def test_an_action_names_what_it_was_for(self):
        _, log = Dhalion().decide(pressed(0.5), None)
        assert log == (Used(at_s=60.0, operator="flatmap", action=UP, pressure=0.5),)


class TestThreshold:
    def test_one_step_for_each_operator_out_of_the_thresholds(self):
        seen = linear(90, {"flatmap": 1, "count": 9}, {"flatmap": 100, "count": 100})
        advice, _ = Threshold().decide(seen, None)  # busy: 90 %, 20 %
        assert advice.parallelism == {"flatmap": 2, "count": 8}
        assert Threshold(high=0.9, low=0.1).decide(seen, None)[0] is None

    def test_it_counts_executors_where_operators_share_them(self):
        assert Threshold().decide(batches(busy=0.81), None)[0].executors == 3
        assert Threshold().decide(batches(busy=0.29), None)[0].executors == 1
        assert Threshold().decide(batches(busy=0.29, executors=1), None)[0] is None


def waiting(tasks: int, waited_s: float, *, executors: int = 1, window_s: float = 1.0, **more):
    return batches(
        executors=executors,
        window_s=window_s,
        waiting_tasks=tasks,
        waiting_s=waited_s,
        **({"cores_per_executor": 1} | more),
    )


class TestDynamicAllocation:
    def test_requests_double_as_long_as_tasks_wait(self):
        policy, state, targets = DynamicAllocation(), None, []
        for second in range(1, 6):
            _, state = policy.decide(waiting(100, float(second)), state)
            targets.append(state.target)
        assert targets == [2, 4, 8, 16, 32]

    def test_timeouts_that_passed_within_one_window_all_count(self):
        advice, state = DynamicAllocation().decide(waiting(100, 5.5, window_s=60.0), None)
        assert (advice.executors, state.add) == (32, 32)
        advice, state = DynamicAllocation().decide(waiting(100, 5.5), None)
        assert (advice.executors, state.add) == (2, 2)

    def test_nothing_is_requested_before_the_timeout(self):
        assert DynamicAllocation().decide(waiting(100, 0.9), None)[0] is None

    def test_no_more_than_the_tasks_could_fill_and_then_from_one_again(self):
        # Five tasks run or wait on executors of two cores: three executors.
        policy = DynamicAllocation()
        seen = waiting(3, 10.0, window_s=10.0, cores_per_executor=2)
        advice, state = policy.decide(seen, None)
        assert (advice.executors, state) == (3, Requested(target=3, add=1))

    def test_the_most_executors(self):
        policy = DynamicAllocation(most_executors=5)
        assert policy.decide(waiting(100, 9.0, window_s=9.0), None)[0].executors == 5

    def test_executors_leave_when_they_were_idle_for_long(self):
        seen = batches(executors=4, idle_s=(0.0, 59.0, 60.0, 200.0))
        advice, state = DynamicAllocation().decide(seen, Requested(target=9, add=8))
        assert (advice.executors, state) == (2, Requested(target=2, add=1))
        assert DynamicAllocation(least_executors=3).decide(seen, None)[0].executors == 3

    def test_it_says_nothing_of_an_engine_without_executors(self):
        seen = linear(1, {"flatmap": 1, "count": 1}, {"flatmap": 1, "count": 1})
        assert DynamicAllocation().decide(seen, None) == (None, None)
        assert StreamingDynamicAllocation().decide(seen, None) == (None, None)


class TestStreamingDynamicAllocation:
    @pytest.mark.parametrize(
        ("took", "executors"),
        [
            (899, 4),
            (900, 5),
            (1499, 5),
            (1500, 6),
            (3400, 7),
            (300, 3),
            (301, 4),
        ],
    )
    def test_the_ratio_rounded_is_added_and_one_is_removed(self, took, executors):
        seen = batches(
            executors=4, window_s=60, interval_ms=1000, durations_ms=(took - 100.0, took + 100.0)
        )
        advice, _ = StreamingDynamicAllocation().decide(seen, None)
        assert (4 if advice is None else advice.executors) == executors

    def test_windows_are_averaged_over_the_interval(self):
        policy, state = StreamingDynamicAllocation(), None
        given = {"executors": 4, "window_s": 30, "interval_ms": 1000}
        advice, state = policy.decide(batches(**given, durations_ms=(500.0,)), state)
        assert (advice, state) == (None, Batches(since_s=0.0, sum_ms=500.0, count=1))
        later = batches(**given, start_s=30, durations_ms=(1700.0, 1700.0))
        advice, state = policy.decide(later, state)
        assert (advice.executors, state) == (5, Batches(since_s=60.0))

    def test_bounds(self):
        late = batches(executors=4, window_s=60, interval_ms=1000, durations_ms=(9000.0,))
        assert StreamingDynamicAllocation(most_executors=6).decide(late, None)[0].executors == 6
        idle = batches(executors=1, window_s=60, interval_ms=1000, durations_ms=(9.0,))
        assert StreamingDynamicAllocation().decide(idle, None)[0] is None


@pytest.mark.parametrize(
    ("made", "wrong"),
    [
        (Dhalion, {"noise": 1}),
        (Dhalion, {"scale_down": 0}),
        (Threshold, {"high": 0.2}),
        (DynamicAllocation, {"backlog_timeout_s": 0}),
        (DynamicAllocation, {"least_executors": 3, "most_executors": 2}),
        (StreamingDynamicAllocation, {"down_ratio": 1}),
    ],
)
def test_settings_that_make_no_sense_are_refused(made, wrong):
    with pytest.raises(RefusedError, match="give"):
        made(**wrong)


@given(st.integers(0, 9), st.integers(9, 20), st.integers(0, 500), st.floats(0, 300))
def test_dynamic_allocation_stays_within_its_bounds(least, most, tasks, seconds):
    policy = DynamicAllocation(least_executors=least, most_executors=most)
    state, executors = None, 9
    for _ in range(4):
        seen = waiting(tasks, seconds, executors=executors, window_s=60.0)
        advice, state = policy.decide(seen, state)
        executors = executors if advice is None else advice.executors
        assert least <= executors <= most
        idle = batches(executors=executors, idle_s=(seconds,) * executors)
        advice, state = policy.decide(idle, state)
        executors = executors if advice is None else advice.executors
        assert least <= executors <= most


def test_policies_have_names():
    assert all(isinstance(policy_named(name), Policy) for name in POLICIES)
    with pytest.raises(RefusedError, match="policy 'ds3': there is none; give one of ds2, ds2-tim"):
        policy_named("ds3")
