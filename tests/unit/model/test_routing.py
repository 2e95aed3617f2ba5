from __future__ import annotations

import json
import pickle
from bisect import bisect_right

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.model.codec import decode, encode
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing, even_starts


@st.composite
def routings(draw) -> Routing:
    tasks = draw(st.integers(1, 5))
    bins = draw(st.integers(1, 12))
    inner = draw(st.sets(st.integers(1, SPACE - 1), min_size=bins - 1, max_size=bins - 1))
    starts = even_starts(bins) if draw(st.booleans()) else (0, *sorted(inner))
    owners = draw(st.lists(st.integers(0, tasks - 1), min_size=bins, max_size=bins))
    return Routing(starts=starts, owners=tuple(owners), tasks=tasks)


def hashes_near(routing: Routing, data) -> np.ndarray:
    """Hashes anywhere, and on both sides of every border."""
    near = {h for s in routing.starts for h in (s - 1, s, s + 1) if 0 <= h < SPACE}
    any_ = data.draw(st.lists(st.integers(0, SPACE - 1), max_size=20))
    return np.array([*near, *any_, SPACE - 1], dtype=np.uint64)


def owner(routing: Routing, value: int) -> int:
    return routing.owners[bisect_right(routing.starts, value) - 1]


@given(routings(), st.data())
def test_task_of_is_the_owner_of_the_bin(routing, data):
    hashes = hashes_near(routing, data)
    assert routing.task_of(hashes).tolist() == [owner(routing, h) for h in hashes.tolist()]


@given(routings(), st.data())
def test_cuts_cut_sorted_hashes_by_owner(routing, data):
    ordered = np.sort(hashes_near(routing, data))
    edges, owners = routing.cuts(ordered)
    assert (edges[0], edges[-1], len(edges)) == (0, len(ordered), len(owners) + 1)
    told = np.repeat(owners, np.diff(edges))
    assert told.tolist() == routing.task_of(ordered).tolist()


@given(routings(), st.data())
def test_intervals_of_all_tasks_tile_the_space(routing, data):
    owned = [routing.intervals_of(task) for task in range(routing.tasks)]
    assert sum(part.width for part in owned) == SPACE
    assert Intervals.of(span for part in owned for span in part) == Intervals.everything()
    for value in hashes_near(routing, data).tolist():
        holders = [t for t, part in enumerate(owned) if any(lo <= value < hi for lo, hi in part)]
        assert holders == [owner(routing, value)]


@given(routings(), st.data())
def test_rows_per_bin_counts_every_row_once(routing, data):
    ordered = np.sort(hashes_near(routing, data))
    counts = [0] * routing.bins
    for value in ordered.tolist():
        counts[bisect_right(routing.starts, value) - 1] += 1
    assert routing.rows_per_bin(ordered).tolist() == counts


@given(routings())
def test_json_is_read_as_it_was_written(routing):
    assert decode(Routing, json.loads(json.dumps(encode(routing)))) == routing


@given(routings())
def test_it_travels(routing):
    assert pickle.loads(pickle.dumps(routing)) == routing


def test_json_of_even_bins_does_not_grow_with_them():
    many = Routing.even(bins=4096, tasks=4)
    assert len(json.dumps(encode(many))) < 100


@pytest.mark.parametrize(("bins", "tasks"), [(1, 1), (8, 3), (256, 7), (3, 3), (2, 5)])
def test_even_routing_is_even(bins, tasks):
    routing = Routing.even(bins=bins, tasks=tasks)
    assert (routing.bins, routing.tasks) == (bins, tasks)
    assert list(routing.owners) == sorted(routing.owners)
    load = [routing.owners.count(task) for task in range(tasks)]
    assert max(load) - min(load) <= 1
    widths = np.diff([*routing.starts, SPACE])
    assert max(widths) - min(widths) <= 1


@pytest.mark.parametrize(
    ("starts", "owners", "told"),
    [
        ((), (), "at least one bin"),
        ((1,), (0,), "first at hash 0"),
        ((0, 5), (0,), "one owner per bin"),
        ((0, 5, 5), (0, 0, 0), "must ascend"),
        ((0, 9, 5), (0, 0, 0), "must ascend"),
        ((0, SPACE), (0, 0), "lie in the hash space"),
        ((0, 5), (0, 2), "one of 2 tasks"),
        ((0, 5), (0, -1), "one of 2 tasks"),
    ],
)
def test_what_routes_nowhere_is_refused(starts, owners, told):
    with pytest.raises(ValueError, match=told):
        Routing(starts=starts, owners=owners, tasks=2)
