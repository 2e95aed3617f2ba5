"""Bounds on bad rows, and the counts that they are compared with."""

from __future__ import annotations

import random

import pytest

from rechannel.errors import DataflowError
from rechannel.model.bad_rows import AtMost, Counted, Past, advanced, at_most, summed


@pytest.mark.parametrize(
    ("bound", "rows", "bad", "exceeded"),
    [
        (at_most(rows=2), 10, 2, False),
        (at_most(rows=2), 10, 3, True),
        (at_most(rows=0), 0, 0, False),
        (at_most(percent=1), 200, 2, False),
        (at_most(percent=1), 199, 2, True),
        (at_most(percent=0.5), 200, 1, False),
        (at_most(percent=0.5), 200, 2, True),
        (at_most(percent=0.7), 11_000, 77, False),
        (at_most(percent=0.7), 11_000, 78, True),
        (at_most(percent=0.57), 10_000, 57, False),
        (at_most(percent=1e-05), 10_000_000, 1, False),
        (at_most(percent=0), 200, 1, True),
        (at_most(percent=1, min_rows=200), 199, 199, False),
        (at_most(percent=1, min_rows=200), 200, 3, True),
        (at_most(percent=50, rows=5), 100, 6, True),
        (at_most(percent=100), 3, 3, False),
    ],
)
def test_what_is_too_many(bound, rows, bad, exceeded):
    assert bound.exceeded(rows, bad) is exceeded


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "say how many, with rows= or percent="),
        ({"rows": -1}, "rows must be a whole number of at least 0, not -1"),
        ({"rows": 1.5}, "rows must be a whole number"),
        ({"rows": True}, "rows must be a whole number"),
        ({"percent": 101}, "percent must be from 0 to 100, not 101"),
        ({"percent": float("nan")}, "percent must be from 0 to 100, not nan"),
        ({"percent": "1 %"}, "percent must be from 0 to 100, not '1 %'"),
        ({"percent": True}, "percent must be from 0 to 100, not True"),
        ({"percent": 1, "timesteps": 0}, "timesteps must be a whole number of at least 1"),
        ({"percent": 1, "timesteps": 10_001}, "at most 10000, not 10001"),
        ({"percent": 1, "min_rows": 0}, "min_rows must be a whole number of at least 1"),
    ],
)
def test_what_is_refused(arguments, said):
    with pytest.raises(DataflowError, match=said):
        at_most(**arguments)


def test_a_bound_is_told_as_it_is_written():
    assert str(at_most(percent=1, timesteps=10)) == "at_most(percent=1, timesteps=10)"
    assert str(at_most(rows=3, min_rows=5)) == "at_most(rows=3, timesteps=1, min_rows=5)"
    assert at_most(rows=3) == AtMost(rows=3)


def test_counts_are_kept_as_long_as_they_are_needed_and_sums_are_those_of_all_timesteps():
    rng = random.Random(7)
    for _ in range(50):
        bounds = {name: at_most(rows=1, timesteps=rng.choice((1, 2, 5))) for name in "ab"}
        pasts, happened = {}, {name: {} for name in bounds}
        for timestep in range(1, 25):
            now = {}
            for name, bound in bounds.items():
                if rng.random() < 0.7:
                    one = Counted(
                        rows=rng.randrange(9), bad=rng.randrange(4), keep=bound.timesteps - 1
                    )
                    now[name] = happened[name][timestep] = one
            for name, one in now.items():
                since = timestep - bounds[name].timesteps
                whole = [c for t, c in happened[name].items() if since < t <= timestep]
                naive = sum(c.rows for c in whole), sum(c.bad for c in whole)
                assert summed(pasts.get(name, ()), one, timestep, bounds[name]) == naive
            pasts = advanced(pasts, timestep, now)
            for name, bound in bounds.items():
                assert len(pasts.get(name, ())) < bound.timesteps


def test_counts_of_an_operator_that_is_silent_go_too():
    pasts = advanced({}, 1, {"a": Counted(rows=5, bad=1, keep=2)})
    assert pasts == {"a": (Past(timestep=1, counted=Counted(rows=5, bad=1, keep=2)),)}
    assert advanced(pasts, 2, {}) == pasts
    assert advanced(pasts, 3, {}) == {}
