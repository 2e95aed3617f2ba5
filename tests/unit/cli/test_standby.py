"""`rechannel run --standby`: a second driver takes the place of one that has ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from rechannel.cli.program import find_job, load
from rechannel.engine.journal.lease import Holder
from rechannel.job import InProcess
from rechannel.model.codec import encode
from rechannel.state.keys import LEASE
from rechannel.state.sealed import seal
from rechannel.state.stores.local import LocalStore

pytestmark = pytest.mark.usefixtures("clean_imports")

PROGRAM = """
import time

import pyarrow as pa
import rechannel as rc

def clicks(start, stop):
    return pa.record_batch({"user": [f"u{n % 3}" for n in range(start, stop)]})

def slowly(batch):
    time.sleep(0.02)
    return batch

source = rc.read().generator(clicks, schema="user STRING", per_timestep=100, rows=ROWS)
counted = source.map_batches(slowly).key_by("user").aggregate(n=rc.aggregates.count(), name="users")
job = rc.Job("one", counted, state=STATE)
"""
ROWS = 9_000


@pytest.fixture
def program(tmp_path):
    path = tmp_path / "clicks.py"
    text = PROGRAM.replace("STATE", repr(str(tmp_path / "state")))
    path.write_text(text.replace("ROWS", str(ROWS)))
    return path


def driver(program):
    """A driver that stands by, in a process of its own."""
    arguments = ["run", str(program), "--in-process", "--standby", "--until-idle", "--json"]
    code = f"import sys; from rechannel.cli import main; sys.argv[1:] = {arguments!r}; main()"
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_it_takes_over_from_a_driver_that_is_killed(program, rechannel, tmp_path):
    with driver(program) as first:
        assert json.loads(first.stdout.readline())["timestep"] == 1
        with driver(program) as second:
            said = second.stderr.readline()
            while "standing by" not in said:
                assert said, "it did not stand by"
                said = second.stderr.readline()
            assert f"process {first.pid} on host" in said
            assert second.poll() is None
            first.kill()
            assert first.wait(60) == -signal.SIGKILL
            out, err = second.communicate(timeout=120)
            assert second.returncode == 0, err
    assert "job 'one' stopped after" in err
    taken_over = json.loads(out.splitlines()[0])["timestep"]
    assert 1 < taken_over <= ROWS // 100
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert (status["epoch"], status["timestep"]) == (2, ROWS // 100)
    shown = json.loads(rechannel("state", tmp_path / "state", "users", "--json").out)
    assert sum(row["n.count"] for row in shown["rows"]) == ROWS


def test_it_ends_when_it_is_asked_to_while_it_stands_by(program, rechannel):
    active = find_job(load(program), None).start(in_process=InProcess())
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGTERM)).start()
    reaction = rechannel("run", program, "--in-process", "--standby")
    assert reaction.code == 0
    assert f"standing by: process {os.getpid()} on host" in reaction.err
    assert active.is_active
    active.stop(60)


def test_it_starts_at_once_where_no_driver_runs(program, rechannel, tmp_path):
    reaction = rechannel("run", program, "--in-process", "--standby", "--until-idle")
    assert reaction.code == 0
    assert "standing by" not in reaction.err
    status = json.loads(rechannel("status", tmp_path / "state", "--json").out)
    assert status["timestep"] == ROWS // 100


def test_it_takes_over_from_a_dead_driver_whose_clock_was_ahead(program, monkeypatch, tmp_path):
    for module in ("lease", "standby"):
        monkeypatch.setattr(f"rechannel.engine.journal.{module}.FRESH_MS", 500)
    find_job(load(program), None).start(in_process=InProcess()).stop()
    ahead_ms = int(time.time() * 1e3) + 3_600_000
    dead = Holder(host="elsewhere", pid=1, started_ms=1, epoch=1, heartbeat_ms=ahead_ms)
    record = seal({"format": 3, **encode(dead)})
    LocalStore(tmp_path / "state").put(LEASE, record)
    job = find_job(load(program), None)
    until = time.monotonic() + 60
    assert job.stand_by(lambda: time.monotonic() > until, print)
    job.start(in_process=InProcess()).stop()
