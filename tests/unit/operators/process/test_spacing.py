"""Rows so far apart: as a loop over them has it, in few rounds."""

import numpy as np
import pytest

from rechannel.model.eventtime import ENDED, NEVER
from rechannel.operators.process.spacing import spaced


def naive(owners, times, untils, distance):
    known, passing = list(untils), []
    for owner, time in zip(owners, times, strict=True):
        passing.append(time >= known[owner])
        if passing[-1]:
            known[owner] = time + distance
    return passing


@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_a_loop_finds(seed):
    rng = np.random.default_rng(seed)
    keys = int(rng.integers(1, 6))
    owners = np.sort(rng.integers(0, keys, rng.integers(0, 120)))
    times = rng.integers(-50, int(rng.choice([5, 100, 2000])), len(owners))
    untils = np.where(rng.random(keys) < 0.5, NEVER, rng.integers(-50, 50, keys))
    distance = int(rng.choice([1, 7, 60]))
    found = spaced(owners, times, untils, distance)
    assert found.tolist() == naive(owners.tolist(), times.tolist(), untils.tolist(), distance)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("end", [NEVER + 1, ENDED])
def test_at_the_ends_of_time_too(seed, end):
    rng = np.random.default_rng(seed)
    near = rng.integers(0, 40, 60)
    times = (end - near if end > 0 else end + near).astype(np.int64)
    owners = np.sort(rng.integers(0, 3, 60))
    untils = np.full(3, NEVER)
    found = spaced(owners, times, untils, 7)
    # Whole numbers of Python have no end.
    assert found.tolist() == naive(owners.tolist(), times.tolist(), untils.tolist(), 7)


def test_after_the_end_of_time_no_row_passes():
    assert spaced(np.array([0]), np.array([ENDED]), np.array([ENDED]), 7).tolist() == [False]


def test_many_rows_of_one_key_pass_in_few_rounds(monkeypatch):
    searches = []
    search = np.searchsorted
    monkeypatch.setattr(np, "searchsorted", lambda *args: searches.append(1) or search(*args))
    count = 200_000
    times = np.arange(count, dtype=np.int64)
    found = spaced(np.zeros(count, np.int64), times, np.array([0]), 2)
    assert found.sum() == count // 2
    assert len(searches) == 2
