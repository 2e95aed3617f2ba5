"""Which operators can share the rows of a key, why others cannot, and what a key's hash is."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import Stream
from rechannel.engine.program.dividing import (
    DivisibleOperator,
    divisible_operators,
    no_longer_divisible,
    rows_of_sides,
    sides_of_inputs,
)
from rechannel.engine.program.physical import PhysicalPlan
from rechannel.errors import RefusedError
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT
from rechannel.model.hashing import hash_columns
from rechannel.testing import Harness, script

NEAR = rc.between(0, 10)


def two(names: tuple[str, str] = ("left", "right")) -> tuple[Stream, Stream]:
    """Two streams with event times."""
    left, right = (
        rc.read()
        .memory(script("k STRING, v BIGINT, at TIMESTAMP", []), name=name)
        .event_time("at", 0)
        for name in names
    )
    return left, right


def planned(stream: Stream) -> PhysicalPlan:
    return Harness(stream.write.memory("out", name="out")).plan


def reasons(stream: Stream, operator: str = "meet") -> tuple[str | None, str | None]:
    found = divisible_operators(planned(stream))[operator]
    return found.undivided(LEFT), found.undivided(RIGHT)


def paired(how: Any) -> Stream:
    left, right = two()
    return left.join(right, "k", how=how, within=NEAR, name="meet")


@pytest.mark.parametrize(
    ("how", "left", "right"),
    [
        ("inner", None, None),
        ("left", None, "a row of the left side of a join with how='left'"),
        ("right", "a row of the right side of a join with how='right'", None),
        ("semi", None, "of the left side of a join with how='semi'"),
        ("anti", None, "with how='anti'"),
        ("full", "it is a full join", "it is a full join"),
    ],
)
def test_a_join_says_which_of_its_sides_can_be_dealt_out(how, left, right):
    for found, expected in zip(reasons(paired(how)), (left, right), strict=True):
        assert found is None if expected is None else found is not None and expected in found


def test_other_operators_say_why():
    left, right = two()
    asof = left.asof_join(right, "k", name="meet")
    assert reasons(asof) == (
        None,
        "a left row meets the latest of all right rows, so these have to go to all tasks",
    )
    found = reasons(left.lookup(right, "k", name="meet"))
    assert found[0] is None
    assert "rows of the stream are looked up" in str(found[1])
    group = left.cogroup(right, "k", within=rc.windows.tumbling(10))
    both = group.apply_batches(lambda frames: frames, "n BIGINT", name="meet")
    assert set(reasons(both)) == {"its function receives all rows of a key, of both sides, at once"}
    sums = left.key_by("k").aggregate(n=agg.count(), name="meet")
    assert set(reasons(sums)) == {"all rows of a key have to meet in one task"}


def last(stream: Stream) -> Stream:
    return stream.key_by("k").aggregate(last=agg.last("v"), name="last")


def test_what_goes_by_the_order_of_its_rows_forbids_it():
    joined = paired("inner")
    assert reasons(joined.key_by("k").aggregate(n=agg.count(), name="n")) == (None, None)
    assert "operator 'last' goes by the order" in str(reasons(last(joined))[LEFT])
    other, _ = two(("other", "unused"))
    both = joined.select("k", "v").union(other.select("k", "v"))
    assert "operator 'last'" in str(reasons(last(both))[RIGHT])


def test_joins_downstream_pass_the_order_on():
    left, _ = two(("other", "unused"))
    again = paired("inner").select("k", "v").join(left.select("k", "at"), "k", name="again")
    assert reasons(again) == (None, None)
    assert "operator 'last'" in str(reasons(last(again))[LEFT])
    counted = again.key_by("k").aggregate(n=agg.count(), name="n")
    assert reasons(counted.key_by("k").aggregate(last=agg.last("n"), name="last")) == (None, None)


@pytest.mark.parametrize("turned", [False, True])
def test_the_newer_rows_of_a_table_go_by_their_order(turned):
    left, _ = two(("other", "unused"))
    joined, plain = paired("inner").select("k", "v"), left.select("k", "at")
    sides = (plain, joined) if turned else (joined, plain)
    found = reasons(sides[0].lookup(sides[1], "k", name="table"))
    assert (found[0] is None) == (not turned)


def test_no_longer_divisible_is_what_was_and_is_not():
    before, after = planned(paired("inner")), planned(last(paired("inner")))
    assert no_longer_divisible(before, before) == {}
    assert no_longer_divisible(after, before) == {}
    found = no_longer_divisible(before, after)
    assert {name: sorted(why) for name, why in found.items()} == {"meet": ["0", "1"]}


def test_rows_by_side_follow_from_inputs():
    left, right = two()
    plan = planned(left.union(left).join(right, "k", within=NEAR, name="meet"))
    sides = sides_of_inputs(plan)
    assert sides == {("meet", 0): LEFT, ("meet", 1): LEFT, ("meet", 2): RIGHT}
    sent = {("meet", 0): 3, ("meet", 1): 4, ("meet", 2): 5, ("other", 0): 1}
    assert rows_of_sides(sent, sides) == {"meet": (7.0, 5.0)}


def operator(columns: str, keys: list[str]) -> DivisibleOperator:
    left, right = (rc.read().memory(script(columns, []), name=name) for name in ("l", "r"))
    return divisible_operators(planned(left.join(right, keys, name="meet")))["meet"]


def test_a_key_has_the_hash_of_its_rows():
    at = datetime(2026, 1, 1, 12, tzinfo=UTC)
    cases: list[tuple[str, Any, pa.Array]] = [
        ("k STRING", "ann", pa.array(["ann"])),
        ("k STRING", None, pa.nulls(1, pa.string())),
        ("k BIGINT", 7, pa.array([7])),
        ("k BIGINT", "7", pa.array([7])),
        ("k INT", 7, pa.array([7], pa.int32())),
        ("k DOUBLE", -0.0, pa.array([0.0])),
        ("k BOOLEAN", True, pa.array([True])),
        ("k TIMESTAMP", str(at), pa.array([at], pa.timestamp("us", "UTC"))),
        ("k DATE", "2026-01-01", pa.array([at.date()])),
        ("k DECIMAL(9,2)", "1.50", pa.array(["1.50"]).cast(pa.decimal128(9, 2))),
    ]
    for columns, value, expected in cases:
        assert (
            operator(f"{columns}, v BIGINT", ["k"]).hash_of([value]) == hash_columns([expected])[0]
        )
    both = operator("a STRING, b BIGINT, v BIGINT", ["a", "b"])
    assert both.hash_of(["x", 1]) == hash_columns([pa.array(["x"]), pa.array([1])])[0]


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        (["x"], r"a key has the columns \['a', 'b'\], not 1 values"),
        (["x", "y"], "'y' is no value of key column 'b'"),
        (["x", 1.5], "1.5 is no value of key column 'b'"),
        (["x", 1 << 80], "no value of key column 'b'"),
        (["x", "y" * 99], r"'y{59} is no value of key column 'b'"),
        ([1, 1], "1 is no value of key column 'a'"),
    ],
)
def test_a_key_that_does_not_fit_is_refused(key, reason):
    with pytest.raises(RefusedError, match=reason):
        operator("a STRING, b BIGINT, v BIGINT", ["a", "b"]).hash_of(key)
