"""A server when something goes wrong, and how it ends."""

import http.client
import json
import os
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pytest

from rechannel.errors import (
    DataflowError,
    NotPermittedError,
    RechannelError,
    RefusedError,
    StorageError,
)
from rechannel.ingest.committing import TROUBLE_S, Item
from rechannel.ingest.server import STALE_S, Limits
from rechannel.sources.ingest.log import key_of
from rechannel.state.stores import local
from tests.support.ingesting import (
    PATIENCE,
    Producer,
    kept,
    posted,
    reader_of,
    serving,
    slow_keeping,
    until,
    writer_of,
)

# What goes wrong --------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [StorageError, NotPermittedError])
def test_a_full_disk_acknowledges_nothing_and_heals(server, producer, path, monkeypatch, error):
    store = type(server.log.store)
    failed = []

    def full(self, key, data):
        failed.append(key)
        raise error(f"cannot create {path}/{key}: No space left on device. 0 MiB are free there.")

    with monkeypatch.context() as patched:
        patched.setattr(store, "create", full)
        answer = producer.http.post(
            "/rows", content=b'{"n": 1}', params={"producer": "p", "sequence": 1}
        )
        assert (answer.status_code, answer.json()["error"]) == (503, "not_ready")
        assert "No space left on device" in answer.json()["message"]
        assert "Retry-After" in answer.headers
        assert producer.get("/health") == (503, {"status": "failing"})
        assert "No space left" in producer.get("/status")[1]["trouble"]
        # A balancer would never send a request again that finds out that the disk has room.
        late = server.committer.clock() + TROUBLE_S
        patched.setattr(server.committer, "clock", lambda: late)
        assert producer.get("/health")[0] == 200
    assert failed == [key_of(1)]
    assert kept(path) == []
    assert producer.send([1], producer="p", sequence=1)[1]["repeated"] is False
    assert producer.get("/health")[0] == 200
    assert kept(path) == [1]


def test_an_error_of_the_writer_does_not_end_it(server, producer, monkeypatch):
    writer = type(server.committer.writer)
    with monkeypatch.context() as patched:
        patched.setattr(writer, "keep", lambda *_: 1 / 0)
        status, answer = producer.send([1])
        assert (status, answer["error"]) == (500, "failed")
        assert "division by zero" in answer["message"]
        assert producer.get("/health")[0] == 503
    assert producer.send([1])[0] == 200
    assert producer.get("/health")[0] == 200


def test_checkpoints_are_written_and_a_failure_is_tried_again(server, producer, monkeypatch):
    writer = server.committer.writer
    writer.every = 1
    failed = []

    def fails(*_):
        failed.append(1)
        raise StorageError("full")

    with monkeypatch.context() as patched:
        patched.setattr("rechannel.ingest.writing.write_checkpoint", fails)
        assert producer.send([1])[0] == 200
        until(lambda: failed)
    assert producer.send([2])[0] == 200
    until(lambda: server.log.known() == 2)


# Ends -------------------------------------------------------------------------------------------------


def test_an_end_keeps_and_answers_what_has_begun(path, monkeypatch):
    server = serving(path)
    begun, go = slow_keeping(server, monkeypatch)
    with ThreadPoolExecutor(3) as pool, Producer(server) as producer:
        first = pool.submit(producer.send, [1])
        assert begun.wait(PATIENCE)
        second = pool.submit(producer.send, [2])
        until(lambda: server.committer.standing.waiting == 2)
        end = pool.submit(server.close)
        until(lambda: server._server.should_exit)
        go.set()
        assert (first.result()[0], second.result()[0]) == (200, 200)
        end.result()
    assert not server.is_open
    assert kept(path) == [1, 2]
    with pytest.raises(RechannelError, match="is stopping"):
        server.committer.submit(Item(request=posted([3])))


