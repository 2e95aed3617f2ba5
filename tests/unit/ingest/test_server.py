"""A server over real sockets: what it keeps, and what it refuses."""

import stat
from concurrent.futures import ThreadPoolExecutor

import httpx
import pyarrow as pa
import pytest

from rechannel.errors import RefusedError
from rechannel.ingest.server import Limits
from tests.support.ingesting import (
    PATIENCE,
    SCHEMA,
    Producer,
    kept,
    serving,
    slow_keeping,
    until,
)


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
    with serving(path) as server, Producer(server) as producer:
        assert producer.send([1], producer="p", sequence=1)[1]["repeated"] is False
        assert producer.send([1], producer="p", sequence=1) == (
            200,
            {"rows": 1, "repeated": True, "producer": "p", "sequence": 1},
        )
    with serving(path, schema=None) as server, Producer(server) as producer:
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
        ({"producer": "p", "sequence": 0}, "from 1 to"),
        ({"producer": "p", "sequence": "-1"}, "from 1 to"),
        ({"producer": "p", "sequence": 2**63}, "from 1 to"),
        ({"producer": "p", "sequence": "1" * 5_000}, "from 1 to"),
        ({"producer": "p", "sequence": "0" * 20 + "5"}, "from 1 to"),
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
    with serving(path, limits=Limits(linger_s=0.2)) as server, Producer(server) as producer:
        with ThreadPoolExecutor(16) as pool:
            answers = [*pool.map(lambda n: producer.send([n]), range(64))]
        assert {status for status, _ in answers} == {200}
        assert server.committer.standing.number < 32
    assert sorted(kept(path)) == [*range(64)]


def test_two_servers_take_rows_for_one_log(path):
    with (
        serving(path) as one,
        serving(path) as other,
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
    with serving(path) as server:
        file = server.token_file
        assert file.read_text() == server.token
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert not file.exists()
    with serving(path, token="s3cret") as server:
        assert (server.token, server.token_file) == ("s3cret", None)
    with pytest.raises(RefusedError, match="a token is one word"):
        serving(path, token="two\nlines")


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
    with serving(path, limits=Limits(request_bytes=1_000)) as server, Producer(server) as producer:
        status, answer = producer.send(range(1_000))
        assert (status, answer["error"]) == (413, "malformed")
        assert producer.send([1])[0] == 200
    assert kept(path) == [1]


def test_rows_that_expand_too_far_are_refused(producer, path, monkeypatch):
    monkeypatch.setattr("rechannel.ingest.columns.EXPANDED_BYTES", 80)
    assert producer.send(range(11))[0] == 413
    assert producer.send(range(10))[0] == 200
    assert kept(path) == [*range(10)]


def test_too_many_bytes_that_wait_are_refused_for_a_while(path, monkeypatch):
    limits = Limits(request_bytes=3_000, waiting_bytes=4_000, linger_s=0)
    with serving(path, limits=limits) as server, Producer(server) as producer:
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


def test_a_name_may_have_a_slash(producer):
    assert producer.send([1], producer="shop/till 7", sequence=1)[0] == 200
    assert producer.get("/producers/shop/till%207")[1]["sequence"] == 1


def test_rows_that_never_fit_are_refused_for_good(path):
    limits = Limits(request_bytes=1_000, waiting_bytes=1_000)
    with serving(path, limits=limits) as server, Producer(server) as producer:
        status, answer = producer.post(b'{"n":1}\n' * 100)
        assert (status, "fewer rows" in answer["message"]) == (413, True)
        assert producer.post(b'{"n":1}\n' * 50)[0] == 200
