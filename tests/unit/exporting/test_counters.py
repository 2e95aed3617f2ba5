"""Counters go on, whatever the numbers do that they are read from."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.exporting.counters import Counters

A, B = ("rows", ("a",)), ("rows", ("b",))


def test_the_first_look_is_the_zero():
    counters = Counters()
    assert counters.see({A: 10}) == {A: 0}
    assert counters.see({A: 13, B: 2}) == {A: 3, B: 2}


def test_the_next_driver_goes_on_where_the_one_before_ended():
    counters = Counters()
    counters.see({})
    assert counters.see({A: 5, B: 7}) == {A: 5, B: 7}
    counters.begin()
    assert counters.see({}) == {}
    assert counters.see({A: 1}) == {A: 6}
    assert counters.see({A: 9, B: 1}) == {A: 14, B: 8}


def test_a_number_that_the_journal_keeps_is_not_counted_twice():
    counters = Counters()
    counters.see({A: 40})
    assert counters.see({A: 42}) == {A: 2}
    counters.begin()
    assert counters.see({A: 50}) == {A: 2}
    assert counters.see({A: 51}) == {A: 3}


def test_a_number_that_falls_has_begun_again():
    counters = Counters()
    counters.see({})
    assert counters.see({A: 5}) == {A: 5}
    assert counters.see({A: 2}) == {A: 7}
    assert counters.see({A: 3}) == {A: 8}


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e6)), max_size=30))
def test_they_never_go_back_and_count_what_was_added(looks):
    """None: another export begins."""
    counters, before, last, wanted = Counters(), 0.0, None, 0.0
    for number in looks:
        if number is None:
            counters.begin()
            last = None
            continue
        if last is not None:
            wanted += number - last if number >= last else number
        last = number
        counted = counters.see({A: number})[A]
        assert counted >= before
        before = counted
    assert before == pytest.approx(wanted, abs=1e-6)
