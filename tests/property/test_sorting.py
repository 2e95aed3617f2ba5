"""Sorting and grouping against sorted lists and dicts."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.columnar import sorting
from rechannel.kernels.columnar.sorting import (
    group_rows,
    nested_order,
    running_max,
    sort_index,
    take,
)

# Hashes near each other differ in the bits where the row number is packed, far ones in all others.
HASHES = st.one_of(st.integers(0, 9), st.integers(0, 2**64 - 1), st.integers(2**64 - 9, 2**64 - 1))
VALUES = {
    "long": (pa.int64(), st.one_of(st.none(), st.integers(-2, 2))),
    "string": (pa.string(), st.one_of(st.none(), st.sampled_from(["", "a", "b", "a\0"]))),
    "double": (pa.float64(), st.one_of(st.none(), st.sampled_from([0.0, -0.0, 1.0, float("nan")]))),
}


def same_key(value: object) -> object:
    """What GROUP BY holds equal is equal."""
    if isinstance(value, float):
        return "nan" if value != value else value + 0.0  # noqa: PLR0124 - only NaN differs
    return value


@given(st.lists(HASHES, max_size=200))
def test_the_order_is_that_of_a_stable_sort(hashes: list[int]):
    expected = sorted(range(len(hashes)), key=hashes.__getitem__)
    assert sort_index(np.array(hashes, dtype=np.uint64)).tolist() == expected


EDGES = {np.uint64: [0, 1, 2**63, 2**64 - 1], np.int64: [-(2**63), -1, 0, 2**63 - 1]}


@given(st.data())
def test_the_order_by_several_columns_is_that_of_a_stable_sort_by_one_after_the_other(data):
    rows = data.draw(st.integers(0, 60))
    columns = []
    for kind in data.draw(st.lists(st.sampled_from(list(EDGES)), min_size=1, max_size=4)):
        value = data.draw(
            st.sampled_from(
                [st.integers(0, 3), st.sampled_from(EDGES[kind]), st.integers(0, 9_999)]
            )
        )
        values = np.array(data.draw(st.lists(value, min_size=rows, max_size=rows)), dtype=kind)
        at = sorted(data.draw(st.lists(st.integers(0, rows), max_size=3)))
        parts = np.split(values, at)  # stretches that ascend, as those of several producers
        columns.append(np.concatenate([np.sort(part) for part in parts]).astype(kind))
    expected = sorted(range(rows), key=lambda row: tuple(int(column[row]) for column in columns))
    assert nested_order(*columns).tolist() == expected


@given(
    st.lists(st.tuples(st.integers(0, 4), st.sampled_from([*EDGES[np.int64], 5, 6])), max_size=40)
)
def test_the_largest_value_so_far_is_that_of_the_owner(rows: list[tuple[int, int]]):
    rows.sort(key=lambda row: row[0])
    owners, values = (np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1))
    expected = [
        max(value for other, value in rows[: at + 1] if other == owner)
        for at, (owner, _) in enumerate(rows)
    ]
    assert running_max(owners, values).tolist() == expected


@given(st.data())
def test_groups_are_those_of_a_dict(data: st.DataObject):
    kinds = data.draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=3))
    rows = data.draw(
        st.lists(st.tuples(*[VALUES[kind][1] for kind in kinds]), min_size=1, max_size=30)
    )
    buckets = data.draw(st.integers(1, 4))
    text = [repr([same_key(value) for value in row]) for row in rows]
    place = {key: data.draw(st.integers(0, buckets)) for key in sorted(set(text))}
    order = sorted(range(len(rows)), key=lambda i: place[text[i]])
    rows, text = [rows[i] for i in order], [text[i] for i in order]
    hashes = np.array([place[key] for key in text], dtype=np.uint64)
    columns = [pa.array([row[i] for row in rows], VALUES[kind][0]) for i, kind in enumerate(kinds)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sorting, "hash_is_key", lambda _: False)
        groups, untangled = group_rows(hashes, columns)
    after = list(range(len(rows))) if untangled is None else untangled.tolist()
    assert sorted(after) == list(range(len(rows)))
    assert hashes[after].tolist() == sorted(hashes.tolist())
    members = [
        [after[i] for i in range(start, stop)]
        for start, stop in zip(groups.starts, groups.ends, strict=True)
    ]
    twin: dict[str, list[int]] = {}
    for row, key in enumerate(text):
        twin.setdefault(key, []).append(row)
    # Every group is one key's rows, in the order in which they came.
    assert sorted(members) == sorted(twin.values())


@given(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=2, max_size=12), st.randoms())
def test_the_order_of_keys_follows_from_the_keys_alone(keys, random):
    shuffled = keys.copy()
    random.shuffle(shuffled)
    seen = []
    for rows in (keys, shuffled):
        column = pa.array(rows, pa.string())
        groups, order = group_rows(np.zeros(len(rows), dtype=np.uint64), [column])
        column = column if order is None else take([column], order)[0]
        seen.append([column[int(start)].as_py() for start in groups.starts])
    assert seen[0] == seen[1]
