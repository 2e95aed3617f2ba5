"""Waits double up to the longest one, and end with patience."""

from __future__ import annotations

import pytest

from rechannel.model.patience import Patience

TEN = Patience(seconds=10, first_seconds=1, most_seconds=4)


def waits(patience: Patience) -> list[float]:
    """All waits, where a try takes no time."""
    out, passed = [], 0.0
    while (wait := patience.wait_ms(len(out) + 1, passed)) is not None:
        out.append(wait)
        passed += wait
    return out


def test_waits_double_and_the_last_try_is_when_patience_ends():
    assert waits(TEN) == [1000, 2000, 4000, 3000]


def test_no_patience_is_no_second_try():
    assert waits(Patience(seconds=0)) == []


def test_the_default_bears_an_outage_of_minutes_with_few_tries():
    default = waits(Patience())
    assert sum(default) == 300_000
    assert len(default) < 30
    assert max(default) == 15_000


def test_tries_that_take_long_use_up_patience():
    assert TEN.wait_ms(2, 9_500) == 500
    assert TEN.wait_ms(2, 10_000) is None


def test_very_many_failures_do_not_overflow():
    assert Patience(seconds=1e8).wait_ms(10_000, 5) == 15_000


@pytest.mark.parametrize("field", ["seconds", "first_seconds", "most_seconds"])
@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "5", None, True])
def test_what_is_no_length_of_time_is_refused(field, wrong):
    with pytest.raises(ValueError, match=field):
        Patience(**{field: wrong})
