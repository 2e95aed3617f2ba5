"""State is converted where a change says so, also if the operator itself does what it did."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.evolution.migration import Migrate
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script


def in_cents(rows: pa.Table) -> pa.Table:
    return rows


def in_euros(rows: pa.Table) -> pa.Table:
    return rows.set_column(1, "v", pc.divide(rows["v"], 100))


def to_euros(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"total.sum": pc.divide(batch["total.sum"], 100)})


def flow(source: Any, function: Any) -> Any:
    read = rc.read().memory(source, name="in")
    amounts = read.map_batches(function, schema="k string, v bigint", name="amounts")
    op = amounts.key_by("k").aggregate(total=agg.sum("v"), name="op")
    return op.write.memory("out", name="out")


def totals(source: Any, store: MemoryStore, function: Any) -> Harness:
    return Harness(flow(source, function), store=store, settings=Settings(tasks=2))


def feed(source: Any, harness: Harness, **cents: int) -> None:
    source.push([{"k": key, "v": amount} for key, amount in cents.items()])
    harness.process.run()


def values(harness: Harness) -> dict[str, int]:
    return {row["k"]: row["total"] for row in harness.state("op").to_pylist()}


@pytest.mark.parametrize(
    ("migrate", "after"),
    [
        (rc.changes.migrate(using=to_euros), {"a": 12, "b": 7, "c": 3}),
        (rc.changes.migrate(drop=["total"]), {"a": 2, "b": None, "c": 3}),
    ],
)
def test_of_an_operator_behind_the_node_that_changes(
    migrate: Migrate, after: dict[str, int]
) -> None:
    source = script("k string, v bigint")
    harness = totals(source, MemoryStore(), in_cents)
    harness.start()
    feed(source, harness, a=1000, b=700)
    changed = rc.changes.change_dataflow(flow(source, in_euros), migrate={"op": migrate})
    harness.process.reconfigure(changed)
    harness.process.run()
    feed(source, harness, a=200, c=300)
    assert values(harness) == after
    harness.process.stop()

    again = totals(source, harness.store, in_euros)
    again.start()
    assert values(again) == after
    feed(source, again, a=100, d=400)
    assert values(again) == {**after, "a": after["a"] + 1, "d": 4}
