"""Sinks that write through Spark, and rows that come out of outbox files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rechannel.engine.stages.sink_buffers import sink_buffer_frame, sink_buffer_tables
from rechannel.errors import (
    DamagedStateError,
    DataflowError,
    MissingFileError,
    NotPermittedError,
    RefusedError,
    StorageError,
)
from rechannel.kernels.tasks.emit import write_sink_buffer
from rechannel.sinks.batch import Batch
from rechannel.sinks.files import FileWriter
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.outlets import (
    ConsoleOutlet,
    FileOutlet,
    ForEachBatchOutlet,
    MemoryOutlet,
    NoopOutlet,
)
from rechannel.sinks.spark import HadoopFolder, refusing
from rechannel.sinks.writer import Rows, SinkWriter
from rechannel.state.stores.local import Durability, LocalStore

SCHEMA = pa.schema([("n", pa.int64()), ("s", pa.string())])


def rows(spark, *values: int) -> Rows:
    made = spark.createDataFrame([(v, str(v)) for v in values], "n bigint, s string")
    return Rows(
        planned=lambda: made, tables=lambda: iter(made.toArrow().to_batches()), schema=SCHEMA
    )


def opened(spark, path: object, kind: str = "parquet", **options: str) -> SinkWriter:
    outlet = FileOutlet(format=kind, path=str(path), options=options)
    return outlet.open(SinkContext(job="job", name="sink", spark=spark, token="t"))


def batch(timestep: int, digest: str = "ab") -> Batch:
    return Batch(timestep=timestep, incarnation="sink-1", digest=digest)


@pytest.mark.parametrize("kind", ["parquet", "json", "csv", "orc"])
def test_a_timestep_is_one_directory_that_spark_reads(spark, tmp_path, kind):
    options = {"header": "true"} if kind == "csv" else {}
    writer = opened(spark, tmp_path, kind, **options)
    for timestep, values in ((1, (1, 2)), (2, ()), (3, (3,))):
        said = json.loads(json.dumps(writer.stage(rows(spark, *values), batch(timestep))))
        assert said["rows"] == len(values)
        assert not list(tmp_path.glob(f"timestep={timestep:012d}"))
        writer.publish(said, batch(timestep))
        writer.publish(said, batch(timestep))
    reader = spark.read.format(kind).options(**options).schema("n bigint, s string, timestep int")
    read = reader.load(str(tmp_path)).orderBy("n").collect()
    assert [(row.timestep, row.n, row.s) for row in read] == [(1, 1, "1"), (1, 2, "2"), (3, 3, "3")]
    assert list((tmp_path / "_rechannel").glob("*/*")) == []


def test_options_reach_the_writer(spark, tmp_path):
    writer = opened(spark, tmp_path, "json", compression="gzip")
    writer.publish(writer.stage(rows(spark, 1), Batch(timestep=1)), Batch(timestep=1))
    assert list(tmp_path.glob("timestep=*/*.json.gz"))


def test_a_function_that_fails_in_the_frame_leaves_nothing_and_keeps_its_error(spark, tmp_path):
    made = spark.range(3).selectExpr("raise_error('in the plan') AS x")
    broken = Rows(
        planned=lambda: made, tables=lambda: iter(()), schema=pa.schema([("x", pa.null())])
    )
    with pytest.raises(Exception, match="in the plan") as caught:
        opened(spark, tmp_path, "json").stage(broken, Batch(timestep=1))
    assert not isinstance(caught.value, StorageError)
    assert list((tmp_path / "_rechannel").glob("*/*")) == []


@pytest.mark.parametrize(
    "text", ["java.io.IOException: No space left on device", "x AccessControlException: y"]
)
def test_what_the_file_system_refuses_to_a_task_is_a_storage_error(text):
    with (
        pytest.raises(StorageError, match=r"cannot write /out/1: .* start again"),
        refusing("/out/1"),
    ):
        raise RuntimeError(text)


def test_missing_permission_is_table_key_from_a_full_disk():
    with pytest.raises(NotPermittedError), refusing("/out/1"):
        raise RuntimeError("org.apache.hadoop.security.AccessControlException: Permission denied")
    with pytest.raises(StorageError) as full, refusing("/out/1"):
        raise RuntimeError("java.io.IOException: No space left on device")
    assert not isinstance(full.value, NotPermittedError)


class Uri:
    """A file sink whose path is a URI; the local scheme stands for all others."""

    def __init__(self, spark, root: Path, token: str, owner: str = "job.sink") -> None:
        local = opened(spark, root / "elsewhere")
        assert isinstance(local, FileWriter)
        self.writer = FileWriter(
            root=f"file:{root}",
            owner=owner,
            token=token,
            folder=HadoopFolder(spark),
            write=local.write,
        )


def test_a_uri_is_written_as_a_local_path_is(spark, tmp_path):
    writer = Uri(spark, tmp_path, "one").writer
    said = writer.stage(rows(spark, 1), batch(1))
    writer.stage(rows(spark, 9), batch(2))
    writer.publish(said, batch(1))
    writer.publish(said, batch(1))
    again = Uri(spark, tmp_path, "two").writer
    new = again.stage(rows(spark, 2), batch(2))
    again.publish(said, batch(1))
    again.publish(new, batch(2))
    read = spark.read.parquet(str(tmp_path)).orderBy("n").collect()
    assert [(row.timestep, row.n) for row in read] == [(1, 1), (2, 2)]
    assert list((tmp_path / "_rechannel").glob("*/*")) == []
    other = batch(2, digest="cd")
    with pytest.raises(RefusedError, match="is not what this job committed as timestep 2"):
        again.publish(again.stage(rows(spark, 3), other), other)
    with pytest.raises(RefusedError, match=r"already holds timesteps, those of job\.sink"):
        Uri(spark, tmp_path, "three", owner="other.sink")


def test_where_a_rename_is_not_one_step_a_broken_one_is_completed(spark, tmp_path, monkeypatch):
    monkeypatch.setattr("rechannel.sinks.spark._ONE_STEP", frozenset())
    writer = Uri(spark, tmp_path, "one").writer
    said = writer.stage(rows(spark, 1, 2), batch(1))
    staged = next((tmp_path / "_rechannel").glob("*/*-one-*"))
    parts = sorted(staged.glob("part-*"))
    (tmp_path / "timestep=000000000001").mkdir()
    parts[0].rename(tmp_path / "timestep=000000000001" / parts[0].name)
    (staged.parent / f"publishing-{staged.name}").mkdir()
    again = Uri(spark, tmp_path, "two").writer
    again.publish(said, batch(1))
    again.publish(said, batch(1))
    read = spark.read.parquet(str(tmp_path)).orderBy("n").collect()
    assert [(row.timestep, row.n) for row in read] == [(1, 1), (1, 2)]
    assert list((tmp_path / "_rechannel").glob("*/*")) == []


def test_a_rename_never_moves_into_a_timestep_that_is_there(spark, tmp_path):
    folder = HadoopFolder(spark)
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
    assert folder.rename(f"file:{tmp_path}/source", f"file:{tmp_path}/target") is False
    assert sorted(p.name for p in (tmp_path / "target").glob("[!.]*")) == ["file"]
    assert not folder.exists(f"file:{tmp_path}/other")
    assert folder.rename(f"file:{tmp_path}/source", f"file:{tmp_path}/other") is True
    assert folder.exists(f"file:{tmp_path}/other")
    assert folder.rename(f"file:{tmp_path}/source", f"file:{tmp_path}/other") is False
    with pytest.raises(MissingFileError, match="nothing"):
        folder.rename(f"file:{tmp_path}/nothing", f"file:{tmp_path}/nowhere")


def test_a_file_system_that_nobody_knows_is_a_storage_error(spark):
    with pytest.raises(StorageError, match="cannot list nosuch://host"):
        HadoopFolder(spark).names("nosuch://host/out")


def test_memory_takes_frames(spark):
    writer = MemoryOutlet(name="t").open(SinkContext(job="job", spark=spark))
    writer.publish(writer.stage(rows(spark, 1, 2), Batch(timestep=1)), Batch(timestep=1))
    table: pa.Table = writer.table()  # type: ignore[attr-defined]
    assert table.schema.equals(SCHEMA)
    assert sorted(table["n"].to_pylist()) == [1, 2]


def test_the_console_takes_the_first_rows_of_a_frame(spark, capsys):
    writer = ConsoleOutlet(rows=2).open(SinkContext(job="job", name="sink", spark=spark))
    writer.publish(writer.stage(rows(spark, 1, 2, 3), Batch(timestep=7)), Batch(timestep=7))
    assert "sink · timestep 7 · first 2 rows" in capsys.readouterr().out


def test_for_each_batch_gets_the_frame(spark):
    got: list[Any] = []
    outlet = ForEachBatchOutlet(function=lambda df, t: got.append((t, df.count())))
    outlet.open(SinkContext(job="job", spark=spark)).stage(rows(spark, 1, 2), Batch(timestep=4))
    assert got == [(4, 2)]


def test_noop_runs_the_frame(spark):
    made = spark.range(1).selectExpr("raise_error('it ran') AS x")
    broken = Rows(
        planned=lambda: made, tables=lambda: iter(()), schema=pa.schema([("x", pa.null())])
    )
    writer = NoopOutlet().open(SinkContext(job="job", spark=spark))
    assert writer.stage(rows(spark, 1), Batch(timestep=1)) == {}
    with pytest.raises(Exception, match="it ran"):
        writer.stage(broken, Batch(timestep=1))


def kept(store: LocalStore, key: str, *batches: list[int]) -> str:
    made = [pa.RecordBatch.from_pydict({"n": b, "s": [str(v) for v in b]}, SCHEMA) for b in batches]
    write_sink_buffer(store, key, made)
    return key


def test_outbox_files_are_partitions_in_order(spark, tmp_path):
    store = LocalStore(tmp_path, Durability.PROCESS)
    keys = [
        kept(store, "outbox/a/1.arrow", [1, 2], [3]),
        kept(store, "outbox/a/2.arrow", [4]),
    ]
    frame = sink_buffer_frame(spark, keys, store, SCHEMA)
    assert frame.rdd.getNumPartitions() == 2
    assert frame.toArrow()["n"].to_pylist() == [1, 2, 3, 4]
    read = pa.Table.from_batches(sink_buffer_tables(store, keys))
    assert read.equals(frame.toArrow().cast(SCHEMA))


def test_no_outbox_files_are_no_rows(spark, tmp_path):
    frame = sink_buffer_frame(spark, [], LocalStore(tmp_path), SCHEMA)
    assert frame.columns == ["n", "s"]
    assert frame.count() == 0
    assert list(sink_buffer_tables(LocalStore(tmp_path), [])) == []


def test_an_outbox_file_that_is_gone_or_changed_is_named(tmp_path):
    store = LocalStore(tmp_path, Durability.PROCESS)
    with pytest.raises(MissingFileError, match="outbox/x"):
        list(sink_buffer_tables(store, ["outbox/x.arrow"]))
    store.put("outbox/y.arrow", b"not Arrow at all, but long enough to look at")
    with pytest.raises(DamagedStateError, match="outbox/y"):
        list(sink_buffer_tables(store, ["outbox/y.arrow"]))


def test_a_format_that_cannot_hold_the_columns_is_refused_when_the_sink_opens(spark, tmp_path):
    schema = pa.schema([("n", pa.int64()), ("l", pa.list_(pa.int64()))])
    more = {"job": "job", "name": "o", "spark": spark, "schema": schema}
    with pytest.raises(
        DataflowError, match=r"sink 'o': Spark cannot write these rows as csv: .*`l`"
    ):
        FileOutlet(format="csv", path=str(tmp_path / "csv")).open(SinkContext(**more))
    with pytest.raises(DataflowError, match="as nonsense"):
        FileOutlet(format="nonsense", path=str(tmp_path / "other")).open(SinkContext(**more))
    FileOutlet(format="json", path=str(tmp_path / "json")).open(SinkContext(**more))
    flat = {**more, "schema": schema.remove(1)}
    FileOutlet(format="csv", path=str(tmp_path / "csv")).open(SinkContext(**flat))
    assert [path.name for path in (tmp_path / "csv" / "_rechannel").glob("*/*")] == []
