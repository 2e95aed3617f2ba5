"""Requests to files: each is kept once, whatever fails and whoever else writes."""

import errno
import os
import threading

import pytest

from rechannel.errors import DamagedStateError, RefusedError, SourceError, StorageError
from rechannel.ingest import checkpoints
from rechannel.ingest.producers import Producers, Verdict
from rechannel.ingest.server import open_log
from rechannel.sources.ingest.log import CHECKPOINTS, IngestLog, key_of
from rechannel.state.stores.objects import ObjectStore
from tests.support.ingesting import SCHEMA, kept, posted, writer_of

NEW, REPEATED = Verdict.NEW, Verdict.REPEATED


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


class Failing:
    """A store whose next creations fail: before they write, or after it."""

    def __init__(self, store):
        self.store, self.script, self.failed = store, [], 0

    def __getattr__(self, name):
        return getattr(self.store, name)

    def create(self, key, data):
        fault = self.script.pop(0) if self.script else None
        if fault == "after":
            self.store.create(key, data)
        if fault is not None:
            self.failed += 1
            raise StorageError(f"cannot create {key}: {os.strerror(errno.ENOSPC)}. Free space")
        return self.store.create(key, data)


@pytest.fixture
def failing(path):
    log = open_log(str(path), SCHEMA)
    store = Failing(log.store)
    writer = writer_of(path, log=IngestLog(store=store, identity=log.identity, place="log"))
    return writer, store


def test_requests_of_a_group_are_one_file(path):
    writer = writer_of(path)
    answers = writer.keep([posted([1, 2]), posted([3], "p", 1), posted([3], "p", 1), posted([4])])
    assert answers == [NEW, NEW, REPEATED, NEW]
    assert kept(path) == [1, 2, 3, 4]
    head = writer.log.head(1)
    assert (writer.known.number, head.rows, head.time_ms) == (1, 4, 1)
    assert writer.log.exists(1)
    assert not writer.log.exists(2)


def test_nothing_of_a_refused_request_is_kept(path):
    writer = writer_of(path)
    answers = writer.keep([posted([1], "p", 2), posted([2]), posted([3], "p", 1)])
    assert isinstance(answers[0], RefusedError)
    assert answers[1:] == [NEW, NEW]
    assert kept(path) == [2, 3]


def test_a_repetition_alone_writes_no_file(path):
    writer = writer_of(path)
    writer.keep([posted([1], "p", 1)])
    assert writer.keep([posted([1], "p", 1)]) == [REPEATED]
    assert writer.known.number == 1


def test_a_restart_knows_what_was_kept(path):
    writer_of(path).keep([posted([1], "p", 1), posted([2], "q", 1)])
    again = writer_of(path)
    assert again.keep([posted([1], "p", 1), posted([3], "p", 2)]) == [REPEATED, NEW]
    assert again.last("q").sequence == 1
    assert again.last("nobody") is None
    assert kept(path) == [1, 2, 3]


def test_a_full_disk_keeps_nothing_and_the_next_request_goes_on(failing, path):
    writer, store = failing
    store.script = ["before"]
    with pytest.raises(StorageError, match="No space left"):
        writer.keep([posted([1], "p", 1)])
    assert kept(path) == []
    assert writer.keep([posted([1], "p", 1)]) == [NEW]
    assert kept(path) == [1]
    assert store.failed == 1


def test_a_file_that_was_written_although_it_failed_is_found(failing, path):
    """The answer of the store was lost, or a directory could not be synced."""
    writer, store = failing
    store.script = ["after"]
    with pytest.raises(StorageError):
        writer.keep([posted([1], "p", 1)])
    assert writer.keep([posted([1], "p", 1), posted([2], "p", 2)]) == [REPEATED, NEW]
    assert kept(path) == [1, 2]
    assert store.failed == 1


# Several servers --------------------------------------------------------------------------------------


