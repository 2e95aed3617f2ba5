"""Sources that read through Spark, and the same rows with and without it."""

from __future__ import annotations

import datetime as dt
import gzip
import json
import os
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import SchemaDriftError, SourceError
from rechannel.model.ddl import schema_of
from rechannel.sources.connector import SourceContext
from rechannel.sources.connectors import (
    FilesConnector,
    GeneratorConnector,
    MemoryConnector,
    PythonConnector,
)
from rechannel.sources.reader import Bound, SourceReader
from rechannel.sources.spark import FileFormat, RemoteFiles, spark_schema, unreadable
from rechannel.sources.spark_types import arrow_schema
from rechannel.state.stores.memory import MemoryStore


def opened(spark, connector, store: MemoryStore | None = None) -> SourceReader:
    return connector.open(SourceContext(store=store or MemoryStore(), name="in", spark=spark))


def files(spark, path: object, kind: str, **arguments: Any) -> SourceReader:
    return opened(spark, FilesConnector(path=str(path), format=kind, **arguments))


def taken(reader: SourceReader, start: dict | None = None) -> tuple[dict, dict, list[dict]]:
    start = reader.initial() if start is None else start
    end = reader.latest(start, 0)
    return start, end, json.loads(json.dumps(reader.layout(start, end)))


def frame(spark, reader: SourceReader, start: dict | None = None):
    start, end, layout = taken(reader, start)
    return reader.frame(spark, start, end, layout)


def rows(spark, reader: SourceReader, start: dict | None = None) -> list[dict]:
    return frame(spark, reader, start).toArrow().to_pylist()


EVERY_TYPE = pa.table(
    {
        "b": [True, None],
        "i8": pa.array([-1, None], pa.int8()),
        "u8": pa.array([255, None], pa.uint8()),
        "u32": pa.array([2**32 - 1, None], pa.uint32()),
        "u64": pa.array([2**64 - 1, None], pa.uint64()),
        "f": pa.array([1.5, None], pa.float32()),
        "s": pa.array(["ä", None], pa.large_string()),
        "bin": [b"\0", None],
        "fixed": pa.array([b"ab", None], pa.binary(2)),
        "dict": pa.array(["x", None]).dictionary_encode(),
        "d": [dt.date(2020, 1, 2), None],
        "ms": pa.array([1, None], pa.timestamp("ms")),
        "zoned": pa.array([7, None], pa.timestamp("us", "Europe/Berlin")),
        "dec": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)),
        "took": pa.array([5, None], pa.duration("us")),
        "l": pa.array([[1, None], None], pa.large_list(pa.int32())),
        "m": pa.array([[("k", 1)], None], pa.map_(pa.string(), pa.int64())),
        "st": pa.array([{"x": 1, "y": ["z"]}, None]),
    }
)


def test_parquet_reads_the_same_with_and_without_spark(spark, tmp_path):
    pq.write_table(EVERY_TYPE, tmp_path / "a.parquet", store_schema=True)
    reader = files(spark, tmp_path, "parquet")
    start, end, layout = taken(reader)
    through_spark = reader.frame(spark, start, end, layout)
    assert arrow_schema(through_spark.schema).equals(reader.schema)
    splits = reader.split_reader(start, end, layout)
    native = pa.Table.from_batches([b for split in layout for b in splits.read(split)])
    assert through_spark.toArrow().to_pylist() == native.to_pylist()
    assert (
        FileFormat(spark=spark, name="parquet", options={})
        .columns(str(tmp_path / "a.parquet"))
        .equals(reader.schema)
    )


def test_old_timestamps_read_the_same_with_and_without_spark(spark, tmp_path):
    table = pa.table({"t": pa.array([1_600_000_000_000_001], pa.timestamp("us"))})
    pq.write_table(table, tmp_path / "a", use_deprecated_int96_timestamps=True)
    reader = files(spark, tmp_path, "parquet")
    start, end, layout = taken(reader)
    (batch,) = reader.split_reader(start, end, layout).read(layout[0])
    assert reader.frame(spark, start, end, layout).toArrow().to_pylist() == batch.to_pylist()


def test_nanoseconds_reach_a_frame_though_spark_refuses_them(spark, tmp_path):
    pq.write_table(pa.table({"t": pa.array([1_001], pa.timestamp("ns"))}), tmp_path / "a")
    reader = files(spark, tmp_path, "parquet")
    micros = dt.datetime(1970, 1, 1, microsecond=1)  # noqa: DTZ001
    assert rows(spark, reader) == [{"t": micros}]


