"""Loads: exact integrals, whatever the cut, and the same again with the same seed."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import RefusedError
from rechannel.scaling.simulator.loads import (
    DAY_S,
    Bursts,
    Constant,
    Noise,
    Steps,
    Stopped,
    Sum,
    Wave,
    mean_rate,
    uniform,
)

WAVE = Wave(mean=100, swing=40, period_s=600, peak_s=100)
STEPS = Steps(rates=((10, 5), (20, 0), (30, 8)))

loads = st.recursive(
    st.sampled_from([Constant(rate=7), STEPS, WAVE]),
    lambda inner: st.one_of(
        st.builds(Noise, load=inner, seed=st.integers(0, 9), piece_s=st.floats(1, 50)),
        st.builds(
            Bursts,
            load=inner,
            seed=st.integers(0, 9),
            every_s=st.floats(40, 90),
            lasts_s=st.floats(1, 40),
        ),
        st.builds(Stopped, load=inner, from_s=st.just(33.0), until_s=st.floats(34, 70)),
        st.builds(lambda a, b: Sum(loads=(a, b)), inner, inner),
    ),
    max_leaves=3,
)


@given(loads, st.lists(st.floats(0, 300), min_size=2, max_size=8, unique=True))
def test_an_hour_is_the_sum_of_its_seconds(load, cuts):
    edges = np.sort(np.array(cuts))
    parts = load.arrivals(edges)
    assert (parts >= 0).all()
    assert parts.sum() == pytest.approx(load.arrivals(edges[[0, -1]])[0], abs=1e-6)


def test_steps_begin_with_the_first_and_last_for_ever():
    assert STEPS.arrivals(np.array([0.0, 10, 15, 25, 31, 41])).tolist() == [0, 25, 25, 8, 80]


def test_a_wave_has_its_mean_over_a_period_and_its_peak_when_it_says():
    assert mean_rate(WAVE, 37, 637) == pytest.approx(100)
    assert mean_rate(WAVE, 99.9, 100.1) == pytest.approx(140, rel=1e-4)
    assert mean_rate(WAVE, 399.9, 400.1) == pytest.approx(60, rel=1e-4)
    # The mean of a cosine over half a period around its peak is 2 / pi.
    assert mean_rate(WAVE, -50, 250) == pytest.approx(100 + 40 * 2 / math.pi)


def test_bursts_multiply_once_in_every_period():
    load = Bursts(load=Constant(rate=10), seed=3, factor=4, every_s=100, lasts_s=20)
    periods = load.arrivals(np.arange(0, 1001.0, 100))
    assert periods == pytest.approx([10 * 80 + 40 * 20] * 10)
    seconds = load.arrivals(np.arange(0, 1001.0))
    assert set(np.flatnonzero(seconds > 10.5) // 100) == set(range(10))
    starts = {int(np.flatnonzero(each > 10.5)[0]) for each in seconds.reshape(10, 100)}
    assert len(starts) > 3  # at random moments


def test_noise_has_mean_1_and_its_deviation():
    load = Noise(load=Constant(rate=1), seed=5, deviation=0.3, piece_s=1)
    factors = load.arrivals(np.arange(0, 50_001.0))
    assert factors.mean() == pytest.approx(1, abs=0.01)
    assert np.log(factors).std() == pytest.approx(0.3, abs=0.01)
    assert abs(np.corrcoef(factors[:-1], factors[1:])[0, 1]) < 0.02


def test_a_seed_repeats_a_load_from_any_moment_and_another_differs():
    edges = np.arange(0, 2001.0, 10)
    first, again, other = (
        Noise(load=Constant(rate=1), seed=seed).arrivals(edges) for seed in (1, 1, 2)
    )
    assert (first == again).all()
    assert not (first == other).any()
    late = Noise(load=Constant(rate=1), seed=1).arrivals(edges[150:])
    assert late == pytest.approx(first[150:])


def test_a_source_that_stops_sends_nothing_meanwhile():
    load = Stopped(load=Constant(rate=2), from_s=10, until_s=15)
    assert load.arrivals(np.array([0.0, 12, 14, 20])).tolist() == [20, 0, 10]
    assert mean_rate(Stopped(load=WAVE, from_s=0), 5, DAY_S) == 0


def test_numbers_of_a_seed_are_uniform():
    drawn = uniform(11, np.arange(20_000))
    assert np.histogram(drawn, bins=10, range=(0, 1))[0] == pytest.approx([2000] * 10, abs=200)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Constant(rate=-1),
        lambda: Steps(rates=()),
        lambda: Steps(rates=((5, 1), (5, 2))),
        lambda: Steps(rates=((5, math.inf),)),
        lambda: Wave(mean=1, swing=2),
        lambda: Noise(load=STEPS, seed=1, deviation=-1),
        lambda: Bursts(load=STEPS, seed=1, lasts_s=2, every_s=1),
        lambda: Stopped(load=STEPS, from_s=2, until_s=1),
        lambda: mean_rate(STEPS, 2, 2),
    ],
)
def test_what_makes_no_sense_is_refused(wrong):
    with pytest.raises(RefusedError, match="give"):
        wrong()