def test_a_client_that_hangs_up_does_not_matter(server, producer, path, monkeypatch):
    begun, go = slow_keeping(server, monkeypatch)
    connection = http.client.HTTPConnection(server.host, server.port)
    headers = {"Authorization": f"Bearer {server.token}", "Content-Type": "application/x-ndjson"}
    connection.request("POST", "/rows?producer=p&sequence=1", json.dumps({"n": 1}), headers)
    assert begun.wait(PATIENCE)
    connection.close()
    go.set()
    answer = producer.send([1], producer="p", sequence=1)
    assert answer[1]["repeated"] is True
    assert kept(path) == [1]


def test_a_log_keeps_its_columns(path):
    with pytest.raises(RefusedError, match=r"no ingest log at .* yet: give its columns"):
        serving(path, schema=None)
    with serving(path):
        pass
    with pytest.raises(RefusedError, match="has the columns n bigint, not m int"):
        serving(path, schema=pa.schema([("m", pa.int32())]))
    required = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    with pytest.raises(RefusedError, match="has the columns"):
        serving(path, schema=required)


def test_columns_that_rows_cannot_have_make_no_log(tmp_path):
    with pytest.raises(DataflowError, match="rows in JSON cannot have"):
        serving(tmp_path / "new", schema=pa.schema([("m", pa.map_(pa.string(), pa.int32()))]))
    assert not (tmp_path / "new").exists()


def test_a_port_that_is_taken_is_told(path, server):
    with pytest.raises(RefusedError, match="cannot listen on port"):
        serving(path, port=server.port)


def test_what_killed_writers_left_is_removed_after_a_while(path):
    writer_of(path).keep([posted([1])])
    folder = (path / key_of(1)).parent
    old, new = folder / ".tmp-1-1", folder / ".tmp-1-2"
    for file in (old, new):
        file.write_bytes(b"half")
    past = time.time() - STALE_S - 60
    os.utime(old, (past, past))
    with serving(path):
        assert (old.exists(), new.exists()) == (False, True)
    assert kept(path) == [1]


def test_a_response_does_not_wait_for_an_answer_to_its_first_part(server):
    """Otherwise it takes 40 ms longer: Nagle's algorithm, and delayed acknowledgements."""
    assert server._listener.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_a_repetition_while_the_first_request_waits_is_answered_after_it(
    server, producer, path, monkeypatch
):
    begun, go = slow_keeping(server, monkeypatch)
    with ThreadPoolExecutor(3) as pool:
        blocking = pool.submit(producer.send, [0])
        assert begun.wait(PATIENCE)
        both = [pool.submit(producer.send, [1], producer="p", sequence=1) for _ in range(2)]
        until(lambda: server.committer.standing.waiting == 3)
        assert not any(each.done() for each in both)
        go.set()
        assert blocking.result()[0] == 200
        assert sorted(each.result()[1]["repeated"] for each in both) == [False, True]
    assert kept(path) == [0, 1]


# Durability -------------------------------------------------------------------------------------------


def test_file_and_directory_are_synced_before_an_answer(producer, path, monkeypatch):
    synced, sync = [], local._sync

    def noted(descriptor):
        synced.append(os.path.isdir(f"/proc/self/fd/{descriptor}"))  # noqa: PTH112
        sync(descriptor)

    producer.send([0])  # makes the folders
    monkeypatch.setattr(local, "_sync", noted)
    assert producer.send([1])[0] == 200
    assert synced == [False, True]


@pytest.mark.parametrize("fails", [1, 2])
def test_what_cannot_be_synced_is_not_acknowledged(producer, path, monkeypatch, fails):
    producer.send([0], producer="p", sequence=1)
    calls = []

    def broken(descriptor):
        calls.append(descriptor)
        if len(calls) == fails:
            raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(local, "_sync", broken)
        status, answer = producer.send([1], producer="p", sequence=2)
    assert (status, len(calls)) == (503, fails)
    assert "Input/output error" in answer["message"]
    # The name of the file may be there although its directory could not be synced.
    answer = producer.send([1], producer="p", sequence=2)
    assert answer[1]["repeated"] is (fails == 2)
    assert kept(path) == [0, 1]


