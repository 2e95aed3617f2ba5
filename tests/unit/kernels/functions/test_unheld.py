"""Values that Python cannot represent affect only the rows and keys that have them."""

from __future__ import annotations

import json
from functools import partial

import numpy as np
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import UserFunctionError
from rechannel.kernels.functions import python_rows
from rechannel.kernels.functions.dead_letters import Apart, letters_of, row_texts
from rechannel.kernels.functions.python_rows import LazyColumns, Rows, column_of, python_values
from rechannel.kernels.functions.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.kernels.tasks.emit import run_function
from rechannel.model.ddl import schema_of
from rechannel.operators.process.track import TrackLogic
from rechannel.settings import Settings
from rechannel.testing import Harness, script
from tests.support.arrivals import arrivals, output_of

FAR = 400_000_000_000_000_000
"""A time in the year 14645, in microseconds."""

ONE = schema_of("n BIGINT")


def times(*micros):
    return pa.array(micros, pa.int64()).cast(pa.timestamp("us", tz="UTC"))


def broken_text(*values):
    """Texts of any bytes."""
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.string(), len(values), buffers)


COLUMNS = {
    "a far time": times(0, FAR, 1),
    "no UTF-8": broken_text(b"a", b"b\xff", b"c"),
    "a struct": pa.StructArray.from_arrays([times(0, FAR, 1)], names=["at"]),
    "a list": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), times(0, FAR, 1)),
    "a map": pa.MapArray.from_arrays([0, 1, 2, 3], ["x", "y", "z"], times(0, FAR, 1)),
    "a date": pa.array([0, 10_000_000, 1], pa.int32()).cast(pa.date32()),
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_only_the_row_that_python_cannot_hold_is_a_dead_letter(kind):
    batch = pa.record_batch({"n": [1, 2, 3], "x": COLUMNS[kind]})
    functions = {
        "map": RowMap(function=lambda row: row.n, schema=ONE, on_error="dead_letter"),
        "flat_map": RowFlatMap(function=lambda row: [row.n], schema=ONE, on_error="dead_letter"),
        "filter": RowFilter(function=lambda row: True, on_error="dead_letter"),
    }
    for name, function in functions.items():
        made, letters = function.divided(batch, partial(run_function, "f", ONE))
        assert [piece.column("n").to_pylist() for piece in made] == [[1, 3]], name
        ((error, row),) = zip(letters.errors, letters.rows, strict=True)
        assert error.startswith("column 'x' has a value that Python cannot represent (")
        assert json.loads(row)["n"] == 2


@pytest.mark.parametrize("kind", COLUMNS)
def test_without_dead_letters_the_row_is_named(kind):
    batch = pa.record_batch({"n": [1, 2, 3], "x": COLUMNS[kind]})
    for function in (
        RowMap(function=lambda row: row.n, schema=ONE),
        RowFlatMap(function=lambda row: [row.n], schema=ONE),
        RowFilter(function=bool),
    ):
        with pytest.raises(UserFunctionError, match=r'the row \{"n": 2, .*column .x. has a value'):
            function(batch)


@pytest.mark.parametrize("kind", COLUMNS)
def test_every_row_has_a_text(kind):
    batch = pa.record_batch({"n": [1, 2, 3], "x": COLUMNS[kind]})
    assert [json.loads(text)["n"] for text in row_texts(batch)] == [1, 2, 3]

    def refuses(rows):
        if 2 in rows.column("n").to_pylist():
            raise ValueError
        return rows.select(["n"])

    _, letters = Apart(function=refuses).divided(batch, partial(run_function, "f", ONE))
    assert len(letters) == 1
    assert len(letters_of(batch, {0: "why", 1: "why"})) == 2


def test_texts_of_what_python_does_not_have():
    nested = pa.StructArray.from_arrays([times(FAR), pa.array([7])], names=["at", "n"])
    batch = pa.record_batch(
        {
            "s": broken_text(b"b\xff"),
            "r": nested,
            "l": pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), times(FAR)),
            "m": pa.MapArray.from_arrays([0, 1], ["k"], times(FAR)),
        }
    )
    (told,) = map(json.loads, row_texts(batch))
    at = told["r"]["at"]
    assert at.startswith("14645-06-30")
    assert told == {"s": "b\ufffd", "r": {"at": at, "n": 7}, "l": [at], "m": {"k": at}}


def track(update, keys="k BIGINT", **more):
    return TrackLogic(
        key_schema=schema_of(keys),
        value_schema=schema_of("v BIGINT, at TIMESTAMP"),
        fields=ONE,
        update=update,
        **more,
    )


ROWS = [((1,), (1, 0)), ((2,), (2, FAR)), ((3,), (3, 0)), ((2,), (4, 0)), ((4,), (5, FAR))]


@pytest.mark.parametrize(
    "update",
    [
        lambda key, state, rows: len(rows["at"]),
        lambda key, state, rows: len(list(rows)),
        lambda key, state, rows: sum(
            row is not None for row in map(rows.__getitem__, range(len(rows)))
        ),
    ],
    ids=["a column", "all rows", "row by row"],
)
@pytest.mark.parametrize("begins", [False, True])
def test_keys_fail_for_rows_of_their_own_only(update, begins):
    more = {"initialise": lambda key, row: None} if begins else {}
    if begins:
        update = None
    logic = track(update, on_error="dead_letter", **more)
    applied = logic.apply(arrivals(logic, ROWS))
    assert sorted(json.loads(row)["v"] for row in applied.dead.letters.rows) == [2, 4, 5]
    assert all("column 'at' has a value" in error for error in applied.dead.letters.errors)
    if not begins:
        assert output_of(applied) == [(1, 1), (3, 1)]


