"""A log as a source: bounds, splits, replays, and files that are gone."""

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import (
    DamagedStateError,
    DataflowError,
    SchemaDriftError,
    SourceError,
)
from rechannel.job import InProcess
from rechannel.sources.ingest import log as files
from rechannel.sources.ingest import positions
from rechannel.sources.ingest.connector import IngestConnector
from rechannel.sources.ingest.log import key_of, number_of
from rechannel.sources.reader import Bound
from rechannel.state.stores.local import LocalStore
from tests.support.ingesting import kept, posted, reader_of, writer_of


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def write(log, *sizes):
    """Files of so many rows each, with the next numbers."""
    writer = writer_of(log)
    for size in sizes:
        first = writer.known.rows
        writer.keep([posted(range(first, first + size))])
    return writer


def read(reader, start, end, layout=None):
    layout = reader.layout(start, end) if layout is None else layout
    splits = reader.split_reader(start, end, layout)
    return [n for one in layout for batch in splits.read(one) for n in batch.column(0).to_pylist()]


def ends(reader, bound=None):
    """(file, row) at the end of each timestep."""
    at, out = reader.initial(), []
    while True:
        end = reader.latest(at, 0) if bound is None else reader.latest(at, 0, bound)
        if end == at:
            return out
        out.append((end["file"], end["row"]))
        at = end


def test_an_empty_log_has_nothing_new(log):
    write(log)
    reader = reader_of(log)
    start = reader.initial()
    assert reader.latest(start, 0) == start
    assert (start["file"], start["row"], start["rows"]) == (1, 0, 0)


@pytest.mark.parametrize("most", [1, 2, 3, 4, 5, 7, 100])
def test_a_timestep_has_so_many_rows_and_ends_within_files(log, most):
    write(log, 3, 1, 1, 4, 2)
    reader = reader_of(log, per_timestep=most)
    start, got = reader.initial(), []
    while (end := reader.latest(start, 0)) != start:
        here = read(reader, start, end)
        assert len(here) == min(most, 11 - len(got)) == end["rows"] - start["rows"]
        got += here
        assert reader.backlog(end, 0).rows == 11 - len(got)
        start = end
    assert got == list(range(11))
    assert (end["file"], end["row"]) == (6, 0)


def test_a_live_bound_replaces_the_sources_own(log):
    write(log, 3, 3)
    reader = reader_of(log, per_timestep=100)
    assert ends(reader, Bound(units=4)) == [(2, 1), (3, 0)]


def test_bytes_bound_a_timestep_and_one_row_always_fits(log):
    write(log, 10, 10, 10)
    each = 8
    assert ends(reader_of(log), Bound(bytes=10 * each)) == [(2, 0), (3, 0), (4, 0)]
    assert ends(reader_of(log), Bound(bytes=15 * each)) == [(2, 5), (4, 0)]
    assert ends(reader_of(log), Bound(bytes=1))[:2] == [(1, 1), (1, 2)]
    assert ends(reader_of(log), Bound(bytes=1 << 40)) == [(4, 0)]


def test_large_timesteps_are_cut_into_splits_of_about_the_same_size(log, monkeypatch):
    monkeypatch.setattr(positions, "SPLIT_ROWS", 4)
    write(log, 7, 1, 9, 5)
    reader = reader_of(log)
    start = reader.initial()
    end = reader.latest(start, 0)
    layout = reader.layout(start, end)
    sizes = [one["size"] for one in layout]
    assert len(layout) == 6
    assert sum(sizes) == 22
    assert max(sizes) - min(sizes) <= 1
    assert [one["order"] for one in layout] == sorted({one["order"] for one in layout})
    assert read(reader, start, end, layout) == list(range(22))


def test_files_without_rows_are_passed(log):
    writer = writer_of(log)
    writer.keep([posted([], "p", 1)])
    reader = reader_of(log)
    start = reader.initial()
    assert reader.latest(start, 0) == start
    writer.keep([posted([5], "p", 2)])
    writer.keep([posted([], "p", 3)])
    end = reader.latest(start, 0)
    assert read(reader, start, end) == [5]
    assert end["file"] == 4


def test_only_some_columns_are_read(log):
    write(log, 2)
    reader = reader_of(log)
    start = reader.initial()
    end = reader.latest(start, 0)
    (split,) = reader.layout(start, end)
    (batch,) = reader.split_reader(start, end, [split]).only(()).read(split)
    assert batch.num_columns == 0


