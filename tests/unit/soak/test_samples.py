"""Verdicts on samples: what is flat, what grows, and what cannot be judged."""

import numpy as np
import pytest

from tests.real.soak.samples import Limit, Rules, Sample, judge, theil_sen

RULES = Rules(from_s=3_600, span_s=300)
LIMIT = Limit(most=1_000, per_hour=10, warm_up_s=100)
AT_ONCE = Limit(most=1_000, per_hour=10, warm_up_s=0)


def series(value, of="1", begin=0, end=7_200, every=10):
    """Samples of a function of the time."""
    return [
        Sample(at_s=at, what="memory", of=of, value=value(at)) for at in range(begin, end, every)
    ]


def verdict(samples, limit=LIMIT, rules=RULES):
    (one,) = judge(samples, {"memory": limit}, rules)
    return one


def test_a_constant_is_flat():
    found = verdict(series(lambda at: 500))
    assert found.good
    assert found.judged
    assert found.slope == 0
    assert (found.samples, found.highest, found.span_s) == (720, 500, 3_590)


@pytest.mark.parametrize(("per_hour", "good"), [(9, True), (11, False)])
def test_growth_is_compared_with_the_bound(per_hour, good):
    found = verdict(series(lambda at: 100 + per_hour * at / 3_600))
    assert found.slope == pytest.approx(per_hour)
    assert found.good is good


def test_growth_of_the_first_half_is_warming_up():
    assert verdict(series(lambda at: min(at, 3_600) / 10)).good


def test_outliers_do_not_move_the_slope():
    noise = np.random.default_rng(1)
    spikes = dict.fromkeys(noise.choice(range(3_600, 7_200, 10), 60).tolist(), 400)
    found = verdict(series(lambda at: 200 + 5 * at / 3_600 + spikes.get(at, 0)))
    assert found.slope == pytest.approx(5, abs=1)


def test_the_highest_counts_whenever_it_was():
    assert not verdict(series(lambda at: 1_001 if at == 20 else 1)).good


def test_processes_that_follow_each_other_are_not_growth():
    lower = series(lambda at: 100, of="1", end=5_400)
    higher = series(lambda at: 900, of="2", begin=5_400)
    found = verdict(lower + higher)
    assert found.slope == 0
    assert found.good


def test_each_process_warms_up():
    young = series(lambda at: 100 + min(at - 3_600, 90), of="2", begin=3_600)
    assert verdict(young).slope == 0
    assert verdict(young, AT_ONCE).slope == 0  # robust
    few = Rules(from_s=3_600, span_s=80)
    assert verdict(young[:10], AT_ONCE, few).slope == pytest.approx(3_600)


def test_a_quantity_may_take_longer_to_warm_up():
    filling = series(lambda at: 100 + min(at - 3_600, 1_800) / 36, begin=3_600)
    assert verdict(filling).slope == pytest.approx(40, rel=0.2)
    found = verdict(filling, Limit(most=1_000, per_hour=10, warm_up_s=1_800))
    assert found.slope == 0
    assert found.judged
    leaking = series(lambda at: 100 + (at - 3_600) / 36, begin=3_600)
    assert not verdict(leaking, Limit(most=1_000, per_hour=10, warm_up_s=1_800)).good


def test_processes_that_do_not_live_long_enough_are_not_judged():
    short = [
        sample
        for begin in range(0, 7_200, 300)
        for sample in series(lambda at: at, of=str(begin), begin=begin, end=begin + 300)
    ]
    found = verdict(short, Limit(most=10_000, per_hour=10))
    assert found.slope is None
    assert found.good
    assert not found.judged
    assert "no slope" in str(found)


def test_nothing_measured_is_not_good():
    found = verdict([])
    assert not found.good
    assert not found.judged


def test_a_quantity_without_a_bound_of_its_slope_needs_none():
    found = verdict(series(lambda at: at / 10), Limit(most=1_000))
    assert found.good
    assert found.judged


def test_many_points_are_thinned_out():
    found = verdict(series(lambda at: at / 360, end=7_200, every=1))
    assert found.samples == 7_200
    assert found.slope == pytest.approx(10, rel=1e-6)


def test_pairs_at_one_time_have_no_slope():
    assert theil_sen([(np.array([1.0, 1.0]), np.array([1.0, 2.0]))]) is None
    assert theil_sen([]) is None
