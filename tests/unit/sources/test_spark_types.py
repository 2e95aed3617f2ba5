"""Spark's types that tasks cannot see as Spark means them are refused by name."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import types as t

from rechannel.errors import DataflowError
from rechannel.sources.spark_types import arrow_schema

ANY_CASE = t.StringType("UTF8_LCASE")


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (ANY_CASE, "string collate UTF8_LCASE: rows are grouped and compared byte by byte"),
        (t.ArrayType(ANY_CASE), "UTF8_LCASE"),
        (t.MapType(t.IntegerType(), ANY_CASE), "UTF8_LCASE"),
        (t.StructType([t.StructField("a", t.ArrayType(ANY_CASE))]), "collate"),
        (t.YearMonthIntervalType(), "interval year to month, which Spark does not pass to Python"),
        (t.CalendarIntervalType(), "interval, which Spark does not pass to Python"),
        (t.ArrayType(t.YearMonthIntervalType()), "array<interval year to month>"),
    ],
)
def test_types_that_lose_their_meaning_are_refused_with_their_column(kind, said):
    columns = t.StructType([t.StructField("n", t.LongType()), t.StructField("k", kind)])
    with pytest.raises(DataflowError, match=f"column 'k' is .*{said}"):
        arrow_schema(columns)


def test_other_types_are_those_of_the_arrow_exchange():
    columns = t.StructType(
        [
            t.StructField("s", t.StringType()),
            t.StructField("at", t.TimestampType()),
            t.StructField("n", t.NullType()),
            t.StructField("d", t.DayTimeIntervalType()),
            t.StructField("l", t.ArrayType(t.StringType()), nullable=False),
        ]
    )
    assert arrow_schema(columns).types[:4] == [
        pa.string(),
        pa.timestamp("us", "UTC"),
        pa.null(),
        pa.duration("us"),
    ]
    assert not arrow_schema(columns).field("l").nullable
