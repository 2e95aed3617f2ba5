"""Fetching behind the backs of tasks: begun once per host, told when it is over, gone on with after a death."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from dataclasses import asdict
from pathlib import Path

import pytest

from rechannel.kernels.lsm import ahead
from rechannel.kernels.lsm.ahead import Attended, Errand, attend
from rechannel.kernels.lsm.prefetch import prefetch
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.state.cache.host_cache import VARIABLE
from rechannel.state.segments import segment as segments
from rechannel.state.stores import shared
from rechannel.state.stores.local import Durability, LocalStore
from rechannel.state.stores.shared import SharedStore
from tests.support.tasks import Bench, counting, rows

MANY = rows(*((f"key {i}", i) for i in range(30_000)))
EIGHTHS = tuple(Intervals.of([(n * SPACE // 8, (n + 1) * SPACE // 8)]) for n in range(8))


@pytest.fixture
def program(tmp_path, monkeypatch):
    """Of an operator whose state another host has written."""
    segments._segments._entries.clear()
    shared._files._entries.clear()
    local = LocalStore(tmp_path / "state", Durability.PROCESS)
    bench = Bench(counting(), SharedStore(local, str(tmp_path / "here"), 1 << 30))
    bench.step([(MANY, 0)])
    segments._segments._entries.clear()
    shared._files._entries.clear()
    monkeypatch.setenv(VARIABLE, str(tmp_path / "there"))
    return bench.program, bench.manifest.runs


def errand(runs, name="one", pieces=EIGHTHS):
    return Errand(name, runs, pieces)


def finish(program, wanted, directory) -> Attended:
    deadline = time.monotonic() + 30
    while not (told := attend(program, wanted, directory)).done:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return told


def test_it_goes_on_behind_whoever_began_it_and_is_told_once(program, tmp_path):
    made, runs = program
    directory = made.store.directory_here
    first = attend(made, errand(runs), directory)
    assert (first.done, first.pieces) == (False, 0)
    told = finish(made, errand(runs), directory)
    assert told.pieces == 8
    assert told.error == ""
    assert told.bytes_fetched >= sum(run.size for run in runs) * 0.9
    assert prefetch(made, runs, Intervals.everything()).bytes_fetched == 0
    assert not list(Path(directory).glob(".ahead*"))
    assert directory == str(tmp_path / "there")


def test_two_processes_of_a_host_do_it_once(program, monkeypatch):
    made, runs = program
    directory = made.store.directory_here
    may_go, calls = threading.Event(), []

    def slowly(*given):
        calls.append(given)
        may_go.wait(30)
        return prefetch(*given)

    monkeypatch.setattr(ahead, "prefetch", slowly)
    for _ in range(5):
        assert not attend(made, errand(runs), directory).done
    assert len(calls) <= 1
    may_go.set()
    assert finish(made, errand(runs), directory).pieces == len(calls) == 8


def test_somebody_else_goes_on_where_a_process_died(program):
    made, runs = program
    directory = made.store.directory_here
    Path(directory).mkdir()
    with Path(directory, ".ahead-one").open("w") as file:
        json.dump(asdict(Attended(pieces=6, bytes_fetched=17)), file)
        fcntl.flock(file, fcntl.LOCK_EX)
        file.flush()
        busy = attend(made, errand(runs), directory)
        assert (busy.done, busy.pieces) == (False, 6)
    told = finish(made, errand(runs), directory)
    assert told.pieces == 8
    whole = sum(run.size for run in runs)
    assert 0 < told.bytes_fetched < whole * 0.7


def test_where_workers_end_with_their_tasks_the_task_does_it(program):
    made, runs = program
    told = attend(made, errand(runs), made.store.directory_here, background=False)
    assert told.done
    assert told.pieces == 8


def test_pauses_follow_what_a_piece_took(program):
    made, runs = program
    pauses: list[float] = []
    told = attend(
        made,
        errand(runs),
        made.store.directory_here,
        background=False,
        pause=2.0,
        sleep=pauses.append,
    )
    assert sum(pauses) == pytest.approx(2.0 * told.ms / 1e3)


def test_what_cannot_be_fetched_ends_it_and_says_why(program):
    made, runs = program
    path = made.store.backing.root / runs[0].segment
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    told = attend(made, errand(runs), made.store.directory_here, background=False)
    assert told.done
    assert runs[0].segment in told.error


def test_without_a_cache_there_is_nothing_to_do(program, tmp_path):
    made, runs = program
    (tmp_path / "file").write_text("")
    told = attend(made, errand(runs), str(tmp_path / "file"))
    assert (told.done, told.pieces) == (True, 0)
    assert "no cache" in told.error


def test_a_file_that_makes_no_sense_is_begun_anew(program):
    made, runs = program
    directory = made.store.directory_here
    Path(directory).mkdir()
    for text in ("", "{", "[1]", '{"other": 1}'):
        Path(directory, ".ahead-one").write_text(text, encoding="utf-8")
        told = attend(made, errand(runs), directory, background=False)
        assert told.done
        assert told.pieces == 8


def test_what_a_driver_left_that_is_gone_is_removed(program):
    made, runs = program
    directory = Path(made.store.directory_here)
    directory.mkdir()
    old, young, other = (directory / name for name in (".ahead-old", ".ahead-young", "old.part"))
    for path in (old, young, other):
        path.write_text("{}")
    for path in (old, other):
        os.utime(path, (1e9, 1e9))
    attend(made, errand(runs), str(directory), background=False)
    assert not old.exists()
    assert young.exists()
    assert other.exists()


def test_what_is_still_worked_on_is_not_removed(program):
    made, runs = program
    directory = Path(made.store.directory_here)
    directory.mkdir()
    with (directory / ".ahead-other").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        os.utime(file.name, (1e9, 1e9))
        attend(made, errand(runs), str(directory), background=False)
        assert Path(file.name).exists()
