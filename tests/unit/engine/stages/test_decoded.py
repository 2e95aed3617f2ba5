"""Columns that are written as codes and views are decoded where rows come in, whatever becomes of them."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError
from rechannel.job import InProcess
from rechannel.sources.connectors import MemoryConnector
from rechannel.testing import Harness

SETTINGS = rc.Settings(tasks=2, bins=4)
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
CODED = [pa.dictionary(pa.int32(), pa.string()), pa.string_view()]


def rows_of(kind):
    times = [EPOCH + timedelta(seconds=n) for n in range(4)]
    return pa.table(
        {
            "k": pa.array(["a", "b", "a", None]).cast(kind),
            "v": pa.array(["x", None, "y", "z"]).cast(kind),
            "at": pa.array(times, pa.timestamp("us", "UTC")),
        }
    )


def near(stream, other):
    return stream.join(other, "k", within=rc.between(0, 0))


OPERATORS = {
    "aggregate": lambda one, _: one.key_by("k").aggregate(n=agg.count(), v=agg.last("v")),
    "latest": lambda one, _: one.key_by("k").latest(),
    "join": near,
    "asof_join": lambda one, other: one.asof_join(other, "k"),
    "lookup": lambda one, other: one.lookup(other, "k"),
    "cogroup": lambda one, other: one.cogroup(other, "k").apply_batches(
        lambda left, right: {"n": left.count() + right.count()}, "n BIGINT"
    ),
    "map_batches": lambda one, _: (
        one.map_batches(
            lambda batch: batch.set_column(1, "v", batch.column("v").dictionary_encode()),
            schema=rows_of(CODED[0]).schema,
        )
        .key_by("k")
        .latest()
    ),
}


def shown(operator, kind):
    table = rows_of(kind)
    streams = []
    for name in ("one", "other"):
        source = MemoryConnector(schema=table.schema)
        source.push(table)
        streams.append(rc.read().memory(source, name=name).event_time("at", 0, name=f"{name}-time"))
    made = OPERATORS[operator](*streams)
    harness = Harness([made.write.memory("out", name="out")], settings=SETTINGS)
    harness.start()
    harness.process.run()
    (table,) = harness.outputs("out").values()
    return table.schema, sorted(map(repr, table.to_pylist()))


@pytest.mark.parametrize("kind", CODED, ids=str)
@pytest.mark.parametrize("operator", OPERATORS)
def test_operators_are_given_the_values(operator, kind):
    assert shown(operator, kind) == shown(operator, pa.string())


@pytest.mark.parametrize("kind", CODED, ids=str)
def test_tables_and_finished_input_are_decoded(kind):
    stream = rc.read().memory(MemoryConnector(schema=rows_of(kind).schema), name="one")
    table = rows_of(kind).slice(0, 2).rename_columns(["k", "w", "then"])
    found = stream.lookup(table, "k", name="found").write.memory("out", name="out")
    with rc.run_batch(found, inputs={"one": rows_of(kind)}, in_process=InProcess()) as made:
        rows = made.output().to_pylist()
    assert sorted((row["k"], row["w"]) for row in rows) == [("a", "x"), ("a", "x"), ("b", None)]


def test_a_source_that_says_otherwise_is_refused_by_the_columns_name():
    connector = MemoryConnector(schema="k STRING")
    object.__setattr__(connector, "schema", pa.schema([("k", CODED[0])]))
    with pytest.raises(
        DataflowError, match=r"column 'k' is declared as dictionary<.*declare it as string"
    ):
        rc.read().memory(connector, name="one").key_by("k").aggregate(n=agg.count())
