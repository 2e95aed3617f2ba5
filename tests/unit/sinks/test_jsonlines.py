"""JSON lines without Spark."""

from __future__ import annotations

import json
from decimal import Decimal

import pyarrow as pa
import pytest

from rechannel.kernels.functions.formats.json_values import text_of

EXACT = pa.decimal128(38, 10)


@pytest.mark.parametrize(
    ("value", "kind", "says"),
    [
        (Decimal("12345678901234567890.12"), pa.decimal128(30, 2), "12345678901234567890.12"),
        (Decimal("1.50"), pa.decimal128(5, 2), "1.50"),
        (Decimal("-0.0000000001"), EXACT, "-1E-10"),
        ([Decimal("0.1"), None], pa.list_(EXACT), "[0.1, null]"),
        ({"a": Decimal("2.0"), "b": None}, pa.struct({"a": EXACT, "b": EXACT}), '{"a": 2.0}'),
        ([("k", Decimal("3.00"))], pa.map_(pa.string(), EXACT), '{"k": 3.00}'),
        ('q"ü', pa.string(), '"q\\"ü"'),
        (None, pa.string(), "null"),
        (float("-inf"), pa.float64(), '"-Infinity"'),
    ],
)
def test_values_are_exact(value, kind, says):
    text = text_of(value, kind)
    assert text == says
    json.loads(text)
