"""The schedule of a soak: all kinds, in time, and the same again from the same seed."""

from itertools import pairwise

import pytest

from tests.real.soak.schedule import ENDS_DRIVER, SPARED, Kind, Plan, pauses, schedule

SHORTEST = 20.0 * len(Kind)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("seconds", [SHORTEST, 900.0, 7_200.0])
def test_every_kind_happens_and_drivers_end_in_the_first_half_only(seconds, seed):
    events = schedule(Plan(seconds=seconds, seed=seed))
    assert len(events) == seconds / 20
    assert {event.kind for event in events} == set(Kind)
    ends = [event.at_s for event in events if event.kind in ENDS_DRIVER]
    assert ends
    assert max(ends) <= seconds / 2 + 20
    late = [event for event in events if event.at_s > seconds / 2 + 20]
    assert late
    assert min(event.host for event in late) >= SPARED


def test_no_kind_comes_much_more_often_than_another():
    events = schedule(Plan(seconds=7_200))
    times = {kind: sum(event.kind == kind for event in events) for kind in Kind}
    others = [number for kind, number in times.items() if kind not in ENDS_DRIVER]
    assert max(others) - min(others) <= 3


def test_events_are_in_order_and_within_the_soak():
    times = [event.at_s for event in schedule(Plan(seconds=600, every_s=7))]
    assert times == sorted(times)
    assert times[0] == 7
    assert times[-1] <= 600
    assert {round(b - a, 6) for a, b in pairwise(times)} == {7.0}


def test_the_seed_decides():
    plan = Plan(seconds=1_200, seed=5)
    assert schedule(plan) == schedule(plan)
    assert schedule(plan) != schedule(Plan(seconds=1_200, seed=6))


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        (300.0, (300.0,)),
        (310.0, (310.0,)),
        (400.0, (300.0, 400.0)),
        (1_200.0, (300.0, 600.0, 900.0, 1_200.0)),
    ],
)
def test_the_last_pause_is_at_the_end(seconds, expected):
    assert pauses(Plan(seconds=seconds)) == expected


def test_a_soak_too_short_for_all_kinds_is_refused():
    with pytest.raises(ValueError, match="cannot have all 15 kinds: make it last at least 300 s"):
        Plan(seconds=299)
    with pytest.raises(ValueError, match="positive intervals"):
        Plan(seconds=300, every_s=0)
