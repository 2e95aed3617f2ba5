"""`track` with one Python function per key."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DataflowError, UserFunctionError
from rechannel.kernels.functions.python_rows import Rows
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.ddl import schema_of
from rechannel.model.eventtime import Clock
from rechannel.operators.process.track import TrackLogic
from tests.support.arrivals import arrivals, output_of, state_of

A, B, C = ("a",), ("b",), ("c",)


def track(
    update: Callable[[Any, Any, Rows], Any],
    state: str = "n BIGINT, total BIGINT",
    initialise: Callable[[Any, Any], Any] | None = None,
    timeout_ms: int | None = None,
    keys: str = "k STRING",
    values: str = "v BIGINT, w STRING",
) -> TrackLogic:
    return TrackLogic(
        key_schema=schema_of(keys),
        value_schema=schema_of(values),
        fields=schema_of(state),
        timeout_ms=timeout_ms,
        update=update,
        initialise=initialise,
    )


def totals(key: str, state: Any, rows: Rows) -> tuple[int, int]:
    n, total = state or (0, 0)
    return n + len(rows), total + sum(rows["v"])


ROWS = [(A, (1, "x")), (B, (10, "y")), (A, (2, "z"))]


def test_new_and_known_keys_are_updated_with_all_their_rows() -> None:
    logic = track(totals)
    given = arrivals(logic, ROWS, {A: (5, 50)})

    applied = logic.apply(given)

    assert state_of(logic, given, applied) == {A: (7, 53), B: (1, 10)}
    assert applied.dropped is None
    assert output_of(applied) == [("a", 7, 53), ("b", 1, 10)]
    assert applied.output.schema == logic.output_schema
    assert applied.output_hashes.tolist() == [0, 7]


def test_a_function_sees_key_state_and_rows_in_stream_order() -> None:
    seen = []

    def look(key: Any, state: Any, rows: Rows) -> tuple[int, int]:
        seen.append((key, state and (state.n, state.total), rows["v"], [r.w for r in rows]))
        return 0, 0

    logic = track(look)
    logic.apply(arrivals(logic, ROWS, {A: (5, 50)}))

    assert seen == [("a", (5, 50), [1, 2], ["x", "z"]), ("b", None, [10], ["y"])]


def test_one_state_column_is_a_scalar_and_several_keys_are_a_tuple() -> None:
    seen = []

    def look(key: Any, state: Any, rows: Rows) -> int:
        seen.append((key, state))
        return len(rows)

    logic = track(look, state="n INT", keys="k STRING, d DATE")
    day = date(2013, 1, 1)
    given = arrivals(logic, [(("a", day), (1, "x")), ((None, None), (1, "x"))], {("a", day): (8,)})

    applied = logic.apply(given)

    assert seen == [(("a", day), 8), ((None, None), None)]
    assert state_of(logic, given, applied) == {("a", day): (1,), (None, None): (1,)}


def test_initialise_takes_the_first_row_and_update_the_others_if_any() -> None:
    calls = []

    def begin(key: str, row: Any) -> tuple[int, int]:
        calls.append(("initialise", key, row.v, row.w))
        return 1, row.v

    def update(key: str, state: Any, rows: Rows) -> tuple[int, int]:
        calls.append(("update", key, (state.n, state.total), rows["v"]))
        return state.n + len(rows), state.total + sum(rows["v"])

    logic = track(update, initialise=begin)
    given = arrivals(logic, [*ROWS, (C, (7, "c"))], {C: (1, 1)})

    applied = logic.apply(given)

    assert calls == [
        ("initialise", "a", 1, "x"),
        ("update", "a", (1, 1), [2]),
        ("initialise", "b", 10, "y"),
        ("update", "c", (1, 1), [7]),
    ]
    assert state_of(logic, given, applied) == {A: (2, 3), B: (1, 10), C: (2, 8)}


def test_initialise_that_answers_none_is_offered_the_next_row() -> None:
    logic = track(totals, initialise=lambda key, row: None if row.v < 2 else (1, row.v))
    rows = [(A, (0, "")), (A, (1, "")), (A, (2, "")), (A, (3, "")), (B, (0, "")), (B, (1, ""))]
    given = arrivals(logic, rows)

    applied = logic.apply(given)

    assert state_of(logic, given, applied) == {A: (2, 5)}
    assert applied.dropped is not None
    assert applied.dropped.tolist() == [False, True]


def test_none_drops_the_key_and_emits_nothing_for_it() -> None:
    logic = track(lambda key, state, rows: None if key == "a" else (1, 2))
    given = arrivals(logic, [*ROWS, (C, (3, "c"))], {A: (5, 50)})

    applied = logic.apply(given)

    assert state_of(logic, given, applied) == {B: (1, 2), C: (1, 2)}
    assert output_of(applied) == [("b", 1, 2), ("c", 1, 2)]
    assert applied.output_hashes.tolist() == [7, 14]
    assert [column.null_count for column in applied.state] == [1, 1]


def test_all_keys_dropped_leaves_an_empty_output() -> None:
    logic = track(lambda key, state, rows: None)

    applied = logic.apply(arrivals(logic, ROWS))

    assert applied.output.num_rows == 0
    assert len(applied.state[0]) == 2


def test_no_keys_at_all() -> None:
    logic = track(totals)

    applied = logic.apply(arrivals(logic, []))

    assert applied.output.num_rows == 0
    assert [len(column) for column in applied.state] == [0, 0]


def test_a_key_whose_timeout_passed_counts_as_absent() -> None:
    logic = track(totals, timeout_ms=1000)
    rows = [(A, (1, "")), (B, (1, "")), (C, (1, ""))]
    given = arrivals(logic, rows, {A: (5, 50, 8999), B: (5, 50, 9000)}, stream_ms=10_000)

    applied = logic.apply(given)

    assert state_of(logic, given, applied) == {
        A: (1, 1, 10_000),
        B: (6, 51, 10_000),
        C: (1, 1, 10_000),
    }
    assert output_of(applied) == [("a", 1, 1), ("b", 6, 51), ("c", 1, 1)]


def test_live_follows_the_timeout_and_is_everything_without_one() -> None:
    state = [pa.array([1, 1, 1]), pa.array([1, 1, 1]), pa.array([0, 500, None])]

    assert track(totals, timeout_ms=1000).live([], state, Clock(stream_ms=1400)).tolist() == [
        False,
        True,
        False,
    ]
    assert track(totals).live([], state[:2], Clock(stream_ms=10**12)) is None


def test_people_do_not_see_the_time_of_the_last_rows() -> None:
    logic = track(totals, timeout_ms=1000)

    shown = logic.finish([pa.array(["a"])], [pa.array([1]), pa.array([2]), pa.array([99])])

    assert shown.to_pylist() == [{"k": "a", "n": 1, "total": 2}]
    assert logic.state_schema.names == ["n", "total", "_seen"]
    assert logic.output_schema.names == ["k", "n", "total"]


def test_rows_are_a_sequence() -> None:
    seen: list[Any] = []

    def look(key: str, state: Any, rows: Rows) -> tuple[int, int]:
        seen.append(rows)
        return 0, 0

    logic = track(look)
    logic.apply(arrivals(logic, [(B, (9, "b")), (A, (1, "x")), (A, (2, "y")), (A, (3, "z"))]))
    rows = seen[1]

    assert len(rows) == 3
    assert rows[0] == (1, "x")
    assert rows[-1].w == "z"
    assert rows[1:]["v"] == [2, 3]
    assert list(rows[:1]) == [(1, "x")]
    assert list(rows[2:1]) == []
    assert [row.v for row in reversed(rows)] == [3, 2, 1]
    assert (2, "y") in rows
    assert repr(rows[:1]) == "Rows([Row(v=1, w='x')])"
    with pytest.raises(IndexError):
        rows[3]
    with pytest.raises(IndexError):
        rows[-4]
    with pytest.raises(KeyError, match="no column 'z'; they have v, w"):
        rows["z"]
    with pytest.raises(ValueError, match="step 1"):
        rows[::2]


def test_rows_without_value_columns_can_be_counted() -> None:
    logic = track(lambda key, state, rows: len(list(rows)), state="n BIGINT", values="v INT")
    bare = TrackLogic(
        key_schema=logic.key_schema,
        value_schema=pa.schema([]),
        fields=logic.fields,
        update=logic.update,
        initialise=lambda key, row: 100 + len(row),
    )
    given = arrivals(bare, [(A, ()), (A, ()), (B, ())])

    assert state_of(bare, given, bare.apply(given)) == {A: (1,), B: (100,)}


def test_values_are_pythons_own_with_none_for_null() -> None:
    seen: dict[str, list[Any]] = {}
    types = "i INT, f DOUBLE, b BOOLEAN, t TIMESTAMP, n TIMESTAMP_NTZ, d DECIMAL(4,1), l ARRAY<INT>"

    def look(key: str, state: Any, rows: Rows) -> tuple[int, int]:
        seen.update({name: rows[name] for name in "ifbtndl"})
        return 0, 0

    logic = track(look, values=types)
    instant = datetime(2013, 1, 1, 5, tzinfo=UTC)
    naive = datetime(2013, 1, 1)  # noqa: DTZ001 - a timestamp without zone
    full = (1, 0.5, True, instant, naive, 2, [1, None])
    logic.apply(arrivals(logic, [(A, full), (A, (None,) * 7)]))

    assert seen["i"] == [1, None]
    assert type(seen["i"][0]) is int
    assert seen["f"] == [0.5, None]
    assert seen["b"] == [True, None]
    assert type(seen["b"][0]) is bool
    assert seen["t"] == [instant, None]
    assert seen["t"][0].utcoffset() is not None
    assert seen["n"] == [naive, None]
    assert str(seen["d"][0]) == "2.0"
    assert seen["l"] == [[1, None], None]


def test_state_of_any_type_comes_back_as_it_was_put() -> None:
    state = "s STRING, t TIMESTAMP, l ARRAY<INT>"
    instant = datetime(2013, 1, 1, 5, tzinfo=UTC)
    logic = track(lambda key, state, rows: state or ("x", instant, [1, 2]), state=state)
    first = arrivals(logic, [(A, (1, ""))])
    kept = state_of(logic, first, logic.apply(first))
    second = arrivals(logic, [(A, (1, "")), (B, (1, ""))], kept)

    assert kept == {A: ("x", instant, [1, 2])}
    assert state_of(logic, second, logic.apply(second)) == {**kept, B: kept[A]}


def test_a_name_that_python_cannot_spell_is_numbered() -> None:
    logic = track(lambda k, s, rows: (rows[0][1], rows[0]._1), values="v INT, `dep delay` INT")
    given = arrivals(logic, [(A, (1, 5))])

    assert state_of(logic, given, logic.apply(given)) == {A: (5, 5)}


def fails(key: str, state: Any, rows: Rows) -> tuple[int, int]:
    return 1 // (0 if key == "b" else 1), 0


def test_an_error_of_the_function_names_the_key_and_keeps_its_traceback() -> None:
    logic = track(fails)

    with pytest.raises(UserFunctionError) as error:
        logic.apply(arrivals(logic, ROWS))

    text = str(error.value)
    assert text.startswith("fails for key 'b' raised ZeroDivisionError: integer division")
    assert "in fails" in text
    assert "rechannel/kernels" not in text
    assert isinstance(error.value.__cause__, ZeroDivisionError)


def test_an_error_of_initialise_or_of_update_behind_it_names_which() -> None:
    def begin(key: str, row: Any) -> tuple[int, int]:
        return 1, 1 // (0 if key == "b" else 1)

    def update(key: str, state: Any, rows: Rows) -> Any:
        raise KeyError(key)

    one, other = track(totals, initialise=begin), track(update, initialise=begin)

    with pytest.raises(UserFunctionError, match=r"begin for key 'b' raised ZeroDivisionError"):
        one.apply(arrivals(one, ROWS))
    with pytest.raises(UserFunctionError, match=r"update for key 'a' raised KeyError"):
        other.apply(arrivals(other, ROWS))


@pytest.mark.parametrize(
    ("answer", "part"),
    [
        ((1,), "2 values (n, total), got 1 values: (1,)"),
        ((1, 2, 3), "got 3 values"),
        (5, "got a int: 5"),
        ("ab", "got a str: 'ab'"),
        ({"n": 1, "total": 2}, "got a dict"),
        ((1, "x"), "field 'total' is declared bigint and got 'x' (str)"),
        ((1.5, 1), "field 'n' is declared bigint and got 1.5 (float)"),
        ((1, np.float64(2.0)), "field 'total' is declared bigint"),
        ((1, 2**70), "field 'total'"),
    ],
)
def test_a_state_that_does_not_fit_is_shown_with_key_and_field(answer: Any, part: str) -> None:
    logic = track(lambda key, state, rows: answer if key == "b" else (1, 1))

    with pytest.raises(UserFunctionError) as error:
        logic.apply(arrivals(logic, ROWS))

    assert part in str(error.value)
    assert "made of key 'b'" in str(error.value)


def test_the_key_of_a_bad_state_is_told_though_others_were_dropped() -> None:
    logic = track(lambda key, state, rows: {"a": None, "b": 1, "c": "x"}[key], state="n INT")

    with pytest.raises(UserFunctionError, match="key 'c': field 'n' is declared int"):
        logic.apply(arrivals(logic, [*ROWS, (C, (1, ""))]))


def test_what_initialise_makes_is_checked_before_update_sees_it() -> None:
    logic = track(totals, initialise=lambda key, row: "ab")

    with pytest.raises(UserFunctionError, match="init_state made of key 'a': expected a tuple"):
        logic.apply(arrivals(logic, ROWS))


def test_numpy_values_are_taken() -> None:
    logic = track(lambda key, state, rows: (np.int64(3), np.int32(4)))
    given = arrivals(logic, [(A, (1, ""))])

    assert state_of(logic, given, logic.apply(given)) == {A: (3, 4)}


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ({"state": "k BIGINT"}, "'k' is also a key"),
        ({"state": "_seen BIGINT"}, "'_seen'"),
        ({"timeout_ms": 0}, "positive"),
    ],
)
def test_a_track_that_cannot_be_is_refused(arguments: dict[str, Any], part: str) -> None:
    with pytest.raises(DataflowError, match=part):
        track(totals, **arguments)


def test_a_track_without_state_columns_is_refused() -> None:
    with pytest.raises(DataflowError, match="at least one column"):
        TrackLogic(
            key_schema=schema_of("k INT"),
            value_schema=schema_of("v INT"),
            fields=pa.schema([]),
            update=totals,
        )


def test_rows_travel_raw_and_in_order() -> None:
    logic = track(totals)

    assert logic.ordered
    can = Capabilities(logic)
    assert not can.combinable
    assert can.wire_schema(combined=False) == logic.value_schema
    with pytest.raises(ValueError, match="does not combine"):
        can.wire_schema(combined=True)
    with pytest.raises(ValueError, match="does not combine"):
        can.combine([], arrivals(logic, ROWS).groups)


def test_logic_can_be_pickled() -> None:
    logic = pickle.loads(pickle.dumps(track(totals, timeout_ms=5)))
    given = arrivals(logic, ROWS)

    assert state_of(logic, given, logic.apply(given)) == {A: (2, 3, 0), B: (1, 10, 0)}
