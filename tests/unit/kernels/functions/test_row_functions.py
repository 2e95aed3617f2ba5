"""`map`, `flat_map` and `filter` row by row."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.model.ddl import schema_of

BATCH = pa.RecordBatch.from_pydict({"n": [1, 2, None], "s": ["x", "y", "z"]})
PAIR = schema_of("m BIGINT, t STRING")
ONE = schema_of("m BIGINT")


@pytest.mark.parametrize(
    "function",
    [
        lambda row: (row.n, row.s * 2),
        lambda row: [row.n, row.s * 2],
        lambda row: {"t": row.s * 2, "m": row.n},
    ],
)
def test_map_takes_tuples_lists_and_dicts(function: Any) -> None:
    mapped = RowMap(function=function, schema=PAIR)(BATCH)

    assert mapped.schema == PAIR
    assert mapped.to_pydict() == {"m": [1, 2, None], "t": ["xx", "yy", "zz"]}


def test_map_of_one_column_takes_its_value() -> None:
    assert RowMap(function=lambda row: row.n, schema=ONE)(BATCH)["m"].to_pylist() == [1, 2, None]
    assert RowMap(function=lambda row: (row.n,), schema=ONE)(BATCH)["m"].to_pylist() == [1, 2, None]
    lists = RowMap(function=lambda row: [row.n], schema=schema_of("l ARRAY<BIGINT>"))(BATCH)
    assert lists["l"].to_pylist() == [[1], [2], [None]]


def test_flat_map_makes_any_number_of_rows() -> None:
    function = RowFlatMap(function=lambda row: [(row.n, row.s)] * (row.n or 0), schema=PAIR)

    assert function(BATCH).to_pydict() == {"m": [1, 2, 2], "t": ["x", "y", "y"]}
    assert function(BATCH.slice(2)).num_rows == 0


def test_filter_keeps_rows_whose_answer_is_true() -> None:
    kept = RowFilter(function=lambda row: row.n and row.n > 1)(BATCH)

    assert kept.to_pydict() == {"n": [2], "s": ["y"]}
    assert kept.schema == BATCH.schema


def test_empty_batches_stay_empty() -> None:
    empty = BATCH.slice(0, 0)

    assert RowMap(function=lambda row: (1, "x"), schema=PAIR)(empty).schema == PAIR
    assert RowFilter(function=lambda row: True)(empty).num_rows == 0


def fails(row: Any) -> Any:
    return 1 // (row.n - 2)


@pytest.mark.parametrize(
    "function",
    [
        RowMap(function=fails, schema=ONE),
        RowFlatMap(function=lambda row: [fails(row)], schema=ONE),
        RowFilter(function=fails),
    ],
)
def test_an_error_shows_the_row(function: Any) -> None:
    with pytest.raises(UserFunctionError) as error:
        function(BATCH)

    assert "for Row(n=2, s='y') raised ZeroDivisionError" in str(error.value)
    assert "in fails" in str(error.value)


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        (("x", "y"), "row 0 of what <lambda> returned: field 'm' is declared bigint"),
        ((1,), "expected a tuple of 2 values (m, t), got 1 values"),
        ({"m": 1}, "its columns are m, t"),
        (5, "got a int"),
    ],
)
def test_an_answer_that_does_not_fit_is_told(answer: Any, part: str) -> None:
    function = RowMap(function=lambda row: answer, schema=PAIR)

    with pytest.raises(UserFunctionError) as error:
        function(BATCH)

    assert part in str(error.value).replace(
        "test_an_answer_that_does_not_fit_is_told.<locals>.", ""
    )
