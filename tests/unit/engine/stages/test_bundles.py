"""Which tasks run one after the other in one task of Spark."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.engine.stages.bundles import (
    MOST_RANGES,
    bundles_of,
    layers_of,
    placed_bundles,
    ranges_of,
)


@pytest.mark.parametrize(
    ("tasks", "at_once", "expected"),
    [
        (4, 2, ((0, 1), (2, 3))),
        (5, 2, ((0, 1), (2, 3, 4))),
        (4, 1, ((0, 1, 2, 3),)),
        (2, 4, ((0,), (1,))),
        (3, 3, ((0,), (1,), (2,))),
    ],
)
def test_neighbours_are_in_as_many_bundles_as_run_at_once(tasks, at_once, expected):
    assert bundles_of(tasks, at_once) == expected


def test_bundles_are_where_their_tasks_are():
    places = {0: "a", 1: "b", 2: "a", 3: "b", 4: "a"}
    assert placed_bundles(places, {"a": 1, "b": 1}) == ((0, 2, 4), (1, 3))
    assert placed_bundles(places, {"a": 2, "b": 1}) == ((0,), (2, 4), (1, 3))
    assert placed_bundles({}, {"a": 1}) == ()


@pytest.mark.parametrize(
    ("tasks", "sizes"),
    [
        (2 * MOST_RANGES, [MOST_RANGES] * 2),
        (2 * MOST_RANGES + 1, [MOST_RANGES, 1, MOST_RANGES]),
        (6 * MOST_RANGES, [MOST_RANGES] * 6),
    ],
)
def test_scattered_tasks_are_in_more_bundles(tasks, sizes):
    """Every range of a bundle takes the driver some time."""
    places = {task: "ab"[task % 2] for task in range(tasks)}
    assert [len(each) for each in placed_bundles(places, {"a": 1, "b": 1})] == sizes


def test_layers_have_a_range_of_every_bundle():
    bundles = ((0, 1, 4), (2,), (3, 5, 6, 8))
    assert layers_of(bundles) == [
        [(0, 2), (2, 3), (3, 4)],
        [(4, 5), (0, 0), (5, 7)],
        [(0, 0), (0, 0), (8, 9)],
    ]
    assert layers_of(bundles_of(512, 2)) == [[(0, 256), (256, 512)]]


@given(
    at=st.lists(st.sampled_from("abc"), max_size=30),
    slots=st.fixed_dictionaries({name: st.integers(1, 4) for name in "abc"}),
)
def test_every_task_is_in_one_bundle_and_no_slot_has_two(at, slots):
    places = dict(enumerate(at))
    made = placed_bundles(places, slots)
    assert sorted(task for bundle in made for task in bundle) == list(places)
    assert all(len({places[task] for task in bundle}) == 1 for bundle in made)
    used = Counter(places[bundle[0]] for bundle in made)
    assert all(len(ranges_of(bundle)) <= MOST_RANGES for bundle in made)
    assert all(
        used[name] == min(slots[name], at.count(name)) or at.count(name) > MOST_RANGES
        for name in used
    )
    layers = layers_of(made)
    read = [task for layer in layers for first, stop in layer for task in range(first, stop)]
    assert sorted(read) == list(places)
    for place, bundle in enumerate(made):
        ranges = [layer[place] for layer in layers]
        assert [task for first, stop in ranges for task in range(first, stop)] == list(bundle)
