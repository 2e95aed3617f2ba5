"""Files that jobs have read go; others stay."""

import pytest

import rechannel as rc
from rechannel.errors import RefusedError, StorageError, UserFunctionError
from rechannel.ingest.producers import Verdict
from rechannel.ingest.retention import remove_read
from rechannel.job import InProcess
from rechannel.sources.ingest import log as files
from rechannel.sources.ingest.log import IngestLog, key_of
from tests.support.ingesting import kept, posted, writer_of


@pytest.fixture
def log(tmp_path):
    return tmp_path / "log"


def read_all(log, state, per_timestep=None):
    stream = rc.read().ingested(log, per_timestep=per_timestep, name="in")
    job = rc.Job("j", stream.write.memory("out", name="out"), state=state)
    running = job.start(in_process=InProcess())
    running.process_all_available()
    running.stop()
    return sorted(running.memory("out")["n"].to_pylist()) if running.status.timestep else []


def write(writer, numbers):
    for n in numbers:
        writer.keep([posted([n], "p", n)])
        writer.checkpoint()


def there(log):
    return [n for n in range(1, 40) if (log / key_of(n)).exists()]


def test_what_every_job_has_read_goes_but_the_last_file(log, tmp_path):
    writer = writer_of(log, every=1)
    write(writer, range(1, 6))
    read_all(log, tmp_path / "a")
    write(writer, range(6, 9))
    read_all(log, tmp_path / "b")
    removal = remove_read(writer.log, [str(tmp_path / "a"), str(tmp_path / "b")])
    assert (removal.read, removal.through, removal.files) == (5, 5, 5)
    assert there(log) == [6, 7, 8]
    assert read_all(log, tmp_path / "a") == [6, 7, 8]
    states = [str(tmp_path / "a"), str(tmp_path / "b")]
    assert remove_read(writer.log, states).files == 2
    assert there(log) == [8]
    assert remove_read(writer.log, states).files == 0
    again = writer_of(log)
    write(again, range(8, 11))
    assert again.known.rows == 10
    assert read_all(log, tmp_path / "a") == [9, 10]


def test_files_after_the_last_checkpoint_stay(log, tmp_path):
    writer = writer_of(log, every=3)
    write(writer, range(1, 6))
    read_all(log, tmp_path / "a")
    assert remove_read(writer.log, [str(tmp_path / "a")]).through == 3
    assert there(log) == [4, 5]
    assert writer_of(log).last("p").sequence == 5


def test_a_file_that_is_read_in_part_stays(log, tmp_path):
    writer = writer_of(log, every=1)
    writer.keep([posted([1])])
    writer.keep([posted([2, 3, 4])])
    writer.keep([posted([5])])
    writer.checkpoint()
    stream = rc.read().ingested(log, per_timestep=2, name="in").map_batches(but_four)
    job = rc.Job("j", stream.write.memory("out"), state=tmp_path / "a")
    running = job.start(in_process=InProcess())
    with pytest.raises(UserFunctionError, match="four"):
        running.process_all_available()
    removal = remove_read(writer.log, [str(tmp_path / "a")])
    assert (removal.read, removal.through) == (1, 1)
    assert there(log) == [2, 3]


def but_four(batch):
    if 4 in batch.column("n").to_pylist():
        raise ValueError("four")
    return batch


def test_a_job_that_reads_another_log_removes_nothing(log, tmp_path):
    writer, other = writer_of(log, every=1), writer_of(tmp_path / "other", every=1)
    for each in (writer, other):
        write(each, range(1, 4))
    read_all(log, tmp_path / "a")
    read_all(tmp_path / "other", tmp_path / "b")
    for states in ([tmp_path / "b"], [tmp_path / "a", tmp_path / "b"]):
        with pytest.raises(RefusedError, match="has not committed a timestep that reads the log"):
            remove_read(writer.log, [*map(str, states)])
    with pytest.raises(RefusedError, match="is not the state directory of a job"):
        remove_read(writer.log, [str(tmp_path / "nowhere")])
    assert there(log) == [1, 2, 3]
    assert kept(log) == [1, 2, 3]