def test_names_that_look_like_globs_are_names(spark, tmp_path):
    names = ["a[1].parquet", "b{x,y}.parquet", "c d%20.parquet", "e*.parquet", "f\\.parquet", "é"]
    for name in names:
        pq.write_table(pa.table({"name": [name]}), tmp_path / name)
    pq.write_table(pa.table({"name": ["decoy"]}), tmp_path / "a1.parquet")
    reader = files(spark, tmp_path, "parquet", per_timestep=7)
    got = {row["name"] for row in rows(spark, reader)}
    assert got == {*names, "decoy"}


def test_rows_know_their_file(spark, tmp_path):
    """What puts rows behind DataFrame functions in order."""
    pq.write_table(pa.table({"n": [1]}), tmp_path / "a.parquet")
    located = frame(spark, files(spark, tmp_path, "parquet")).select("n", "_metadata.file_path")
    assert located.collect()[0].file_path == f"file:{tmp_path}/a.parquet"


def test_json_columns_come_in_the_declared_order(spark, tmp_path):
    (tmp_path / "a.json").write_text('{"s": "x", "n": 1}\n{"n": 2, "other": 3}\n')
    reader = files(spark, tmp_path / "*.json", "json", schema="n bigint, s string")
    assert not reader.native
    assert rows(spark, reader) == [{"n": 1, "s": "x"}, {"n": 2, "s": None}]


def test_columns_are_asked_of_spark_once(spark, tmp_path):
    store = MemoryStore()
    (tmp_path / "a.csv").write_text("n,s\n1,x\n")
    options = {"header": "true", "inferSchema": "true"}
    connector = FilesConnector(path=str(tmp_path), format="csv", options=options)
    reader = opened(spark, connector, store)
    assert reader.schema == schema_of("n int, s string")
    _, end, _ = taken(reader)
    (tmp_path / "a.csv").unlink()
    (tmp_path / "b.csv").write_text("n,s\n2,y\n")
    again = opened(spark, connector, store)
    assert again.schema == schema_of("n int, s string")
    assert rows(spark, again, end) == [{"n": 2, "s": "y"}]


def test_one_split_per_file_in_the_order_of_arrival(spark, tmp_path):
    for name, time in (("b.json", 1), ("a.json", 2)):
        (tmp_path / name).write_text("{}\n")
        os.utime(tmp_path / name, (time, time))
    _, _, layout = taken(files(spark, tmp_path, "json", schema="n int"))
    assert [Path(split["file"]).name for split in layout] == ["b.json", "a.json"]
    assert layout[0]["order"] < layout[1]["order"]
    assert layout[0]["size"] == 3


def test_a_csv_header_that_differs_is_not_read_by_position(spark, tmp_path):
    (tmp_path / "a.csv").write_text("b,a\n1,2\n")
    reader = files(spark, tmp_path, "csv", schema="a int, b int", options={"header": True})
    with pytest.raises(Exception, match="FAILED_READ_FILE") as caught:
        rows(spark, reader)
    told = unreadable(caught.value)
    assert isinstance(told, SchemaDriftError)
    assert str(told).startswith(f"{tmp_path}/a.csv has other columns")


def test_a_damaged_file_is_named_even_if_the_session_would_skip_it(spark, tmp_path):
    (tmp_path / "a.orc").write_bytes(b"ORC")
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        frame_ = FileFormat(spark=spark, name="orc", options={}).frame(
            schema_of("n int"), [str(tmp_path / "a.orc")]
        )
        with pytest.raises(Exception, match=r"a\.orc") as caught:
            frame_.collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")
    told = unreadable(caught.value)
    assert type(told) is SourceError
    assert str(told).startswith(f"{tmp_path}/a.orc cannot be read")


def test_other_errors_say_nothing_about_files():
    assert unreadable(ValueError("some other thing")) is None


def test_a_file_that_is_gone_is_named(spark, tmp_path):
    (tmp_path / "a.json").write_text("{}\n")
    reader = files(spark, tmp_path, "json", schema="n int")
    start, end, layout = taken(reader)
    (tmp_path / "a.json").unlink()
    with pytest.raises(SourceError, match=r"a\.json is missing"):
        reader.frame(spark, start, end, layout)
    with pytest.raises(SourceError, match=r"cannot read .*a\.json.*PATH_NOT_FOUND"):
        FileFormat(spark=spark, name="json", options={}).frame(
            schema_of("n int"), [str(tmp_path / "a.json")]
        )


