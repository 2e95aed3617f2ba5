"""`rechannel savepoint`, `savepoints`, `fork` and `history`: names for timesteps, and directories that begin there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.repair import forking
from rechannel.errors import RefusedError


def job(place: Path, state: str = "state", out: str = "out") -> Any:
    rows = rc.read().files(place / "in", format="parquet", name="in")
    users = rows.key_by("k").aggregate(n=agg.count(), total=agg.sum("v"), name="users")
    settings = rc.Settings(durability=rc.Durability.PROCESS)
    flow = users.write.parquet(place / out, name="out")
    return rc.Job("clicks", flow, state=place / state, settings=settings)


def run(place: Path, *numbers: int, **where: str) -> list[dict[str, Any]]:
    """Process files of these numbers; return the state after them."""
    for number in numbers:
        table = pa.table({"k": ["a"], "v": [number]})
        pq.write_table(table, place / "in" / f"{number}.parquet")
    running = job(place, **where).start(in_process=rc.InProcess())
    running.process_all_available()
    found = running.state("users").to_pylist()
    running.stop()
    return found


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    run(tmp_path, 1)
    return tmp_path


def test_a_fork_is_made_in_python(rechannel, place):
    assert rechannel("savepoint", place / "state", "first").code == 0
    program = job(place)
    assert program.fork(place / "one", at="first") == program.fork(place / "other") == 1
    assert run(place, 2, state="one", out="out-one") == [{"k": "a", "n": 2, "total": 3}]
    with pytest.raises(RefusedError, match="is there already"):
        program.fork(place / "one", at="first")
    with pytest.raises(rc.errors.NotReadyError, match="second"):
        program.fork(place / "third", at="second")


def test_a_fork_needs_a_directory(place):
    flow = rc.read().memory("k STRING", name="in").write.memory("out")
    with pytest.raises(RefusedError, match="not in a directory"):
        rc.Job("clicks", flow, state=rc.testing.MemoryStore()).fork(place / "new")


def test_a_savepoint_of_a_directory_is_made_shown_and_dropped(rechannel, place):
    state = place / "state"
    made = rechannel("savepoint", state, "first", "--cause", "a test")
    assert made.code == 0, made.err
    assert made.lines[0].startswith("Savepoint 'first' keeps timestep 1: ")
    [shown] = json.loads(rechannel("savepoints", state, "--json").out)["savepoints"]
    assert (shown["name"], shown["timestep"], shown["cause"]) == ("first", 1, "a test")
    assert rechannel("savepoint", state, "first").code == 2
    assert rechannel("verify", state).code == 0
    assert rechannel("repair", state).code == 0
    assert rechannel("savepoint", state, "first", "--drop").lines == [
        "Savepoint 'first' of timestep 1 is dropped."
    ]
    assert rechannel("savepoints", state).lines == ["There are no savepoints."]
    acts = json.loads(rechannel("history", state, "--json").out)["acts"]
    assert [one["what"] for one in acts] == ["savepoint 'first'", "savepoint 'first' is dropped"]
    assert "savepoint 'first' is dropped" in rechannel("history", state).out


def test_a_savepoint_of_a_running_job_is_made_by_its_url(rechannel, place):
    running = job(place).start(in_process=rc.InProcess())
    try:
        refused = rechannel("savepoint", place / "state", "first")
        assert refused.code == 2
        with running.serve(port=0) as server:
            assert rechannel("savepoint", server.url, "first").code == 0
            assert rechannel("savepoints", server.url).lines[1].startswith("first")
            assert "savepoint 'first'" in rechannel("history", server.url).out
            assert rechannel("fork", place / "state", place / "fork", "--at", "first").code == 0
            assert rechannel("savepoint", server.url, "first", "--drop").code == 0
            assert rechannel("savepoint", server.url, "first", "--drop").code == 2
        assert list(running.savepoints) == []
        assert [one.kind for one in running.acts] == ["savepoint", "savepoint dropped"]
    finally:
        running.stop()


def test_a_fork_goes_on_from_the_savepoint_and_both_directories_live_apart(rechannel, place):
    assert rechannel("savepoint", place / "state", "first").code == 0
    assert run(place, 10) == [{"k": "a", "n": 2, "total": 11}]
    made = rechannel("fork", place / "state", place / "fork", "--at", "first", "--json")
    assert made.code == 0, made.err
    assert json.loads(made.out)["timestep"] == 1
    assert rechannel("verify", place / "fork").code == 0
    with pytest.raises(RefusedError, match="give the fork a place of its own"):
        run(place, state="fork")
    # It reads what the origin has read since, and then more.
    assert run(place, 100, state="fork", out="fork-out") == [{"k": "a", "n": 3, "total": 111}]
    assert run(place) == [{"k": "a", "n": 3, "total": 111}]
    assert rechannel("savepoint", place / "state", "first", "--drop").code == 0
    for number in range(1000, 1008):
        run(place, number)
    assert run(place, state="fork", out="fork-out")[0]["n"] == 11
    for directory in ("state", "fork"):
        assert rechannel("verify", place / directory).code == 0
    [act] = json.loads(rechannel("history", place / "fork", "--json").out)["acts"]
    assert act["what"] == f"forked from savepoint 'first' of {place / 'state'}"


def test_segments_are_linked(rechannel, place):
    rechannel("fork", place / "state", place / "fork")
    [segment] = (place / "fork" / "segments").rglob("*.arrow")
    assert segment.samefile(place / "state" / segment.relative_to(place / "fork"))


def test_all_folders_of_a_fork_are_durable_before_it_begins(rechannel, place, monkeypatch):
    settled: list[Path] = []
    real = forking._begin

    def begin(made: Any, *rest: Any) -> None:
        folders = {one.parent for one in made.root.rglob("*") if one.is_file()}
        for folder in folders:
            up = folder.relative_to(made.root)
            assert {made.root / one for one in (up, *up.parents)} <= set(settled)
        assert any(len(one.relative_to(made.root).parts) > 1 for one in folders)
        real(made, *rest)

    monkeypatch.setattr(forking, "_settle", settled.append)
    monkeypatch.setattr(forking, "_begin", begin)
    assert rechannel("fork", place / "state", place / "fork").code == 0


def test_forks_that_cannot_be(rechannel, place):
    (place / "there").mkdir()
    (place / "there" / "file").write_text("")
    refused = rechannel("fork", place / "state", place / "there")
    assert "is there already, and not empty" in refused.err
    missing = rechannel("fork", place / "state", place / "fork", "--at", "nothing")
    assert "there is no savepoint 'nothing'; there are: none" in missing.err
    assert {one.name for one in place.iterdir()} == {"in", "out", "state", "there"}


def test_a_fork_that_dies_before_its_end_leaves_no_directory(rechannel, place, monkeypatch):
    class Died(BaseException):
        pass

    def die(self: Path, target: Path) -> None:
        raise Died

    with monkeypatch.context() as patched:
        patched.setattr(Path, "replace", die)
        with pytest.raises(Died):
            rechannel("fork", place / "state", place / "fork")
    assert not (place / "fork").exists()
    assert rechannel("fork", place / "state", place / "fork").code == 0
    assert run(place, 5, state="fork", out="fork-out") == [{"k": "a", "n": 2, "total": 6}]
