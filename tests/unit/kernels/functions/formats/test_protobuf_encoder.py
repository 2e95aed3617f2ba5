"""Rows as messages: what protobuf's own classes read."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel.kernels.functions.formats.protobuf.encoder import ProtobufEncoder
from rechannel.kernels.functions.formats.protobuf.types import Message
from tests.unit.kernels.functions.formats.protobuf_cases import EVERY, every, written


def encoder():
    return ProtobufEncoder(message=Message.of(EVERY))


def only(**columns):
    return encoder().encoded(pa.record_batch(columns))


def read(made):
    return [EVERY.FromString(each) for each in made.values.to_pylist()]


@given(st.lists(every, max_size=4))
def test_what_is_decoded_is_encoded_again(rows):
    # ptars takes the sign of a zero away.
    values = [written(row | {"f_double": row["f_double"] + 0.0}) for row in rows]
    columns = rc.formats.protobuf(EVERY).parsed(pa.array(values, pa.binary())).rows
    made = encoder().encoded(columns)
    assert made.errors == {}
    assert read(made) == [EVERY.FromString(each) for each in values]
    assert encoder().encoded(pa.concat_batches([columns, columns]).slice(1)).values.to_pylist() == [
        *made.values.to_pylist(), *made.values.to_pylist()
    ][1:]  # fmt: skip


def test_columns_of_other_types_are_converted():
    made = only(
        f_int64=pa.array([-1], pa.int8()),
        f_uint32=pa.array([2**32 - 1], pa.int64()),
        f_uint64=pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)),
        f_fixed64=pa.array([3], pa.int64()),
        f_string=pa.array(["ü"], pa.large_string()),
        f_double=pa.array([0.5], pa.float32()),
        at=pa.array([1_500], pa.timestamp("ms", "Europe/Berlin")),
        w=pa.array([0], pa.int32()),
        many=pa.array([[1, 2]], pa.list_(pa.int16())),
        rs=pa.array([[{"x": 1}, {"x": 2}]], pa.list_(pa.struct([("x", pa.int32())]))),
        m=pa.array([[("b", 1), ("a", 2)]], pa.map_(pa.string(), pa.int32())),
        e=pa.array(["B"]),
    )
    assert made.errors == {}
    (message,) = read(made)
    assert (message.f_int64, message.f_uint32, message.f_uint64) == (-1, 2**32 - 1, 2**64 - 1)
    assert (message.f_fixed64, message.f_string, message.f_double, message.e) == (3, "ü", 0.5, 1)
    assert message.at.ToDatetime() == dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)  # noqa: DTZ001
    assert message.HasField("w")
    assert (list(message.many), [each.x for each in message.rs]) == ([1, 2], [1, 2])
    assert dict(message.m) == {"a": 2, "b": 1}


def test_nulls_are_absent():
    made = only(
        maybe=pa.array([None, 0]),
        r=pa.array([None, {"x": None}], pa.struct([("x", pa.int64())])),
        many=pa.array([None, []], pa.list_(pa.int64())),
        e=pa.array([None, "7"]),
    )
    one, two = read(made)
    assert (one.HasField("maybe"), two.HasField("maybe")) == (False, True)
    assert (one.HasField("r"), two.HasField("r")) == (False, True)
    assert two.e == 7


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"f_uint32": pa.array([1, 2**32, 2])}, "not in range"),
        ({"f_int32": pa.array([1, 2**31, 2])}, "not in range"),
        ({"f_uint64": pa.array([1, -1, 2])}, "not in range"),
        ({"e": pa.array(["A", "C", "B"])}, "field e: a text is no value of shop.E"),
        ({"many": pa.array([[1], [1, None], []])}, "field many has a null among its values"),
        ({"m": pa.array([[], [("a", None)], []], pa.map_(pa.string(), pa.int64()))}, "field m has a null"),
        ({"left": pa.array([1, 1, None]), "right": pa.array([None, "x", "y"])}, "more than one of left, right"),
    ],
)  # fmt: skip
def test_what_a_field_cannot_hold_harms_no_other_row(columns, words):
    made = only(**columns)
    assert set(made.errors) == {1}
    assert words in made.errors[1]
    rows = pa.record_batch(columns)
    alone = pa.concat_batches([rows.slice(0, 1), rows.slice(2, 1)])
    assert made.values.to_pylist() == encoder().encoded(alone).values.to_pylist()
