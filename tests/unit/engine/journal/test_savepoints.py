"""Savepoints: the state of a named timestep stays, and a fork begins with it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.cli.inspect.damage import verify_everything
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.engine.journal.acts import acts_of
from rechannel.engine.journal.entries import Closed, Entry, Opened, SavepointMade
from rechannel.engine.journal.folds.acts import MOST_SAVEPOINTS
from rechannel.engine.journal.folds.fold import fold
from rechannel.engine.journal.forking import beginning_of, check_outputs
from rechannel.engine.journal.savepoints import making, savepoints_of
from rechannel.engine.journal.snapshot import from_bytes, to_bytes
from rechannel.engine.journal.state import JournalState
from rechannel.errors import NewerFormatError, NotReadyError, RefusedError
from rechannel.model.codec import decode, encode
from rechannel.running import savepoints
from rechannel.state.keys import SEGMENTS
from rechannel.state.sealed import unseal
from rechannel.testing import Crash, Fault, FaultKind
from tests.support.input_files import put_parquet
from tests.support.text_edits import SECOND, World, before, found, read


def named(world: World, name: str = "first") -> Any:
    return savepoints.make(world.harness.process.parts, name, "a test")


def go_on(world: World, timesteps: int = 6) -> None:
    """Commit timesteps, write all state anew, and remove what no version needs."""
    process = world.harness.process
    process.reconfigure(rc.changes.rewrite("op"))
    for _ in range(timesteps):
        world.source.push(SECOND)
        process.run()
    process.sweep()


def segments(world: World) -> set[str]:
    return set(world.store.list(SEGMENTS))


def test_the_files_of_a_savepoint_stay_until_it_is_dropped():
    world = World(before, in_flight=False)
    made = named(world)
    kept = world.state.savepoints["first"].version.files()
    assert (made.timestep, made.files, made.program) == (1, len(kept), 1)
    go_on(world)
    assert kept <= segments(world)
    live = {run.segment for run in world.state.manifests["op"].runs}
    assert not kept & live
    savepoints.drop(world.harness.process.parts, "first", "a test")
    go_on(world, 1)
    assert not kept & segments(world)
    assert [one["kind"] for one in acts_of(world.state.notes)] == ["savepoint", "savepoint dropped"]


def test_segments_that_only_a_savepoint_needs_are_compared_with_the_journal():
    world = World(before, in_flight=False)
    named(world)
    kept = world.state.savepoints["first"].version.files()
    go_on(world)
    live = {run.segment for run in world.state.manifests["op"].runs}
    old = min(key for key in kept if key.startswith(SEGMENTS))
    directory = SimpleNamespace(store=world.store)
    assert not verify_everything(directory, lambda *_: None).damages
    world.store.put(old, world.store.read(min(live - kept)))  # whole, but not what was there
    assert [one.file for one in verify_everything(directory, lambda *_: None).damages] == [old]


def test_a_savepoint_is_part_of_a_snapshot_which_earlier_releases_refuse():
    world = World(before, in_flight=False)
    assert json.loads(to_bytes(world.state))["format"] == 4
    named(world)
    data = to_bytes(world.state)
    assert from_bytes(data, name="it") == world.state
    with pytest.raises(NewerFormatError):
        unseal(data, name="it", newest=5)
    go_on(world)
    assert from_bytes(to_bytes(world.state), name="it") == world.state


@pytest.mark.parametrize("kind", [FaultKind.BEFORE, FaultKind.AFTER])
def test_a_savepoint_whose_driver_dies_at_its_write(kind):
    armed = [False]

    def faults() -> Iterator[Fault | None]:
        while True:
            yield Fault(kind=kind) if armed[0] else None

    world = World(before, in_flight=False, faults=faults())
    armed[0] = True
    with pytest.raises(Crash):
        named(world)
    armed[0] = False
    world.harness = world.bench(before)
    world.harness.start().run()
    assert set(world.state.savepoints) == ({"first"} if kind is FaultKind.AFTER else set())
    go_on(world)
    assert found(world.harness, "op")["b"] == {"n": 1, "total": 2}


def test_what_sources_kept_for_a_savepoint_goes_once_it_was_dropped_also_over_a_restart(tmp_path):
    rows = rc.read().files(tmp_path / "in", format="parquet", schema="k STRING", name="in")
    flow = rows.key_by("k").aggregate(n=agg.count(), name="op").write.memory("out", name="out")
    job = rc.Job("files", flow, state=tmp_path / "state")

    def feed(number: int) -> None:
        (tmp_path / "in").mkdir(exist_ok=True)
        put_parquet(tmp_path / "in" / f"{number}.parquet", pa.table({"k": ["a"]}))
        running.process_all_available()

    running = job.start(in_process=rc.InProcess())
    feed(0)
    running.savepoint("first", cause="a test")
    for number in range(1, 6):
        feed(number)
    running.drop_savepoint("first", cause="a test")
    running.stop()
    assert len(list((tmp_path / "state").glob("sources/in/pages/*"))) > 3
    running = job.start(in_process=rc.InProcess())
    feed(6)
    running.stop()
    assert len(list((tmp_path / "state").glob("sources/in/pages/*"))) <= 3
    assert running.state("op").to_pylist() == [{"k": "a", "n": 7}]


def test_what_cannot_be_a_savepoint_is_refused():
    empty = JournalState()
    with pytest.raises(NotReadyError, match="no timestep is committed yet"):
        making(empty, "first", 0, "")
    world = World(before, in_flight=False)
    for name in ("", ".hidden", "a/b", "x" * 65, "a b"):
        with pytest.raises(RefusedError, match="at most 64 letters"):
            named(world, name)
    for number in count():
        if number == MOST_SAVEPOINTS:
            break
        named(world, f"s{number}")
    with pytest.raises(RefusedError, match="drop one of"):
        named(world, "another")
    with pytest.raises(RefusedError, match="there is a savepoint 's1' already, of timestep 1"):
        named(world, "s1")
    with pytest.raises(NotReadyError, match="there is no savepoint 'other'"):
        savepoints.drop(world.harness.process.parts, "other", "a test")
    assert list(savepoints_of(world.state)) == [f"s{n}" for n in range(MOST_SAVEPOINTS)]


def test_a_savepoint_is_of_the_latest_commit_only():
    world = World(before, in_flight=False)
    entry = SavepointMade(name="late", timestep=0, time_ms=0, cause="")
    with pytest.raises(ValueError, match="the latest is 1"):
        world.harness.process.journal.append(entry)


def forked(world: World) -> JournalState:
    """The state with which a fork of the first savepoint begins, read from its entries."""
    beginning = beginning_of(
        world.state.savepoints["first"], "first", "/state/origin", world.state.notes
    )
    opened = Opened(host="", pid=0, time_ms=5, fingerprint="", version="", id="f", begins=beginning)
    state = JournalState()
    for number, body in enumerate((opened, Closed(time_ms=5)), 1):
        data = Entry(number=number, epoch=1, body=body).to_bytes()
        state = fold(state, Entry.from_bytes(data, name="it"))
    return state


def test_a_fork_begins_with_the_state_of_then_and_without_sinks():
    world = World(before, in_flight=False)
    named(world)
    then = world.state
    go_on(world)
    state = forked(world)
    assert (state.last_committed, state.stream_ms) == (1, then.stream_ms)
    assert (state.manifests, state.offsets, state.times) == (
        then.manifests,
        then.offsets,
        then.times,
    )
    assert state.configuration_at(2) == then.configuration_at(2)
    assert state.notes["incarnations"]["sinks"] == {}
    assert set(state.notes) == {"program", "incarnations", "fork", "acts"}
    assert acts_of(state.notes)[-1]["what"] == "forked from savepoint 'first' of /state/origin"
    assert decode(Opened, encode(state.driver)) == state.driver


def test_only_the_first_entry_begins_at_a_savepoint():
    world = World(before, in_flight=False)
    named(world)
    state = forked(world)
    again = Entry(number=3, epoch=2, body=replace(state.driver, id="g"))
    with pytest.raises(ValueError, match="it is not the first"):
        fold(state, again)


def test_a_fork_may_not_write_where_its_origin_does(tmp_path: Path):
    world = World(before, in_flight=False)
    notes = {
        "fork": {
            "origin": "/state/origin",
            "sinks": [["out", None], ["files", rc_home(tmp_path / "out")]],
        }
    }
    with pytest.raises(RefusedError, match="may write to where the job writes"):
        check_outputs(dataflow_of(*before(world.source)), notes)
    flow = read(world.source).write
    same = dataflow_of(flow.parquet(tmp_path / "out", name="mine"))
    with pytest.raises(RefusedError, match="give the fork a place of its own"):
        check_outputs(same, notes)
    other = [flow.parquet(tmp_path / "elsewhere", name="files"), flow.memory("m", name="mine")]
    check_outputs(dataflow_of(*other), notes)
    check_outputs(same, {})


def test_a_fork_keeps_off_the_sinks_of_the_savepoint_and_of_now():
    world = World(before, in_flight=False)
    named(world)
    then = world.state.savepoints["first"]
    members = world.state.notes["incarnations"]
    moved = {**members, "sinks": {"out": {"place": "b", "id": "sink-9", "since": 2}}}
    now = {"fork": {"origin": "/state/older", "sinks": [["out", "c"]]}, "incarnations": moved}
    fork = beginning_of(then, "first", "/state/origin", now).notes["fork"]
    assert fork["sinks"] == [["out", None], ["out", "c"], ["out", "b"]]


def rc_home(path: Path) -> str | None:
    """Where a sink of files at a path writes, as the journal has it."""
    stream = rc.read().memory(rc.sources.MemoryConnector(schema="k string"), name="in")
    return stream.write.parquet(path, name="x").node.outlet.home
