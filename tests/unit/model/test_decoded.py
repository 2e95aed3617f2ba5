"""Columns that are written as codes, runs and views, and the values that they stand for."""

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rechannel.model.decoded import decoded, decoded_schema, decoded_table

TEXT = pa.array(["a", None, "b", "a"])
CODES = TEXT.dictionary_encode()
VIEW = TEXT.cast(pa.string_view())
LISTS = pa.array([["a"], [], None, ["a", "b"]])


@pytest.mark.parametrize(
    ("column", "plain"),
    [
        (TEXT, TEXT),
        (CODES, TEXT),
        (CODES.slice(1, 2), TEXT.slice(1, 2)),
        (
            pa.DictionaryArray.from_arrays(pa.array([0, None, 2, 0]), VIEW),
            pa.array(["a", None, "b", "a"]),
        ),
        (VIEW, TEXT),
        (TEXT.cast(pa.binary()).cast(pa.binary_view()), TEXT.cast(pa.binary())),
        (pc.run_end_encode(TEXT), TEXT),
        (pc.run_end_encode(TEXT).slice(1), TEXT.slice(1)),
        (pa.StructArray.from_arrays([CODES], ["x"]), pa.StructArray.from_arrays([TEXT], ["x"])),
        (pa.ListArray.from_arrays([0, 1, 4], CODES), pa.ListArray.from_arrays([0, 1, 4], TEXT)),
        (pa.array(LISTS.to_pylist(), pa.list_view(pa.string())), LISTS),
        (
            pa.array(LISTS.to_pylist(), pa.large_list_view(pa.string())),
            LISTS.cast(pa.large_list(pa.string())),
        ),
        (pa.DictionaryArray.from_arrays([1, 0], LISTS), LISTS.take(pa.array([1, 0]))),
        (
            pa.FixedSizeListArray.from_arrays(VIEW, 2),
            pa.FixedSizeListArray.from_arrays(TEXT, 2),
        ),
        (
            pa.MapArray.from_arrays([0, 1, 2], pa.array([1, 2]), CODES.slice(2)),
            pa.MapArray.from_arrays([0, 1, 2], pa.array([1, 2]), TEXT.slice(2)),
        ),
    ],
)
def test_columns_are_what_they_stand_for(column, plain):
    found = decoded(column)
    assert found.type == plain.type
    assert found.to_pylist() == plain.to_pylist()
    assert decoded_schema(pa.schema([("c", column.type)])) == pa.schema([("c", plain.type)])
    table = decoded_table(pa.table({"c": pa.chunked_array([column, column])}))
    assert table.column("c").to_pylist() == plain.to_pylist() * 2


def test_fields_stay_what_they_are():
    encoded = pa.field("c", CODES.type, nullable=False, metadata={"a": "b"})
    made = decoded_schema(pa.schema([encoded], metadata={"x": "y"}))
    plain = pa.schema([encoded.with_type(pa.string())], metadata={"x": "y"})
    assert made.equals(plain, check_metadata=True)


def test_plain_tables_are_not_copied():
    table = pa.table({"c": TEXT})
    assert decoded_table(table) is table


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.list_view(pa.string())),
        pa.struct([("x", pa.list_(pa.large_list_view(pa.string())))]),
        pa.map_(pa.string(), pa.list_view(pa.string())),
        pa.list_(pa.list_view(pa.string()), 1),
    ],
    ids=str,
)
def test_views_of_lists_inside_of_others_are_refused(kind):
    with pytest.raises(pa.ArrowNotImplementedError, match="contains list views"):
        decoded(pa.array([None], kind))
