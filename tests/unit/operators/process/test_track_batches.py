"""`track` with one vectorised function for all changed keys."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.ddl import schema_of
from rechannel.operators.process.track import TrackBatchesLogic
from rechannel.operators.process.track_frame import KeyedFrame
from tests.support.arrivals import arrivals, output_of, state_of

A, B, C = ("a",), ("b",), ("c",)

ROWS = [(A, (1, 0.5, "x")), (B, (10, 1.5, "y")), (A, (2, None, "z")), (C, (None, None, None))]


def track(update: Any, state: str = "n BIGINT, total BIGINT", **more: Any) -> TrackBatchesLogic:
    return TrackBatchesLogic(
        key_schema=schema_of("k STRING"),
        value_schema=schema_of("v BIGINT, f DOUBLE, w STRING"),
        fields=schema_of(state),
        update=update,
        **more,
    )


def totals(frame: KeyedFrame) -> dict[str, Any]:
    return {
        "n": frame.previous("n", 0) + frame.count(),
        "total": frame.previous("total", 0) + frame.sum("v"),
    }


def frame_of(
    rows: Any = None, old: dict[tuple[Any, ...], tuple[Any, ...]] | None = None
) -> KeyedFrame:
    """The frame that a function sees."""
    seen: list[KeyedFrame] = []

    def look(frame: KeyedFrame) -> dict[str, Any]:
        seen.append(frame)
        return totals(frame)

    logic = track(look)
    logic.apply(arrivals(logic, ROWS if rows is None else rows, old))
    return seen[0]


def test_new_and_known_keys_are_updated() -> None:
    logic = track(totals)
    given = arrivals(logic, ROWS, {A: (5, 50)})

    applied = logic.apply(given)

    assert state_of(logic, given, applied) == {A: (7, 53), B: (1, 10), C: (1, 0)}
    assert output_of(applied) == [("a", 7, 53), ("b", 1, 10), ("c", 1, 0)]
    assert applied.output.schema == logic.output_schema


def test_a_frame_says_what_is_known_of_each_key() -> None:
    frame = frame_of(old={A: (5, 50)})

    assert len(frame) == 3
    assert frame.keys.to_pydict() == {"k": ["a", "b", "c"]}
    assert frame.found.tolist() == [True, False, False]
    assert frame.state.to_pydict() == {"n": [5, None, None], "total": [50, None, None]}
    assert frame.rows["v"].to_pylist() == [1, 2, 10, None]
    assert frame.starts.tolist() == [0, 2, 3]
    assert frame.sizes.tolist() == [2, 1, 1]
    assert frame.ids.tolist() == [0, 0, 1, 2]
    assert frame.previous("n", 0).tolist() == [5, 0, 0]
    assert frame.previous("n", 0).dtype == np.int64


def test_helpers_skip_nulls_as_sql_does() -> None:
    frame = frame_of()

    assert frame.count().tolist() == [2, 1, 1]
    assert frame.count("f").tolist() == [1, 1, 0]
    assert frame.sum("v").tolist() == [3, 10, 0]
    assert frame.sum("f").tolist() == [0.5, 1.5, 0.0]
    assert frame.min("v", default=-1).tolist() == [1, 10, -1]
    assert frame.max("v", default=-1).tolist() == [2, 10, -1]
    assert frame.max("v", default=-1).dtype == np.int64
    assert frame.min("f", default=9.0).tolist() == [0.5, 1.5, 9.0]
    assert frame.max("f", default=9.0).tolist() == [0.5, 1.5, 9.0]
    assert np.isnan(frame.max("v")[2])
    assert frame.first("w").tolist() == ["x", "y", None]
    assert frame.last("w", default="?").tolist() == ["z", "y", "?"]


def test_extremes_of_columns_without_nulls_and_of_their_whole_range() -> None:
    low, high = -(2**63), 2**63 - 1
    frame = frame_of([(A, (low, -np.inf, "")), (A, (high, np.inf, ""))])

    assert frame.min("v").tolist() == [low]
    assert frame.max("v").tolist() == [high]
    assert frame.min("f").tolist() == [-np.inf]
    assert frame.max("f").tolist() == [np.inf]


def test_nan_is_the_largest_number() -> None:
    nan = float("nan")
    frame = frame_of(
        [(A, (1, nan, "")), (A, (1, 2.0, "")), (B, (1, nan, "")), (B, (None, None, ""))]
    )

    assert frame.min("f", default=0.0).tolist()[0] == 2.0
    assert np.isnan(frame.min("f", default=0.0)[1])
    assert np.isnan(frame.max("f", default=0.0)).all()


@pytest.mark.parametrize("helper", ["sum", "min", "max"])
def test_helpers_for_numbers_refuse_other_types(helper: str) -> None:
    with pytest.raises(TypeError, match="'w' is string"):
        getattr(frame_of(), helper)("w")


def test_an_unknown_column_is_named() -> None:
    with pytest.raises(KeyError, match="no column 'z'; there are v, f, w"):
        frame_of().sum("z")


def test_polars_rows_carry_keys_and_key_numbers() -> None:
    rows = frame_of().to_polars()

    assert rows.columns == ["k", "v", "f", "w", "_key"]
    assert rows["k"].to_list() == ["a", "a", "b", "c"]
    assert rows["_key"].to_list() == [0, 0, 1, 2]


def by_polars(frame: KeyedFrame) -> pl.DataFrame:
    groups = frame.to_polars().group_by("_key", maintain_order=True)
    new = groups.agg(n=pl.len().cast(pl.Int64), total=pl.col("v").sum())
    old = pl.DataFrame({"n": frame.previous("n", 0), "total": frame.previous("total", 0)})
    return pl.DataFrame({name: new[name] + old[name] for name in ("n", "total")})


def by_record_batch(frame: KeyedFrame) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict(totals(frame))


def by_table(frame: KeyedFrame) -> pa.Table:
    return pa.concat_tables([pa.Table.from_batches([by_record_batch(frame)])])


@pytest.mark.parametrize("update", [totals, by_polars, by_record_batch, by_table])
def test_an_answer_may_have_any_of_these_forms(update: Any) -> None:
    logic = track(update)
    given = arrivals(logic, ROWS, {A: (5, 50)})

    assert state_of(logic, given, logic.apply(given)) == {A: (7, 53), B: (1, 10), C: (1, 0)}


def test_columns_are_cast_to_what_was_declared() -> None:
    logic = track(lambda frame: {"n": [1, 2, None], "s": ["x", "y", "z"]}, "n SMALLINT, s STRING")
    given = arrivals(logic, ROWS)

    assert state_of(logic, given, logic.apply(given)) == {A: (1, "x"), B: (2, "y"), C: (None, "z")}


def test_drop_ends_keys() -> None:
    logic = track(lambda frame: {**totals(frame), "_drop": pa.array([True, False, None])})
    given = arrivals(logic, ROWS, {A: (5, 50)})

    applied = logic.apply(given)

    assert state_of(logic, given, applied) == {B: (1, 10), C: (1, 0)}
    assert output_of(applied) == [("b", 1, 10), ("c", 1, 0)]


def test_a_timeout_forgets() -> None:
    logic = track(totals, timeout_ms=1000)
    given = arrivals(logic, ROWS, {A: (5, 50, 8999), B: (5, 50, 9000)}, stream_ms=10_000)

    assert state_of(logic, given, logic.apply(given)) == {
        A: (2, 3, 10_000),
        B: (6, 60, 10_000),
        C: (1, 0, 10_000),
    }


def test_a_task_without_keys_calls_nobody() -> None:
    logic = track(lambda frame: 1 // 0)

    applied = logic.apply(arrivals(logic, []))

    assert applied.output.num_rows == 0


def test_an_error_of_the_function_keeps_its_traceback() -> None:
    def fails(frame: KeyedFrame) -> dict[str, Any]:
        return {"n": 1 // 0}

    logic = track(fails)

    with pytest.raises(UserFunctionError, match=r"fails for 3 keys raised ZeroDivisionError"):
        logic.apply(arrivals(logic, ROWS))


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ({"n": [1, 2, 3]}, "'total' is missing"),
        ({"n": [1, 2, 3], "total": [1, 2, 3], "x": [1, 2, 3]}, "'x' is not one of them"),
        ({"n": [1, 2], "total": [1, 2, 3]}, "'n' has 2 values for 3 keys"),
        ({"n": [1, 2, 3], "total": ["x", "y", "z"]}, "'total' is declared bigint"),
        ({"n": np.array([1.5, 2, 3]), "total": [1, 2, 3]}, "'n' is declared bigint"),
        ({"n": [1, 2, 3], "total": [1, 2, 3], "_drop": ["x"] * 3}, "'_drop' is declared boolean"),
        ({"n": ["1", "2", "3"], "total": [1, 2, 3]}, "string cannot be converted to bigint"),
        ([1, 2, 3], "not list"),
    ],
)
def test_an_answer_that_does_not_fit_is_told_by_column(answer: Any, part: str) -> None:
    logic = track(lambda frame: answer)

    with pytest.raises(UserFunctionError) as error:
        logic.apply(arrivals(logic, ROWS))

    assert part in str(error.value)


@pytest.mark.parametrize(
    ("kind", "values", "total"),
    [
        ("int64", [2**63 - 1, 1, -1], 2**63 - 1),
        ("int64", [2**63 - 1, 1], None),
        ("uint64", [2**63], None),
        ("uint64", [2**62, 5], 2**62 + 5),
        ("int32", [2**31 - 1, 2**31 - 1], 2**32 - 2),
    ],
)
def test_a_sum_is_exact_or_an_error(kind: str, values: list[int], total: int | None) -> None:
    rows = pa.record_batch({"v": pa.array(values, kind)})
    keys = pa.record_batch({"k": ["a"]})
    one = Groups(np.array([0]), len(values))
    frame = KeyedFrame(keys=keys, state=keys, found=np.ones(1, dtype=bool), rows=rows, groups=one)
    if total is None:
        with pytest.raises(OverflowError, match="column 'v' does not fit"):
            frame.sum("v")
    else:
        assert frame.sum("v").tolist() == [total]


def test_whole_numbers_beyond_doubles_stay_exact_beside_keys_without_values() -> None:
    large = (1 << 53) + 1
    rows = [(A, (large, 0.5, "x")), (B, (None, 1.5, "y"))]
    frame = frame_of(rows, {A: (large, large)})
    assert frame.last("v").tolist() == [large, None]
    assert frame.previous("n").tolist() == [large, None]
    small = frame_of([(A, (5, 0.5, "x")), (B, (None, 1.5, "y"))])
    assert small.last("v").dtype == np.float64
