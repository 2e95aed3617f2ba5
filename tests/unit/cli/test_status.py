from __future__ import annotations

import json
import os
import socket
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from rechannel.cli.inspect.driver import Condition, Place, condition
from rechannel.engine.journal.entries import Opened
from rechannel.engine.journal.lease import FRESH_MS, Holder
from rechannel.engine.journal.state import JournalState

NOW = 1_000_000


def place(*, now: int = NOW, living: dict[int, int] | None = None) -> Place:
    return Place(where=("here", ""), wall_ms=now, started=(living or {}).get)


def lease(*, host: str = "here", heartbeat: int = NOW) -> Holder:
    return Holder(host=host, pid=7, started_ms=500, epoch=1, heartbeat_ms=heartbeat)


def state(*, closed: bool = False) -> JournalState:
    opened = Opened(host="here", pid=7, time_ms=0, fingerprint="f", version="0")
    return JournalState(number=1, epoch=1, driver=opened, closed=closed)


@pytest.mark.parametrize(
    ("journal", "held", "seen_from", "expected"),
    [
        (JournalState(), None, place(), Condition.NEW),
        (state(), lease(), place(living={7: 500}), Condition.RUNNING),
        (state(), lease(), place(living={7: 500 + 900}), Condition.RUNNING),
        (state(), lease(), place(living={}), Condition.DIED),
        (state(), lease(), place(living={7: 5_000}), Condition.DIED),
        (state(), lease(), place(now=NOW + FRESH_MS, living={7: 500}), Condition.SILENT),
        (state(), lease(host="there"), place(), Condition.RUNNING),
        (state(), lease(host="there"), place(now=NOW + FRESH_MS), Condition.SILENT),
        (state(), None, place(), Condition.FAILED),
        (state(closed=True), None, place(), Condition.STOPPED),
        (state(closed=True), lease(), place(living={7: 500}), Condition.STOPPED),
    ],
)
def test_condition_of_a_driver(journal, held, seen_from, expected):
    assert condition(journal, held, seen_from) is expected


def test_status_of_a_job_that_runs(clicks, rechannel):
    clicks.push([("ann", 1), ("bob", 2)])
    facts = json.loads(rechannel("status", clicks.directory, "--json").out)
    assert facts["name"] == "clicks"
    assert facts["condition"] == "running"
    assert facts["driver"]["alive"] is True
    assert facts["driver"]["pid"] == os.getpid()
    assert facts["driver"]["host"] == socket.gethostname()
    assert facts["timestep"] == 1
    assert facts["sources"] == {"clicks": {"committed": {"batches": 1}}}


def test_a_served_job_says_itself_how_it_stands(clicks, rechannel):
    clicks.push([("ann", 1), ("bob", 2)])
    with clicks.running.serve(port=0) as server:
        facts = json.loads(rechannel("status", server.url, "--json").out)
        lines = rechannel("status", server.url).lines
    assert facts["lag"]["clicks"]["rows"] == 0
    assert facts["operators"]["users"]["state_rows"] == 2
    assert lines[0].startswith("clicks: running, timestep 1 committed at 2023-11-14T22:13:20.")
    assert lines[2].split() == ["source", "unread", "rows", "unread", "bytes", "seconds", "waited"]
    assert lines[3].split() == ["clicks", "0", "0", "B", "0.0"]
    assert lines[5].split()[:3] == ["operator", "tasks", "state"]


def test_another_service_is_no_job(rechannel):
    class Other(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.end_headers()
            self.wfile.write(b'{"message": "fine"}')

        def log_message(self, *_):
            """Print nothing."""

    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = threading.Thread(target=server.handle_request, daemon=True)
        thread.start()
        reaction = rechannel("status", f"http://127.0.0.1:{server.server_port}", "--token", "t")
        thread.join()
    assert reaction.code == 2
    assert "is not a served job: give the address that `job.serve()` has" in reaction.err


def test_status_of_a_stopped_job_is_that_of_its_journal(stopped, rechannel):
    facts = json.loads(rechannel("status", stopped.directory, "--json").out)
    assert facts["condition"] == "stopped"
    assert facts["driver"]["alive"] is False
    assert facts["timestep"] == 3
    assert facts["kept"] == [1, 2, 3]
    assert facts["open"] == []
    assert facts["unpublished"] == []
    assert facts["epoch"] == 1
    segments = stopped.files("segments/users")
    users = facts["operators"]["users"]
    assert (users["tasks"], users["bins"]) == (2, 256)
    assert users["state"]["bytes"] <= sum(path.stat().st_size for path in segments)
    assert 5 <= users["state"]["rows"] <= 7
    assert facts["operators"]["clicks"]["state"] is None


def test_unfinished_business_is_shown(stopped, rechannel):
    """A driver that died after an intent, with output that it had not published."""
    from rechannel.engine.journal.entries import Committed, Intent, Note
    from rechannel.engine.journal.log import Journal
    from rechannel.state.stores.local import LocalStore

    journal, _ = Journal.open(LocalStore(stopped.directory), keep_versions=3, snapshot_every=9)
    journal.append(Opened(host="far", pid=1, time_ms=0, fingerprint="f", version="0"))
    version = journal.state.configurations[-1][1].version
    for timestep in (4, 5):
        journal.append(
            Intent(timestep=timestep, sources={}, configuration_version=version, stream_ms=1)
        )
    journal.append(Committed(timestep=4, staged={"out": {"outbox": {}}}))
    fact = {"sink": "out", "timestep": 4, "reason": "StorageError: full"}
    journal.append(Note(kind="quarantine", body={"sink-2": fact}))
    facts = json.loads(rechannel("status", stopped.directory, "--json").out)
    assert facts["condition"] == "failed"
    assert facts["open"] == [5]
    assert facts["unpublished"] == [{"timestep": 4, "sink": "out"}]
    lines = rechannel("status", stopped.directory).lines
    assert "under way         5" in lines
    assert "unpublished       out (timestep 4)" in lines
    assert facts["quarantine"] == [fact]
    assert any("owes its timesteps since 4 (StorageError: full)" in line for line in lines)


def test_looking_changes_nothing(stopped, rechannel):
    def fingerprint():
        return {p: (p.stat().st_mtime_ns, p.read_bytes()) for p in stopped.files(".")}

    before = fingerprint()
    for command in (["status"], ["verify"], ["events"]):
        assert rechannel(*command, stopped.directory).code == 0
    assert rechannel("state", stopped.directory, "users").code == 0
    assert fingerprint() == before


@pytest.mark.parametrize("command", ["status", "verify", "state", "history", "repair"])
@pytest.mark.parametrize("key", ["dataflow.json", "journal"])
def test_a_pipe_in_place_of_a_file_keeps_no_command(rechannel, stopped, command, key):
    """Whoever opens a pipe waits for its writer: here nobody ever writes."""
    file = stopped.directory / key
    if file.is_dir():
        file = max(file.iterdir())
    file.unlink()
    os.mkfifo(file)
    more = ["users"] if command == "state" else []
    reaction = rechannel(command, stopped.directory, *more)
    assert reaction.code in {1, 2}
    assert "instead of a file" in reaction.out + reaction.err