def test_a_reader_makes_names_durable_before_it_gives_an_offset_after_them(path, monkeypatch):
    writer_of(path).keep([posted([1])])
    reader = reader_of(path)
    start = reader.initial()
    synced = []
    monkeypatch.setattr(local, "_sync", synced.append)
    assert reader.latest(start, 0)["rows"] == 1
    assert len(synced) == 1


def test_a_repetition_is_acknowledged_once_its_directory_is_synced(producer, path, monkeypatch):
    producer.send([0], producer="p", sequence=1)
    sync = local._sync

    def broken(descriptor):
        if os.path.isdir(f"/proc/self/fd/{descriptor}"):  # noqa: PTH112
            raise OSError(5, "Input/output error")
        sync(descriptor)

    with monkeypatch.context() as patched:
        patched.setattr(local, "_sync", broken)
        codes = [producer.send([1], producer="p", sequence=2)[0] for _ in range(4)]
    assert codes == [503] * 4
    assert producer.send([1], producer="p", sequence=2)[1]["repeated"] is True
    assert kept(path) == [0, 1]


def test_a_store_that_does_not_answer_is_seen(server, producer, monkeypatch):
    begun, go = slow_keeping(server, monkeypatch)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(producer.send, [1])
        assert begun.wait(PATIENCE)
        late = server.committer.clock() + 2 * TROUBLE_S
        with monkeypatch.context() as patched, Producer(server) as other:
            patched.setattr(server.committer, "clock", lambda: late)
            assert other.get("/health")[0] == 503
            assert "has not answered" in other.get("/status")[1]["trouble"]
        go.set()
        assert first.result()[0] == 200
    assert producer.get("/health")[0] == 200


def test_a_request_does_not_wait_for_ever_and_few_wait_at_all(server, producer, path, monkeypatch):
    monkeypatch.setattr("rechannel.ingest.app.PATIENCE_S", 0.2)
    monkeypatch.setattr("rechannel.ingest.committing.MOST_WAITING", 1)
    _, go = slow_keeping(server, monkeypatch)
    assert producer.send([1], producer="p", sequence=1)[0] == 503  # at the store
    assert producer.send([1], producer="p", sequence=1)[0] == 503  # next in the queue
    status, answer = producer.send([1], producer="p", sequence=1)
    assert (status, answer["error"]) == (503, "not_ready")
    assert "wait for the store already" in answer["message"]
    go.set()
    until(lambda: not server.committer.standing.waiting)
    monkeypatch.setattr("rechannel.ingest.app.PATIENCE_S", PATIENCE)
    assert producer.send([1], producer="p", sequence=1)[1]["repeated"] is True
    assert kept(path) == [1]


def test_rows_that_still_wait_for_the_store_count_as_waiting(path, monkeypatch):
    """Their requests are over, and their rows are there: else a store that hangs would fill the memory."""
    monkeypatch.setattr("rechannel.ingest.app.PATIENCE_S", 0.2)
    limits = Limits(request_bytes=4_000, waiting_bytes=4_000)
    with serving(path, limits=limits) as server, Producer(server) as producer:
        _, go = slow_keeping(server, monkeypatch)
        assert producer.send(range(200))[0] == 503
        assert producer.send(range(200))[0] == 429
        assert producer.get("/health")[0] == 200
        go.set()
        until(lambda: not server.committer.standing.waiting)
        monkeypatch.setattr("rechannel.ingest.app.PATIENCE_S", PATIENCE)
        until(lambda: producer.send(range(200))[0] == 200)
    assert server.is_complete  # a request that has waited too long had its answer


def test_requests_that_an_end_cuts_off_are_not_all_answered(path, monkeypatch):
    monkeypatch.setattr("rechannel.ingest.server.GRACEFUL_S", 0.2)
    server = serving(path)
    begun, go = slow_keeping(server, monkeypatch)
    with ThreadPoolExecutor(2) as pool, Producer(server) as producer:
        first = pool.submit(producer.send, [1])
        assert begun.wait(PATIENCE)
        end = pool.submit(server.close)
        until(first.done)
        go.set()
        end.result()
        failed = first.exception() or first.result()[0] == 500
    assert failed
    assert kept(path) == [1]
    assert not server.is_complete
