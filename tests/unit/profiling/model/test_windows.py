"""Windows that cost what happens in them."""

import itertools
from random import Random

import numpy as np
import pytest

from rechannel.profiling.model.pieces import windows_of
from rechannel.profiling.model.windows import MOST, EvenWindows, fitted


def moments(*times):
    return [np.array(times, dtype=np.int64)]


def test_even_windows_are_made_as_they_are_met():
    assert list(windows_of((5, 16), 4)) == [(5, 9), (9, 13), (13, 16)]
    windows = windows_of((0, 10**18), 10)
    assert (len(windows), windows[3], windows[-1]) == (10**17, (30, 40), (10**18 - 10, 10**18))
    assert windows[2:4] == [(20, 30), (30, 40)]
    assert list(windows_of((7, 7), 4)) == []
    with pytest.raises(IndexError):
        windows[10**17]


def test_a_long_quiet_stretch_is_one_window():
    windows = EvenWindows((0, 1_000), 1)
    found = fitted(windows, moments(0, 3, 500, 999), quiet=10).windows
    assert found == [(0, 1), (1, 2), (2, 3), (3, 4), (4, 500), (500, 501), (501, 999), (999, 1_000)]
    # As it is at the beginning and at the end.
    found = fitted(windows, moments(500), quiet=10).windows
    assert found == [(0, 500), (500, 501), (501, 1_000)]
    assert fitted(windows, [], quiet=10).windows == [(0, 1_000)]


def test_short_stretches_stay():
    windows = EvenWindows((0, 100), 1)
    assert fitted(windows, moments(*range(0, 100, 11)), quiet=10).windows == list(windows)
    assert fitted(EvenWindows((0, 9), 1), moments(3), quiet=10).windows == [
        (at, at + 1) for at in range(9)
    ]
    # What is not even stays as it is.
    assert fitted([(0, 5), (7, 900)], [], quiet=1).windows == [(0, 5), (7, 900)]


@pytest.mark.parametrize("seed", range(40))
def test_windows_join_each_other_and_have_edges_where_something_happens(seed):
    rng = Random(seed)
    end, length, quiet = rng.randint(1, 500), rng.randint(1, 5), rng.randint(1, 8)
    times = [rng.randint(0, end) for _ in range(rng.randint(0, 12))]
    most = rng.choice((4, 1_000))
    fit = fitted(EvenWindows((0, end), length), [np.array(times, dtype=np.int64)] * 2, quiet, most)
    found = fit.windows
    assert found[0][0] == 0
    assert found[-1][1] == end
    assert all(one[1] == two[0] for one, two in itertools.pairwise(found))
    if most == 4:
        assert len(found) <= max(4, quiet, 3)
        return
    # Nothing happens within what is longer than a window.
    inside = [t for t in times for a, b in found if b - a > length and a < t < b]
    assert inside == []
    assert not fit.notes


def test_too_many_windows_are_made_longer_and_that_is_noted():
    every = (np.arange(at, at + 10_000) for at in range(0, 1_000_000, 10_000))
    fit = fitted(EvenWindows((0, 1_000_000), 1), every)
    assert MOST / 2 < len(fit.windows) <= MOST
    assert {b - a for a, b in fit.windows} == {16}
    (note,) = fit.notes
    assert note.startswith("more than 100,000 windows of 1 ns")
