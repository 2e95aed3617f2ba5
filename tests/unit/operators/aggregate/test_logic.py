from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DataflowError, DuplicateNameError, UnknownColumnError
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.logic import OperatorInput, StatefulLogic
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.eventtime import Clock
from rechannel.operators.aggregate import functions as ag
from rechannel.operators.aggregate.logic import AggregateLogic

SCHEMA = pa.schema(
    [("carrier", pa.string()), ("delay", pa.float64()), ("seats", pa.int32()), ("odd", pa.bool_())]
)
AGGREGATES = {
    "n": ag.Count(),
    "mean": ag.Mean(column="delay"),
    "worst": ag.Max(column="delay"),
    "seats": ag.Sum(column="seats"),
}


def bind(**aggregates: object) -> AggregateLogic:
    return AggregateLogic.bind(["carrier"], aggregates or AGGREGATES, SCHEMA)


def arrivals(logic: AggregateLogic, *, combined: bool, found: bool = False) -> OperatorInput:
    values = [pa.array([1.0, 3.0, 5.0]), pa.array([10, None, 30], pa.int32())]
    groups = Groups(np.array([0, 2], np.int64), 3)
    keys, hashes = [pa.array(["AA", "UA"])], np.array([4, 9], np.uint64)
    old = logic.combine(values, groups)
    if combined:
        values, groups = old, Groups(np.arange(2, dtype=np.int64), 2)
    return OperatorInput(
        keys=keys,
        hashes=hashes,
        values=values,
        groups=groups,
        combined=combined,
        old=old,
        found=np.array([found, False]),
        clock=Clock(stream_ms=0),
        timestep=3,
    )


def test_schemas():
    logic: StatefulLogic = bind()
    assert logic.key_schema.names == ["carrier"]
    assert logic.value_schema.names == ["delay", "seats"]
    assert logic.combined_schema == logic.state_schema
    assert logic.state_schema.names[:4] == ["n.count", "mean.count", "mean.top", "mean.flags"]
    assert logic.output_schema == pa.schema(
        [
            ("carrier", pa.string()),
            pa.field("n", pa.int64(), nullable=False),
            ("mean", pa.float64()),
            ("worst", pa.float64()),
            ("seats", pa.int64()),
        ]
    )
    assert logic.combinable
    assert not logic.ordered


def test_an_ordered_aggregate_keeps_rows_as_they_are():
    logic = bind(n=ag.Count(), latest=ag.Last(column="delay"))
    assert logic.ordered
    assert not logic.combinable


@pytest.mark.parametrize("combined", [False, True])
def test_what_arrives_is_added_to_what_was_there(combined: bool):
    logic = pickle.loads(pickle.dumps(bind()))
    applied = logic.apply(arrivals(logic, combined=combined, found=True))
    assert applied.dropped is None
    assert applied.output_hashes.tolist() == [4, 9]
    assert applied.output.schema == logic.output_schema
    assert applied.output.to_pylist() == [
        {"carrier": "AA", "n": 4, "mean": 2.0, "worst": 3.0, "seats": 20},
        {"carrier": "UA", "n": 1, "mean": 5.0, "worst": 5.0, "seats": 30},
    ]
    assert [column.type for column in applied.state] == logic.state_schema.types
    assert logic.finish([pa.array(["AA", "UA"])], applied.state) == applied.output


def test_without_old_state():
    logic = bind()
    output = logic.apply(arrivals(logic, combined=True)).output
    assert output.column("n").to_pylist() == [2, 1]


def test_state_lives_for_ever():
    logic = bind()
    assert Capabilities(logic).live([], [], Clock(stream_ms=0)) is None


def test_rows_can_be_counted_without_any_column():
    logic = bind(n=ag.Count())
    assert len(logic.value_schema) == 0
    assert logic.combine([], Groups(np.array([0, 2], np.int64), 3))[0].to_pylist() == [2, 1]


@pytest.mark.parametrize(
    ("keys", "aggregates", "error", "message"),
    [
        ([], AGGREGATES, DataflowError, "at least one key column"),
        (["carrier"], {}, DataflowError, "at least one aggregate"),
        (["nope"], AGGREGATES, UnknownColumnError, "the key names column 'nope'.*carrier, delay"),
        (["carrier"], {"x": ag.Min(column="no")}, UnknownColumnError, "column 'no'"),
        (["carrier"], {"carrier": ag.Count()}, DuplicateNameError, "'carrier' names two"),
        (["carrier", "carrier"], AGGREGATES, DuplicateNameError, "'carrier' names two"),
        (["carrier"], {"x": ag.Sum(column="odd")}, DataflowError, r"sum\('odd'\) cannot take"),
    ],
)
def test_what_cannot_be_bound_is_named(
    keys: list[str],
    aggregates: dict[str, ag.Count],
    error: type[DataflowError],
    message: str,
):
    with pytest.raises(error, match=message):
        AggregateLogic.bind(keys, aggregates, SCHEMA)


def test_schemas_that_cannot_be_used_are_refused():
    twice = pa.schema([("k", pa.int64()), ("k", pa.int64())])
    with pytest.raises(DuplicateNameError, match="2 columns 'k'"):
        AggregateLogic.bind(["k"], {"n": ag.Count()}, twice)
    interval = pa.schema([("k", pa.month_day_nano_interval())])
    with pytest.raises(DataflowError, match="key column 'k': a column of type"):
        AggregateLogic.bind(["k"], {"n": ag.Count()}, interval)
