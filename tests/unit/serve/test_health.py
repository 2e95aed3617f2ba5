"""/livez and /readyz: without a token, and without a word about data."""

from __future__ import annotations

import threading
import time

import httpx
import pytest

from tests.unit.serve.test_guard import bare

NOTHING: dict[str, str] = {}


def get(server, path):
    status, answer, _ = bare(server, "GET", path, NOTHING)
    return status, answer


def test_a_job_that_runs_lives_and_is_ready(server):
    assert get(server, "/livez") == (200, {"status": "live"})
    assert get(server, "/readyz") == (200, {"status": "ready"})


def test_a_probe_at_another_address_than_loopback_needs_no_token(clicks):
    with clicks.running.serve(host="0.0.0.0", port=0) as server:
        host = {"Host": f"10.1.2.3:{server.port}"}
        assert bare(server, "GET", "/readyz", host)[0] == 200
        assert bare(server, "GET", "/status", host)[0] == 401


def test_a_page_of_a_foreign_host_learns_nothing(server):
    assert bare(server, "GET", "/livez", {"Host": "evil.example"})[0] == 403


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_nothing_else_is_open(server, path):
    assert bare(server, "POST", path, NOTHING)[0] == 401
    for other in (f"{path}/", f"/{path}", f"{path}/../status", f"{path}%2f..%2fstatus"):
        assert bare(server, "GET", other, NOTHING)[0] == 401


def test_a_body_is_not_read(server):
    """Who has no token cannot have the server hold bytes."""
    url = f"{server.url}/livez"
    body = b"x" * 1_000_000
    answer = httpx.request("GET", url, content=body, trust_env=False, timeout=60)
    assert answer.json() == {"status": "live"}


def test_trouble_is_told_by_its_topic_only(clicks, server):
    clicks.running._hub.troubles("timestep", RuntimeError("secret row"))
    status, answer = get(server, "/readyz")
    assert (status, answer["error"]) == (503, "not_ready")
    assert "the job retries: timestep" in answer["message"]
    assert "secret" not in answer["message"]
    assert get(server, "/livez")[0] == 200
    clicks.running._hub.troubles("timestep", None)
    assert get(server, "/readyz")[0] == 200


def test_a_job_that_stops_lives_and_is_not_ready(busy):
    job, server = busy
    driver = job._driver
    held, asked = threading.Event(), threading.Event()
    react = driver._react

    def waits(event):
        react(event)
        if driver.stopping:  # no other event need come then
            asked.set()
            held.wait(60)

    driver._react = waits
    stopping = threading.Thread(target=job.stop, daemon=True)
    stopping.start()
    try:
        assert asked.wait(60)
        assert get(server, "/livez")[0] == 200
        status, answer = get(server, "/readyz")
        assert (status, answer["message"]) == (503, "the job is ending")
        assert job.status.message == "stopping"
    finally:
        held.set()
        stopping.join(60)


def test_a_job_that_has_ended_is_not_live(clicks, server):
    clicks.running.stop()
    until = time.monotonic() + 60
    while clicks.running.is_active:
        assert time.monotonic() < until
    for path in ("/livez", "/readyz"):
        assert get(server, path) == (
            410,
            {"error": "ended", "message": "the job has ended"},
        )
