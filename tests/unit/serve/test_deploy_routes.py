"""POST /deploy and /deploy/plan."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from tests.support.asking import client_of
from tests.support.input_files import put_parquet

TEXT = """
import rechannel as rc

rows = rc.read().files("{place}/in", format="parquet", name="in")
users = rows.key_by("k").aggregate({aggregates}, name="users")
job = rc.Job("{job}", users.write.parquet("{place}/out", name="out"), state="{place}/{state}", {declared})
"""

COUNT = "n=rc.aggregates.count()"
TOP = 'n=rc.aggregates.count(), top=rc.aggregates.max("v")'
RENAMED = "number=rc.aggregates.count()"
MIGRATE = 'migrate={"users": rc.changes.migrate(rename={"n": "number"})}'


def text(
    place: Path, aggregates: str, declared: str = "", job: str = "clicks", state: str = "state"
) -> str:
    return TEXT.format(place=place, aggregates=aggregates, declared=declared, job=job, state=state)


def feed(place: Path, number: int) -> None:
    put_parquet(place / "in" / f"{number}.parquet", pa.table({"k": ["a"], "v": [number]}))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    (tmp_path / "programs").mkdir()
    feed(tmp_path, 1)
    return tmp_path


@pytest.fixture
def job(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    rows = rc.read().files(place / "in", format="parquet", name="in")
    users = rows.key_by("k").aggregate(n=agg.count(), name="users")
    made = rc.Job("clicks", users.write.parquet(place / "out", name="out"), state=place / "state")
    running = made.start(in_process=rc.InProcess())
    running.process_all_available()
    yield running
    running.stop()
    sys.modules.pop("rechannel_program_text", None)


@pytest.fixture
def ask(job: Any, place: Path) -> Iterator[Callable[..., tuple[int, Any]]]:
    with (
        job.serve(port=0, programs=[str(place / "programs")]) as server,
        client_of(server) as client,
    ):

        def call(path: str, **body: object) -> tuple[int, Any]:
            answer = client.post(path, json=body)
            return answer.status_code, answer.json()

        yield call


def put(place: Path, what: str) -> None:
    (place / "programs" / "text.py").write_text(what)


def test_a_text_is_planned_and_deployed(ask, job, place):
    put(place, text(place, TOP))
    status, planned = ask("/deploy/plan", file="text.py")
    assert status == 200
    assert (planned["plan"]["base"], planned["plan"]["version"]) == (1, 2)
    assert "top.max begins empty" in planned["text"]
    assert not job.open_reconfigurations
    assert "rechannel_program_text" not in sys.modules
    status, made = ask("/deploy", file="text.py", sha256=planned["sha256"], cause="a test")
    assert status == 202
    summary = job.reconfiguration(made["id"]).wait(60).summary()
    assert (summary.phase, summary.cause) == ("done", "a test")
    assert summary.change == (
        f"a deploy of {place}/programs/text.py (SHA-256 {planned['sha256'][:12]})"
    )
    feed(place, 5)
    job.process_all_available(60)
    assert job.state("users").to_pylist() == [{"k": "a", "n": 2, "top": 5}]
    assert ask("/deploy", file="text.py")[1]["id"] is None


def test_what_was_planned_is_what_is_deployed(ask, job, place):
    put(place, text(place, TOP))
    _, planned = ask("/deploy/plan", file="text.py")
    put(place, text(place, COUNT) + "raise SystemExit('ran')")
    status, refused = ask("/deploy", file="text.py", sha256=planned["sha256"])
    assert (status, refused["error"]) == (409, "refused")
    assert "is another file" in refused["message"]
    assert not job.history()


def test_what_would_be_lost_is_refused_with_the_line_to_add(ask, job, place):
    put(place, text(place, RENAMED))
    status, refused = ask("/deploy", file="text.py")
    assert status == 409
    assert "rc.changes.migrate(rename={'n': 'number'})" in refused["message"]
    put(place, text(place, RENAMED, MIGRATE))
    _, made = ask("/deploy", file="text.py")
    job.reconfiguration(made["id"]).wait(60)
    assert job.state("users").to_pylist() == [{"k": "a", "number": 1}]


@pytest.mark.parametrize(
    ("what", "said"),
    [
        ("1/0", "ZeroDivisionError"),
        ("import sys; sys.exit(1)", "ends the process"),
        ("made = 5", "makes no job"),
    ],
)
def test_a_text_that_fails_changes_nothing(ask, job, place, what, said):
    put(place, what)
    status, refused = ask("/deploy", file="text.py")
    assert (status, said in refused["message"]) == (409, True)
    assert job.is_active


@pytest.mark.parametrize("other", [{"job": "shop"}, {"state": "elsewhere"}])
def test_the_text_of_another_job_is_refused(ask, place, other):
    put(place, text(place, TOP, **other))
    status, refused = ask("/deploy", file="text.py")
    assert status == 409
    assert "deploy it to that one" in refused["message"]


def test_no_text_travels_over_http(ask, job, place):
    for body in (
        {"file": text(place, TOP)[:500]},
        {"file": str(place / "elsewhere.py")},
        {"file": "../text.py"},
        {"text": text(place, TOP)},
        {"file": "text.py", "text": "import os"},
        {"file": "text.py", "name": 5},
        {"file": "text.py", "sha256": "x"},
    ):
        (place / "elsewhere.py").write_text("raise SystemExit('ran')")
        for path in ("/deploy", "/deploy/plan"):
            assert ask(path, **body)[0] in {403, 422}
    assert not job.history()


def test_a_job_without_places_deploys_nothing(job, place):
    put(place, text(place, TOP))
    with job.serve(port=0) as server, client_of(server) as client:
        answer = client.post("/deploy", json={"file": str(place / "programs" / "text.py")})
    assert (answer.status_code, answer.json()["error"]) == (403, "forbidden")
