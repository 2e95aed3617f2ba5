"""Rows in the order of columns: as Python sorts them, whatever their types and however far apart they are."""

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cmp_to_key

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.kernels.columnar import ranking
from rechannel.kernels.columnar.ranking import Codes, codes_of, ordered

INTS = st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)
FLOATS = st.floats() | st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf])
WAYS = st.booleans()
COLUMNS = st.sampled_from([
    (pa.int64(), INTS),
    (pa.int8(), st.integers(-128, 127)),
    (pa.uint64(), st.integers(0, 2**64 - 1)),
    (pa.float64(), FLOATS),
    (pa.float32(), st.sampled_from([0.0, -0.0, 1.5, math.nan, -math.inf])),
    (pa.bool_(), st.booleans()),
    (pa.string(), st.text(alphabet="ab", max_size=2)),
    (pa.date32(), st.dates(date(1960, 1, 1), date(1980, 1, 1))),
    (pa.timestamp("us", "UTC"), st.datetimes(timezones=st.just(UTC), min_value=datetime(1960, 1, 1))),  # noqa: DTZ001
    (pa.decimal128(5, 2), st.decimals("-9", "9", places=2)),
])  # fmt: skip


def before(one, other, descending):
    """Negative where one value lies in front of another."""

    def rank(value):
        if value is None:
            return 2
        return 1 if isinstance(value, float) and math.isnan(value) else 0

    if rank(one) or rank(other):
        return rank(one) - rank(other)
    return ((one > other) - (one < other)) * (-1 if descending else 1)


@st.composite
def tables(draw):
    rows = draw(st.integers(0, 12))
    columns = []
    for _ in range(draw(st.integers(1, 3))):
        kind, values = draw(COLUMNS)
        found = draw(st.lists(st.none() | values, min_size=rows, max_size=rows))
        columns.append((pa.array(found, kind), draw(WAYS)))
    owners = draw(st.lists(st.integers(0, 3), min_size=rows, max_size=rows))
    return owners, columns, draw(st.permutations(range(rows)))


@given(tables(), st.sampled_from([64, 8, 5]))
def test_rows_lie_as_python_sorts_them(table, bits):
    owners, columns, places = table
    values = [(column.to_pylist(), descending) for column, descending in columns]

    def compare(one, other):
        if owners[one] != owners[other]:
            return owners[one] - owners[other]
        for column, descending in values:
            if found := before(column[one], column[other], descending):
                return found
        return 0

    expected = sorted(
        range(len(owners)), key=cmp_to_key(lambda a, b: compare(a, b) or places[a] - places[b])
    )
    codes = [codes_of(column, descending=descending) for column, descending in columns]
    with pytest.MonkeyPatch.context() as patch:
        # With few bits the slower ways are gone.
        patch.setattr(ranking, "_BITS", bits)
        rows, alike = ordered(np.array(owners, np.int64), codes, np.array(places, np.int64))
    assert rows.tolist() == expected
    assert alike.tolist() == [
        i > 0 and compare(expected[i - 1], row) == 0 for i, row in enumerate(expected)
    ]


def test_numbers_that_are_close_take_few_bits():
    assert codes_of(pa.array([7, 5, 6]), descending=False).count == 3
    assert codes_of(pa.array([7, 5, 6]), descending=True).values.tolist() == [0, 2, 1]
    assert codes_of(pa.array([7, None, 5]), descending=False).values.tolist() == [2, 4, 0]
    assert codes_of(pa.array([math.nan, None, 1.0]), descending=True).values.tolist() == [1, 2, 0]
    assert codes_of(pa.array([Decimal("2.5"), Decimal("-1")]), descending=True).values.tolist() == [
        0,
        1,
    ]


def test_far_apart_numbers_are_made_dense():
    codes = codes_of(pa.array([2**63 - 1, -(2**63), 0]), descending=False)
    assert codes.count == 2**64
    assert (codes.dense().values.tolist(), codes.dense().count) == ([2, 0, 1], 3)
    both = Codes(np.zeros(3, np.uint64), 1).then(codes, 64)
    assert both.values.tolist() == codes.values.tolist()
