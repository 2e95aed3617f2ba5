"""Rates are averaged over some windows, and begin anew when they jump."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.scaling.policies.averaging import mean, with_window
from rechannel.scaling.policies.policy import Arrivals


def after(*rates: float, average_s: float = 30.0, jump: float = 0.3) -> list[float]:
    """The means after windows of 10 s with these rates."""
    windows, means = {}, []
    for rate in rates:
        arrivals = {"source": Arrivals(rate=rate)}
        windows = with_window(windows, arrivals, 10.0, average_s=average_s, jump=jump)
        means.append(mean(windows["source"]))
    return means


def test_the_last_windows_count():
    assert after(100, 110, 90, 120, 0.0, average_s=30) == pytest.approx([100, 105, 100, 320 / 3, 0])
    assert after(100, 110, average_s=0) == [100, 110]


def test_a_jump_begins_anew():
    assert after(100, 100, 145, 150) == pytest.approx([100, 100, 145, 147.5])
    assert after(100, 69, 71) == pytest.approx([100, 69, 70])
    assert after(0, 10, 0) == [0, 10, 0]


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=20), st.floats(0, 1))
def test_the_mean_lies_among_the_rates(rates, jump):
    found = after(*rates, jump=jump)[-1]
    assert min(rates) - 1e-6 <= found <= max(rates) + 1e-6
