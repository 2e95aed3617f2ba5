"""Column lists as text."""

from __future__ import annotations

import pyarrow as pa
import pytest

from rechannel.errors import DataflowError
from rechannel.model.ddl import columns_text, schema_of, type_name

UTC = pa.timestamp("us", tz="UTC")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("BOOLEAN", pa.bool_()),
        ("tinyint", pa.int8()),
        ("SHORT", pa.int16()),
        ("Integer", pa.int32()),
        ("bigint", pa.int64()),
        ("real", pa.float32()),
        ("double", pa.float64()),
        ("varchar(20)", pa.string()),
        ("binary", pa.binary()),
        ("date", pa.date32()),
        ("timestamp", UTC),
        ("timestamp_ntz", pa.timestamp("us")),
        ("decimal", pa.decimal128(10, 0)),
        ("decimal(12)", pa.decimal128(12, 0)),
        ("numeric(38, 10)", pa.decimal128(38, 10)),
        ("array<array<int>>", pa.list_(pa.list_(pa.int32()))),
        ("map<string, array<double>>", pa.map_(pa.string(), pa.list_(pa.float64()))),
        (
            "struct<a: int, `b c`: struct<d: date NOT NULL>>",
            pa.struct(
                [
                    ("a", pa.int32()),
                    pa.field("b c", pa.struct([pa.field("d", pa.date32(), False)])),
                ]
            ),
        ),
    ],
)
def test_every_type_is_read(text: str, kind: pa.DataType) -> None:
    assert schema_of(f"x {text}") == pa.schema([("x", kind)])


def test_columns_with_colons_quotes_not_null_and_comments() -> None:
    schema = schema_of("a: INT, `odd ``name` STRING NOT NULL COMMENT 'it''s', `b` DATE")

    assert schema == pa.schema(
        [
            ("a", pa.int32()),
            pa.field("odd `name", pa.string(), False),
            ("b", pa.date32()),
        ]
    )


def test_an_arrow_schema_is_taken_as_it_is_without_metadata() -> None:
    schema = pa.schema([("a", pa.int32())], metadata={"from": "elsewhere"})

    assert schema_of(schema).metadata is None
    assert schema_of(schema).equals(schema)


def test_a_spark_struct_type_is_read_by_what_it_says() -> None:
    class StructType:
        def simpleString(self) -> str:  # noqa: N802 - Spark's name
            return "struct<n:bigint,tags:array<string>>"

    assert schema_of(StructType()).names == ["n", "tags"]


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "⟨here⟩"),
        ("a", "a type for column 'a'"),
        ("a INT,", "expected a column name"),
        ("a INT b INT", "a INT ⟨here⟩b INT"),
        ("a WHAT", "a ⟨here⟩WHAT"),
        ("a ARRAY<INT", "'>'"),
        ("a DECIMAL(39, 2)", "38 digits"),
        ("a DECIMAL(x)", "a number"),
        ("a INT COMMENT b", "single quotes"),
        ("a INT; b INT", "a INT⟨here⟩; b INT"),
    ],
)
def test_what_cannot_be_read_is_shown_with_the_place(text: str, part: str) -> None:
    with pytest.raises(DataflowError) as error:
        schema_of(text)
    assert part in str(error.value)


def test_a_column_declared_twice_is_refused() -> None:
    with pytest.raises(DataflowError, match="'a' is declared twice"):
        schema_of("a INT, b INT, a STRING")


def test_what_is_no_schema_is_refused() -> None:
    with pytest.raises(DataflowError, match="not list"):
        schema_of([("a", "int")])


def test_types_are_named_in_words_that_can_be_read_again() -> None:
    text = (
        "a bigint, b decimal(5,2), c array<struct<x:int,y:map<string,double>>>, "
        "d timestamp, e timestamp_ntz, f string"
    )

    assert columns_text(schema_of(text)) == text
    assert type_name(pa.uint8()) == "uint8"
