"""Dead letters: which rows leave, and what their texts are."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from itertools import count

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rechannel.dataflow.identity.digests import digest_of
from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.dead_letters import (
    LETTER,
    Apart,
    Letters,
    Malformed,
    error_text,
    letters_of,
    row_texts,
)
from rechannel.kernels.functions.resources import WithResource
from rechannel.kernels.functions.row_functions import RowMap
from rechannel.kernels.tasks.emit import run_function
from rechannel.model.ddl import schema_of

NUMBERS = schema_of("n BIGINT")


def numbers(count):
    return pa.RecordBatch.from_pydict({"n": list(range(count))}, schema=NUMBERS)


def refusing(*bad):
    def function(batch):
        found = [n for n in batch.column(0).to_pylist() if n in bad]
        if found:
            msg = f"no {found[0]}"
            raise ValueError(msg)
        return batch

    return function


def divided(function, batch, schema=NUMBERS):
    made, letters = Apart(function=function).divided(batch, partial(run_function, "f", schema))
    rows = [n for piece in made for n in piece.column(0).to_pylist()]
    return rows, letters and letters.batch("f", 1).select(LETTER.names).to_pylist()


def test_a_batch_is_halved_down_to_the_rows_that_fail_and_the_order_stays():
    rows, letters = divided(refusing(3, 7, 8), numbers(10))
    assert rows == [0, 1, 2, 4, 5, 6, 9]
    assert letters == [
        {"operator": "f", "error": f"ValueError: no {n}", "row": f'{{"n": {n}}}'} for n in (3, 7, 8)
    ]


def test_a_batch_that_does_not_fail_is_one_call():
    calls = []
    rows, letters = divided(lambda batch: calls.append(batch.num_rows) or batch, numbers(1000))
    assert (len(rows), letters, calls) == (1000, None, [1000])


def test_an_answer_that_does_not_fit_its_column_is_the_rows_fault():
    def half(batch):
        return pa.record_batch({"n": pc.divide(batch.column(0).cast(pa.float64()), 2)})

    rows, letters = divided(half, numbers(4))
    assert rows == [0, 1]
    assert [json.loads(each["row"])["n"] for each in letters] == [1, 3]
    assert all("truncated" in each["error"] for each in letters)


def test_the_error_of_a_row_does_not_say_which_one_it_was():
    """Rows with the same error are counted together."""
    function = RowMap(
        function=lambda row: "x" if row.n % 3 else row.n, schema=NUMBERS, on_error="dead_letter"
    )
    _, letters = function.divided(numbers(6), run_function)
    assert letters is not None
    (error,) = set(letters.errors)
    assert "<lambda> returned: field 'n' is declared bigint and got 'x'" in error
    assert "row " not in error


def test_what_is_not_the_rows_fault_still_fails():
    def opens():
        msg = "no route"
        raise ConnectionError(msg)

    with pytest.raises(UserFunctionError, match="no route"):
        divided(WithResource(opens=opens, function=lambda _, batch: batch, key="k"), numbers(3))

    def hungry(batch):
        raise MemoryError

    with pytest.raises(UserFunctionError, match="MemoryError"):
        divided(hungry, numbers(3))
    with pytest.raises(UserFunctionError, match="no rows"):
        divided(refusing_empty, numbers(0))


KEYS = count()


class Connection:
    """A resource that may break, and that counts how often one was opened."""

    opened = 0
    newest = None

    def __init__(self):
        Connection.opened += 1
        Connection.newest = self
        self.broken = False


def connected(*bad, breaks=False):
    """A function that refuses some numbers; with them, its connection may break for all that come after."""

    def function(connection, batch):
        if connection.broken:
            msg = "the connection is broken"
            raise ConnectionError(msg)
        if set(bad) & set(batch.column(0).to_pylist()):
            connection.broken = breaks
            msg = "refused"
            raise ValueError(msg)
        return batch

    Connection.opened = 0
    return WithResource(opens=Connection, function=function, key=f"{next(KEYS)}")


@pytest.mark.parametrize("bad", [(77,), (0,), (1023,), (3, 77, 500, 900)])
def test_a_resource_is_not_opened_for_every_half_of_a_batch_that_fails(bad):
    rows, letters = divided(connected(*bad), numbers(1024))
    assert rows == [n for n in range(1024) if n not in bad]
    assert [each["error"] for each in letters] == ["ValueError: refused"] * len(bad)
    assert Connection.opened <= 2 + len(bad)


@pytest.mark.parametrize("bad", [(77,), (0,), (127,), (3, 4, 77, 100)])
def test_a_row_that_breaks_the_resource_takes_no_other_with_it(bad):
    rows, letters = divided(connected(*bad, breaks=True), numbers(128))
    assert rows == [n for n in range(128) if n not in bad]
    assert [each["error"] for each in letters] == ["ValueError: refused"] * len(bad)
    assert Connection.opened > 2


@pytest.mark.parametrize("rows", [1, 5])
def test_a_resource_that_broke_by_itself_costs_no_row(rows):
    function = connected()
    assert divided(function, numbers(1)) == ([0], None)
    Connection.newest.broken = True
    assert divided(function, numbers(rows)) == (list(range(rows)), None)
    assert Connection.opened == 2


def test_what_follows_a_batch_whose_last_row_broke_the_resource_has_another_one():
    function = connected(9, breaks=True)
    assert divided(function, numbers(10))[0] == list(range(9))
    opened = Connection.opened
    assert divided(function, numbers(9)) == (list(range(9)), None)
    assert Connection.opened == opened + 1


def refusing_empty(batch):
    msg = "no rows"
    raise ValueError(msg)


def test_malformed_records_are_dead_letters_and_their_columns_go():
    batch = pa.record_batch({"n": [1, None, 3], "_bad": [None, "\0\0{oops", None]})
    function = Malformed(column="_bad")
    schema = function.schema_of(batch.schema)
    made, letters = function.divided(batch, partial(run_function, "f", schema))
    assert [piece.to_pydict() for piece in made] == [{"n": [1, 3]}]
    assert letters.batch("f", 1).select(LETTER.names).to_pylist() == [
        {"operator": "f", "error": "the record cannot be read", "row": "{oops"}
    ]
    good, none = function.divided(batch.slice(2), partial(run_function, "f", schema))
    assert ([piece.to_pydict() for piece in good], none) == ([{"n": [3]}], None)


def test_records_that_could_not_be_read_say_their_file_if_the_source_does():
    texts = [
        "\0file:///in/a%20b.json\0{oops",
        None,
        "\0s3a://in/%C3%BC\0{\0\0",
        "\0file:/in/c\0",
        "\0\0\0{",
    ]
    batch = pa.record_batch({"n": [1, 2, 3, 4, 5], "_bad": pa.array(texts)})
    function = Malformed(column="_bad")
    run = partial(run_function, "f", function.schema_of(batch.schema))
    _, letters = function.divided(batch, run)
    found = letters.batch("f", 1, "in").select(["row", "offset"]).to_pylist()
    assert found == [
        {"row": "{oops", "offset": '{"file": "/in/a b.json"}'},
        {"row": "{\0\0", "offset": '{"file": "s3a://in/ü"}'},
        {"row": "", "offset": '{"file": "/in/c"}'},
        {"row": "\0{", "offset": None},
    ]
    _, letters = function.divided(batch.slice(2, 1), run)
    assert letters.batch("f", 1).column("offset").to_pylist() == ['{"file": "s3a://in/ü"}']


def test_letters_say_where_the_row_is_from_if_the_row_does():
    place = {"topic": ["t", "t"], "partition": [0, 1], "offset": [7, 8]}
    placed = pa.record_batch({"n": [1, 2], **place})
    letters = letters_of(placed, {1: "bad"})
    assert letters.batch("f", 3, "in").to_pylist() == [
        {
            "operator": "f",
            "error": "bad",
            "row": '{"n": 2, "topic": "t", "partition": 1, "offset": 8}',
            "at_timestep": 3,
            "source": "in",
            "offset": '{"topic": "t", "partition": 1, "offset": 8}',
        }
    ]
    unplaced = letters_of(placed.drop_columns(["offset"]), {0: "bad"})
    assert unplaced.batch("f", 3).select(["source", "offset"]).to_pylist() == [
        {"source": None, "offset": None}
    ]


def test_a_range_of_letters_keeps_what_belongs_together():
    letters = Letters(errors=["a", "b", "c"], rows=["1", "2", "3"], offsets=["x", None, "z"])
    cut = letters.slice(1, 2).batch("f", 1)
    assert [cut.column(name).to_pylist() for name in ("error", "row", "offset")] == [
        ["b", "c"],
        ["2", "3"],
        [None, "z"],
    ]


def test_rows_of_all_types_have_texts():
    schema = schema_of(
        "i INT, d DOUBLE, s STRING, b BINARY, m DECIMAL(5,2), at TIMESTAMP, day DATE,"
        " l ARRAY<DOUBLE>, r STRUCT<a: INT, b: BINARY>, k MAP<STRING, DECIMAL(3,1)>"
    )
    row = {
        "i": 1,
        "d": float("nan"),
        "s": 'ä"',
        "b": b"\xff",
        "m": Decimal("1.50"),
        "at": datetime(2024, 1, 2, 3, tzinfo=UTC),
        "day": date(2024, 1, 2),
        "l": [1.5, float("-inf"), None],
        "r": {"a": None, "b": b"x"},
        "k": [("x", Decimal("1.5"))],
    }
    batch = pa.RecordBatch.from_pylist([row, dict.fromkeys(row)], schema=schema)
    first, second = map(json.loads, row_texts(batch))
    assert first == {
        "i": 1,
        "d": "NaN",
        "s": 'ä"',
        "b": "/w==",
        "m": "1.50",
        "at": "2024-01-02T03:00:00+00:00",
        "day": "2024-01-02",
        "l": [1.5, "-Infinity", None],
        "r": {"a": None, "b": "eA=="},
        "k": {"x": "1.5"},
    }
    assert second == dict.fromkeys(row)


def test_times_that_python_does_not_have_are_told_too():
    batch = pa.record_batch({"at": pa.array([400_000_000_000_000_000], pa.timestamp("us"))})
    assert row_texts(batch)[0].startswith('{"at": "14645-')


def test_long_errors_are_cut_and_silent_ones_named():
    class MuteError(Exception):
        def __str__(self):
            raise self

    assert error_text(MuteError()) == "MuteError: (its message cannot be read)"
    assert len(error_text(ValueError("x" * 10_000))) == 4096


def test_digests_of_functions_that_fail_as_ever_are_what_they_were():
    failing = RowMap(function=len, schema=NUMBERS)
    apart = RowMap(function=len, schema=NUMBERS, on_error="dead_letter")
    assert digest_of(failing).text != digest_of(apart).text
    from rechannel.dataflow.identity.digests import _Reader

    names = [part[0] for part in _Reader().form(failing)[1:]]
    assert names == ["function", "schema"]
