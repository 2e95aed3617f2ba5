"""Bins that several tasks share: dealing rows out, shares of stored rows, and what routing makes of them."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.model.codec import decode, encode
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.model.spread import Share, SpreadBin

FOUR = Routing(starts=(0, 100, 101, 500), owners=(0, 1, 1, 2), tasks=3)
HOT = SpreadBin(lo=100, hi=101, tasks=(1, 0, 2), side=0, cut=("100", "101"))
SHARED = FOUR.with_spreads([HOT])


@given(st.integers(2, 7), st.integers(0, 60), st.integers(0, 1000))
def test_rows_are_dealt_out_once_and_evenly(count, rows, turn):
    spread = SpreadBin(lo=0, hi=1, tasks=tuple(range(count)), side=0)
    dealt = list(spread.deal(rows, turn))
    assert [row for _, start, stop in dealt for row in range(start, stop)] == list(range(rows))
    assert len({task for task, _, _ in dealt}) == len(dealt) == min(rows, count)
    sizes = [stop - start for _, start, stop in dealt]
    assert not sizes or max(sizes) - min(sizes) <= 1


@given(st.integers(2, 5), st.lists(st.integers(0, 9), min_size=40, max_size=40))
def test_rests_go_to_each_task_in_turn(count, batches):
    spread, got, turn = SpreadBin(lo=0, hi=1, tasks=tuple(range(count)), side=0), [0] * count, 0
    for rows in batches:
        for task, start, stop in spread.deal(rows, turn):
            got[task] += stop - start
        turn += rows
    assert max(got) - min(got) <= 1


@given(st.integers(2, 7), st.integers(0, 1 << 62), st.integers(1, 5000))
def test_every_stored_row_is_in_one_share(count, first, rows):
    numbers = first + np.arange(rows, dtype=np.int64)
    shares = [Share(side=0, place=place, of=count).considers(numbers) for place in range(count)]
    assert (np.sum(shares, axis=0) == 1).all()
    if rows >= 1000:
        assert max(map(np.sum, shares)) < 1.3 * rows / count


def test_shares_are_even_where_each_timestep_brings_one_row():
    numbers = np.arange(10_000, dtype=np.int64) << 24
    for count in (2, 3, 4, 7):
        sizes = [
            int(Share(side=0, place=p, of=count).considers(numbers).sum()) for p in range(count)
        ]
        assert max(sizes) < 1.1 * min(sizes)


def test_a_task_has_its_place_among_those_that_share_a_bin():
    assert [HOT.share_of(task) for task in (0, 1, 2, 3)] == [
        Share(side=0, place=1, of=3), Share(side=0, place=0, of=3), Share(side=0, place=2, of=3), None,
    ]  # fmt: skip
    assert [share.primary for task in (0, 1, 2) if (share := HOT.share_of(task))] == [
        False,
        True,
        False,
    ]


def test_a_spread_bin_is_a_piece_of_its_own():
    hashes = np.array([5, 99, 100, 100, 101, 499, 500], dtype=np.uint64)
    assert [part.tolist() for part in FOUR.cuts(hashes)] == [[0, 2, 6, 7], [0, 1, 2]]
    assert [part.tolist() for part in SHARED.cuts(hashes)] == [[0, 2, 4, 6, 7], [0, 1, 1, 2]]
    assert dict(SHARED.shared_pieces) == {1: HOT}
    assert SHARED.task_of(hashes).tolist() == FOUR.task_of(hashes).tolist()
    assert [SHARED.intervals_of(task) for task in range(3)] == [
        FOUR.intervals_of(task) for task in range(3)
    ]


def test_bins_at_both_ends_can_be_spread():
    ends = FOUR.with_spreads(
        [
            SpreadBin(lo=500, hi=SPACE, tasks=(2, 0), side=1),
            SpreadBin(lo=0, hi=100, tasks=(0, 1), side=0),
        ]
    )
    assert sorted(ends.shared_pieces) == [0, 2]
    assert (ends.spread_at(0), ends.spread_at(1)) == (ends.spreads[0], None)


def test_spread_bins_are_written_only_if_there_are_any():
    assert "spreads" not in encode(FOUR)
    assert FOUR.with_spreads(()) == FOUR
    for routing in (FOUR, SHARED):
        data = json.loads(json.dumps(encode(routing)))
        assert decode(Routing, data) == routing == pickle.loads(pickle.dumps(routing))
    assert encode(SHARED)["spreads"] == [
        {"lo": "100", "hi": "101", "tasks": [1, 0, 2], "side": 0, "cut": ["100", "101"]}
    ]
    assert encode(replace(HOT, cut=())) == {"lo": "100", "hi": "101", "tasks": [1, 0, 2], "side": 0}


@pytest.mark.parametrize(
    "change",
    [
        lambda: SHARED.with_owners({1: 0}),
        lambda: SHARED.with_starts((0, 100, 500)),
        lambda: SHARED.with_starts((0, 101, 500)),
        lambda: replace(SHARED, tasks=2),
        lambda: FOUR.with_spreads([replace(HOT, tasks=(0, 1))]),
        lambda: FOUR.with_spreads([replace(HOT, lo=99)]),
        lambda: replace(HOT, tasks=(1,)),
        lambda: replace(HOT, tasks=(1, 1)),
        lambda: replace(HOT, side=2),
        lambda: replace(HOT, hi=100),
    ],
)
def test_a_spread_bin_is_a_bin_of_the_first_of_its_tasks(change):
    with pytest.raises(ValueError, match=r"bin|hashes"):
        change()


def test_other_bins_may_change_beside_it():
    assert SHARED.with_starts((0, 50, 100, 101, 500)).spreads == (HOT,)
    assert SHARED.with_owners({0: 2, 3: 1}).spreads == (HOT,)
