"""A sieve never turns away a hash that its run holds, and turns away most that it does not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.lsm.hash_filter import HashFilter

HASHES = st.integers(0, 2**64 - 1)


def ascending(values: set[int]) -> np.ndarray:
    return np.array(sorted(values), dtype=np.uint64)


@given(held=st.sets(HASHES, min_size=1, max_size=200), asked=st.sets(HASHES, max_size=200))
def test_whatever_is_held_passes(held: set[int], asked: set[int]) -> None:
    sieve = HashFilter.of(ascending(held))
    needles = ascending(held | asked)
    passed = dict(zip(needles.tolist(), sieve.may_hold(needles).tolist(), strict=True))
    assert all(passed[hash_] for hash_ in held)


@given(base=st.integers(0, 2**64 - 1000), held=st.sets(st.integers(0, 999), min_size=1))
def test_neighbouring_hashes_are_table_key(base: int, held: set[int]) -> None:
    """Where the hashes lie close together every one has a bit of its own."""
    sieve = HashFilter.of(ascending({base + offset for offset in held}))
    asked = np.array([base + offset for offset in range(1000)], dtype=np.uint64)
    if int(sieve.shift) == 0:
        assert sieve.may_hold(asked).tolist() == [offset in held for offset in range(1000)]


def test_repeated_hashes_are_one_bit() -> None:
    sieve = HashFilter.of(np.array([7, 7, 7], dtype=np.uint64))
    assert sieve.may_hold(np.array([6, 7, 8], dtype=np.uint64)).tolist() == [False, True, False]


@pytest.mark.parametrize("rows", [1_000, 50_000])
def test_few_strangers_pass(rows: int) -> None:
    random = np.random.default_rng(5)
    held = np.unique(random.integers(0, 2**64 - 1, rows, dtype=np.uint64))
    strangers = np.sort(random.integers(0, 2**64 - 1, 20_000, dtype=np.uint64))
    share = HashFilter.of(held).may_hold(strangers).mean()
    assert share < 0.15
