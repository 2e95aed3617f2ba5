"""Floats in keys, however deep: one zero, one NaN."""

from __future__ import annotations

import math
import struct

import pyarrow as pa
import pytest

from rechannel.model.canonical import canonical, one_zero

ODD = struct.unpack("<d", struct.pack("<Q", 0xFFF8000000000001))[0]
"""A NaN with bits of its own."""

VALUES = [
    (pa.float64(), [-0.0, 0.0, ODD, 1.5, None]),
    (pa.float32(), [-0.0, float("nan"), None]),
    (pa.list_(pa.float64()), [[-0.0, ODD], None, [], [None, 1.0]]),
    (pa.large_list(pa.float32()), [[-0.0], None, [2.0]]),
    (pa.list_(pa.float64(), 2), [[-0.0, ODD], None, [1.0, -0.0]]),
    (pa.struct({"x": pa.float64(), "s": pa.string()}), [{"x": -0.0, "s": "a"}, None]),
    (
        pa.list_(pa.struct({"l": pa.list_(pa.float64()), "i": pa.int32()})),
        [[{"l": [-0.0, None], "i": 1}, None], [], None, [{"l": None, "i": None}]],
    ),
]


def bits(value):
    """A value with its floats as bits."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: bits(each) for name, each in value.items()}
    return [bits(each) for each in value] if isinstance(value, list) else value


def plain(value):
    """What a value should become."""
    if isinstance(value, float):
        return math.nan if math.isnan(value) else value + 0.0
    if isinstance(value, dict):
        return {name: plain(each) for name, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=[str(kind) for kind, _ in VALUES])
@pytest.mark.parametrize("cut", [0, 1])
def test_floats_of_any_depth_have_one_zero_and_one_nan(kind, values, cut):
    column = pa.array(values, kind).slice(cut)
    made = one_zero(column)
    made.validate(full=True)
    assert made.type == kind
    assert bits(made.to_pylist()) == bits([plain(value) for value in values[cut:]])
    assert bits(canonical(made).to_pylist()) == bits(canonical(column).to_pylist())


def test_columns_without_floats_stay_what_they_are():
    column = pa.array([[{"a": 1}]], pa.list_(pa.struct({"a": pa.int64()})))
    assert one_zero(column) is column
