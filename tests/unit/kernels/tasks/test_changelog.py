"""What leads from the rows of a table to others."""

from __future__ import annotations

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.errors import DataflowError
from rechannel.kernels.functions.changelog import ChangelogRows
from rechannel.kernels.tasks.changelog import difference
from rechannel.model.hashing import hash_columns

SCHEMA = pa.schema(
    [
        ("k", pa.int64()),
        ("s", pa.string()),
        ("x", pa.float64()),
        ("many", pa.list_(pa.int64())),
        ("one", pa.struct([("a", pa.int64())])),
    ]
)
KEYS = st.tuples(st.sampled_from([None, 0, 1, 2, 3]), st.sampled_from([None, "", "a", "b"]))
FLOATS = st.sampled_from([None, 0.0, -0.0, 1.5, math.nan])
LISTS = st.none() | st.lists(st.none() | st.integers(0, 1), max_size=2)
ONES = st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(0, 1)})
TABLES = st.dictionaries(KEYS, st.tuples(FLOATS, LISTS, ONES), max_size=12)


def emitted(table, bits):
    """Rows and their hashes. bits: how many of these there are."""
    rows = [(*key, *values) for key, values in table.items()]
    columns = [pa.array([r[i] for r in rows], f.type) for i, f in enumerate(SCHEMA)]
    hashes = hash_columns(columns[:1]) & np.uint64((1 << bits) - 1)
    order = np.argsort(hashes, kind="stable")
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA).take(pa.array(order))
    return batch, hashes[order]


def plain(values):
    return repr(values).replace("-0.0", "0.0")


@given(TABLES, TABLES, st.sampled_from([1, 3, 64]))
def test_every_key_that_changes_is_told_once(before, after, bits):
    made, hashes = difference(emitted(before, bits), emitted(after, bits), 2)
    assert made.schema == SCHEMA.append(pa.field("change", pa.string(), False))
    assert bool((hashes[1:] >= hashes[:-1]).all())
    told = {}
    for row in made.to_pylist():
        *values, change = row.values()
        told.setdefault(tuple(values[:2]), []).append((change, plain(tuple(values[2:]))))
    expected = {}
    for key in {**before, **after}:
        old, new = before.get(key), after.get(key)
        if old is None:
            expected[key] = [("insert", plain(new))]
        elif new is None:
            expected[key] = [("delete", plain(old))]
        elif plain(old) != plain(new):
            expected[key] = [("update_before", plain(old)), ("update_after", plain(new))]
    assert told == expected


def test_rows_that_are_keys_alone_never_change():
    keys = pa.record_batch({"k": [1, 2]})
    hashes = hash_columns(keys.columns)
    order = np.argsort(hashes)
    both = keys.take(pa.array(order)), hashes[order]
    assert difference(both, both, 1)[0].num_rows == 0
    words = difference((keys.slice(0, 0), hashes[:0]), both, 1)[0]["change"]
    assert words.to_pylist() == ["insert", "insert"]


def test_a_changelog_needs_values_that_can_be_compared():
    schema = pa.schema([("k", pa.int64()), ("span", pa.month_day_nano_interval())])
    with pytest.raises(
        DataflowError, match=r"column 'span' is .*cannot tell whether a value changed"
    ):
        ChangelogRows().schema_of(schema)
