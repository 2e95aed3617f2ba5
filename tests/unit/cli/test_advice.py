"""`rechannel advice` of a job that runs, and `rechannel scale` of what it leaves."""

from __future__ import annotations

import json
import re

import pytest

from tests.support.advised import scaled


@pytest.fixture
def busy(clicks):
    """A job whose controller has decided something."""
    scaled(clicks, dry_run=True)
    return clicks


ASKED = ("--policy", "ds2", "--rate", "10000000")


def test_a_running_job_is_advised(busy, rechannel):
    with busy.job_running.serve(port=0) as server:
        text = rechannel("advice", server.url, *ASKED, "--window", "2s")
        made = json.loads(rechannel("advice", server.url, *ASKED, "--window", "2s", "--json").out)
        bad = rechannel("advice", server.url, "--policy", "magic")
    assert text.code == 0
    assert text.lines[0].startswith("clicks: ")
    assert text.lines[0].endswith("; 10,000,000 rows per second arrive")
    users = made["operators"]["users"]
    assert users["sentence"] in text.lines
    [row] = [line.split() for line in text.lines if line.startswith("users ")]
    assert row[1:5] == ["2", *(f"{users[name]:,}" for name in ("advised", "low", "high"))]
    assert "Decisions of scale, which only advises:" in text.lines
    assert bad.code == 2
    assert "policy 'magic': there is none; give one of ds2, " in bad.err


def test_a_state_directory_is_advised(busy, rechannel):
    busy.job_running.stop()
    expected = busy.job_running.advice(policy="ds2", rate=1e7, window=2.0)
    made = rechannel("scale", busy.directory, *ASKED, "--window", "2 s", "--json")
    assert json.loads(made.out) == json.loads(json.dumps(expected.to_dict()))
    text = rechannel("scale", busy.directory, "--interval", "500 ms", "--executor-cores", "2")
    assert text.code == 0
    assert re.match(r"clicks: \d windows?, timesteps 2 to \d+; 21 rows per second", text.lines[0])
    assert "will keep an interval of 500 ms at 80%: " in text.lines[1]
    for decided in expected.controllers[0].decisions:
        assert any(f"  {decided.outcome}" in line for line in text.lines)
    [executors] = [line.split() for line in text.lines if line.startswith("executors")]
    assert executors[1:] == ["1", "1", "1", "1"]
