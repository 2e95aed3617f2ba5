"""The file source: what is picked up when, and what it refuses."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.failures.blame import Blame, blame_of
from rechannel.errors import (
    DataflowError,
    NotPermittedError,
    SchemaDriftError,
    SessionError,
    SourceError,
    StorageError,
)
from rechannel.job import InProcess, Job
from rechannel.model.ddl import schema_of
from rechannel.sources.connectors import FilesConnector
from rechannel.sources.files import FilesReader
from rechannel.sources.input_files.seen import SeenFile, SeenLog
from rechannel.sources.reader import Bound
from rechannel.sources.spark import FileFormat
from rechannel.state.stores.faulty import Fault, FaultKind, FaultyStore
from rechannel.state.stores.memory import MemoryStore


def put(path: Path, time: int, values: object = (1,)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"n": pa.array(values)}), path)
    os.utime(path, (time, time))


def opened(path: Path, store: MemoryStore | None = None, **arguments: object) -> FilesReader:
    connector = FilesConnector(path=str(path), format="parquet", **arguments)
    return FilesReader(connector, store=store or MemoryStore(), name="in")


def names(reader: FilesReader, start: dict, end: dict) -> list[str]:
    layout = reader.layout(start, end)
    return [Path(split["file"]).name for split in layout]


def test_a_file_moved_in_late_with_an_old_time_is_read(tmp_path):
    reader = opened(tmp_path, schema="n bigint")
    put(tmp_path / "new", 200)
    first = reader.latest(reader.initial(), 0)
    put(tmp_path / "old", 100)
    second = reader.latest(first, 0)
    assert names(reader, reader.initial(), first) == ["new"]
    assert names(reader, first, second) == ["old"]
    assert reader.latest(second, 0) is second


def test_a_file_written_again_is_not_new(tmp_path):
    reader = opened(tmp_path, schema="n bigint")
    put(tmp_path / "a", 100)
    end = reader.latest(reader.initial(), 0)
    put(tmp_path / "a", 300)
    assert reader.latest(end, 0) is end


def test_the_bound_takes_the_oldest(tmp_path):
    for name, time in (("a", 3), ("b", 1), ("c", 1), ("d", 2)):
        put(tmp_path / name, time)
    reader = opened(tmp_path, schema="n bigint", per_timestep=2)
    start, order = reader.initial(), []
    while (end := reader.latest(start, 0)) != start:
        order.append(names(reader, start, end))
        start = end
    assert order == [["b", "c"], ["d", "a"]]


def test_what_was_chosen_before_a_crash_and_not_journalled_is_chosen_anew(tmp_path):
    store = MemoryStore()
    put(tmp_path / "b", 2)
    reader = opened(tmp_path, store, schema="n bigint")
    reader.latest(reader.initial(), 0)
    (tmp_path / "b").unlink()
    put(tmp_path / "a", 1)
    after = opened(tmp_path, store, schema="n bigint")
    end = after.latest(after.initial(), 0)
    assert names(after, after.initial(), end) == ["a"]


def test_the_log_is_durable_before_the_offset_is_known(tmp_path):
    inner = MemoryStore()
    store = FaultyStore(inner, [Fault(kind=FaultKind.FULL)])
    put(tmp_path / "a", 1)
    connector = FilesConnector(path=str(tmp_path), format="parquet", schema="n bigint")
    reader = FilesReader(connector, store=store, name="in")
    with pytest.raises(StorageError):
        reader.latest(reader.initial(), 0)
    end = reader.latest(reader.initial(), 0)
    assert names(reader, reader.initial(), end) == ["a"]


def test_a_relative_path_means_the_directory_of_the_start(tmp_path, monkeypatch):
    put(tmp_path / "in" / "a.parquet", 1)
    monkeypatch.chdir(tmp_path)
    reader = opened(Path("in/*.parquet"))
    monkeypatch.chdir("/")
    end = reader.latest(reader.initial(), 0)
    (split,) = reader.layout(reader.initial(), end)
    assert split["file"] == str(tmp_path / "in" / "a.parquet")


def test_a_local_uri_is_a_local_path(tmp_path):
    put(tmp_path / "a", 1)
    connector = FilesConnector(path=f"file://{tmp_path}", format="parquet")
    assert FilesReader(connector, store=MemoryStore(), name="in").native


def test_columns_come_from_the_oldest_file(tmp_path):
    put(tmp_path / "a", 2, ["x"])
    put(tmp_path / "b", 1, [1.5])
    assert opened(tmp_path).schema == schema_of("n double")


def test_columns_found_at_the_first_start_stay(tmp_path):
    store = MemoryStore()
    put(tmp_path / "b", 2, [1])
    reader = opened(tmp_path, store)
    end = reader.latest(reader.initial(), 0)
    put(tmp_path / "a", 1, ["x"])
    (tmp_path / "b").unlink()
    again = opened(tmp_path, store)
    assert again.schema == schema_of("n bigint")
    with pytest.raises(SchemaDriftError, match=r"'n' of .*/a is string.*expects bigint"):
        again.layout(end, again.latest(end, 0))


def test_opening_writes_nothing(tmp_path):
    store = MemoryStore()
    put(tmp_path / "a", 1)
    opened(tmp_path, store)
    assert list(store.list("")) == []


def test_two_starts_that_found_other_columns_do_not_go_on_together(tmp_path):
    store = MemoryStore()
    put(tmp_path / "a", 1, [1])
    one = opened(tmp_path, store)
    put(tmp_path / "a", 1, ["x"])
    other = opened(tmp_path, store)
    one.latest(one.initial(), 0)
    with pytest.raises(SchemaDriftError, match="start again"):
        other.latest(other.initial(), 0)


def test_drift_is_found_before_anything_is_journalled_and_can_be_mended(tmp_path):
    put(tmp_path / "a", 1)
    reader = opened(tmp_path)
    first = reader.latest(reader.initial(), 0)
    put(tmp_path / "b", 2, ["text"])
    with pytest.raises(SchemaDriftError, match="/b is string"):
        reader.layout(first, reader.latest(first, 0))
    (tmp_path / "b").unlink()
    put(tmp_path / "c", 3)
    assert names(reader, first, reader.latest(first, 0)) == ["c"]


def test_no_file_and_no_columns_is_refused(tmp_path):
    with pytest.raises(SourceError, match=r"no file matches .*give schema="):
        opened(tmp_path / "*.parquet")
    assert opened(tmp_path / "*.parquet", schema="n int").native


@pytest.mark.parametrize(
    "arguments",
    [
        {"format": "json", "path": "in"},
        {"format": "parquet", "path": "hdfs://host/in"},
        {"format": "parquet", "path": "in", "options": {"mergeSchema": "true"}},
    ],
)
def test_what_only_spark_reads_needs_a_session(arguments):
    connector = FilesConnector(schema="n int", **arguments)
    with pytest.raises(SessionError, match="only Spark can read"):
        FilesReader(connector, store=MemoryStore(), name="in")


@given(
    script=st.lists(
        st.one_of(
            st.tuples(st.just("file"), st.integers(0, 5)),
            st.tuples(st.sampled_from(["timestep", "restart", "unfinished"]), st.just(0)),
        ),
        max_size=20,
    ),
    bound=st.one_of(st.none(), st.integers(1, 3)),
)
def test_every_file_is_read_exactly_once(tmp_path_factory, script, bound):
    """Whatever the times of the files and wherever the driver restarts."""
    folder, store = tmp_path_factory.mktemp("in"), MemoryStore()
    reader = opened(folder, store, schema="n bigint", per_timestep=bound)
    offset, read, made = reader.initial(), [], 0
    for what, time in [*script, *[("timestep", 0)] * 25]:
        if what == "file":
            put(folder / f"{made}.parquet", 1000 - time)
            made += 1
        elif what == "restart":
            reader = opened(folder, store, schema="n bigint", per_timestep=bound)
        elif what == "unfinished":
            reader.latest(offset, 0)
        else:
            end = reader.latest(offset, 0)
            new = names(reader, offset, end)
            assert bound is None or len(new) <= bound
            assert new == sorted(new, key=lambda n: ((folder / n).stat().st_mtime, n))
            read, offset = read + new, end
            reader.committed(end)
    assert sorted(read) == sorted(f"{i}.parquet" for i in range(made))


def grouped(path: Path, time: int, groups: int) -> None:
    """A file of row groups of 1,000 rows each, about 8,000 bytes."""
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pa.table({"n": pa.array(range(1_000 * groups))})
    pq.write_table(table, path, row_group_size=1_000, use_dictionary=False, compression="none")
    os.utime(path, (time, time))


def timesteps(
    reader: FilesReader, bound: Bound, start: dict | None = None
) -> list[list[tuple[str, list[int]]]]:
    """Files and row groups of each timestep until there is nothing new."""
    start, out = start or reader.initial(), []
    while (end := reader.latest(start, 0, bound)) != start:
        layout = reader.layout(start, end)
        out.append([(Path(split["file"]).name, split["groups"]) for split in layout])
        start = end
    return out


def test_timesteps_are_cut_by_bytes_at_row_groups(tmp_path):
    grouped(tmp_path / "a", 1, 5)
    grouped(tmp_path / "b", 2, 1)
    grouped(tmp_path / "c", 3, 2)
    reader = opened(tmp_path, schema="n bigint")
    assert timesteps(reader, Bound(bytes=17_500)) == [
        [("a", [0, 2])],
        [("a", [2, 4])],
        [("a", [4, 5]), ("b", [0, 1])],
        [("c", [0, 2])],
    ]


def test_one_row_group_passes_whatever_the_bound(tmp_path):
    grouped(tmp_path / "a", 1, 2)
    reader = opened(tmp_path, schema="n bigint")
    assert timesteps(reader, Bound(bytes=1)) == [
        [("a", [0, 1])],
        [("a", [1, 2])],
    ]


def test_a_restart_goes_on_within_a_file(tmp_path):
    store = MemoryStore()
    grouped(tmp_path / "a", 1, 3)
    reader = opened(tmp_path, store, schema="n bigint")
    bound = Bound(bytes=8_500)
    middle = reader.latest(reader.initial(), 0, bound)
    later = opened(tmp_path, store, schema="n bigint")
    grouped(tmp_path / "b", 2, 1)
    assert timesteps(later, bound, middle) == [[("a", [1, 2])], [("a", [2, 3])], [("b", [0, 1])]]


def test_a_file_that_was_begun_counts_as_one_of_so_many(tmp_path):
    for name in "abc":
        grouped(tmp_path / name, ord(name), 2)
    reader = opened(tmp_path, schema="n bigint")
    middle = reader.latest(reader.initial(), 0, Bound(bytes=8_500))
    assert timesteps(reader, Bound(units=2), middle) == [
        [("a", [1, 2]), ("b", [0, 2])],
        [("c", [0, 2])],
    ]


def test_what_is_not_read_is_told_once(tmp_path, caplog):
    put(tmp_path / "a", 1)
    os.mkfifo(tmp_path / "pipe")
    reader = opened(tmp_path, schema="n bigint")
    end = reader.latest(reader.initial(), 0)
    assert reader.latest(end, 0) is end
    assert names(reader, reader.initial(), end) == ["a"]
    (told,) = caplog.messages
    assert "source 'in'" in told
    assert "/pipe is not a file" in told


def damaged(path: Path, time: int) -> None:
    path.write_bytes(b"PAR1 and no more")
    os.utime(path, (time, time))


def test_a_damaged_file_can_be_passed_over_and_is_told(tmp_path, caplog):
    store = MemoryStore()
    put(tmp_path / "a", 1)
    damaged(tmp_path / "b", 2)
    put(tmp_path / "c", 3)
    with pytest.raises(SourceError, match="/b cannot be read as Parquet"):
        opened(tmp_path, schema="n bigint").latest(SeenLog.start(), 0)
    reader = opened(tmp_path, store, schema="n bigint", on_damage="skip")
    end = reader.latest(reader.initial(), 0)
    assert end["files"] == 3
    assert list(end["skipped"]) == [f"{tmp_path}/b"]
    assert "cannot be read as Parquet" in end["skipped"][f"{tmp_path}/b"]
    assert names(reader, reader.initial(), end) == ["a", "c"]
    (told,) = caplog.messages
    assert told.startswith(f"source 'in' skips {tmp_path}/b: ")
    # What was decided stays, whatever becomes of the file.
    put(tmp_path / "b", 2)
    again = opened(tmp_path, store, schema="n bigint", on_damage="skip")
    assert again.latest(end, 0) is end
    assert names(again, again.initial(), end) == ["a", "c"]
    put(tmp_path / "d", 4)
    assert "skipped" not in again.latest(end, 0)


def test_files_that_the_program_names_are_passed_over(tmp_path):
    for name, time in (("a", 1), ("b", 2), ("c", 3)):
        put(tmp_path / name, time)
    reader = opened(tmp_path, schema="n bigint", skip=["b", str(tmp_path / "c")])
    end = reader.latest(reader.initial(), 0)
    assert names(reader, reader.initial(), end) == ["a"]
    assert set(end["skipped"].values()) == {"it is listed in skip="}


def test_a_timestep_may_pass_over_all_that_it_has(tmp_path):
    damaged(tmp_path / "a", 1)
    reader = opened(tmp_path, schema="n bigint", on_damage="skip")
    end = reader.latest(reader.initial(), 0, Bound(bytes=1))
    assert end["files"] == 1
    assert reader.layout(reader.initial(), end) == []


def test_a_file_that_was_begun_may_be_gone(tmp_path):
    grouped(tmp_path / "a", 1, 3)
    grouped(tmp_path / "b", 2, 2)
    reader = opened(tmp_path, schema="n bigint", on_damage="skip")
    bound = Bound(bytes=8_500)
    middle = reader.latest(reader.initial(), 0, bound)
    assert middle["groups"] == 1
    (tmp_path / "a").unlink()
    assert timesteps(reader, bound, middle) == [[("b", [0, 1])], [("b", [1, 2])]]


@pytest.mark.parametrize("on_damage", ["fail", "skip"])
@pytest.mark.parametrize("what", ["size", "time", "damage"])
def test_a_file_that_was_begun_must_stay_the_same(tmp_path, on_damage, what):
    grouped(tmp_path / "a", 1, 3)
    reader = opened(tmp_path, schema="n bigint", on_damage=on_damage)
    bound = Bound(bytes=8_500)
    middle = reader.latest(reader.initial(), 0, bound)
    if what == "damage":
        damaged(tmp_path / "a", 1)
    else:
        grouped(tmp_path / "a", 2 if what == "time" else 1, 1 if what == "size" else 3)
    with pytest.raises(
        SourceError, match=r"/a (has|was).*an earlier timestep has read a part of it"
    ):
        reader.latest(middle, 0, bound)
    grouped(tmp_path / "a", 1, 3)
    assert timesteps(reader, bound, middle) == [[("a", [1, 2])], [("a", [2, 3])]]


def test_no_timestep_begins_after_the_end_of_a_file(tmp_path):
    grouped(tmp_path / "a", 1, 3)
    reader = opened(tmp_path, schema="n bigint", on_damage="skip")
    middle = reader.latest(reader.initial(), 0, Bound(bytes=8_500))
    with pytest.raises(SourceError, match="/a now has 3 parts, and 3 were read earlier"):
        reader.latest({**middle, "groups": 3}, 0)


def test_a_file_is_written_down_as_it_was_looked_into(tmp_path, monkeypatch):
    grouped(tmp_path / "a", 2, 3)
    listed = SeenFile(path=str(tmp_path / "a"), modified_ms=1_000, size=5)
    monkeypatch.setattr("rechannel.sources.files.local_files", lambda *_: iter([listed]))
    reader = opened(tmp_path, schema="n bigint")
    bound = Bound(bytes=17_000)
    middle = reader.latest(reader.initial(), 0, bound)
    monkeypatch.undo()
    assert timesteps(reader, bound, middle) == [[("a", [2, 3])]]


def test_what_passes_is_no_damage(tmp_path, monkeypatch):
    put(tmp_path / "a", 1)
    reader = opened(tmp_path, schema="n bigint", on_damage="skip")
    failed = []

    def busy(*_: object, **__: object) -> None:
        failed.append(1)
        raise OSError(errno.EMFILE, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr("rechannel.sources.input_files.parquet.pq.ParquetFile", busy)
        with pytest.raises(
            StorageError, match="/a cannot be read now: Too many open files"
        ) as told:
            reader.latest(reader.initial(), 0)
    assert failed
    assert blame_of(told.value) is Blame.STORE
    end = reader.latest(reader.initial(), 0)
    assert "skipped" not in end
    assert names(reader, reader.initial(), end) == ["a"]


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_a_file_that_may_not_be_read_is_not_passed_over(tmp_path, monkeypatch, kind):
    put(tmp_path / "a", 1)
    connector = FilesConnector(path=str(tmp_path), format=kind, schema="n bigint", on_damage="skip")
    reader = FilesReader(connector, store=MemoryStore(), name="in", spark=object())  # type: ignore[arg-type]

    def denied(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("rechannel.sources.input_files.parquet.pq.ParquetFile", denied)
    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(NotPermittedError, match="/a may not be read: Permission denied"):
        reader.latest(reader.initial(), 0)


FOOTER = "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Encountered error while reading file a. "


@pytest.mark.parametrize(
    ("said", "damage"),
    [
        (FOOTER, True),
        (
            FOOTER
            + "\n\tat java.net.Some.frame(Some.java:1)\n\tat org.apache.spark.SparkContext.a(A)",
            True,
        ),
        ("org.apache.orc.FileFormatException: Malformed ORC file a", True),
        ("[UNABLE_TO_INFER_SCHEMA] Unable to infer schema for ORC", True),
        (FOOTER + "Caused by: java.net.SocketTimeoutException: Read timed out", False),
        (FOOTER + "Caused by: java.io.IOException: Too many open files", False),
        (FOOTER + "AccessControlException: Permission denied: user=job", False),
        ("Cannot call methods on a stopped SparkContext", False),
        ("Connection refused", False),
    ],
)
def test_what_spark_does_not_say_of_the_content_is_no_damage(tmp_path, monkeypatch, said, damage):
    put(tmp_path / "a", 1)
    connector = FilesConnector(
        path=str(tmp_path), format="orc", schema="n bigint", on_damage="skip"
    )
    reader = FilesReader(connector, store=MemoryStore(), name="in", spark=object())  # type: ignore[arg-type]

    class Reader:
        def load(self, _: object) -> None:
            raise RuntimeError(said)

    monkeypatch.setattr(FileFormat, "_reader", lambda *_: Reader())
    if damage:
        assert list(reader.latest(reader.initial(), 0)["skipped"]) == [f"{tmp_path}/a"]
    else:
        with pytest.raises((SourceError, StorageError), match=f"{tmp_path}/a|cannot be read"):
            reader.latest(reader.initial(), 0)


@pytest.mark.parametrize("kind", ["parquet", "json"])
def test_spark_does_not_read_a_file_that_changed(tmp_path, kind):
    put(tmp_path / "a", 1)
    connector = FilesConnector(path=str(tmp_path), format=kind, schema="n bigint")
    reader = FilesReader(connector, store=MemoryStore(), name="in", spark=object())  # type: ignore[arg-type]
    start = reader.initial()
    end = reader.latest(start, 0)
    layout = reader.layout(start, end)
    put(tmp_path / "a", 1, range(1_000))
    with pytest.raises(SourceError, match=r"/a has \d+ bytes and had \d+ when it was picked up"):
        reader.frame(object(), start, end, layout)  # type: ignore[arg-type]
    (tmp_path / "a").unlink()
    with pytest.raises(SourceError, match="/a is missing"):
        reader.frame(object(), start, end, layout)  # type: ignore[arg-type]


def test_other_columns_are_no_damage(tmp_path):
    put(tmp_path / "a", 1, ["text"])
    reader = opened(tmp_path, schema="n bigint", on_damage="skip")
    with pytest.raises(SchemaDriftError):
        reader.layout(reader.initial(), reader.latest(reader.initial(), 0))


def test_skip_and_fail_are_all_there_is():
    with pytest.raises(DataflowError, match="'fail' or 'skip', not 'drop'"):
        FilesConnector(path="in", format="parquet", on_damage="drop")  # type: ignore[arg-type]


def test_progress_and_journal_name_what_was_passed_over(tmp_path):
    (tmp_path / "in").mkdir()
    put(tmp_path / "in" / "a.parquet", 1)
    damaged(tmp_path / "in" / "b.parquet", 2)
    read = rc.read().files(
        tmp_path / "in" / "*.parquet", schema="n bigint", on_damage="skip", name="in"
    )
    flow = read.filter(lambda row: True).write.memory("out")
    job = Job("skips", flow, state=tmp_path / "state").start(in_process=InProcess())
    job.process_all_available(60)
    assert job.memory("out").num_rows == 1
    (path,) = job.last_progress.sources["in"]["end"]["skipped"]
    assert path == str(tmp_path / "in" / "b.parquet")
    assert (
        job.committed_offset("in")["skipped"] == job.last_progress.sources["in"]["end"]["skipped"]
    )
    job.stop()


def test_an_old_directory_runs_in_timesteps_that_fit(tmp_path):
    (tmp_path / "in").mkdir()
    for number in range(6):
        grouped(tmp_path / "in" / f"{number}.parquet", number, 5)
    place = tmp_path / "in" / "*.parquet"
    settings = rc.Settings(timestep_bytes=25_000, bins=4, durability=rc.Durability.PROCESS)

    def start():
        read = rc.read().files(place, schema="n bigint", name="in")
        flow = read.key_by("n").aggregate(times=agg.count(), name="times").write.noop()
        return Job("old", flow, state=tmp_path / "state", settings=settings).start(
            in_process=InProcess()
        )

    job = start()
    job.process_all_available(60)
    assert job.status.timestep == 10  # three row groups of 8,000 bytes each
    assert set(job.state("times").column("times").to_pylist()) == {6}
    job.reconfigure(rc.changes.set_bound("in", None, bytes=1)).wait(20)
    grouped(tmp_path / "in" / "_6.parquet", 6, 5)
    (tmp_path / "in" / "_6.parquet").rename(tmp_path / "in" / "6.parquet")
    job.process_all_available(60)
    assert job.status.timestep == 15
    job.stop()
    again = start()
    assert again.configuration.byte_bounds == {"in": 1}
    again.stop()


def test_a_place_that_a_pattern_of_its_name_does_not_match_is_told(tmp_path, caplog):
    put(tmp_path / "k[1]" / "a.parquet", 1)
    opened(tmp_path / "k[1]" / "*.parquet", schema="n bigint")
    (told,) = caplog.messages
    assert f"{tmp_path}/k[1] exists, but the pattern" in told
    caplog.clear()
    reader = opened(tmp_path / "k[[]1]" / "*.parquet", schema="n bigint")
    end = reader.latest(reader.initial(), 0)
    assert names(reader, reader.initial(), end) == ["a.parquet"]
    assert caplog.messages == []