@pytest.mark.parametrize("kind", ["orc", "parquet"])
def test_files_that_describe_themselves_are_checked(spark, tmp_path, kind):
    def write(name: str, columns: str) -> None:
        spark.range(1).selectExpr(columns).coalesce(1).write.format(kind).save(str(tmp_path / name))

    options = {"mergeSchema": "false"} if kind == "parquet" else {}
    write("a", "CAST(id AS INT) n")
    reader = files(spark, tmp_path / "*", kind, schema="n bigint", options=options)
    assert not reader.native
    _, end, _ = taken(reader)
    write("b", "CAST(id AS STRING) n")
    with pytest.raises(SchemaDriftError, match=r"'n' of .*/b/.* is string.*expects bigint"):
        taken(reader, end)


def test_no_files_are_no_rows(spark, tmp_path):
    reader = files(spark, tmp_path, "json", schema="n int")
    empty = reader.frame(spark, reader.initial(), reader.initial(), [])
    assert (empty.columns, empty.count()) == (["n"], 0)


@pytest.mark.parametrize("how", ["_by_listing", "_by_reading"])
def test_remote_places_are_listed(spark, tmp_path, how):
    for name in ("a.csv", "b.txt", "sub/c.csv"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).write_text(name)
        os.utime(tmp_path / "in" / name, (5, 5))
    place = f"file:{tmp_path}"

    def listed(pattern: str) -> set[tuple[str, int, int]]:
        found = getattr(RemoteFiles(spark=spark, pattern=f"{place}/{pattern}"), how)()
        return {(f.path.removeprefix(place), f.modified_ms, f.size) for f in found}

    assert listed("in/*.csv") == {("/in/a.csv", 5000, 5)}
    assert {path for path, _, _ in listed("in")} == {"/in/a.csv", "/in/b.txt", "/in/sub/c.csv"}
    assert listed("nothing*") == set()


def test_files_behind_a_uri_are_read_and_hidden_ones_are_not(spark, tmp_path, monkeypatch):
    for name in ("a.json", "_b.json", "_temporary/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"n": 1}\n')
    # The one scheme that needs no server is local; here it stands for all others.
    monkeypatch.setattr("rechannel.sources.files.is_remote", lambda path: True)
    reader = files(spark, f"file:{tmp_path}", "json")
    start, end, layout = taken(reader)
    assert [split["file"] for split in layout] == [f"file:{tmp_path}/a.json"]
    assert reader.frame(spark, start, end, layout).toArrow().to_pylist() == [{"n": 1}]
    assert reader.latest(end, 0) is end


def test_a_place_that_cannot_be_listed_is_named(spark):
    with pytest.raises(SourceError, match="cannot list nosuch://host/in"):
        list(RemoteFiles(spark=spark, pattern="nosuch://host/in").find())


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": pa.array(range(start, stop), pa.int64())})


def shipped(function: Any) -> Any:
    """A function without a module that workers would have to import."""
    function.__module__ = "__main__"
    return function


def test_a_generator_in_front_of_a_dataframe_function(spark):
    connector = GeneratorConnector(
        function=shipped(numbers), schema="n bigint", per_timestep=10, partitions=3
    )
    made = frame(spark, opened(spark, connector))
    assert made.rdd.getNumPartitions() == 3
    assert made.selectExpr("sum(n) AS total").toArrow().to_pylist() == [{"total": 45}]


def test_memory_in_front_of_a_dataframe_function(spark):
    connector = MemoryConnector(schema="n bigint, t timestamp, u timestamp_ntz, l array<string>")
    moment = dt.datetime(2020, 1, 2, 3, 4, 5)  # noqa: DTZ001
    row = {"n": 1, "t": moment.replace(tzinfo=dt.UTC), "u": moment, "l": ["a", None]}
    connector.push([row])
    connector.push([dict.fromkeys(row)])
    reader = opened(spark, connector)
    made = frame(spark, reader)
    assert made.schema == spark_schema(reader.schema)
    assert made.toArrow().to_pylist() == [row, dict.fromkeys(row)]


@pytest.mark.contract
@pytest.mark.parametrize(
    "how",
    ["simple", *(pytest.param(how, marks=pytest.mark.slow) for how in ("rows", "named", "arrow"))],
)
def test_python_data_sources_read_as_in_a_streaming_query(spark, tmp_path, how):
    """The data source is defined here, so that workers get it by value."""
    from pyspark.sql import Row
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceStreamReader,
        InputPartition,
        SimpleDataSourceStreamReader,
    )

    def made(start: int, stop: int):
        for i in range(start, stop):
            moment = dt.datetime.fromtimestamp(i)  # noqa: DTZ006 - local time, as Spark takes it
            yield (i, str(i), moment) if how != "named" else Row(t=moment, s=str(i), n=i)

    class Reader(DataSourceStreamReader):
        def initialOffset(self):  # noqa: N802
            return {"at": 0}

        def latestOffset(self, start, limit):  # noqa: N802
            return {"at": min(start["at"] + 6, 12)}

        def partitions(self, start, end):
            return [InputPartition((i, i + 3)) for i in range(start["at"], end["at"], 3)]

        def read(self, partition):
            if how != "arrow":
                yield from made(*partition.value)
                return
            start, stop = partition.value
            columns = [range(start, stop), [str(i) for i in range(start, stop)]]
            moments = pa.array(
                [i * 1_000_000 for i in range(start, stop)], pa.timestamp("us", "UTC")
            )
            arrays = [pa.array(columns[0], pa.int64()), pa.array(columns[1]), moments]
            yield pa.RecordBatch.from_arrays(arrays, names=["n", "s", "t"])

    class Simple(SimpleDataSourceStreamReader):
        def initialOffset(self):  # noqa: N802
            return {"at": 0}

        def read(self, start):
            end = {"at": min(start["at"] + 6, 12)}
            return self.readBetweenOffsets(start, end), end

        def readBetweenOffsets(self, start, end):  # noqa: N802
            return iter(list(made(start["at"], end["at"])))

    class Numbers(DataSource):
        @classmethod
        def name(cls):
            return f"numbers_{how}"

        def schema(self):
            return "n bigint, s string, t timestamp"

        def streamReader(self, schema):  # noqa: N802
            return super().streamReader(schema) if how == "simple" else Reader()

        def simpleStreamReader(self, schema):  # noqa: N802
            return Simple()

    reader = opened(spark, PythonConnector(source=Numbers))
    start, got = reader.initial(), []
    while (end := reader.latest(start, 0)) != start:
        layout = json.loads(json.dumps(reader.layout(start, end)))
        assert len(layout) == (1 if how == "simple" else 2)
        got += reader.frame(spark, start, end, layout).toArrow().to_pylist()
        reader.committed(end)
        start = end
    reader.close()

    spark.dataSource.register(Numbers)
    stream = spark.readStream.format(f"numbers_{how}").load()
    query = stream.writeStream.format("memory").queryName(f"numbers_{how}").start()
    try:
        query.processAllAvailable()
        peer = spark.table(f"numbers_{how}").orderBy("n").toArrow().to_pylist()
    finally:
        query.stop()
    assert got == peer
    assert [row["n"] for row in got] == list(range(12))