def test_keys_whose_function_does_not_look_at_the_column_do_not_fail():
    logic = track(lambda key, state, rows: sum(rows["v"]), on_error="dead_letter")
    applied = logic.apply(arrivals(logic, ROWS))
    assert applied.dead is None
    assert output_of(applied) == [(1, 1), (2, 6), (3, 3), (4, 5)]


def test_without_dead_letters_the_key_is_named():
    logic = track(lambda key, state, rows: len(rows["at"]))
    given = arrivals(logic, ROWS)
    with pytest.raises(UserFunctionError, match="for key 2 raised UnheldError: column 'at'"):
        logic.apply(given)


def test_keys_that_python_does_not_have_fail_alone():
    rows = [((0,), (1, 0)), ((FAR,), (2, 0)), ((1,), (3, 0))]
    logic = track(lambda key, state, rows: len(rows), "k TIMESTAMP", on_error="dead_letter")
    applied = logic.apply(arrivals(logic, rows))
    (row,) = applied.dead.letters.rows
    assert json.loads(row)["v"] == 2
    assert applied.output.column("n").to_pylist() == [1, 1]
    logic = track(lambda key, state, rows: len(rows), "k TIMESTAMP")
    given = arrivals(logic, rows)
    with pytest.raises(
        UserFunctionError, match="column 'k' has a value that Python cannot represent"
    ):
        logic.apply(given)


@pytest.mark.parametrize("tasks", [1, 2, 4])
def test_dead_letters_do_not_depend_on_how_keys_share_tasks(tasks):
    def dated(batch):
        keys, values = (batch.column(name).to_pylist() for name in ("k", "v"))
        at = times(*(FAR if key == 1 and v else v for key, v in zip(keys, values, strict=True)))
        return pa.record_batch({"k": batch.column("k"), "at": at})

    rows = [{"k": key, "v": v} for key in range(12) for v in range(2)]
    source = rc.read().memory(script("k BIGINT, v BIGINT", [rows]), name="in")
    counted = (
        source.map_batches(dated, "k BIGINT, at TIMESTAMP")
        .key_by("k")
        .track(
            lambda key, state, rows: len(rows["at"]),
            state="n BIGINT",
            on_error="dead_letter",
            name="op",
        )
    )
    ends = [counted.write.memory("out"), counted.dead_letters.write.memory("dead")]
    harness = Harness(ends, settings=Settings(tasks=tasks, bins=8))
    harness.start().run()
    found = {name: harness.outputs(f"memory-{name}")[1].num_rows for name in ("out", "dead")}
    assert found == {"out": 11, "dead": 2}


def test_a_column_is_converted_once(monkeypatch):
    calls = []
    converted = python_rows._converted
    monkeypatch.setattr(
        python_rows, "_converted", lambda column: calls.append(len(column)) or converted(column)
    )
    good = LazyColumns([times(*range(64))], ("at",))
    assert [len(Rows(good, row, row + 1)["at"]) for row in range(64)] == [1] * 64
    assert calls == [64]
    assert type(good["at"]) is list
    calls.clear()
    one_bad = times(*range(50), FAR, *range(13))
    unheld = {}
    values = python_values(one_bad, "at", unheld)
    assert (list(unheld), values[50], values[51].microsecond) == ([50], None, 0)
    assert len(calls) == 2 * 7  # halves of halves, not value by value
    assert sum(calls) < 64 * 4


def test_answers_that_do_not_fit_are_found_by_halves(monkeypatch):
    sizes = []
    array = pa.array
    count = 4096
    batch = pa.record_batch({"n": list(range(count))})
    function = RowMap(
        function=lambda row: "x" if row.n == 3000 else row.n, schema=ONE, on_error="dead_letter"
    )
    monkeypatch.setattr(
        python_rows.pa, "array", lambda some, **more: sizes.append(len(some)) or array(some, **more)
    )
    (made,), letters = function.divided(batch, None)
    monkeypatch.undo()
    assert made.column("n").to_pylist() == [n for n in range(count) if n != 3000]
    assert letters.rows == ['{"n": 3000}']
    assert "declared bigint and got 'x'" in letters.errors[0]
    assert len(sizes) < 400


def test_states_that_do_not_fit_are_found_by_halves(monkeypatch):
    logic = track(lambda key, state, rows: "x" if key in (5, 300) else key, on_error="dead_letter")
    given = arrivals(logic, [((key,), (key, 0)) for key in range(400)])
    calls = []
    made = TrackLogic._made
    monkeypatch.setattr(
        TrackLogic, "_made", lambda self, *some: calls.append(some) or made(self, *some)
    )
    applied = logic.apply(given)
    assert sorted(json.loads(row)["v"] for row in applied.dead.letters.rows) == [5, 300]
    assert output_of(applied) == [(key, key) for key in range(400) if key not in (5, 300)]
    assert len(calls) < 50


def test_the_first_value_that_does_not_fit_is_told():
    with pytest.raises(UserFunctionError, match=r"value 2: field 'n'.* got 'x'"):
        column_of([1, 2, "x", 3, "y"], ONE.field(0), lambda row: f"value {row}")
