"""The states of a change that Autopilot tries, and what is barred."""

from itertools import product
from typing import get_args

import pytest

from rechannel.control.library.attempt import Attempt, Verdict
from rechannel.control.library.flight import (
    MOST_BARS,
    TABLE,
    Event,
    Flying,
    State,
    Tried,
    saved_share,
)
from rechannel.control.library.judging import Figures
from rechannel.control.library.mending import event_of
from rechannel.reconfigure.changes.pace import set_interval

BEFORE = Figures(timesteps=8, latency_ms=100.0, rows=1_000.0, rows_per_second=1e4, failures=0.0)


def tried(*, fixed: float = 0.0, per_row: bool = False) -> Tried:
    attempt = Attempt(touched=("counts",), first=3, before=BEFORE, base=None)
    return Tried(key="split counts", gain=0.3, fixed=fixed, per_row=per_row, attempt=attempt)


def after(latency_ms: float, rows: float) -> Figures:
    return Figures(timesteps=4, latency_ms=latency_ms, rows=rows, rows_per_second=0.0, failures=0.0)


@pytest.mark.parametrize(("state", "event"), list(product(get_args(State), get_args(Event))))
def test_every_state_either_has_an_event_or_refuses_it(state, event):
    known = Flying(state=state, tried=tried())
    if (state, event) not in TABLE:
        with pytest.raises(KeyError):
            known.after(event)
        return
    made = known.after(event)
    assert made.state == TABLE[state, event]
    assert (made.tried is None) == (made.state == "watching")


def test_every_state_is_left_again():
    for state in get_args(State):
        assert any(now == state and then != state for (now, _), then in TABLE.items())


@pytest.mark.parametrize(
    ("found", "event"),
    [
        (None, "early"),
        (Verdict(text="", share=None), "unclear"),
        (Verdict(text="", share=0.05), "helped"),
        (Verdict(text="", share=0.049, back=set_interval(5)), "useless"),
        (Verdict(text="", share=-1.0), "stuck"),
    ],
)
def test_verdicts_are_events(found, event):
    assert event_of(found, 0.1) == event


def test_what_did_not_help_is_barred_twice_as_long_each_time():
    known, until = Flying(), []
    for _ in range(3):
        known = known.bar("split counts", 0, 1_000)
        until.append(known.bars["split counts"].until_ms)
    assert until == [1_000, 2_000, 4_000]
    assert known.barred("split counts", 3_999)
    assert not known.barred("split counts", 4_000)
    assert not known.freed("split counts").barred("split counts", 0)


def test_bars_are_bounded():
    known = Flying()
    for number in range(2 * MOST_BARS):
        known = known.bar(f"split {number}", 0, 1_000)
    assert len(known.bars) == MOST_BARS


@pytest.mark.parametrize(
    ("fixed", "latency", "rows", "saved"),
    [
        (0.0, 50.0, 1_000, 0.5),
        (0.0, 100.0, 2_000, 0.5),  # twice the rows in the same time
        (1.0, 100.0, 2_000, 0.0),  # nothing of it depended on rows
        (0.5, 75.0, 1_000, 0.25),
        (0.0, 50.0, 5_000, None),
        (0.0, 50.0, 0, None),
    ],
)
def test_what_was_saved_is_compared_for_as_many_rows(fixed, latency, rows, saved):
    assert saved_share(tried(fixed=fixed), BEFORE, after(latency, rows)) == saved


def test_a_change_of_the_interval_is_compared_by_the_row():
    assert saved_share(
        tried(per_row=True, fixed=0.9), BEFORE, after(120.0, 2_000)
    ) == pytest.approx(0.4)