def test_two_servers_write_one_log(path):
    one, other = writer_of(path), writer_of(path)
    assert one.keep([posted([1], "p", 1)]) == [NEW]
    # It has not read what the first one wrote.
    assert other.keep([posted([1], "p", 1), posted([2], "p", 2)]) == [REPEATED, NEW]
    assert one.keep([posted([3], "p", 3)]) == [NEW]
    assert other.last("p").sequence == 3
    assert kept(path) == [1, 2, 3]
    assert one.log.head(2).rows_before == 1


def test_a_request_is_refused_only_after_a_look_at_what_others_have_written(path):
    one, other = writer_of(path), writer_of(path)
    for n in (1, 2, 3):
        one.keep([posted([n], "p", n)])
    assert other.keep([posted([4], "p", 4)]) == [NEW]
    assert kept(path) == [1, 2, 3, 4]


def test_many_servers_at_once_keep_every_request_once(path):
    """Each producer sends each request to two servers at the same time."""
    requests, errors = 15, []

    def serve(number):
        writer = writer_of(path)
        try:
            for n in range(1, requests + 1):
                mine = [posted([1_000 * p + n], f"p{p}", n) for p in (number, (number + 1) % 4)]
                while any(isinstance(each, RefusedError) for each in writer.keep(mine)):
                    pass  # the other server of this producer is late
        except Exception as error:
            errors.append(error)

    writer_of(path)
    threads = [threading.Thread(target=serve, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    expected = [1_000 * p + n for p in range(4) for n in range(1, requests + 1)]
    assert sorted(kept(path)) == expected


def test_a_bucket_holds_a_log(path):
    url = f"memory:///ingest-{path.parent.name}"
    one, other = writer_of(url), writer_of(url)
    assert isinstance(one.log.store, ObjectStore)
    assert one.keep([posted([1], "p", 1)]) == [NEW]
    assert other.keep([posted([1], "p", 1), posted([2])]) == [REPEATED, NEW]
    assert kept(url) == [1, 2]


# Checkpoints ------------------------------------------------------------------------------------------


def test_a_start_reads_the_newest_checkpoint_and_the_files_after_it(path, monkeypatch):
    writer = writer_of(path, every=4)
    for n in range(1, 11):
        writer.keep([posted([n], f"p{n}", 1)])
        assert writer.checkpoint() is (n % 4 == 0)
    read = []
    head = IngestLog.head
    monkeypatch.setattr(IngestLog, "head", lambda log, n: read.append(n) or head(log, n))
    again = writer_of(path)
    assert read == [9, 10]
    assert again.known == writer.known
    assert [*again.producers.items()] == [*writer.producers.items()]


def test_large_files_make_checkpoints_sooner(path):
    writer = writer_of(path, every_bytes=100)
    for n in range(4):
        writer.keep([posted(range(8))])
        assert writer.checkpoint() is (n % 2 == 1)


def test_only_the_last_checkpoints_stay(path):
    writer = writer_of(path, every=1)
    for n in range(5):
        writer.keep([posted([n])])
        writer.checkpoint()
    keys = [*writer.log.store.list(CHECKPOINTS)]
    assert len(keys) == checkpoints.KEPT
    assert writer.log.known() == 5


def test_producers_are_forgotten_alike_after_a_restart(path):
    writer = writer_of(path, every=2, producers=Producers(most=3))
    for n in range(1, 6):
        writer.keep([posted([n], f"p{n}", 1)])
        writer.checkpoint()
    again = writer_of(path, producers=Producers(most=3))
    assert [name for name, _ in again.producers.items()] == ["p3", "p4", "p5"]
    (answer,) = again.keep([posted([9], "p1", 2)])
    assert "'p1' is unknown" in str(answer)


def test_a_log_with_a_missing_or_damaged_file_is_not_written(path):
    writer = writer_of(path)
    for n in range(3):
        writer.keep([posted([n])])
    (path / key_of(3)).write_bytes(b"torn")
    with pytest.raises(DamagedStateError, match=key_of(3)):
        writer_of(path)
    (path / key_of(2)).unlink()
    with pytest.raises(SourceError, match=key_of(2)):
        writer_of(path)