def write_orders(folder: Path) -> Path:
    folder.mkdir()
    (folder / "a.json").write_text(
        '{"user": "x", "v": 1.5}\n{"user": "y", "v": 2}\n{"user": "z", "v": "abc"}\n{"user":\n'
    )
    return folder


@pytest.mark.parametrize("direct", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_record_that_does_not_fit_names_file_and_line(spark, tmp_path, direct):
    place = write_orders(tmp_path / "in")
    read = rc.read(spark).files(place, format="json", schema="user string, v double", name="in")
    flow = read if direct else read.key_by("user").aggregate(v=agg.sum("v"), name="v")
    job = rc.Job("orders", flow.write.memory("out"), state=tmp_path / "state").start()
    with pytest.raises(SourceError, match=rf"^{place}/a\.json, line 3: not a json record.*abc"):
        job.process_all_available(120)


def test_records_that_do_not_fit_leave_as_dead_letters(spark, tmp_path):
    place = write_orders(tmp_path / "in")
    read = rc.read(spark).files(
        place, format="json", schema="user string, v double", name="in", on_error="dead_letter"
    )
    flows = [read.write.memory("good"), read.dead_letters.write.memory("dead")]
    job = rc.Job("orders", flows, state=tmp_path / "state").start()
    job.process_all_available(120)
    assert sorted(job.memory("good").column("user").to_pylist()) == ["x", "y"]
    texts = job.memory("dead").column("row").to_pylist()
    assert sorted(texts) == ['{"user":', '{"user": "z", "v": "abc"}']
    job.stop()


def letters_of(spark, tmp_path, given, **how):
    """The rows that could be read, in the stream's order, and (file, text) of the dead letters, by file."""
    read = rc.read(spark).files(given, name="in", on_error="dead_letter", **how)
    good = read.write.memory("good")
    job = rc.Job(
        "letters", [good, rc.dead_letters(good).write.memory("dead")], state=tmp_path / "state"
    ).start()
    job.process_all_available(120)
    rows, letters = job.memory("good").to_pylist(), job.memory("dead").to_pylist()
    job.stop()
    offsets = [json.loads(each["offset"] or "{}").get("file") for each in letters]
    return rows, sorted(zip(offsets, (each["row"] for each in letters), strict=True), key=str)


RECORDS = {
    "json": ('{"v": 1}', '{"v": "x"}'),
    "csv": ("1", "x"),
    "xml": ("<row><v>1</v></row>", "<row><v>x</v></row>"),
}
"""One with a number, and one without, by format."""


@pytest.mark.parametrize("kind", RECORDS)
def test_a_record_that_cannot_be_read_says_which_file_it_is_from(spark, tmp_path, kind):
    (good, bad), place = RECORDS[kind], tmp_path / "in ü%20"
    place.mkdir()
    names = [f"{place}/{name}.{kind}" for name in ("a b", "c[1]+#", "d\t")]
    for name, record in zip(names, (good, bad, bad), strict=True):
        Path(name).write_text(record)
    options = {"rowTag": "row"} if kind == "xml" else {}
    rows, letters = letters_of(spark, tmp_path, place, format=kind, schema="v int", options=options)
    assert rows == [{"v": 1}]
    assert letters == [(names[1], bad), (names[2], bad)]


def test_records_of_several_lines_and_of_compressed_files_say_their_file(spark, tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    with gzip.open(place / "a.json.gz", "wt") as file:
        file.write('[{"v": 1},\n{"v": 2}]')
    with gzip.open(place / "b.json.gz", "wt") as file:
        file.write('{"v":\n"x"}')
    rows, letters = letters_of(
        spark, tmp_path, place, format="json", schema="v int", options={"multiLine": True}
    )
    assert [row["v"] for row in rows] == [1, 2]
    assert letters == [(f"{place}/b.json.gz", '{"v":\n"x"}')]


def test_rows_of_files_with_dead_letters_keep_the_order_of_their_files(spark, tmp_path, caplog):
    place = tmp_path / "in"
    place.mkdir()
    for number in range(4):
        rows = [f'{{"k": "a", "v": {10 * number + at}}}' for at in range(3)]
        file = place / f"{'dbca'[number]}.json"
        file.write_text("\n".join([*rows[:1], '{"k":', *rows[1:]]))
        os.utime(file, (number, number))
    read = rc.read(spark).files(
        place, format="json", schema="k string, v int", name="in", on_error="dead_letter"
    )
    last = read.key_by("k").aggregate(first=agg.first("v"), last=agg.last("v"), name="ends")
    flows = [last.write.noop(), read.dead_letters.write.memory("dead")]
    job = rc.Job("ends", flows, state=tmp_path / "state", settings=rc.Settings(tasks=3)).start()
    job.process_all_available(120)
    (row,) = job.state("ends").collect()
    assert (row["first"], row["last"]) == (0, 32)
    assert len(job.memory("dead")) == 4
    job.stop()
    assert [each for each in caplog.messages if "order" in each] == []


def test_files_are_not_named_where_spark_does_not_tell(spark, tmp_path):
    """A file has the column in which it would; or the session reads files in another way."""
    place = tmp_path / "in"
    place.mkdir()
    bad = '{"v": "x", "_metadata": "mine"}'
    (place / "a.json").write_text(f'{bad}\n{{"v": 1, "_metadata": "its"}}\n')
    columns = "v int, _metadata string"
    rows, letters = letters_of(spark, tmp_path / "1", place, format="json", schema=columns)
    assert rows == [{"v": 1, "_metadata": "its"}]
    assert letters == [(None, bad)]
    other = spark.newSession()
    other.conf.set("spark.sql.sources.useV1SourceList", "")
    rows, letters = letters_of(other, tmp_path / "2", place, format="json", schema="v int")
    assert rows == [{"v": 1}]
    assert [text for _, text in letters] == [bad]


def test_a_part_of_a_file_in_front_of_a_dataframe_function_is_that_part(spark, tmp_path):
    table = pa.table({"n": pa.array(range(3_000))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=1_000)
    reader = files(spark, tmp_path, "parquet", schema="n bigint")
    start, parts = reader.initial(), []
    while (end := reader.latest(start, 0, Bound(bytes=1))) != start:
        layout = reader.layout(start, end)
        rows_ = reader.frame(spark, start, end, layout).collect()
        parts.append([row["n"] for row in rows_])
        start = end
    assert [len(part) for part in parts] == [1_000] * 3
    assert sorted(n for part in parts for n in part) == list(range(3_000))


def test_columns_are_not_found_out_of_records_that_cannot_be_read(spark, tmp_path):
    (tmp_path / "a.json").write_text('{"n": 1}\n{"n":\n')
    with pytest.raises(SourceError, match=r"^a record of .*a\.json cannot be read.*schema=$"):
        files(spark, tmp_path, "json")