def test_small_files_become_one_batch(log):
    write(log, *[2] * 30)
    reader = reader_of(log)
    start = reader.initial()
    end = reader.latest(start, 0)
    (split,) = reader.layout(start, end)
    assert len([*reader.split_reader(start, end, [split]).read(split)]) == 1


def test_a_log_of_more_than_a_folder(log, monkeypatch):
    monkeypatch.setattr(files, "PER_FOLDER", 10)
    write(log, *[1] * 25)
    assert len([*(log / "log").iterdir()]) == 3
    assert kept(log) == list(range(25))
    assert ends(reader_of(log, per_timestep=15)) == [(16, 0), (26, 0)]
    write(log, *[1] * 5)
    assert kept(log) == list(range(30))


def test_a_backlog_is_listed_once(log, monkeypatch):
    monkeypatch.setattr(files, "PER_FOLDER", 10)
    write(log, *[1] * 45)
    reader = reader_of(log, per_timestep=1)
    own, listed = LocalStore.list, []
    monkeypatch.setattr(
        LocalStore,
        "list",
        lambda store, prefix: listed.append(prefix) or own(store, prefix),
    )
    assert len(ends(reader)) == 45
    folders = [prefix for prefix in listed if prefix.startswith(files.FILES)]
    assert len(folders) < 60, "one for each look, and all folders once"
    assert len(set(folders)) == 5


@pytest.mark.parametrize("gone", [2, 3, 5])
def test_files_of_a_backlog_that_are_removed_after_they_were_seen(log, gone):
    write(log, *[1] * 6)
    reader = reader_of(log, per_timestep=1)
    start = reader.latest(reader.initial(), 0)
    (log / key_of(gone)).unlink()

    def read_on():
        at = start
        for _ in range(5):
            reader._log._heads.clear()
            at = reader.latest(at, 0)

    with pytest.raises(SourceError, match=rf"{key_of(gone)} .* is missing"):
        read_on()


def test_a_source_that_is_set_back_sees_earlier_files_again(log):
    write(log, *[1] * 6)
    reader = reader_of(log, per_timestep=2)
    first = reader.initial()
    later = reader.latest(reader.latest(first, 0), 0)
    fresh = reader_of(log, per_timestep=2)
    assert fresh.latest(later, 0)["file"] == 7
    (log / key_of(2)).unlink()
    with pytest.raises(SourceError, match=rf"{key_of(2)} .* is missing"):
        fresh.latest(first, 0)


# What is missing or wrong -----------------------------------------------------------------------------


def test_there_has_to_be_a_log(log):
    with pytest.raises(SourceError, match=r"there is no ingest log at .*rechannel ingest"):
        reader_of(log)
    assert not log.exists()


def test_a_file_that_is_gone_is_named(log):
    write(log, 1, 1, 1)
    reader = reader_of(log)
    start = reader.initial()
    (log / key_of(2)).unlink()
    with pytest.raises(SourceError, match=rf"{key_of(2)} .* is missing, and later ones are there"):
        reader.latest(start, 0)


def test_a_whole_folder_that_is_gone_is_noticed(log):
    writer = writer_of(log, every=3)
    for n in range(3):
        writer.keep([posted([n])])
        writer.checkpoint()
    for file in (log / key_of(1)).parent.iterdir():
        file.unlink()
    reader = reader_of(log)
    with pytest.raises(SourceError, match=key_of(1)):
        reader.latest({"log": writer.log.identity.id, "file": 1, "row": 0, "rows": 0}, 0)


def test_files_that_were_removed_on_purpose_and_not_read(log):
    writer = write(log, 1, 1, 1)
    reader = reader_of(log)
    start = reader.initial()
    end = reader.latest(start, 0)
    layout = reader.layout(start, end)
    reader.check_again(start, end, layout)
    writer.log.note_removal(2)
    for number in (1, 2):
        (log / key_of(number)).unlink()
    with pytest.raises(SourceError, match="removed up to file 2, and file 1 has not been read"):
        reader_of(log).latest(start, 0)
    with pytest.raises(SourceError, match="removed up to file 2"):
        reader.check_again(start, end, layout)
    fresh = reader_of(log)
    begin = fresh.initial()
    assert (begin["file"], begin["rows"]) == (3, 2)
    assert read(fresh, begin, fresh.latest(begin, 0)) == [2]


