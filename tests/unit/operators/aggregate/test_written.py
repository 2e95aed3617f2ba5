"""Built-in aggregates without the program: made again from how the journal has them written."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from rechannel import aggregates as agg
from rechannel.dataflow.evolution.description import Description
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.aggregate.written import finished, function_written
from tests.support.arrivals import arrivals

COLUMNS = "k STRING, i BIGINT, f DOUBLE, d DECIMAL(10, 2), s STRING, t TIMESTAMP, a ARRAY<INT>"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROWS = [
    {"k": "x", "i": 1, "f": 0.1, "d": Decimal("1.50"), "s": "b", "t": NOON, "a": [1]},
    {"k": "x", "i": 2, "f": 0.2, "d": Decimal("2.25"), "s": "a", "t": NOON, "a": [2, 3]},
    {"k": "y", "i": None, "f": float("nan"), "d": None, "s": None, "t": None, "a": None},
]

FUNCTIONS = {
    "n": agg.count(),
    "known": agg.count("i"),
    "total": agg.sum("i"),
    "floats": agg.sum("f"),
    "decimals": agg.sum("d"),
    "mean": agg.mean("f"),
    "means": agg.mean("d"),
    "least": agg.min("s"),
    "most": agg.max("t"),
    "spread": agg.stddev("f"),
    "all_of_it": agg.variance("i", population=True),
    "begin": agg.first("a"),
    "end": agg.last("s", ignore_nulls=True),
    "two": agg.last_n("i", 2),
    "kinds": agg.count_distinct("s", k=64),
}


def test_every_built_in_function_is_finished_as_the_program_does_it():
    schema = schema_of(COLUMNS)
    logic = AggregateLogic.bind(["k"], FUNCTIONS, schema)
    rows = [((row["k"],), tuple(row[name] for name in logic.value_schema.names)) for row in ROWS]
    made = logic.apply(arrivals(logic, rows))
    states = dict(zip(logic.state_schema.names, made.state, strict=True))
    kept = Description.from_json(Description.of(logic).to_json()).aggregates or ()
    assert [one.name for one in kept] == list(FUNCTIONS)
    for one in kept:
        assert one.digest == ""
        values = finished(one.function, one.fields, [states[name] for name in one.columns])
        assert values is not None
        assert str(values) == str(made.output[one.name]), one.name  # NaN is no equal of itself
        assert values.type == made.output[one.name].type


@pytest.mark.parametrize(
    "text",
    [
        "Own(column='v')",
        "Sum('v')",
        "Sum(column=open('x'))",
        "Sum(column='v', more=1)",
        "functions.Sum(column='v')",
        "schema_error()",
        "__import__('os').system('true')",
        "Sum(column='v'",
        "LastN(column='v', n=-1, ignore_nulls=False)",
        "",
    ],
)
def test_nothing_else_is_made(text):
    assert function_written(text) is None or text.startswith("LastN")
    assert finished(text, [pa.field("v", pa.int64())], [pa.array([1])]) is None


def test_state_of_other_types_is_left_alone():
    assert finished("Sum(column='v')", [pa.field("v", pa.int64())], [pa.array(["1"])]) is None
    assert finished("Sum(column='v')", [pa.field("v", pa.string())], [pa.array([1])]) is None
