"""Values, URLs and answers of commands that talk to a job."""

from __future__ import annotations

import http.server
import importlib.util
import threading

import pytest

from rechannel.cli.remote.client import Client, base_of, is_url
from rechannel.cli.remote.strategy import KINDS
from rechannel.cli.remote.values import budget, moment, seconds
from rechannel.errors import DamagedStateError, RechannelError, RefusedError, SetUpError
from rechannel.reconfigure import strategies


def test_budgets_are_times_or_sizes():
    assert budget("50ms") == {"budget_ms": 50.0}
    assert budget("10MB") == {"budget_bytes": 10**7}
    for wrong in ("", "ms", "-1ms", "1e9s", "1,5s", "5 apples", "9" * 99):
        with pytest.raises(RefusedError):
            budget(wrong)


def test_lengths_of_time_have_a_unit():
    assert [seconds(text) for text in ("500ms", "30s", "2min")] == [0.5, 30.0, 120.0]
    with pytest.raises(RefusedError, match="a number and its unit"):
        seconds("30")


def test_every_strategy_can_be_chosen():
    assert set(KINDS) == {kind.kind.replace("_", "-") for kind in strategies.KINDS}


def test_moments():
    assert moment("17") == 17
    assert moment("2026-01-01T00:00:00Z") == "2026-01-01T00:00:00Z"
    assert moment("event:2026-01-01T00:00:00Z") == {"event_time": "2026-01-01T00:00:00Z"}
    of_one = {"event_time": "2026-01-01T00:00:00Z", "operator": "counts"}
    assert moment("event:2026-01-01T00:00:00Z@counts") == of_one


def test_urls_and_directories(tmp_path, monkeypatch):
    assert all(
        map(is_url, ("http://host", "https://host/job", "127.0.0.1:8520", "[::1]:8520", ":8520"))
    )
    assert not any(map(is_url, ("state", "/state", "./a:b", "host", "s3://bucket/job")))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job:1").touch()
    assert not is_url("job:1")
    assert base_of("127.0.0.1:8520") == "http://127.0.0.1:8520"
    assert base_of("https://host/job/") == "https://host/job"


def test_without_the_extra_it_is_named(monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        "rechannel.cli.remote.client.find_spec",
        lambda name: None if name == "httpx" else found(name),
    )
    with pytest.raises(SetUpError, match=r"pip install 'rechannel\[serve\]'"):
        Client("http://127.0.0.1:1", None)


@pytest.mark.parametrize(
    ("status", "body", "error"),
    [
        (200, b"<html>", RefusedError),
        (200, b"[1]", RefusedError),
        (302, b"", RefusedError),
        (500, b'{"error": "damaged_state", "message": "x"}', DamagedStateError),
        (500, b'{"error": "failed", "message": "x"}', RechannelError),
        (418, b'{"error": "teapot", "message": "x"}', RefusedError),
        (404, b'{"detail": "Not Found"}', RefusedError),
    ],
)
def test_answers_of_others(status, body, error):
    class Other(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(status)
            self.send_header("Location", "http://127.0.0.1:1/elsewhere")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.HTTPServer(("127.0.0.1", 0), Other) as other:
        thread = threading.Thread(target=other.handle_request, daemon=True)
        thread.start()
        url = f"http://127.0.0.1:{other.server_port}"
        with Client(url, None) as job, pytest.raises(error):
            job.get("status")
        thread.join(60)