def test_another_log_in_its_place_is_refused(log, tmp_path):
    write(log, 2)
    end = reader_of(log).latest(reader_of(log).initial(), 0)
    write(tmp_path / "other", 5)
    with pytest.raises(SourceError, match=r"is another log \(.*\) than the one that was read"):
        reader_of(tmp_path / "other").latest(end, 0)


def test_a_damaged_file_is_named_by_the_task(log):
    write(log, 5)
    reader = reader_of(log)
    start = reader.initial()
    end = reader.latest(start, 0)
    layout = reader.layout(start, end)
    file = log / key_of(1)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(DamagedStateError, match=key_of(1)):
        read(reader, start, end, layout)


def test_a_file_under_the_number_of_another_is_refused(log):
    write(log, 2, 3)
    reader = reader_of(log)
    start = reader.initial()
    end = reader.latest(start, 0)
    layout = reader.layout(start, end)
    (log / key_of(1)).write_bytes((log / key_of(2)).read_bytes())
    with pytest.raises(DamagedStateError, match="it is file 2 of log"):
        read(reader, start, end, layout)
    with pytest.raises(DamagedStateError, match="it is file 2 of log"):
        reader_of(log, per_timestep=1).latest(start, 0)


def test_half_written_files_are_not_seen(log):
    write(log, 2)
    (log / key_of(1)).with_name(".tmp-1-1").write_bytes(b"half")
    assert kept(log) == [0, 1]


def test_declared_columns_are_those_of_the_log(log):
    write(log, 1)
    assert reader_of(log, schema="n BIGINT").schema == pa.schema([("n", pa.int64())])
    with pytest.raises(SchemaDriftError, match="has the columns n bigint, but the stream expects"):
        reader_of(log, schema="n INT")


@pytest.mark.parametrize(
    ("given", "words"),
    [({"path": " "}, "give the directory"), ({"path": "x", "per_timestep": 0}, "at least 1")],
)
def test_what_makes_no_source(given, words):
    with pytest.raises(DataflowError, match=words):
        IngestConnector(**given)


def test_numbers_of_keys():
    assert number_of(key_of(123_456)) == 123_456
    assert key_of(999).rpartition("/")[0] != key_of(1_000).rpartition("/")[0]


# In a job ---------------------------------------------------------------------------------------------


def test_a_job_reads_a_log_and_goes_on_after_a_restart(log, tmp_path):
    def flow():
        stream = rc.read().ingested(log, per_timestep=4, name="in")
        return stream.key_by("n").aggregate(count=agg.count(), name="counts")

    write(log, 3, 3, 3)
    job = rc.Job("j", flow(), state=tmp_path / "state").start(in_process=InProcess())
    job.process_all_available()
    assert job.status.timestep == 3
    job.stop()
    write(log, 2)
    job = rc.Job("j", flow(), state=tmp_path / "state").start(in_process=InProcess())
    job.process_all_available()
    assert job.committed_offset("in")["rows"] == 11
    found = job.state("counts").to_pydict()
    assert sorted(found["n"]) == list(range(11))
    assert set(found["count"]) == {1}
    job.stop()


def test_a_batch_run_reads_what_there_is(log):
    write(log, 3, 3)
    stream = rc.read().ingested(log)
    assert stream.node.name == "log"
    with rc.run_batch(stream.write.memory("out"), in_process=InProcess()) as found:
        assert sorted(found.output()["n"].to_pylist()) == list(range(6))


def test_a_checkpoint_that_is_written_during_a_look_is_no_gap(log, monkeypatch):
    writer = writer_of(log, every=1)
    writer.keep([posted([0])])
    writer.checkpoint()
    reader, exists = reader_of(log), files.IngestLog.exists
    start = reader.initial()

    def meanwhile(self, number):
        there = exists(self, number)
        if not there and number == 2:
            monkeypatch.setattr(files.IngestLog, "exists", exists)
            writer.keep([posted([1])])
            writer.checkpoint()
        return there

    monkeypatch.setattr(files.IngestLog, "exists", meanwhile)
    assert reader.latest(start, 0)["rows"] >= 1
    assert files.IngestLog.exists is exists
