"""The state of no rows changes nothing when it is merged with any other."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DataflowError
from rechannel.kernels.columnar.groups import Groups
from rechannel.operators.aggregate import functions as ag

VALUES = {
    pa.int32(): [3, None, -4],
    pa.int64(): [2**62, None, 5],
    pa.float32(): [1.5, None, -0.0],
    pa.float64(): [1.5, None, float("nan")],
    pa.decimal128(10, 2): [Decimal("1.25"), None, Decimal("-3.00")],
    pa.string(): ["a", None, ""],
    pa.bool_(): [True, None, False],
    pa.timestamp("us", tz="UTC"): [datetime(2020, 1, 1, tzinfo=UTC), None, None],
    pa.list_(pa.int32()): [[1], None, []],
    pa.dictionary(pa.int32(), pa.string()): ["a", None, "b"],
}
FUNCTIONS = [
    ag.Count(),
    ag.Count(column="v"),
    ag.Sum(column="v"),
    ag.Mean(column="v"),
    ag.Min(column="v"),
    ag.Max(column="v"),
    ag.Variance(column="v"),
    ag.Stddev(column="v", population=True),
    ag.CountDistinct(column="v"),
    ag.First(column="v", ignore_nulls=True),
    ag.Last(column="v"),
    ag.Last(column="v", ignore_nulls=True),
    ag.LastN(column="v", n=2),
    ag.LastN(column="v", n=2, ignore_nulls=True),
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=repr)
@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_empty_and_any_state_is_that_state(function, kind):
    inputs = [pa.field("v", kind)] if function.inputs else []
    try:
        fields = function.state_fields(inputs)
    except DataflowError:
        return
    empty = function.empty(inputs)
    assert [c.type for c in empty] == [f.type for f in fields]
    assert all(f.nullable or c.null_count == 0 for f, c in zip(fields, empty, strict=True))

    values = [pa.array(VALUES[kind], kind)] if inputs else []
    new = function.partial(values, Groups(np.arange(3), 3))
    old = [c.take(pa.array([0, 0, 0])) for c in empty]
    merged = function.merge_pair(old, new, np.ones(3, dtype=np.bool_))
    assert repr([c.to_pylist() for c in merged]) == repr([c.to_pylist() for c in new])
    (shown,) = function.final(empty, inputs).to_pylist()
    assert shown in (None, 0, [])


def test_a_first_value_that_may_be_null_has_no_empty_state():
    assert ag.First(column="v").empty([pa.field("v", pa.int64())]) is None
