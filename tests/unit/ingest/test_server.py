"""A server over real sockets: what it keeps, refuses, and how it ends."""

import http.client
import json
import os
import socket
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow as pa
import pytest

from rechannel.errors import (
    DataflowError,
    NotPermittedError,
    RechannelError,
    RefusedError,
    StorageError,
)
from rechannel.ingest import app as routes
from rechannel.ingest.server import STALE_S, Limits, serve_log
from rechannel.sources.ingest.log import key_of
from tests.support.ingesting import SCHEMA, Producer, kept, posted, writer_of

PATIENCE = 60.0


@pytest.fixture
def path(tmp_path):
    return tmp_path / "log"


def serve(path, **given):
    return serve_log(str(path), **{"schema": SCHEMA, "port": 0, **given})


@pytest.fixture
def server(path):
    with serve(path) as made:
        yield made


@pytest.fixture
def producer(server):
    with Producer(server) as made:
        yield made


def until(holds):
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_rows_are_in_the_log_when_they_are_acknowledged(producer, path):
    assert producer.send([1, 2]) == (200, {"rows": 2, "repeated": False})
    assert kept(path) == [1, 2]
    answer = producer.post(b'[{"n": 3}]', headers={"Content-Type": "application/json"})
    assert answer[0] == 200
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, SCHEMA) as out:
        out.write_table(pa.table({"n": [4, 5]}))
    arrow = {"Content-Type": "application/vnd.apache.arrow.stream"}
    assert producer.post(sink.getvalue().to_pybytes(), headers=arrow)[1]["rows"] == 2
    assert kept(path) == [1, 2, 3, 4, 5]


def test_a_large_body_is_read_beside_the_loop(producer, path):
    numbers = range(20_000)
    assert producer.send(numbers)[1]["rows"] == 20_000
    assert kept(path) == [*numbers]


def test_a_body_without_rows_writes_nothing_unless_it_is_numbered(producer, server):
    assert producer.send([]) == (200, {"rows": 0, "repeated": False})
    assert server.committer.standing.number == 0
    assert producer.send([], producer="p", sequence=1)[0] == 200
    assert server.committer.standing.number == 1


def test_a_numbered_request_is_kept_once_also_after_a_restart(path):
    with serve(path) as server, Producer(server) as producer:
        assert producer.send([1], producer="p", sequence=1)[1]["repeated"] is False
        assert producer.send([1], producer="p", sequence=1) == (
            200,
            {"rows": 1, "repeated": True, "producer": "p", "sequence": 1},
        )
    with serve(path, schema=None) as server, Producer(server) as producer:
        assert producer.get("/producers/p") == (200, {"producer": "p", "sequence": 1})
        assert producer.get("/producers/q") == (200, {"producer": "q", "sequence": 0})
        assert producer.send([1], producer="p", sequence=1)[1]["repeated"] is True
        assert producer.send([2], producer="p", sequence=2)[1]["repeated"] is False
        status, answer = producer.send([9], producer="p", sequence=4)
        assert (status, answer["error"]) == (409, "refused")
        assert "send 3 first" in answer["message"]
    assert kept(path) == [1, 2]


def test_a_bad_row_is_named_and_nothing_of_its_request_is_kept(producer, path):
    status, answer = producer.post(b'{"n": 1}\n{"n": "x"}', producer="p", sequence=1)
    assert status == 422
    assert (answer["error"], answer["row"], answer["column"]) == ("malformed", 2, "n")
    assert kept(path) == []
    assert producer.get("/producers/p")[1]["sequence"] == 0


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ({"producer": "p"}, "together"),
        ({"sequence": 1}, "together"),
        ({"producer": "p", "sequence": 0}, "from 1 on"),
        ({"producer": "p", "sequence": "-1"}, "from 1 on"),
        ({"producer": "p", "sequence": 2**63}, "from 1 on"),
        ({"producer": "p", "sequence": "1" * 5_000}, "from 1 on"),
        ({"producer": "", "sequence": 1}, "1 to 200 printable"),
        ({"producer": "p" * 201, "sequence": 1}, "1 to 200 printable"),
        ({"producer": "a\nb", "sequence": 1}, "1 to 200 printable"),
        ({"seq": 1}, "no parameter 'seq'"),
    ],
)
def test_a_query_that_is_wrong_is_refused(producer, server, query, words):
    status, answer = producer.post(b'{"n": 1}', **query)
    assert (status, answer["error"]) == (422, "malformed")
    assert words in answer["message"]
    assert server.committer.standing.number == 0


def test_requests_at_the_same_time_share_files(path):
    with serve(path, limits=Limits(linger_s=0.2)) as server, Producer(server) as producer:
        with ThreadPoolExecutor(16) as pool:
            answers = [*pool.map(lambda n: producer.send([n]), range(64))]
        assert {status for status, _ in answers} == {200}
        assert server.committer.standing.number < 32
    assert sorted(kept(path)) == [*range(64)]


def test_two_servers_take_rows_for_one_log(path):
    with (
        serve(path) as one,
        serve(path) as other,
        Producer(one) as to_one,
        Producer(other) as to_other,
    ):
        for n in range(1, 9):
            first, second = (to_one, to_other) if n % 2 else (to_other, to_one)
            assert first.send([n], producer="p", sequence=n)[1]["repeated"] is False
            assert second.send([n], producer="p", sequence=n)[1]["repeated"] is True
        assert to_other.get("/producers/p")[1]["sequence"] == 8
    assert kept(path) == [*range(1, 9)]


# Who may ask ------------------------------------------------------------------------------------------


