"""The order of keys against Python's own: alike where keys are equal, and the same whatever else is there."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.model.hashing import keys_equal
from rechannel.model.keyorder import key_ranks, partners

LONGS = st.one_of(st.none(), st.integers(-2, 2), st.sampled_from([-(2**63), 2**63 - 1]))
TEXTS = st.one_of(st.none(), st.sampled_from(["", "a", "ab", "b", "a\0", "é"]))
KINDS = {
    "long": (pa.int64(), LONGS),
    "short": (pa.int16(), st.one_of(st.none(), st.integers(-3, 3))),
    "text": (pa.string(), TEXTS),
    "decimal": (
        pa.decimal128(30, 2),
        st.one_of(st.none(), st.integers(-9, 9).map(lambda n: n * 10**20)),
    ),
    "list": (pa.list_(pa.string()), st.one_of(st.none(), st.lists(TEXTS, max_size=3))),
    "nested": (
        pa.list_(pa.list_(pa.int64())),
        st.one_of(
            st.none(), st.lists(st.one_of(st.none(), st.lists(LONGS, max_size=2)), max_size=2)
        ),
    ),
    "struct": (
        pa.struct([("x", pa.int64()), ("y", pa.string())]),
        st.one_of(st.none(), st.fixed_dictionaries({"x": LONGS, "y": TEXTS})),
    ),
    "double": (
        pa.float64(),
        st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.5, float("nan"), float("-inf")])),
    ),
}


@pytest.mark.parametrize("kind", sorted(KINDS))
@given(data=st.data())
def test_ranks_are_alike_where_keys_are(kind: str, data: st.DataObject):
    dtype, values = KINDS[kind]
    column = pa.array(data.draw(st.lists(values, min_size=1, max_size=12)), dtype)
    (ranks,) = key_ranks([column])
    for shift in range(len(column)):
        turned = np.roll(np.arange(len(column)), shift)
        same = keys_equal([column], [column.take(pa.array(turned))])
        assert same.tolist() == (ranks == ranks[turned]).tolist()


@pytest.mark.parametrize("kind", sorted(KINDS))
@given(data=st.data())
def test_which_key_comes_first_follows_from_the_two_alone(kind: str, data: st.DataObject):
    dtype, values = KINDS[kind]
    some = data.draw(st.lists(values, min_size=2, max_size=8))
    (ranks,) = key_ranks([pa.array(some, dtype)])
    (two,) = key_ranks([pa.array(some[:2], dtype)])
    assert np.sign(ranks[0] - ranks[1]) == np.sign(two[0] - two[1])


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1, max_size=12))
def test_longs_are_ordered_as_numbers(values: list[int | None]):
    (ranks,) = key_ranks([pa.array(values, pa.int64())])
    expected = sorted(range(len(values)), key=lambda i: (values[i] is not None, values[i] or 0))
    assert np.argsort(ranks, kind="stable").tolist() == expected


def test_the_entries_of_a_map_may_stand_in_any_order():
    kind = pa.map_(pa.string(), pa.int64())
    maps = [[("a", 1), ("b", 2)], [("b", 2), ("a", 1)], [("a", 1)], None, [], [("a", 2), ("b", 1)]]
    (ranks,) = key_ranks([pa.array(maps, kind)])
    assert ranks[0] == ranks[1]
    assert len(set(ranks.tolist())) == 5
    assert ranks[3] == -1


KEYS = st.tuples(st.integers(0, 2), LONGS, TEXTS)


@given(st.lists(KEYS, unique=True, max_size=8), st.lists(KEYS, max_size=12))
def test_partners_are_those_of_a_dict(asked: list[tuple], stored: list[tuple]):
    def columns(rows: list[tuple]) -> tuple[np.ndarray, list[pa.Array]]:
        owners = np.array([row[0] for row in rows], dtype=np.int64)
        return owners, [
            pa.array([r[1] for r in rows], pa.int64()),
            pa.array([r[2] for r in rows], pa.string()),
        ]

    twin = {key: place for place, key in enumerate(asked)}
    assert partners(*columns(asked), *columns(stored)).tolist() == [twin.get(k, -1) for k in stored]
