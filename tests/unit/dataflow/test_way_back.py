"""What converts state back to the columns of before a change, or why nothing does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from rechannel.dataflow.evolution.migration import Migrate, migrate
from rechannel.dataflow.evolution.succession import migration_between
from rechannel.dataflow.evolution.way_back import way_back
from rechannel.dataflow.streams.aggregates import count, max, mean, sum
from rechannel.errors import DataflowError, RefusedError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.spec import AggregateSpec
from rechannel.operators.process.track_spec import TrackSpec

ROWS = schema_of("k STRING, v BIGINT")


def aggregates(**named: Any) -> StatefulLogic:
    return AggregateSpec(aggregates=named).bind(("k",), ROWS)


def tracking(state: str, timeout: int | None = None) -> StatefulLogic:
    spec = TrackSpec(update=lambda k, s, r: 1, state=schema_of(state), timeout_ms=timeout)
    return spec.bind(("k",), ROWS)


def returned(
    old: StatefulLogic, new: StatefulLogic, said: Migrate | None, *row: Any
) -> list[list[Any]]:
    """State columns after the way there and back, of one key."""
    forth = migration_between(old, new, said, stream_ms=1_000)
    assert forth is not None
    back = way_back(old, new, forth, said)
    assert (back.from_schema, back.to_schema) == (new.state_schema, old.state_schema)
    given = [pa.array(["a"])] + [
        pa.array([value], field.type) for value, field in zip(row, old.state_schema, strict=True)
    ]
    return [column.to_pylist() for column in back.apply(forth.apply(given))[1:]]


def refused(old: StatefulLogic, new: StatefulLogic, said: Migrate | None = None) -> str:
    forth = migration_between(old, new, said, stream_ms=1_000)
    assert forth is not None
    with pytest.raises(RefusedError) as reason:
        way_back(old, new, forth, said)
    return str(reason.value)


def twice(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"n": batch["n"]})


def test_what_was_added_is_dropped_and_what_was_renamed_gets_its_name_back():
    old, new = tracking("n BIGINT, s STRING"), tracking("s STRING, m BIGINT, zero BIGINT")
    said = migrate(add={"zero": 0}, rename={"n": "m"})
    assert returned(old, new, said, 7, "x") == [[7], ["x"]]
    swapped = tracking("s BIGINT, n STRING")
    both = migrate(rename={"n": "s", "s": "n"})
    assert returned(old, swapped, both, 7, "x") == [[7], ["x"]]


def test_aggregates_that_were_added_are_dropped():
    old = aggregates(n=count(), t=sum("v"))
    assert returned(old, aggregates(m=mean("v"), t=sum("v"), n=count()), None, 3, 12) == [[3], [12]]


@pytest.mark.parametrize(
    ("said", "state", "why"),
    [
        (migrate(drop=["s"]), "n BIGINT", "drops column 's'"),
        (
            migrate(drop=["n"], add={"n": "n * 2"}),
            "n BIGINT, s STRING",
            "'n' or computes it anew",
        ),
        (
            migrate(retype={"n": "DECIMAL(38,0)"}),
            "n DECIMAL(38,0), s STRING",
            "was int64 and is now",
        ),
        (migrate(using=twice), "n BIGINT", "a function that cannot be inverted"),
    ],
)
def test_what_is_not_stored_any_more_does_not_come_back(said, state, why):
    reason = refused(tracking("n BIGINT, s STRING"), tracking(state), said)
    assert why in reason
    assert reason.endswith("migrate(..., back=function), which makes the old columns")


def test_an_aggregate_that_was_left_out_does_not_come_back():
    reason = refused(aggregates(n=count(), most=max("v")), aggregates(n=count()))
    assert "drops column 'most" in reason


def test_timeouts_depend_on_the_time_of_the_return():
    plain, short, long = (tracking("n BIGINT", timeout) for timeout in (None, 10, 20))
    assert "a longer timeout, or none, needs the time" in refused(plain, short)
    assert "'_seen'" in refused(short, plain)
    assert returned(short, long, None, 5, 1_000) == [[5], [1_000]]
    wide = tracking("n BIGINT, m BIGINT", 10)
    reason = refused(long, wide, migrate(add={"m": 0}))
    assert "a longer timeout, or none, needs the time" in reason


def test_a_function_of_the_user_leads_back():
    old, new = tracking("n BIGINT"), tracking("m BIGINT")
    there = migrate(drop=["n"], add={"m": "n * 2"}, back=lambda b: pa.record_batch({"n": b["m"]}))
    assert returned(old, new, there, 5) == [[10]]
    wrong = migrate(drop=["n"], add={"m": "n * 2"}, back=lambda b: pa.record_batch({"x": b["m"]}))
    forth = migration_between(old, new, wrong)
    assert forth is not None
    with pytest.raises(DataflowError, match="must answer the column 'n' once"):
        way_back(old, new, forth, wrong)
    with pytest.raises(DataflowError, match=r"migrate\(back=\.\.\.\) needs a function"):
        migrate(drop=["n"], back=3)  # type: ignore[arg-type]
    with pytest.raises(RefusedError, match="there is nothing to convert back"):
        migration_between(old, old, migrate(back=twice))
