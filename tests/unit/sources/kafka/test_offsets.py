"""What a timestep takes of topics, as values."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.sources.kafka.offsets import (
    MOST_SPLITS,
    SPLIT_RECORDS,
    Ends,
    Part,
    Place,
    TopicSeen,
    found,
    left,
    place_of,
    shares,
    splits,
    taken,
)

NEW = Place()


def topic(*ends: tuple[int, int], known_as: str = "one") -> TopicSeen:
    parts = {number: Ends(low=low, high=high) for number, (low, high) in enumerate(ends)}
    return TopicSeen(id=known_as, parts=parts)


def ranges(start: Place, end: Place) -> list[tuple[str, int, int, int]]:
    made = splits(start.as_offset(), end.as_offset())
    return [(each["topic"], each["partition"], each["start"], each["stop"]) for each in made]


counts = st.dictionaries(
    st.builds(Part, st.sampled_from(["a", "b"]), st.integers(0, 9)), st.integers(0, 1_000)
)


@given(counts, st.none() | st.integers(1, 3_000))
def test_a_timestep_takes_what_it_may_of_all_partitions_alike(waiting, most):
    takes = shares(waiting, most)
    total = sum(waiting.values())
    assert sum(takes.values()) == (total if most is None else min(most, total))
    assert takes.keys() == waiting.keys()
    for part, count in takes.items():
        assert 0 <= count <= waiting[part]
        if most is not None and total > most:
            assert abs(count - waiting[part] * most / total) <= 1


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 200_000)), min_size=1, max_size=5),
    st.lists(st.integers(1, 90_000), min_size=1, max_size=5),
)
def test_every_offset_is_in_one_split_of_one_timestep(sizes, bounds):
    seen = {"t": topic(*((low, low + count) for low, count in sizes))}
    place, read = NEW, {number: [] for number in range(len(sizes))}
    for most in [*bounds, None]:
        end = taken(found(place, seen, {}), most)
        layout = splits(place.as_offset(), end.as_offset())
        assert [each["order"] for each in layout] == list(range(len(layout)))
        assert all(each["size"] == each["stop"] - each["start"] > 0 for each in layout)
        for each in layout:
            read[each["partition"]].append((each["start"], each["stop"]))
        place = end
    for number, (low, count) in enumerate(sizes):
        at = low
        for first, stop in read[number]:
            assert first == at
            at = stop
        assert at == low + count
    assert taken(found(place, seen, {}), None).next == place.next


@given(
    st.dictionaries(st.text(min_size=1), st.text(max_size=3), max_size=3),
    st.data(),
)
def test_a_place_is_the_same_after_the_journal(ids, data):
    parts = st.builds(Part, st.sampled_from(sorted(ids) or ["t"]), st.integers(0, 30))
    some = st.dictionaries(parts, st.integers(0, 2**60), max_size=5 if ids else 0)
    begun = bool(ids) or data.draw(st.booleans())
    place = Place(ids=ids, next=data.draw(some), begins=data.draw(some), begun=begun)
    assert place_of(json.loads(json.dumps(place.as_offset()))) == place


def test_large_partitions_are_cut_and_small_ones_are_not():
    end = taken(found(NEW, {"t": topic((0, 3 * SPLIT_RECORDS), (0, 10))}, {}), None)
    assert ranges(NEW, end) == [
        ("t", 0, 0, SPLIT_RECORDS),
        ("t", 0, SPLIT_RECORDS, 2 * SPLIT_RECORDS),
        ("t", 0, 2 * SPLIT_RECORDS, 3 * SPLIT_RECORDS),
        ("t", 1, 0, 10),
    ]
    huge = taken(found(NEW, {"t": topic((0, 10**9))}, {}), None)
    assert len(ranges(NEW, huge)) == MOST_SPLITS


def test_a_new_stream_begins_where_it_is_told_and_later_partitions_with_their_first_record():
    first = {Part("t", 0): 70, Part("t", 1): 500}
    begun = taken(found(NEW, {"t": topic((5, 100), (5, 100))}, first), None)
    assert ranges(NEW, begun) == [("t", 0, 70, 100)]
    assert begun.next == {Part("t", 0): 100, Part("t", 1): 100}
    more = taken(found(begun, {"t": topic((5, 101), (5, 100), (0, 3))}, {}), None)
    assert ranges(begun, more) == [("t", 0, 100, 101), ("t", 2, 0, 3)]
    assert left(begun.as_offset(), {Part("t", 0): 104, Part("t", 1): 100}) == 4


@pytest.mark.parametrize(
    ("seen", "why", "on"),
    [
        (topic((60, 90)), "lost 10 records that were not read", (60, 90)),
        (topic((0, 40)), "ends at 40, before offset 50", None),
        (topic((0, 40), known_as=""), "ends at 40, before offset 50", (0, 40)),
        (topic((0, 90), known_as="two"), "deleted and made anew", (0, 90)),
    ],
)
def test_records_that_are_gone_are_told_and_reading_goes_on_with_the_first(seen, why, on):
    """None of a topic that is the same: what it still has was read."""
    place = Place(ids={"t": "one"}, next={Part("t", 0): 50})
    looked = found(place, {"t": seen}, {})
    (lost,) = looked.lost
    assert why in lost.why
    after = taken(looked, None)
    assert ranges(place, after) == ([("t", 0, *on)] if on else [])
    assert found(after, {"t": seen}, {}).lost == ()


def test_a_topic_that_is_no_longer_wanted_is_not_missed():
    place = Place(ids={"t": "one", "u": "x"}, next={Part("t", 0): 50, Part("u", 0): 1})
    looked = found(place, {"u": topic((0, 2), known_as="x")}, {}, lambda name: name == "u")
    assert looked.lost == ()
    assert taken(looked, None).next[Part("t", 0)] == 50


@pytest.mark.parametrize("few", [3, 10, 500])
def test_partitions_are_read_at_the_same_pace_however_few_records_they_have(few):
    """Rows come with others of their time: early ones would make those late, late ones would be so themselves."""
    place, whole = NEW, {"t": topic((0, few), (0, 100_000), (0, few))}
    for number in range(1, 101):
        place = taken(found(place, whole, {}), 1_000)
        for partition in (0, 2):
            # Two records, or those of two timesteps, out of step.
            assert abs(place.next[Part("t", partition)] - few * number / 100) < 2 + 2 * few / 100


def test_a_topic_that_is_gone_keeps_its_place():
    place = Place(ids={"t": "one", "u": "x"}, next={Part("t", 0): 50, Part("u", 0): 1})
    looked = found(place, {"u": topic((0, 2), known_as="x")}, {})
    assert [each.why for each in looked.lost] == ["topic 't' (one) is gone"]
    after = taken(looked, None)
    assert ranges(place, after) == [("u", 0, 1, 2)]
    assert after.next[Part("t", 0)] == 50


@pytest.mark.parametrize("known_as", ["one", ""])
def test_a_partition_that_is_not_seen_for_a_while_keeps_its_place(known_as):
    both = {"t": topic((0, 60), (0, 40), known_as=known_as)}
    begun = taken(found(NEW, both, {}), None)
    one = {"t": topic((0, 70), known_as=known_as)}
    looked = found(begun, one, {})
    assert looked.lost == ()
    away = taken(looked, None)
    assert ranges(begun, away) == [("t", 0, 60, 70)]
    assert left(away.as_offset(), looked.high) == 0
    away = place_of(json.loads(json.dumps(away.as_offset())))
    back = taken(found(away, {"t": topic((0, 70), (0, 45), known_as=known_as)}, {}), None)
    assert ranges(away, back) == [("t", 1, 40, 45)]


def test_a_partition_that_is_not_seen_of_a_topic_made_anew_begins_with_its_first_record():
    begun = taken(found(NEW, {"t": topic((0, 60), (0, 40))}, {}), None)
    anew = taken(found(begun, {"t": topic((0, 5), known_as="two")}, {}), None)
    assert ranges(begun, anew) == [("t", 0, 0, 5)]
    more = taken(found(anew, {"t": topic((0, 5), (0, 50), known_as="two")}, {}), None)
    assert ranges(anew, more) == [("t", 1, 0, 50)]


def test_brokers_without_ids_of_topics():
    place = Place(ids={"t": ""}, next={Part("t", 0): 5})
    assert not found(place, {"t": topic((0, 9), known_as="")}, {}).lost
    assert not found(place, {"t": topic((0, 9))}, {}).lost
