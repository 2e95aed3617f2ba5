"""How far timesteps are off the model: what is compared, and what is not."""

from __future__ import annotations

import pytest

from rechannel.scaling.policies.offsets import REMEMBERED, Offsets
from tests.unit.scaling.policies.windows import activity, batches


def seen(took_ms: float, *, tasks: int = 2, executors: int = 2, timesteps: int = 5):
    activities = {"flatmap": activity([10.0] * tasks, [0.1] * tasks)}
    durations = (took_ms,) * timesteps
    return batches(activities=activities, executors=executors, durations_ms=durations)


def after(*windows, most: float = 4.0) -> Offsets:
    """A timestep takes 10 ms for each row, says the model."""
    offsets = Offsets()
    for each in windows:
        rows = {n: float(a.reports.records_in.sum()) for n, a in each.activities.items()}
        offsets = offsets.with_window(each, each.cores, rows)
        offsets = offsets.compared(lambda rows: 10 * rows["flatmap"], most)
    return offsets


def test_the_median_of_the_last_comparisons_counts():
    assert Offsets().offset == 1
    assert after(seen(80)).offset == pytest.approx(2)
    assert after(seen(80), seen(120), seen(100)).offset == pytest.approx(2.5)
    assert after(*[seen(160)] * 4, *[seen(80)] * REMEMBERED).ratios == (2.0,) * REMEMBERED


def test_it_has_bounds():
    assert after(seen(10)).offset == 1
    assert after(seen(800), most=3).offset == 3


def test_few_timesteps_wait_for_more():
    assert after(seen(80, timesteps=3)).ratios == ()
    assert after(*[seen(80, timesteps=3)] * 2).offset == pytest.approx(80 / (10 * 40 / 6))


@pytest.mark.parametrize("other", [{"tasks": 4}, {"executors": 3}])
def test_the_window_of_a_change_says_nothing(other):
    offsets = after(seen(40, timesteps=4), seen(400, **other))
    assert (offsets.ratios, offsets.timesteps) == ((), 0)
    usual = 10 * 10.0 * other.get("tasks", 2) / 5
    assert after(seen(40), seen(400, **other), seen(2 * usual, **other)).ratios == (1, 2)
