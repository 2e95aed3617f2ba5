"""Rows of dead letters, from their texts, are the rows that were; what would be another row is refused."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from rechannel.kernels.functions.dead_letters import row_texts
from rechannel.kernels.functions.letter_rows import (
    attempts_in,
    letter_rows,
    order_of,
    with_attempts,
)

VALUES: list[tuple[pa.DataType, list[Any]]] = [
    (pa.string(), ["", 'é\n"', None]),
    (pa.int64(), [-(2**63), 2**63 - 1, None]),
    (pa.bool_(), [True, None]),
    (pa.float64(), [0.1, 3.0, math.inf, -math.inf, None]),
    (pa.binary(), [b"", b"\xff\x00", None]),
    (pa.decimal128(38, 2), [Decimal("123456789012345678901234567890.12"), None]),
    (pa.date32(), [date(1, 1, 1), date(9999, 12, 31)]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 2, 3, 4, 5, 6, 7, tzinfo=UTC), None]),
    (pa.timestamp("us"), [datetime(2026, 2, 3, 4, 5, 6, 7)]),  # noqa: DTZ001
    (pa.time64("us"), [time(1, 2, 3, 4)]),
    (pa.list_(pa.int32()), [[1, None], [], None]),
    (pa.struct([("a", pa.int8()), ("b", pa.string())]), [{"a": 1, "b": None}, None]),
    (pa.map_(pa.string(), pa.float64()), [[("x", math.inf), ("y", None)], [], None]),
    (pa.map_(pa.int32(), pa.bool_()), [[(1, True)]]),
]


@pytest.mark.parametrize(("kind", "values"), VALUES, ids=lambda each: str(each)[:20])
def test_rows_come_back(kind, values):
    rows = pa.record_batch({"v": pa.array(values, kind), "n": pa.array(range(len(values)))})
    found = letter_rows(row_texts(rows), rows.schema, frozenset({"v", "n"}))
    assert not found.refused
    assert found.rows.equals(rows)


def test_what_is_no_number_comes_back():
    rows = pa.record_batch({"v": pa.array([math.nan])})
    (value,) = letter_rows(row_texts(rows), rows.schema, frozenset("v")).rows["v"].to_pylist()
    assert math.isnan(value)


SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.string())])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('{"a": 1, "b": "x", "c": 2}', r"has \['c'\], and the operator reads other columns by now"),
        ('{"b": "x"}', r"lacks \['a'\], and the operator"),
        ('{"a": 3000000000, "b": "x"}', "3000000000"),
        ('{"a": 1.5, "b": "x"}', "its column 'a' is no int32 as it is written"),
        ('{"a": "1", "b": "x"}', "'a'|tried to convert"),
        ("[1, 2]", "it is no row, but the text of a record"),
        ("not JSON", "Expecting value"),
    ],
)
def test_what_is_no_row_of_these_columns_is_refused(text, why):
    found = letter_rows(['{"a": 7, "b": null}', text], SCHEMA, frozenset({"a"}))
    assert found.rows.to_pylist() == [{"a": 7, "b": None}]
    assert found.numbers == (0,)
    with pytest.raises(ValueError, match=why):
        raise ValueError(found.refused[1])


def test_columns_that_the_operator_does_not_read_may_be_missing():
    found = letter_rows(['{"a": 1}'], SCHEMA, frozenset({"a"}))
    assert found.rows.to_pylist() == [{"a": 1, "b": None}]


def test_attempts_are_in_the_order_and_then_in_the_offset():
    order = order_of(7, 2)
    assert order_of(7, 1) < order < order_of(7, 1 << 40) < order_of(8, 1)
    assert with_attempts(None, 2, order) == ['{"attempts": 3}'] * 2
    (offset,) = with_attempts(['{"topic": "t", "partition": 0, "offset": 5}'], 1, order)
    assert json.loads(offset) == {"topic": "t", "partition": 0, "offset": 5, "attempts": 3}
    assert attempts_in(offset) == 3
    assert attempts_in(None) is attempts_in('{"offset": 3}') is attempts_in("[]") is None