def test_a_removal_that_was_cut_off_is_finished_by_the_next_one(log, tmp_path, monkeypatch):
    writer = writer_of(log, every=1)
    write(writer, range(1, 6))
    read_all(log, tmp_path / "a")
    deleted, delete = [], type(writer.log.store).delete

    def dies(store, key):
        if key.endswith(".arrow") and len(deleted) == 2:
            raise KeyboardInterrupt
        deleted.append(key)
        delete(store, key)

    with monkeypatch.context() as patched:
        patched.setattr(type(writer.log.store), "delete", dies)
        with pytest.raises(KeyboardInterrupt):
            remove_read(writer.log, [str(tmp_path / "a")])
    assert there(log) == [3, 4, 5]
    assert read_all(log, tmp_path / "fresh") == [5]
    assert remove_read(writer.log, [str(tmp_path / "a")]).files == 2
    assert there(log) == [5]


def test_a_server_behind_a_removal_keeps_nothing_under_a_number_that_was_removed(log, tmp_path):
    late, writer = writer_of(log, every=1), writer_of(log, every=1)
    write(writer, range(1, 6))
    read_all(log, tmp_path / "a")
    remove_read(writer.log, [str(tmp_path / "a")])
    assert late.keep([posted([6], "p", 6), posted([7])]) == [Verdict.NEW, Verdict.NEW]
    assert there(log) == [5, 6]
    assert read_all(log, tmp_path / "a") == [6, 7]
    assert late.keep([posted([3], "p", 3)]) == [Verdict.REPEATED]


@pytest.mark.parametrize("fails", ["a look at the removals", "nothing"])
def test_a_request_that_a_server_behind_a_removal_keeps_is_kept_once(
    log, tmp_path, monkeypatch, fails
):
    late, writer = writer_of(log, every=1), writer_of(log, every=1)
    write(writer, range(1, 6))
    read_all(log, tmp_path / "a")
    remove_read(writer.log, [str(tmp_path / "a")])
    if fails != "nothing":
        with monkeypatch.context() as patched:
            patched.setattr(type(late.log), "removed", broken)
            with pytest.raises(StorageError):
                late.keep([posted([1], "q", 1)])
    for _ in range(2):
        late.keep([posted([1], "q", 1)])
    assert late.last("q").sequence == 1
    assert read_all(log, tmp_path / "a") == [1]
    assert late.last("p").sequence == 5


def broken(*_):
    raise StorageError("away")


def test_folders_of_removed_files_go(log, tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PER_FOLDER", 10)
    writer = writer_of(log, every=1)
    write(writer, range(1, 36))
    read_all(log, tmp_path / "a")
    remove_read(writer.log, [str(tmp_path / "a")])
    assert [each.name for each in (log / "log").iterdir()] == [f"{3:017d}"]
    assert writer_of(log).known.number == 35
    write(writer, range(36, 38))
    assert read_all(log, tmp_path / "a") == [36, 37]


def test_a_removal_stops_when_it_is_asked_to(log, tmp_path):
    writer = writer_of(log, every=1)
    write(writer, range(1, 6))
    read_all(log, tmp_path / "a")
    asked = iter([False, False, True])
    assert remove_read(writer.log, [str(tmp_path / "a")], lambda: next(asked)).files == 2
    assert there(log) == [3, 4, 5]
    assert remove_read(writer.log, [str(tmp_path / "a")]).files == 2
    assert there(log) == [5]


def test_a_server_that_was_held_up_takes_back_no_removal_of_another(log, tmp_path):
    busy = writer_of(log, every=1)
    write(busy, range(1, 8))
    idle = writer_of(log)
    state = str(tmp_path / "a")
    read_all(log, state)
    late, note = IngestLog(store=busy.log.store, identity=busy.log.identity, place="late"), []

    class HeldUp(IngestLog):
        def note_removal(self, through: int) -> None:
            """Meanwhile, another server's look comes and goes."""
            write(busy, range(8, 16))
            read_all(log, state)
            note.append(remove_read(busy.log, [state]).through)
            super().note_removal(through)

    remove_read(HeldUp(store=late.store, identity=late.identity, place="late"), [state])
    assert note == [14]
    assert busy.log.removed() == 14
    idle.keep([posted([99], "q", 1)])
    assert read_all(log, state) == [99]