def test_every_request_needs_the_token_but_health(server):
    for method, route in (("POST", "/rows"), ("GET", "/status"), ("GET", "/producers/p")):
        answer = httpx.request(method, server.url + route, trust_env=False)
        assert (answer.status_code, answer.json()["error"]) == (401, "unauthorized")
    answer = httpx.get(f"{server.url}/health", trust_env=False)
    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    assert httpx.post(f"{server.url}/health", trust_env=False).status_code == 401
    evil = {"Host": "evil.example", "Authorization": f"Bearer {server.token}"}
    assert httpx.get(f"{server.url}/status", headers=evil, trust_env=False).status_code == 403


def test_a_token_that_was_made_is_in_a_file_of_this_user_until_the_end(path):
    with serve(path) as server:
        file = server.token_file
        assert file.read_text() == server.token
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.exists()
    with serve(path, token="s3cret") as server:
        assert (server.token, server.token_file) == ("s3cret", None)
    with pytest.raises(RefusedError, match="a token is one word"):
        serve(path, token="two\nlines")


def test_routes_and_types_that_there_are_not(producer):
    assert producer.get("/nowhere")[0] == 404
    assert producer.get("/rows")[0] == 405
    status, answer = producer.post(b"n=1", headers={"Content-Type": "text/csv"})
    assert (status, answer["error"]) == (415, "malformed")
    assert "application/x-ndjson" in answer["message"]
    assert producer.post(b'{"n": 1}', headers={"Content-Encoding": "gzip"})[0] == 415


def test_status_tells_how_the_log_is(producer):
    producer.send([1, 2], producer="p", sequence=1)
    status, answer = producer.get("/status")
    assert status == 200
    assert answer.pop("log")
    assert answer.pop("version")
    assert answer == {
        "columns": "n bigint",
        "file": 1,
        "rows": 2,
        "waiting": 0,
        "producers": 1,
        "trouble": None,
    }


# Bounds -----------------------------------------------------------------------------------------------


def test_a_body_that_is_too_large_is_refused(path):
    with serve(path, limits=Limits(request_bytes=1_000)) as server, Producer(server) as producer:
        status, answer = producer.send(range(1_000))
        assert (status, answer["error"]) == (413, "malformed")
        assert producer.send([1])[0] == 200
    assert kept(path) == [1]


def test_rows_that_expand_too_far_are_refused(producer, path, monkeypatch):
    monkeypatch.setattr("rechannel.ingest.columns.EXPANDED_BYTES", 80)
    assert producer.send(range(11))[0] == 413
    assert producer.send(range(10))[0] == 200
    assert kept(path) == [*range(10)]


def slow_keeping(server, monkeypatch):
    """Let keeping wait until the event is set. Returns (that it was called, the event)."""
    begun, go = threading.Event(), threading.Event()
    keep = type(server.committer.writer).keep

    def waits(writer, requests):
        begun.set()
        assert go.wait(PATIENCE)
        return keep(writer, requests)

    monkeypatch.setattr(type(server.committer.writer), "keep", waits)
    return begun, go


def test_too_many_bytes_that_wait_are_refused_for_a_while(path, monkeypatch):
    limits = Limits(request_bytes=3_000, waiting_bytes=4_000, linger_s=0)
    with serve(path, limits=limits) as server, Producer(server) as producer:
        begun, go = slow_keeping(server, monkeypatch)
        with ThreadPoolExecutor(1) as pool:
            first = pool.submit(producer.send, range(200))
            assert begun.wait(PATIENCE)
            answer = producer.http.post("/rows", content=b'{"n": 1}\n' * 200)
            assert (answer.status_code, answer.json()["error"]) == (429, "not_ready")
            assert answer.headers["Retry-After"] == "1"
            go.set()
            assert first.result()[0] == 200
        until(lambda: producer.send([7])[0] == 200)
        for _ in range(10):  # nothing of what was held stays
            assert producer.send(range(100))[0] == 200
    assert kept(path)[:200] == [*range(200)]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"request_bytes": 0}, "at least 1"),
        ({"request_bytes": 9, "waiting_bytes": 8}, "not larger than the second"),
        ({"linger_s": -1}, "for 0 to 1 s"),
        ({"linger_s": 2}, "for 0 to 1 s"),
    ],
)
def test_limits_that_make_no_sense_are_refused(given, words):
    with pytest.raises(RefusedError, match=words):
        Limits(**given)


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
    server = serve(path)
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
        server.committer.submit(routes.Item(request=posted([3])))


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
        serve(path, schema=None)
    with serve(path):
        pass
    with pytest.raises(RefusedError, match="has the columns n bigint, not m int"):
        serve(path, schema=pa.schema([("m", pa.int32())]))
    required = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    with pytest.raises(RefusedError, match="has the columns"):
        serve(path, schema=required)


def test_columns_that_rows_cannot_have_make_no_log(tmp_path):
    with pytest.raises(DataflowError, match="rows in JSON cannot have"):
        serve(tmp_path / "new", schema=pa.schema([("m", pa.map_(pa.string(), pa.int32()))]))
    assert not (tmp_path / "new").exists()


def test_a_port_that_is_taken_is_told(path, server):
    with pytest.raises(RefusedError, match="cannot listen on port"):
        serve(path, port=server.port)


def test_what_killed_writers_left_is_removed_after_a_while(path):
    writer_of(path).keep([posted([1])])
    folder = (path / key_of(1)).parent
    old, new = folder / ".tmp-1-1", folder / ".tmp-1-2"
    for file in (old, new):
        file.write_bytes(b"half")
    past = time.time() - STALE_S - 60
    os.utime(old, (past, past))
    with serve(path):
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
