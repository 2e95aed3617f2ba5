"""Where timesteps end by bytes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.model.ddl import schema_of
from rechannel.sources.cutting import VARIABLE_BYTES, cut, row_bytes
from rechannel.sources.reader import Bound

FILES = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=5)


@given(FILES, st.integers(1, 20))
def test_timesteps_take_every_part_once_and_no_more_than_fits(files, most):
    parts = [(number, part) for number, sizes in enumerate(files) for part in range(len(sizes))]
    taken, at, done = [], 0, 0
    while at < len(files):
        units, stop = cut(files[at:], most, done)
        assert units
        last = at + units - 1
        begun = [(at, part) for part in range(done, len(files[at]))]
        later = [(n, part) for n in range(at + 1, last + 1) for part in range(len(files[n]))]
        mine = [one for one in begun + later if stop is None or one < (last, stop)]
        sizes = [files[number][part] for number, part in mine]
        assert len(sizes) <= 1 or sum(sizes) <= most
        taken += mine
        at, done = (last, stop) if stop is not None else (last + 1, 0)
    assert taken == parts


def test_without_a_bound_everything_is_taken():
    assert cut([[1 << 60], [1 << 60]], None) == (2, None)
    assert cut([], 5) == (0, None)


def test_files_beyond_the_budget_are_not_looked_at():
    looked = []

    def sizes():
        for number in range(10):
            looked.append(number)
            yield [10]

    assert cut(sizes(), 20) == (2, None)
    assert looked == [0, 1, 2]


def test_bytes_of_a_row_are_those_of_its_columns():
    assert row_bytes(schema_of("a bigint, b int, c boolean")) == 13
    assert row_bytes(schema_of("a string, b array<int>")) == 2 * VARIABLE_BYTES
    assert row_bytes(schema_of("a struct<x: bigint, y: string>")) == 8 + VARIABLE_BYTES


@pytest.mark.parametrize("name", ["units", "bytes", "span_ms"])
def test_a_bound_that_lets_nothing_pass_is_none(name):
    with pytest.raises(ValueError, match="at least 1"):
        Bound(**{name: 0})
