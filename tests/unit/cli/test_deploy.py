"""`rechannel deploy` against a job that runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.cli.jobs.deploy import asked

pytestmark = pytest.mark.usefixtures("clean_imports")

TEXT = """
import rechannel as rc

rows = rc.read().files("{place}/in", format="parquet", name="in")
users = rows.key_by("k").aggregate(n=rc.aggregates.count(), top=rc.aggregates.max("v"), name="{name}")
job = rc.Job("clicks", users.write.parquet("{place}/out", name="out"), state="{place}/state")
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"k": ["a"], "v": [1]}), tmp_path / "in" / "1.parquet")
    made = tmp_path / "second.py"
    made.write_text(TEXT.format(place=tmp_path, name="users"))
    return made


@pytest.fixture
def job(file: Path) -> Iterator[Any]:
    place = file.parent
    rows = rc.read().files(place / "in", format="parquet", name="in")
    users = rows.key_by("k").aggregate(n=agg.count(), name="users")
    made = rc.Job("clicks", users.write.parquet(place / "out", name="out"), state=place / "state")
    running = made.start(in_process=rc.InProcess())
    running.process_all_available()
    yield running
    running.stop()


@pytest.fixture
def url(job: Any, file: Path) -> Iterator[str]:
    with job.serve(port=0, programs=[str(file)]) as server:
        yield server.url


def test_a_plan_is_shown_and_carried_out(rechannel, url, job, file):
    shown = rechannel("deploy", url, file, "--plan")
    assert shown.code == 0, shown.err
    assert shown.lines[0] == "Version 2 of the dataflow would take over from version 1:"
    assert not job.history()
    done = rechannel("deploy", url, file, "--wait", "--cause", "a test")
    assert (done.code, done.lines[:-1]) == (0, shown.lines)
    assert done.lines[-1].startswith("Reconfiguration r1 is done")
    assert job.history()[0].cause == "a test"
    assert job.state("users").to_pylist() == [{"k": "a", "n": 1, "top": None}]
    again = rechannel("deploy", url, file, "--json")
    assert json.loads(again.out)["id"] is None


def test_what_is_refused_tells_what_to_do(rechannel, url, file):
    file.write_text(TEXT.format(place=file.parent, name="people"))
    refused = rechannel("deploy", url, file)
    assert refused.code == 2
    assert "rc.Job(..., renamed={'users': 'people'})" in refused.err
    assert "start with --without users" in refused.err
    dropped = rechannel("deploy", url, file, "--without", "users", "--wait")
    assert dropped.code == 0, dropped.err


def test_a_file_on_another_machine_is_named_as_it_is_written(file, tmp_path):
    elsewhere = asked("http://example.org:8520", "/srv/clicks.py:made", ())
    assert elsewhere == {"file": "/srv/clicks.py", "name": "made", "without": ()}
    both = asked("http://example.org:8520", str(file), ())
    assert both["file"] == str(file)
    assert len(both["sha256"]) == 64
