"""The fluent interface: what is built, and what is refused while building."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rechannel.dataflow.graph.nodes import (
    Dataflow,
    MapBatches,
    Sink,
    Source,
    Stateful,
    Transform,
    Union,
)
from rechannel.dataflow.streams.aggregates import (
    count,
    first,
    last_n,
    max,
    mean,
    min,
    stddev,
    sum,
    variance,
)
from rechannel.dataflow.streams.reader import read
from rechannel.dataflow.streams.stream import Stream, dataflow_of, one_session
from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.spec import AggregateSpec
from rechannel.operators.process.track_spec import TrackSpec
from rechannel.sinks.outlets import (
    ConsoleOutlet,
    FileOutlet,
    ForEachBatchOutlet,
    MemoryOutlet,
    NoopOutlet,
)
from rechannel.sources.connectors import FilesConnector, GeneratorConnector, MemoryConnector
from tests.support.flights import COLUMNS, flights, same, unknown


def test_a_dozen_lines_become_a_graph() -> None:
    delays = (
        flights()
        .transform(lambda df: df.where("dep_delay IS NOT NULL"))
        .key_by("carrier")
        .aggregate(n=count(), mean=mean("dep_delay"), worst=max("dep_delay"), name="delays")
    )

    dataflow = dataflow_of(delays.write.parquet("out/delays"))

    kinds = [type(node) for node in dataflow.nodes]
    assert kinds == [Source, Transform, Stateful, Sink]
    assert [node.name for node in dataflow.nodes] == [
        "flights",
        "flights.transform-1",
        "delays",
        "parquet-delays",
    ]


def test_every_node_knows_the_user_s_line() -> None:
    stream = flights().map_batches(same)
    kept = stream.key_by("carrier").aggregate(n=count())

    for node in (stream.node, kept.node, kept.write.noop().node):
        assert node.where.file == __file__
        assert node.where.line > 0


def test_columns_are_known_without_an_engine_up_to_a_transform() -> None:
    stream = flights()

    assert stream.schema == schema_of(COLUMNS)
    assert stream.map_batches(same).schema == schema_of(COLUMNS)
    assert stream.transform(lambda df: df).schema is None
    assert stream.transform(lambda df: df).map_batches(same, "n INT").schema == schema_of("n INT")
    assert stream.filter("dep_delay > 0").schema is None
    assert stream.filter(lambda row: True).schema == schema_of(COLUMNS)
    assert stream.map(lambda row: row.carrier, "c STRING").schema == schema_of("c STRING")
    assert stream.flat_map(lambda row: [], "c STRING").schema == schema_of("c STRING")
    assert stream.union(flights()).schema == schema_of(COLUMNS)
    assert unknown().schema is None


def test_a_keyed_operator_s_columns_are_known() -> None:
    keyed = flights().key_by("carrier", "origin")

    assert keyed.aggregate(n=count(), far=sum("distance")).schema.names == [
        "carrier",
        "origin",
        "n",
        "far",
    ]
    state = keyed.track(lambda k, s, rows: 1, state="n INT").schema
    assert state == schema_of("carrier STRING, origin STRING, n INT")
    batches = keyed.track_batches(lambda frame: {}, state="n INT").schema
    assert batches == state
    reduced = keyed.running_reduce(lambda a, b: b).schema
    assert reduced == schema_of("carrier STRING, origin STRING, dep_delay DOUBLE, distance BIGINT")


def test_a_union_is_nullable_where_any_input_is() -> None:
    one, other = (
        read().memory(pa.schema([pa.field("n", pa.int32(), nullable)]), name=str(nullable))
        for nullable in (False, True)
    )

    assert one.union(other).schema.field("n").nullable


def test_operators_take_their_arguments() -> None:
    keyed = flights().key_by("carrier")

    counted = keyed.aggregate({"the n": count()}, total=sum("distance"), tasks=2, bins=8)
    tracked = keyed.track(
        lambda k, s, rows: 1,
        state="n INT",
        init_state=lambda k, row: 0,
        timeout=timedelta(seconds=90),
        preload=lambda: None,
    )

    assert isinstance(counted.node, Stateful)
    assert (counted.node.tasks, counted.node.bins, counted.node.keys) == (2, 8, ("carrier",))
    assert isinstance(counted.node.spec, AggregateSpec)
    assert list(counted.node.spec.aggregates) == ["the n", "total"]
    assert isinstance(tracked.node, Stateful)
    assert isinstance(tracked.node.spec, TrackSpec)
    assert tracked.node.spec.timeout_ms == 90_000
    assert tracked.node.initial is not None


def test_sources_take_their_arguments() -> None:
    reader = read()
    files = reader.files(Path("a/b.csv"), per_timestep=3, options={"header": True})
    generated = reader.generator(
        lambda start, stop: pa.RecordBatch.from_pydict({"n": range(start, stop)}),
        schema="n BIGINT",
        rows_per_second=10,
    )
    memory = reader.memory("n INT", partitions=2, per_timestep=1)
    mine = MemoryConnector(schema="n INT")

    assert isinstance(files.node, Source)
    assert isinstance(files.node.connector, FilesConnector)
    assert files.node.connector.format == "csv"
    assert files.node.connector.options == {"header": "true"}
    assert isinstance(generated.node, Source)
    assert isinstance(generated.node.connector, GeneratorConnector)
    assert isinstance(memory.node, Source)
    assert isinstance(memory.node.connector, MemoryConnector)
    assert (memory.node.connector.partitions, memory.node.connector.per_timestep) == (2, 1)
    assert reader.memory(mine).node.connector is mine  # type: ignore[attr-defined]


def test_sinks_take_their_arguments() -> None:
    write = flights().write
    outlets = [
        flow.node.outlet
        for flow in (
            write.parquet(Path("out/p"), compression="zstd"),
            write.orc("o"),
            write.json("j"),
            write.csv("c", header=True),
            write.format("avro").options(a=1).options(b=False).save("x", name="given"),
            write.memory("table"),
            write.console(5),
            write.for_each_batch(print),
            write.noop(),
        )
    ]

    files = [outlet for outlet in outlets if isinstance(outlet, FileOutlet)]
    assert [(o.format, o.path) for o in files] == [
        ("parquet", "out/p"),
        ("orc", "o"),
        ("json", "j"),
        ("csv", "c"),
        ("avro", "x"),
    ]
    assert files[0].options == {"compression": "zstd"}
    assert files[3].options == {"header": "true"}
    assert files[4].options == {"a": "1", "b": "false"}
    assert [type(o) for o in outlets[5:]] == [
        MemoryOutlet,
        ConsoleOutlet,
        ForEachBatchOutlet,
        NoopOutlet,
    ]
    assert [o.describe() for o in outlets[5:]] == [
        "memory table",
        "console, 5 rows",
        "for each batch print",
        "noop",
    ]


def test_a_sql_filter_is_a_where() -> None:
    class Frame:
        def where(self, condition: str) -> str:
            return f"where {condition}"

    node = flights().filter("dep_delay > 0").node

    assert isinstance(node, Transform)
    assert node.function(Frame()) == "where dep_delay > 0"  # type: ignore[arg-type]


def test_one_stream_may_feed_many_and_appears_once() -> None:
    stream = flights()
    kept = stream.key_by("carrier").aggregate(n=count(), name="kept")

    dataflow = dataflow_of(kept.write.noop(), stream.write.memory("raw"), kept.write.console())

    assert [node.name for node in dataflow.nodes].count("flights") == 1
    assert [user.name for user in dataflow.consumers(stream.node)] == ["kept", "memory-raw"]


def test_an_operator_without_a_sink_may_end_a_dataflow() -> None:
    kept = flights().key_by("carrier").aggregate(n=count(), name="kept")

    assert [node.name for node in dataflow_of(kept).nodes] == ["flights", "kept"]


def test_streams_carry_their_session() -> None:
    session, other = object(), object()
    stream = read(session).memory("n INT")
    kept = stream.map_batches(same).key_by("n").aggregate(n2=count())

    assert kept.write.noop().session is session
    assert stream.union(read().memory("n INT", name="b")).session is session
    assert read().memory("n INT", name="b").union(stream).session is session
    with pytest.raises(DataflowError, match="two Spark sessions"):
        stream.union(read(other).memory("n INT"))
    with pytest.raises(DataflowError, match="two Spark sessions"):
        one_session(stream, read(other).memory("n INT"))
    assert one_session() is None


def keyed() -> Any:
    return flights().key_by("carrier")


def anything(*arguments: Any) -> Any:
    return None


REFUSALS: list[tuple[Callable[[], Any], type[DataflowError], str]] = [
    (lambda: read().memory("k long", tasks=0), DataflowError, "tasks must be a whole number"),
    (lambda: flights().key_by("carier"), UnknownColumnError, "did you mean 'carrier'?"),
    (lambda: flights().key_by("CARRIER"), UnknownColumnError, "did you mean 'carrier'?"),
    (lambda: flights().key_by(), DataflowError, "at least one column"),
    (lambda: flights().key_by("origin", "origin"), DataflowError, "named twice"),
    (lambda: keyed().aggregate(), DataflowError, "at least one"),
    (lambda: keyed().aggregate(n=5), DataflowError, "n=5 is not an aggregate"),
    (lambda: keyed().aggregate(count()), DataflowError, "needs a name, as in aggregate"),
    (lambda: keyed().aggregate(5), DataflowError, "needs a name"),
    (lambda: keyed().aggregate(n=sum("dist")), UnknownColumnError, "did you mean 'distance'?"),
    (lambda: keyed().aggregate(n=sum("carrier")), DataflowError, "carrier"),
    (lambda: keyed().aggregate(carrier=count()), DataflowError, "name of a key column"),
    (lambda: keyed().aggregate(_rc_n=count()), DataflowError, "begins with '_rc'"),
    (lambda: keyed().aggregate(n=count(), tasks=0), DataflowError, "tasks must be"),
    (
        lambda: keyed().aggregate(n=count(), tasks=4, bins=2),
        DataflowError,
        "4 tasks need at least one bin each",
    ),
    (lambda: keyed().aggregate(n=count(), preload=5), DataflowError, "preload must be a function"),
    (lambda: keyed().aggregate(n=count(), name="a/b"), DataflowError, "'a/b' cannot be a name"),
    (lambda: keyed().aggregate(n=count(), name="_rc"), DataflowError, "are reserved"),
    (lambda: keyed().track(anything, state="carrier INT"), DataflowError, "also a key"),
    (lambda: keyed().track(anything, state="n"), DataflowError, "a type for column 'n'"),
    (lambda: keyed().track(anything, state="n INT", timeout=0), DataflowError, "timeout"),
    (lambda: keyed().track(anything, state="n INT", timeout=1.5), DataflowError, "timeout"),
    (lambda: keyed().track(5, state="n INT"), DataflowError, "track needs a function"),
    (
        lambda: keyed().track(anything, state="n INT", init_state=5),
        DataflowError,
        "init_state of track needs a function",
    ),
    (lambda: keyed().track_batches(5, state="n INT"), DataflowError, "track_batches needs"),
    (lambda: keyed().running_reduce(5), DataflowError, "running_reduce needs a function"),
    (
        lambda: read().memory("k INT").key_by("k").running_reduce(anything),
        DataflowError,
        "there are none",
    ),
    (lambda: flights().transform(5), DataflowError, "transform .* needs a function"),
    (lambda: flights().map_batches(5), DataflowError, "map_batches .* needs a function"),
    (lambda: flights().map(5, "n INT"), DataflowError, "map .* needs a function"),
    (lambda: flights().flat_map(5, "n INT"), DataflowError, "flat_map .* needs a function"),
    (lambda: flights().filter(5), DataflowError, "filter .* needs a function"),
    (lambda: flights().map_batches(same, "_rc_a INT"), DataflowError, "begins with '_rc'"),
    (lambda: flights().union(5), DataflowError, "union takes streams, not int"),
    (lambda: read().memory("_rc_order INT"), DataflowError, "begins with '_rc'"),
    (
        lambda: read().memory("m MAP<INT, INT>").key_by("m").aggregate(n=count()),
        DataflowError,
        "key 'm' is map<int,int>",
    ),
    (lambda: read().files("data/planes"), DataflowError, "name of 'data/planes'"),
    (lambda: dataflow_of(keyed()), DataflowError, r"\.key_by does nothing yet"),
    (lambda: dataflow_of(flights().write), DataflowError, r"\.write has no sink"),
    (lambda: dataflow_of(5), DataflowError, "not in int"),  # type: ignore[arg-type]
    (lambda: flights().write.console(0), DataflowError, "rows must be at least 1"),
    (lambda: flights().write.for_each_batch(5), DataflowError, "for_each_batch needs"),
    (lambda: flights().write.parquet(""), DataflowError, "a format and a path"),
]


@pytest.mark.parametrize(("build", "kind", "part"), REFUSALS)
def test_mistakes_are_refused_while_building(
    build: Callable[[], Any], kind: type[DataflowError], part: str
) -> None:
    with pytest.raises(kind, match=part):
        build()


@pytest.mark.parametrize(
    ("columns", "difference"),
    [
        ("a INT", "column 'b' is missing"),
        ("a INT, b STRING, c INT", "column 'c' is one too many"),
        ("b STRING, a INT", "their order is b, a, not a, b"),
        ("a BIGINT, b STRING", "column 'a' is bigint, not int"),
    ],
)
def test_a_union_of_unlike_columns_says_how_they_differ(columns: str, difference: str) -> None:
    one = read().memory("a INT, b STRING", name="one")

    with pytest.raises(DataflowError) as error:
        one.union(read().memory(columns, name="other"))

    assert difference in str(error.value)
    assert "'other' does not have the columns of 'one'" in str(error.value)


def test_a_message_says_where() -> None:
    with pytest.raises(DataflowError) as error:
        keyed().track(anything, state="carrier INT", name="mine")

    assert str(error.value).startswith(f"track 'mine' ({__file__}:")


@pytest.mark.parametrize("key", ["l ARRAY<MAP<INT, INT>>", "s STRUCT<m: MAP<INT, INT>>"])
def test_a_map_inside_a_key_is_refused_too(key: str) -> None:
    with pytest.raises(DataflowError, match="cannot be grouped by"):
        read().memory(key).key_by(key[0]).aggregate(n=count())


def test_a_variant_is_no_key() -> None:
    marked = pa.field("metadata", pa.binary(), metadata={b"variant": b"true"})
    variant = pa.struct([pa.field("value", pa.binary()), marked])
    with pytest.raises(DataflowError, match=r"key 'k' is variant, which cannot be grouped by"):
        read().memory(pa.schema([("k", variant)])).key_by("k").aggregate(n=count())


@pytest.mark.parametrize(
    "key", ["BOOLEAN", "DOUBLE", "DATE", "TIMESTAMP", "DECIMAL(20,2)", "ARRAY<INT>", "BINARY"]
)
def test_keys_of_many_types(key: str) -> None:
    schema = read().memory(f"k {key}").key_by("k").aggregate(n=count()).schema

    assert schema is not None
    assert schema.field("k").type == schema_of(f"k {key}").field("k").type


def test_arguments_of_aggregates_are_checked() -> None:
    assert first("a", ignore_nulls=True) == first("a", ignore_nulls=True)
    assert variance("a") != variance("a", population=True)
    assert stddev("a", population=True).inputs == ("a",)
    assert min("a").inputs == ("a",)
    with pytest.raises(DataflowError, match="name of a column, not 5"):
        sum(5)  # type: ignore[arg-type]
    with pytest.raises(DataflowError, match="last_n"):
        last_n("a", 0)


def test_building_again_gives_the_same_names() -> None:
    def build() -> list[str]:
        kept = flights().map_batches(same).key_by("carrier").aggregate(n=count())
        return [node.name for node in Dataflow.of(kept.write.console().node).nodes]

    assert build() == build()


def test_map_batches_keeps_the_function_itself() -> None:
    node = flights().map_batches(same).node

    assert isinstance(node, MapBatches)
    assert node.function is same
    assert isinstance(flights().union(flights(name="b")).node, Union)
    assert isinstance(flights(), Stream)
