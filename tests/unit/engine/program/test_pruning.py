"""Columns that nobody looks at are not read."""

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.graph.schema import resolve
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.engine.program.physical import compile_plan
from rechannel.sources.input_files import parquet
from rechannel.sources.reader import only
from rechannel.testing import Harness, script

SCHEMA = "k BIGINT, v BIGINT, at TIMESTAMP, text STRING, more STRING"


def root_of(build):
    """The branches of the only source."""
    stream = rc.read().memory(script(SCHEMA), name="rows")
    dataflow = dataflow_of(*build(stream))
    schemas = resolve(dataflow, lambda node, inputs: None)
    logics = {
        node.name: node.spec.bind(node.keys, schemas[node.upstream.name])
        for node in dataflow.nodes
        if hasattr(node, "spec")
    }
    return compile_plan(dataflow, schemas, logics).stage("rows").root


def noop(stream):
    return stream.write.noop()


def as_is(batch):
    return batch


def between(stream):
    other = stream.select("k", "text", then="at").event_time("then")
    mine = stream.select("k", "v", "at").event_time("at")
    return mine.join(
        other,
        "k",
        within=rc.between("0 seconds", "1 second"),
        left_time_column="at",
        right_time_column="then",
    )


@pytest.mark.parametrize(
    ("build", "read"),
    [
        (lambda s: s.key_by("k").aggregate(n=agg.count()), "k"),
        (lambda s: s.key_by("k").aggregate(n=agg.sum("v")), "k v"),
        (lambda s: s.event_time("at").key_by("k").aggregate(n=agg.count()), "k at"),
        (
            lambda s: (
                s.event_time("at")
                .key_by("k")
                .window(rc.windows.tumbling("1 second"))
                .aggregate(n=agg.sum("v"))
            ),
            "k v at",
        ),
        (
            lambda s: s.event_time("at").window(rc.windows.tumbling("1 second")).top(1, by="v"),
            "k v at text more",
        ),
        (lambda s: s.select("k", x="v").key_by("k").aggregate(n=agg.sum("x")), "k v"),
        (lambda s: s.select("k", x="v").key_by("k").aggregate(n=agg.count()), "k"),
        (lambda s: s.select("*", x="v").key_by("text").aggregate(n=agg.sum("x")), "v text"),
        (
            lambda s: (
                s.filter(rc.computed(pc.is_valid, "more")).key_by("k").aggregate(n=agg.count())
            ),
            "k more",
        ),
        (
            lambda s: (
                s.select("k", y=rc.computed(pc.add, "k", "v")).key_by("k").aggregate(n=agg.sum("y"))
            ),
            "k v",
        ),
        (lambda s: s.map_batches(as_is).key_by("k").aggregate(n=agg.count()), "k v at text more"),
        (
            lambda s: s.select("k", "v").map_batches(as_is).key_by("k").aggregate(n=agg.count()),
            "k v",
        ),
        (between, "k v at text"),
        (lambda s: s.key_by("k").latest(), "k v at text more"),
        (lambda s: s.deduplicate("k").select("k"), "k v at text more"),
    ],
)
def test_a_source_is_asked_for_what_somebody_looks_at(build, read):
    assert root_of(lambda s: [noop(build(s))]).schema.names == read.split()


def test_what_is_written_is_read_whole_and_two_ways_add_up():
    count = lambda s: s.key_by("k").aggregate(n=agg.count())  # noqa: E731
    assert root_of(lambda s: [noop(count(s)), s.write.memory("all")]).schema.names == [
        *("k", "v", "at", "text", "more")
    ]
    by_text = lambda s: s.key_by("text").aggregate(n=agg.count())  # noqa: E731
    assert root_of(lambda s: [noop(count(s)), noop(by_text(s))]).schema.names == ["k", "text"]


def test_rows_are_counted_where_nobody_looks_at_a_column():
    root = root_of(
        lambda s: [noop(s.select("k", "v").select(one=ONE).key_by("one").aggregate(n=agg.count()))]
    )
    assert root.schema.names == ["k"]


ONE = rc.computed(lambda k: pa.scalar(1), "k")


def test_files_are_asked_for_those_columns_only(tmp_path, monkeypatch):
    table = pa.table({"k": [1, 2, 1], "v": [5, 6, 7], "text": ["a", "b", "c"]})
    pq.write_table(table, tmp_path / "one.parquet")
    asked = []
    opened = parquet.ParquetSplits.read

    def spy(self, split):
        asked.append(self.schema.names)
        return opened(self, split)

    monkeypatch.setattr(parquet.ParquetSplits, "read", spy)
    rows = rc.read().files(str(tmp_path), format="parquet", name="rows")
    counts = rows.select("text", key="k", x="v").key_by("key").aggregate(n=agg.sum("x"))
    harness = Harness([counts.write.memory("out", name="out")])
    harness.start()
    harness.process.run()
    assert asked == [["k", "v"]]
    assert sorted(harness.output("out").to_pylist(), key=str) == [
        {"key": 1, "n": 12},
        {"key": 2, "n": 6},
    ]


class Whole:
    """Reads all columns, as any reader can."""

    def read(self, split):
        yield pa.RecordBatch.from_pydict({"a": [split["n"]], "b": [2]})


def test_a_reader_that_cannot_leave_columns_out_has_them_taken_away():
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    whole = Whole()
    assert only(whole, schema, ("a", "b")) is whole
    (batch,) = only(whole, schema, ("b",)).read({"n": 1})
    assert batch.to_pydict() == {"b": [2]}
