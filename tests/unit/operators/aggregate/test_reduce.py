"""`running_reduce`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rechannel.errors import DataflowError, UserFunctionError
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.ddl import schema_of
from rechannel.model.eventtime import Clock
from rechannel.operators.aggregate.reduce import ReduceLogic
from tests.support.arrivals import arrivals, output_of, state_of

A, B = ("a",), ("b",)

ROWS = [(A, ("1", 1)), (B, ("2", 2)), (A, ("3", 3)), (A, ("4", 4)), (A, ("5", 5)), (A, ("6", 6))]


def joined(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.RecordBatch:
    """Associative, not commutative: the order of rows shows."""
    text = pc.binary_join_element_wise(a["s"], b["s"], "")
    return pa.RecordBatch.from_arrays([pc.add(a["v"], b["v"]), text], names=["v", "s"])


def joined_rows(a: Any, b: Any) -> tuple[str, int]:
    return a.s + b.s, a.v + b.v


def reduction(function: Any, *, rowwise: bool = False) -> ReduceLogic:
    return ReduceLogic(
        key_schema=schema_of("k STRING"),
        value_schema=schema_of("s STRING, v BIGINT"),
        function=function,
        rowwise=rowwise,
    )


BOTH = pytest.mark.parametrize(
    "logic", [reduction(joined), reduction(joined_rows, rowwise=True)], ids=["batches", "rows"]
)


@BOTH
def test_rows_are_combined_in_stream_order_behind_the_state(logic: ReduceLogic) -> None:
    given = arrivals(logic, ROWS, {A: ("0", 10)})

    applied = logic.apply(given)

    assert state_of(logic, given, applied) == {A: ("013456", 29), B: ("2", 2)}
    assert output_of(applied) == [("a", "013456", 29), ("b", "2", 2)]
    assert applied.output_hashes.tolist() == [0, 7]
    assert applied.dropped is None


@BOTH
def test_state_everywhere_and_nowhere(logic: ReduceLogic) -> None:
    everywhere = arrivals(logic, ROWS, {A: ("0", 0), B: ("0", 0)})
    nowhere = arrivals(logic, ROWS)

    assert state_of(logic, everywhere, logic.apply(everywhere)) == {
        A: ("013456", 19),
        B: ("02", 2),
    }
    assert state_of(logic, nowhere, logic.apply(nowhere)) == {A: ("13456", 19), B: ("2", 2)}


@BOTH
def test_no_rows_at_all(logic: ReduceLogic) -> None:
    assert logic.apply(arrivals(logic, [])).output.num_rows == 0


@BOTH
def test_combining_before_gives_what_combining_later_does(logic: ReduceLogic) -> None:
    given = arrivals(logic, ROWS)

    partial = logic.combine(given.values, given.groups)

    assert [column.to_pylist() for column in partial] == [["13456", "2"], [19, 2]]
    assert logic.combinable
    assert logic.ordered
    assert logic.combined_schema == logic.value_schema


def test_batches_are_few_and_touch_rows_a_constant_number_of_times() -> None:
    sizes: list[int] = []

    def counted(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.RecordBatch:
        sizes.append(a.num_rows)
        return joined(a, b)

    logic = reduction(counted)
    rows = [(A, ("x", 1))] * 1000 + [((f"k{i}",), ("y", 1)) for i in range(500)]
    given = arrivals(logic, rows)

    state = state_of(logic, given, logic.apply(given))

    assert state[A] == ("x" * 1000, 1000)
    assert len(sizes) == 10
    assert sum(sizes) == 999


def test_bracketing_depends_on_the_key_s_rows_alone() -> None:
    def floats(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays([pc.add(a["f"], b["f"])], names=["f"])

    logic = ReduceLogic(
        key_schema=schema_of("k STRING"), value_schema=schema_of("f DOUBLE"), function=floats
    )
    values = np.random.default_rng(1).normal(size=37).tolist()
    mine = [(A, (v,)) for v in values]
    others = [(B, (1.0,))] * 100
    alone = arrivals(logic, mine)
    together = arrivals(logic, mine + others)

    expected = state_of(logic, alone, logic.apply(alone))[A]

    assert state_of(logic, together, logic.apply(together))[A] == expected


def test_the_answer_is_cast_to_the_stream_s_types() -> None:
    def narrow(a: pa.RecordBatch, b: pa.RecordBatch) -> pa.RecordBatch:
        return joined(a, b).cast(schema_of("v INT, s STRING"))

    logic = reduction(narrow)
    given = arrivals(logic, ROWS)

    assert state_of(logic, given, logic.apply(given))[A] == ("13456", 19)


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda a, b: a.slice(1), "one per pair; it gave 1 rows"),
        (lambda a, b: a.num_rows, "it gave a int"),
        (lambda a, b: a.select(["v"]), "must answer the columns s, v; it gave v"),
        (lambda a, b: a.set_column(1, "v", a["s"].cast(pa.binary())), "'v' must stay bigint"),
        (lambda a, b: 1 // 0, "2 pairs of rows raised ZeroDivisionError"),
    ],
)
def test_a_bad_answer_of_batches_is_told(function: Any, part: str) -> None:
    logic = reduction(function)

    with pytest.raises(UserFunctionError) as error:
        logic.apply(arrivals(logic, ROWS))

    assert part in str(error.value)


@pytest.mark.parametrize(
    ("function", "part"),
    [
        (lambda a, b: a.s, "expected a tuple of 2 values (s, v)"),
        (lambda a, b: (a.s,), "got 1 values"),
        (lambda a, b: (a.s, "x"), "for key 'a': field 'v' is declared bigint"),
        (lambda a, b: 1 // 0, "for key 'a' raised ZeroDivisionError"),
    ],
)
def test_a_bad_answer_of_rows_is_told_with_the_key(function: Any, part: str) -> None:
    logic = reduction(function, rowwise=True)

    with pytest.raises(UserFunctionError) as error:
        logic.apply(arrivals(logic, ROWS))

    assert part in str(error.value)


def test_an_error_before_the_exchange_is_told_without_a_key() -> None:
    logic = reduction(lambda a, b: 1 // 0, rowwise=True)
    given = arrivals(logic, ROWS)

    with pytest.raises(UserFunctionError, match="for 5 rows of one key raised ZeroDivisionError"):
        logic.combine(given.values, given.groups)


def test_an_error_with_old_state_names_its_key() -> None:
    def fails(a: Any, b: Any) -> Any:
        raise KeyError

    logic = reduction(fails, rowwise=True)

    with pytest.raises(UserFunctionError, match="fails for key 'b' raised KeyError"):
        logic.apply(arrivals(logic, [(A, ("1", 1)), (B, ("2", 2))], {B: ("0", 0)}))


def test_there_must_be_something_to_combine() -> None:
    with pytest.raises(DataflowError, match="there are none"):
        ReduceLogic(key_schema=schema_of("k STRING"), value_schema=pa.schema([]), function=joined)


def test_state_lives_for_ever_and_is_shown_as_it_is() -> None:
    logic = reduction(joined)
    state = [pa.array(["x"]), pa.array([1])]

    assert Capabilities(logic).live([], state, Clock(stream_ms=10**15)) is None
    assert logic.finish([pa.array(["a"])], state).to_pylist() == [{"k": "a", "s": "x", "v": 1}]
    assert logic.state_schema == logic.value_schema
