"""The door, over real sockets: strangers, tokens, content types and sizes."""

from __future__ import annotations

import http.client
import json

import pytest

import rechannel as rc
from tests.support.asking import bearer

BODY = json.dumps({"change": {"kind": "rescale", "operator": "users", "tasks": 3}})
JSON = {"Content-Type": "application/json"}
TOKEN = "s3cret-s3cret"


def call(server, method, path, headers, body=None):
    """A request as it is spelt out here, with the token unless it says another."""
    return bare(server, method, path, {**bearer(server), **headers}, body)


def bare(server, method, path, headers, body=None):
    """A request as it is spelt out here, and nothing else."""
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    try:
        connection.request(method, path, body=body, headers=headers)
        answer = connection.getresponse()
        text = answer.read()
        return answer.status, json.loads(text), answer.headers
    finally:
        connection.close()


@pytest.fixture
def locked(clicks):
    with clicks.running.serve(port=0, token=TOKEN) as made:
        yield made


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8520", "", "10.0.0.1"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_foreign_host_is_turned_away(server, host, method):
    path = "/status" if method == "GET" else "/reconfigure"
    status, answer, _ = call(server, method, path, {"Host": host, **JSON}, BODY)
    assert (status, answer["error"]) == (403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:1", "[::1]"])
def test_every_name_of_loopback_is_let_in(server, host):
    assert call(server, "GET", "/status", {"Host": host})[0] == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_pages_of_other_origins_are_turned_away(server, origin, clicks):
    headers = {"Origin": origin, **JSON}
    assert call(server, "POST", "/reconfigure", headers, BODY)[0] == 403
    assert clicks.running.history() == []


def test_its_own_pages_may_ask(server):
    own = {"Origin": server.url, "Host": server.url.removeprefix("http://"), **JSON}
    assert call(server, "POST", "/plan", own, BODY)[0] == 200


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_what_a_form_can_send_is_no_request(server, kind):
    status, answer, _ = call(server, "POST", "/plan", {"Content-Type": kind}, BODY)
    assert (status, answer["error"]) == (415, "malformed")


def test_a_request_without_a_body_needs_no_type(server, clicks):
    clicks.running.reconfigure(rc.changes.set_interval(5), at=1000)
    assert call(server, "POST", "/reconfigurations/r1/abort", {})[0] == 200
    assert call(server, "POST", "/reconfigurations/r1/abort", {}, b"{}")[0] == 415
    assert call(server, "POST", "/plan", {})[0] == 422


def test_a_charset_is_no_matter(server):
    headers = {"Content-Type": "Application/JSON; charset=utf-8"}
    assert call(server, "POST", "/plan", headers, BODY)[0] == 200


@pytest.mark.parametrize(
    "said",
    [
        None,
        "",
        "Bearer",
        "Bearer wrong",
        f"Basic {TOKEN}",
        TOKEN,
        f"Bearer {TOKEN}x",
        f"Bearer {TOKEN[:-1]}",
    ],
)
@pytest.mark.parametrize("path", ["/status", "/metrics", "/openapi.json", "/nowhere"])
def test_every_route_needs_the_token(locked, said, path):
    headers = {} if said is None else {"Authorization": said}
    status, answer, headers_ = bare(locked, "GET", path, headers)
    assert (status, answer["error"]) == (401, "unauthorized")
    assert headers_["WWW-Authenticate"] == "Bearer"


def test_with_the_token_everything_is_as_without(locked):
    headers = {"Authorization": f"Bearer {TOKEN}", "Host": "job.example", **JSON}
    assert call(locked, "GET", "/status", headers)[0] == 200
    assert call(locked, "POST", "/plan", headers, BODY)[0] == 200
    assert bare(locked, "POST", "/plan", JSON, BODY)[0] == 401


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_of_ten_megabytes_is_too_large(server, chunked):
    large = b'{"cause": "' + b"x" * 10_000_000 + b'"}'
    body = iter([large[:6_000_000], large[6_000_000:]]) if chunked else large
    status, answer, _ = call(server, "POST", "/plan", JSON, body)
    assert (status, answer["error"]) == (413, "malformed")
    assert "8,000,000 bytes" in answer["message"]


def test_a_client_that_leaves_in_the_middle_disturbs_nobody(server):
    connection = http.client.HTTPConnection(server.host, server.port, timeout=60)
    connection.putrequest("POST", "/plan")
    connection.putheader("Content-Type", "application/json")
    connection.putheader("Content-Length", "1000")
    connection.endheaders()
    connection.send(b"{")
    connection.close()
    assert call(server, "GET", "/status", {})[0] == 200


def test_what_is_no_http_at_all(server):
    import socket

    with socket.create_connection((server.host, server.port), timeout=60) as raw:
        raw.sendall(b"\x16\x03\x01 hello\r\n\r\n")
        assert b"400" in raw.recv(1000)
    assert call(server, "GET", "/status", {})[0] == 200
