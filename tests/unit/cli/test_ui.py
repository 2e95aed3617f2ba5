"""`rechannel ui`: the page of a state directory, of a job that has ended, that runs, or that died."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.cli.inspect.directory import open_directory
from rechannel.cli.inspect.watched import FRESH_S, Saved
from rechannel.errors import NotReadyError
from rechannel.serve.watched_server import serve_watched
from rechannel.sources.backlog import Backlog
from rechannel.sources.memory import MemoryReader
from rechannel.testing import script
from tests.support.asking import client_of, get

ROOT = Path(__file__).parents[3]


@pytest.fixture
def seconds():
    return [0.0]


@pytest.fixture
def saved(seconds):
    return lambda clicks: Saved(open_directory(clicks.directory), clock=lambda: seconds[0])


@pytest.fixture
def changed(clicks):
    """A job that was rescaled, and that stopped after four timesteps."""
    clicks.push([("ann", 1), ("bob", 2), ("cleo", 3)])
    clicks.running.reconfigure(rc.changes.rescale("users", tasks=3), cause="a test").wait(60)
    for number in range(3):
        clicks.push([("ann", number), ("dan", 5)])
    live = {
        "status": clicks.running.status,
        "configuration": clicks.running.configuration,
        "nodes": clicks.running.nodes,
        "bins": clicks.running.bins(),
        "history": [one.to_dict() for one in clicks.running.history()],
    }
    clicks.running.stop()
    return clicks, live


def test_it_shows_what_the_job_itself_showed(changed, saved):
    clicks, live = changed
    job, status = saved(clicks), live["status"].to_dict()
    shown = job.status()
    assert (shown["name"], shown["active"], shown["message"]) == ("clicks", False, "stopped")
    for member in ("timestep", "configuration", "retries", "troubles", "committed_ms", "bad_rows"):
        assert shown[member] == status[member], member
    for name, operator in status["operators"].items():
        assert shown["operators"][name].items() >= operator.items()
    assert shown["sources"] == {"clicks": {"batches": 4}}
    assert job.configuration() == live["configuration"]
    assert {node.name for node in job.nodes()} == {node.name for node in live["nodes"]}
    assert [each.timestep for each in job.progress()] == [1, 2, 3, 4]
    [one] = job.reconfigurations(10)
    assert (
        one.items() >= {"phase": "done", "cause": "a test", "open": False, "bins_left": 0}.items()
    )
    assert job.reconfiguration("r1") == one
    assert job.open_reconfigurations() == []
    for name, bins in live["bins"].items():
        assert (job.bins()[name].owners, job.bins()[name].bytes) == (bins.owners, bins.bytes)
    assert job.sinks()["out"].to_dict() == {
        "owed": 0, "oldest": None, "failures": 0, "error": None, "quarantine": None,
    }  # fmt: skip
    assert job.flow().rows["clicks"]["users"] > 0


def test_it_follows_a_job_that_runs(clicks, saved, seconds):
    job = saved(clicks)
    assert job.status()["message"] == "running"
    assert job.progress() == []
    clicks.push([("ann", 1)])
    assert job.status()["timestep"] == 0  # what was read holds for a second
    seconds[0] += FRESH_S
    assert (job.status()["active"], job.status()["timestep"]) == (True, 1)


def test_it_says_as_of_when_a_job_is_that_gets_nowhere(clicks, seconds):
    """The troubles are those after the last commit, and what waits gets older."""
    clicks.push([("ann", 1)])
    hub = clicks.running._hub
    hub.troubles("sources", OSError("the broker is gone"))
    commit_ms = clicks.running.last_progress.committed_ms
    job = Saved(
        open_directory(clicks.directory),
        clock=lambda: seconds[0],
        wall_ms=lambda: commit_ms + 600_000,
    )
    until_told = job.status()
    while "sources" not in until_told["troubles"]:
        seconds[0] += FRESH_S
        time.sleep(0.01)
        until_told = job.status()
    assert until_told["troubles"] == {"sources": "the broker is gone"}
    assert until_told["committed_ms"] == commit_ms
    assert until_told["as_of_ms"] >= commit_ms
    waiting = until_told["operators"]["users"]
    assert waiting["tasks"] == 2
    hub.troubles("sources", None)
    while job.status()["troubles"]:
        seconds[0] += FRESH_S
        time.sleep(0.01)
    clicks.running.stop()
    seconds[0] += FRESH_S
    ended = job.status()
    assert (ended["active"], ended["troubles"]) == (False, {})
    assert commit_ms <= ended["as_of_ms"] < commit_ms + 600_000


def test_what_waits_at_a_source_gets_older_while_the_job_runs(clicks, monkeypatch, seconds):
    monkeypatch.setattr(MemoryReader, "backlog", lambda self, end, stream_ms: Backlog(rows=7))
    clicks.push([("ann", 1)])
    commit_ms = clicks.running.last_progress.committed_ms
    wall = [commit_ms]
    job = Saved(open_directory(clicks.directory), clock=lambda: seconds[0], wall_ms=lambda: wall[0])
    while job.status()["committed_ms"] != commit_ms:
        seconds[0] += FRESH_S
        time.sleep(0.01)
    before = job.status()["lag"]["clicks"]
    wall[0] += 60_000
    seconds[0] += FRESH_S
    later = job.status()["lag"]["clicks"]
    assert (later["rows"], later["at_ms"]) == (7, before["at_ms"])
    assert later["seconds"] >= before["seconds"] + 59


def test_a_job_that_failed_says_why(tmp_path):
    def broken(row):
        msg = "seven is not a number"
        raise ValueError(msg)

    rows = script("n BIGINT")
    stream = rc.read().memory(rows, name="rows").map(broken, "n BIGINT", name="broken")
    counts = stream.key_by("n").aggregate(m=agg.count(), name="counts")
    job = rc.Job("broken", counts, state=tmp_path / "state").start(in_process=rc.InProcess())
    rows.push([{"n": 7}])
    with pytest.raises(rc.RechannelError):
        job.process_all_available(60)
    status = Saved(open_directory(tmp_path / "state")).status()
    assert status["active"] is False
    assert status["message"].startswith("failed: ")
    assert "seven is not a number" in status["message"]


def test_a_directory_without_timesteps_is_shown(clicks, saved):
    clicks.running.stop()
    job = saved(clicks)
    assert job.status()["message"] == "stopped"
    assert (job.progress(), job.flow().rows, job.reconfigurations(5)) == ([], {}, [])
    with pytest.raises(NotReadyError, match="r1"):
        job.reconfiguration("r1")


def test_nothing_can_be_changed(changed, saved):
    with serve_watched(saved(changed[0]), port=0) as server, client_of(server) as client:
        assert client.get("/").headers["content-type"].startswith("text/html")
        for path in (
            "/status",
            "/progress",
            "/configuration",
            "/bins",
            "/flow",
            "/dataflow",
            "/sinks",
            "/acts",
        ):
            assert client.get(path).status_code == 200, path
        assert client.get("/reconfigurations/r1").json()["phase"] == "done"
        assert client.get("/reconfigurations/r9").status_code == 404
        paths = client.get("/openapi.json").json()["paths"]
        assert {method for methods in paths.values() for method in methods} == {"get"}
        for path in ("/plan", "/reconfigure", "/deploy", "/savepoints", "/controllers"):
            assert client.post(path, json={}).status_code in {404, 405}
        assert httpx.get(f"{server.url}/status", trust_env=False).status_code == 401
        strange = client.get("/status", headers={"Host": "evil.example"})
        assert strange.status_code == 403
    assert not server.is_open


def test_the_token_may_be_given(changed, saved):
    with serve_watched(saved(changed[0]), port=0, token="s3cret-s3cret") as server:
        assert (server.token, server.token_file) == ("s3cret-s3cret", None)
        assert get(server, "/status").json()["name"] == "clicks"


def test_a_served_job_has_its_page_itself(rechannel):
    reaction = rechannel("ui", "http://127.0.0.1:8520")
    assert reaction.code == 2
    assert "open it in a browser" in reaction.err


def test_the_command_says_where_and_ends_at_a_signal(changed):
    clicks, _ = changed
    program = "from rechannel.cli import main; main()"
    command = [sys.executable, "-c", program, "ui", str(clicks.directory), "--port", "0"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            url = re.search(r"http://\S+", process.stdout.readline())[0]
            (file,) = re.search(r"Its token is in (\S+)$", process.stdout.readline()).groups()
            token = Path(file).read_text(encoding="ascii").strip()
            headers = {"Authorization": f"Bearer {token}"}
            answer = httpx.get(f"{url}/status", headers=headers, trust_env=False, timeout=60)
            assert answer.json()["name"] == "clicks"
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert not Path(file).exists()
