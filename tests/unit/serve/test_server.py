"""From the beginning of a server to its end."""

from __future__ import annotations

import importlib.util
import socket
import threading
import time

import httpx
import pytest

from rechannel.errors import RefusedError, SetUpError
from tests.support.asking import bearer, get


def test_it_serves_until_it_is_closed(clicks):
    server = clicks.running.serve(port=0)
    assert get(server, "/status").status_code == 200
    assert server.is_open
    assert repr(server) == f"<Server of 'clicks' at {server.url}>"
    server.close()
    server.close()
    assert not server.is_open
    assert repr(server).endswith(", closed>")
    with pytest.raises(httpx.ConnectError):
        get(server, "/status")
    clicks.push([("ann", 1)])
    assert clicks.running.is_active


def test_its_port_is_free_again_at_once(clicks):
    with clicks.running.serve(port=0) as first:
        port = first.port
        with pytest.raises(RefusedError, match=f"port {port} of"):
            clicks.running.serve(port=port)
    with clicks.running.serve(port=port) as second:
        assert get(second, "/status").status_code == 200


def test_two_servers_of_one_job(clicks):
    with clicks.running.serve(port=0) as one, clicks.running.serve(port=0) as other:
        assert one.url != other.url
        assert get(one, "/status").status_code == 200
        assert get(other, "/status").status_code == 200


def test_it_ends_behind_the_job(clicks, monkeypatch):
    monkeypatch.setattr("rechannel.serve.server.LINGER_SECONDS", 0.3)
    server = clicks.running.serve(port=0)
    clicks.running.stop()
    assert get(server, "/status").json()["message"] == "stopped"
    deadline = time.monotonic() + 30
    while server.is_open:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_its_threads_end(clicks):
    before = set(threading.enumerate())
    with clicks.running.serve(port=0) as server:
        get(server, "/status")
    deadline = time.monotonic() + 30
    while {thread for thread in threading.enumerate() if "serve" in thread.name} - before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_stopped_job_is_not_served(clicks):
    clicks.running.stop()
    with pytest.raises(RefusedError, match="is not running: start it, then serve it"):
        clicks.running.serve(port=0)


def test_without_the_extra_it_is_named(clicks, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "rechannel.serve.server.find_spec", lambda name: None if name == "fastapi" else found(name)
    )
    with pytest.raises(SetUpError, match=r"fastapi: pip install 'rechannel\[serve\]'"):
        clicks.running.serve(port=0)


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_token_is_made_where_none_is_given(clicks, host):
    """On loopback as well: other users of the machine can connect there."""
    with (
        clicks.running.serve(host, 0) as server,
        clicks.running.serve(host, 0) as other,
    ):
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert httpx.get(f"{server.url}/status", trust_env=False).status_code == 401
        assert get(server, "/status").status_code == 200
        assert server.token != other.token
        assert len(server.token) >= 32
        assert server.token not in repr(server)
        file = server.token_file
        assert file.read_text() == server.token
        assert (file.stat().st_mode & 0o777, file.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert not file.exists()


def test_a_token_that_was_given_is_left_nowhere(clicks):
    with clicks.running.serve("0.0.0.0", 0, token="s3cret") as server:
        assert (server.token, server.token_file) == ("s3cret", None)
        assert httpx.get(f"{server.url}/status", trust_env=False).status_code == 401
        assert get(server, "/status").status_code == 200


def test_a_job_whose_token_nobody_could_find_is_not_served(clicks, monkeypatch, tmp_path):
    (tmp_path / "rechannel").mkdir()
    (tmp_path / "rechannel").chmod(0o777)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    with pytest.raises(
        RefusedError, match=r"cannot be written where commands find it.*serve\(token="
    ):
        clicks.running.serve(port=0)
    assert list((tmp_path / "rechannel").iterdir()) == []


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 here")
def test_ipv6(clicks):
    try:
        server = clicks.running.serve("::1", 0)
    except RefusedError:
        pytest.skip("no IPv6 loopback here")
    with server:
        assert server.url.startswith("http://[::1]:")
        assert get(server, "/status").status_code == 200


def test_many_ask_at_once(clicks, server):
    """Changes that come beside each other are all answered, and each has an id of its own."""
    ids, errors = [], []

    def ask():
        try:
            change = {"kind": "set_interval", "interval_ms": 0}
            answer = httpx.post(
                f"{server.url}/reconfigure",
                json={"change": change},
                headers=bearer(server),
                trust_env=False,
                timeout=60,
            )
            ids.append(answer.json()["id"])
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=ask) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert sorted(ids, key=lambda id_: int(id_[1:])) == [f"r{n}" for n in range(1, 13)]
