from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.model.hashspace import SPACE, Intervals

# A coarse hash space for the twin: sets of the numbers 0..15, each standing for 1/16 of the space.
CELLS = 16
STEP = SPACE // CELLS
SETS = st.frozensets(st.integers(0, CELLS - 1))


def of(cells: frozenset[int]) -> Intervals:
    return Intervals.of((c * STEP, (c + 1) * STEP) for c in cells)


def cells(intervals: Intervals) -> set[int]:
    return {c for lo, hi in intervals for c in range(lo // STEP, hi // STEP)}


@given(SETS, SETS)
def test_the_algebra_is_that_of_sets(a, b):
    assert cells(of(a)) == a
    assert of(a).intersect(of(b)) == of(a & b)
    assert of(a).union(of(b)) == of(a | b)
    assert of(a).subtract(of(b)) == of(a - b)
    assert of(a).width == len(a) * STEP
    assert bool(of(a)) == bool(a)


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40))))
def test_of_takes_any_spans(spans):
    members = {n for lo, hi in spans for n in range(lo, hi)}
    made = Intervals.of(spans)
    assert {n for lo, hi in made for n in range(lo, hi)} == members
    gaps = [b[0] - a[1] for a, b in zip(made.spans, made.spans[1:], strict=False)]
    assert all(gap > 0 for gap in gaps)


@given(SETS, st.lists(st.integers(0, SPACE - 1)))
def test_slices_are_the_rows_inside(a, hashes):
    ordered = np.sort(np.array(hashes, dtype=np.uint64))
    inside = [h for s in of(a).slices(ordered) for h in ordered[s].tolist()]
    assert inside == [h for h in sorted(hashes) if h // STEP in a]


def test_the_ends_of_the_space():
    edges = np.array([0, 1, SPACE - 1], dtype=np.uint64)
    assert list(Intervals.everything().slices(edges)) == [slice(0, 3)]
    assert list(Intervals(((SPACE - 1, SPACE),)).slices(edges)) == [slice(2, 3)]
    assert list(Intervals(((1, SPACE - 1),)).slices(edges)) == [slice(1, 2)]
    assert list(Intervals.nothing().slices(edges)) == []
    assert Intervals.everything().subtract(Intervals.everything()) == Intervals.nothing()
    assert Intervals.everything().subtract(Intervals.nothing()) == Intervals.everything()
    assert Intervals.everything().width == SPACE


@pytest.mark.parametrize(
    "spans",
    [((5, 5),), ((5, 4),), ((-1, 4),), ((0, SPACE + 1),), ((0, 4), (4, 5)), ((6, 7), (0, 1))],
)
def test_what_is_no_set_of_intervals_is_refused(spans):
    with pytest.raises(ValueError, match="must ascend, be disjoint"):
        Intervals(spans)
