"""Committed timesteps run again: equal with the same logic, and otherwise different by what the logic differs."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections import Counter
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import (
    NotReadyError,
    RefusedError,
    UnknownOperatorError,
    UserFunctionError,
)
from rechannel.job import InProcess
from rechannel.model.configuration import Configuration
from rechannel.monitoring import Replay
from rechannel.sources.connectors import MemoryConnector
from rechannel.state.stores.overlay import OverlayStore

SCHEMA = "user STRING, ms BIGINT"
KEEP = rc.Settings(durability=rc.Durability.PROCESS, keep_versions=50, tasks=2, bins=8)
BATCHES = [
    [("ann", 1), ("bob", 2)],
    [("ann", 10), ("cleo", 4), ("ann", 10)],
    [("bob", -1), ("dan", 5)],
    [("cleo", 7), ("ann", -3)],
]


def double(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch({"user": batch["user"], "ms": [2 * n for n in batch["ms"].to_pylist()]})


def capped(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.record_batch(
        {"user": batch["user"], "ms": [min(2 * n, 10) for n in batch["ms"].to_pylist()]}
    )


def times(by: int) -> Any:
    def multiplied(batch: pa.RecordBatch) -> pa.RecordBatch:
        numbers = [by * n for n in batch["ms"].to_pylist()]
        return pa.record_batch({"user": batch["user"], "ms": numbers})

    return multiplied


def failing(batch: pa.RecordBatch) -> pa.RecordBatch:
    raise LookupError(batch.num_rows)


class Stream:
    """A job over batches of rows, one timestep each."""

    def __init__(self, state: Path, function: Any = double, settings: rc.Settings = KEEP) -> None:
        self.state, self.settings = state, settings
        self.rows = MemoryConnector(schema=SCHEMA, partitions=2, per_timestep=1)
        self.function = function

    def flows(self, function: Any) -> list[Any]:
        stream = rc.read().memory(self.rows, name="rows")
        mapped = stream.map_batches(function, schema=SCHEMA, name="mapped")
        sums = mapped.key_by("user").aggregate(total=agg.sum("ms"), n=agg.count(), name="sums")
        return [mapped.write.memory("plain", name="plain"), sums.write.memory("out", name="out")]

    def job(self, function: Any = None) -> rc.Job:
        flows = self.flows(function or self.function)
        return rc.Job("stream", flows, state=self.state, settings=self.settings)

    def push(self, rows: list[tuple[str, int]]) -> None:
        users, numbers = zip(*rows, strict=True)
        self.rows.push(pa.record_batch({"user": users, "ms": numbers}))

    def start(self, *batches: list[tuple[str, int]], **how: Any) -> rc.RunningJob:
        for rows in batches:
            self.push(rows)
        job = self.job().start(in_process=InProcess(**how))
        job.process_all_available(60)
        return job


@pytest.fixture
def stream(tmp_path) -> Stream:
    return Stream(tmp_path / "state")


@pytest.fixture
def stopped(stream) -> Stream:
    stream.start(*BATCHES).stop()
    return stream


def digests(directory: Path) -> dict[str, str]:
    """Every file of a directory with its content and its time."""
    return {
        str(path.relative_to(directory)): f"{path.stat().st_mtime_ns} "
        + hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(directory.rglob("*"))
        if path.is_file()
    }


def again(stream: Stream, timesteps: range | int = range(1, 5), **more: Any) -> Replay:
    function = more.pop("function", None)
    return stream.job(function).replay(timesteps, in_process=InProcess(), **more)


def bag(rows: Any) -> Counter[str]:
    return Counter(repr(sorted(row.items())) for row in rows)


def test_the_same_logic_gives_the_same(stopped):
    found = again(stopped)
    assert found.equal
    assert (found.first, found.last, found.program, found.other_logic) == (1, 4, 1, ())
    assert [(part.timestep, part.node, part.sinks, part.equal) for part in found.output] == [
        *((1, "mapped", ("plain",), 2), (1, "sums", ("out",), 2)),
        *((2, "mapped", ("plain",), 3), (2, "sums", ("out",), 2)),
        *((3, "mapped", ("plain",), 2), (3, "sums", ("out",), 2)),
        *((4, "mapped", ("plain",), 2), (4, "sums", ("out",), 2)),
    ]
    assert [(part.operator, part.keys, part.equal) for part in found.state] == [("sums", 0, 4)]
    assert len(found.durations_ms) == 4
    assert again(stopped, 3).output == found.output[4:6]


def test_other_logic_differs_by_what_two_batches_differ(stopped):
    found = again(stopped, function=capped, examples=1000)
    assert not found.equal
    assert found.other_logic == ("mapped",)
    batches = {}
    for function in (double, capped):
        with rc.run_batch(stopped.flows(function), in_process=InProcess()) as result:
            batches[function] = (
                bag(result.output("plain").to_pylist()),
                bag(result.state_table("sums").drop_columns(["_hash"]).to_pylist()),
            )
    for number, parts in enumerate(
        ([part for part in found.output if part.node == "mapped"], found.state)
    ):
        then, now = batches[double][number], batches[capped][number]
        missing = sum((bag(part.missing_rows) for part in parts), Counter())
        added = sum((bag(part.added_rows) for part in parts), Counter())
        assert missing == then - now
        assert added == now - then
        assert sum(part.missing for part in parts) == missing.total() > 0
        assert sum(part.equal for part in parts) == (then & now).total()
    assert [part.keys for part in found.state] == [2]


def test_logic_may_be_given_by_node(stopped):
    by_text, by_node = (
        again(stopped, function=capped),
        again(stopped, logic={"mapped": capped}),
    )
    assert by_node.output == by_text.output
    assert by_node.state == by_text.state
    assert by_node.other_logic == ("mapped",)


def test_a_range_begins_with_the_state_of_then(stopped):
    found = again(stopped, range(3, 5), logic={"mapped": capped})
    assert {part.timestep for part in found.output} == {3, 4}
    # What ann was given before timestep 3 was not capped: her total is that of then.
    sums = {row["user"]: row for part in found.output for row in part.added_rows}
    assert "ann" not in sums
    assert sums["cleo"]["total"] == 8 + 10


def test_examples_are_bounded_and_rows_are_counted(stopped):
    found = again(stopped, 2, logic={"mapped": capped}, examples=1)
    [mapped] = [part for part in found.output if part.node == "mapped"]
    assert (mapped.missing, mapped.added) == (2, 2)
    assert len(mapped.missing_rows) == len(mapped.added_rows) == 1


def test_the_result_is_a_table_and_plain_values(stopped):
    found = again(stopped, range(2, 3), logic={"mapped": capped})
    assert str(found).splitlines() == [
        "Timestep 2 again with other logic in mapped: different.",
        "",
        "timestep  rows of  for sinks  equal  missing  added",
        "       2  mapped   plain          1        2      2",
        "       2  sums     out            1        1      1",
        "",
        "state of  other keys  equal  missing  added",
        "sums               1      2        1      1",
        "",
        "timestep 2, mapped (- committed, + replayed):",
        "- user='ann', ms=20",
        "- user='ann', ms=20",
        "+ user='ann', ms=10",
        "+ user='ann', ms=10",
        "",
        "timestep 2, sums (- committed, + replayed):",
        "- user='ann', total=42, n=3",
        "+ user='ann', total=22, n=3",
        "",
        "state of sums (- committed, + replayed):",
        *[line for line in str(found).splitlines()[-2:] if line.startswith(("- ", "+ "))],
    ]
    assert Replay.from_dict(found.to_dict()) == found
    assert str(again(stopped)).startswith("Timesteps 1 to 4 again with same logic: equal.\n")


def test_the_directory_is_as_before_byte_for_byte(stopped):
    before = digests(stopped.state)
    assert len(before) > 20
    again(stopped)
    again(stopped, logic={"mapped": capped})
    with pytest.raises(UserFunctionError, match="LookupError"):
        again(stopped, logic={"mapped": failing})
    assert digests(stopped.state) == before


def test_files_of_a_replay_are_gone_at_its_end(stopped, tmp_path):
    place = tmp_path / "place"
    place.mkdir()
    seen: list[list[Path]] = []

    def looking(batch: pa.RecordBatch) -> pa.RecordBatch:
        seen.append(list(place.rglob("*.arrow")))
        return double(batch)

    found = again(stopped, logic={"mapped": looking}, directory=place)
    assert all(part.same for part in found.output)
    assert seen[-1]
    assert list(place.iterdir()) == []


# Refusals ----------------------------------------------------------------------------------------


def other_state(stream: Stream) -> rc.Job:
    rows = rc.read().memory(stream.rows, name="rows")
    mapped = rows.map_batches(double, schema=SCHEMA, name="mapped")
    sums = mapped.key_by("user").aggregate(total=agg.mean("ms"), n=agg.count(), name="sums")
    flows = [mapped.write.memory("plain", name="plain"), sums.write.memory("out", name="out")]
    return rc.Job("stream", flows, state=stream.state, settings=stream.settings)


def test_logic_with_other_state_is_refused(stopped):
    with pytest.raises(RefusedError, match=r"cannot be replayed with this logic.*'sums'"):
        other_state(stopped).replay(range(2, 4), in_process=InProcess())
    with pytest.raises(RefusedError, match="'sums'"):
        again(stopped, logic={"sums": {"total": agg.mean("ms"), "n": agg.count()}})


def test_a_program_with_other_nodes_is_refused(stopped):
    flows = stopped.flows(double)[1:]
    job = rc.Job("stream", flows, state=stopped.state, settings=KEEP)
    with pytest.raises(RefusedError, match=r"lacks the nodes \['plain'\] of version 1"):
        job.replay(2, in_process=InProcess())


def test_logic_for_an_unknown_node_is_refused(stopped):
    with pytest.raises(UnknownOperatorError, match=r"'mapt'.*mapped"):
        again(stopped, logic={"mapt": capped})


def test_rows_that_a_source_no_longer_has_are_refused_before_any_work(stopped):
    ran: list[int] = []

    def counting(batch: pa.RecordBatch) -> pa.RecordBatch:
        ran.append(batch.num_rows)
        return double(batch)

    del stopped.rows.batches[2:]
    with pytest.raises(RefusedError) as caught:
        again(stopped, logic={"mapped": counting})
    assert "timestep 4 cannot be replayed: source 'rows' no longer has its rows" in str(
        caught.value
    )
    assert ran == []
    assert again(stopped, range(1, 3), logic={"mapped": counting}).equal is False or ran


@pytest.mark.parametrize("timesteps", [None, "3", [1, 2], True, 2.0])
def test_timesteps_are_a_range_or_a_number(stopped, timesteps):
    with pytest.raises(RefusedError, match=r"give a range, such as range\(5, 8\), or the number"):
        again(stopped, timesteps)


def test_a_directory_for_files_has_to_be_there(stopped, tmp_path):
    with pytest.raises(RefusedError, match="is not there: make it"):
        again(stopped, 2, directory=tmp_path / "none")


def test_a_directory_without_timesteps(tmp_path):
    with pytest.raises(NotReadyError, match="none is committed yet"):
        again(Stream(tmp_path / "nothing"))
    assert not (tmp_path / "nothing").exists()


# Beside a running job ----------------------------------------------------------------------------


def test_a_running_job_replays_and_goes_on(stream):
    job = stream.start(*BATCHES)
    number = job.status.timestep
    assert job.replay(range(2, 5)).equal
    assert not job.replay(4, logic={"mapped": capped}).equal
    assert job.status.timestep == number
    stream.push([("eve", 9)])
    job.process_all_available(60)
    assert job.replay(5).equal
    assert job.memory("out").num_rows == 9
    job.stop()
    assert job.exception is None
    assert job.replay(5).equal  # a stopped job answers as well


def test_live_reconfigurations_are_replayed(stream):
    job = stream.start(*BATCHES[:2])
    job.reconfigure(rc.changes.rescale("sums", tasks=4), rc.strategies.fluid(bins=1))
    for _ in range(4):
        for rows in BATCHES:
            stream.push(rows)
            job.process_all_available(60)
    last = job.status.timestep
    tasks = {
        config.operators["sums"].tasks for _, config in job._parts.journal.state.configurations
    }
    assert tasks == {2, 4}
    found = job.replay(range(1, last + 1))
    assert found.equal
    assert len(found.durations_ms) == last
    job.stop()


def test_the_job_may_sweep_meanwhile_and_what_is_held_stays(tmp_path):
    settings = rc.Settings(
        durability=rc.Durability.PROCESS, keep_versions=3, snapshot_every=2, tasks=2, bins=8
    )
    stream = Stream(tmp_path / "state", settings=settings)
    numbers = count()
    job = stream.start(*BATCHES, names=lambda: f"job{next(numbers)}")
    began, go = threading.Event(), threading.Event()

    def waiting(batch: pa.RecordBatch) -> pa.RecordBatch:
        began.set()
        assert go.wait(60)
        return double(batch)

    found: list[Replay] = []
    held = threading.Thread(
        target=lambda: found.append(job.replay(range(3, 5), logic={"mapped": waiting}))
    )
    held.start()
    assert began.wait(60)
    needed = job._parts.held.files()
    assert needed
    for _ in range(24):  # more commits than from one sweep to the next
        stream.push(BATCHES[0])
        job.process_all_available(60)
    job._parts.housekeeper.finish()
    there = {*job._parts.store.list("segments/"), *job._parts.store.list("outbox/")}
    named = set().union(*(v.files() for v in job._parts.journal.state.versions.values()))
    assert needed <= there
    assert needed - named  # without the replay they would be gone
    assert len(there) > 20
    assert all("-job" in key for key in there)  # none is of an attempt of the replay
    go.set()
    held.join(60)
    [replay] = found
    assert replay.equal
    assert replay.other_logic == ("mapped",)
    assert job._parts.held.files() == frozenset()
    job.stop()


def test_a_replay_of_a_directory_in_use_ends_when_the_job_removes_what_it_needs(tmp_path):
    settings = rc.Settings(
        durability=rc.Durability.PROCESS, keep_versions=3, snapshot_every=2, tasks=2, bins=8
    )
    stream = Stream(tmp_path / "state", settings=settings)
    job = stream.start(*BATCHES)
    removed: list[int] = []

    def overtaken(batch: pa.RecordBatch) -> pa.RecordBatch:
        if not removed:
            before = {*job._parts.store.list("segments/"), *job._parts.store.list("outbox/")}
            for _ in range(24):
                stream.push(BATCHES[0])
                job.process_all_available(60)
            job._parts.housekeeper.finish()
            after = {*job._parts.store.list("segments/"), *job._parts.store.list("outbox/")}
            removed.append(len(before - after))
        return double(batch)

    with pytest.raises(NotReadyError, match=r"has gone on, and no longer keeps timestep 2"):
        again(stream, range(3, 5), logic={"mapped": overtaken})
    assert removed[0] > 0
    job.stop()


def test_functions_that_were_made_of_parameters_are_made_again(stream):
    job = stream.start(*BATCHES[:2])
    job.reconfigure(
        rc.changes.assign_logic("mapped", f"{__name__}:times", parameters={"by": 5})
    ).wait(60)
    for rows in BATCHES[2:]:
        stream.push(rows)
        job.process_all_available(60)
    assert job.replay(range(3, 5)).equal
    job.stop()
    # `double` is in this module, so that the program is written in it.
    assert again(stream, range(3, 5)).equal
    assert again(stream, range(1, 3)).equal
    assert again(stream, range(3, 5), logic={"mapped": double}).other_logic == ("mapped",)
    assert again(stream, range(3, 5), function=capped).other_logic == ("mapped",)


def test_functions_of_modules_that_are_not_allowed_are_not_imported(stream, tmp_path, monkeypatch):
    (tmp_path / "replay_elsewhere.py").write_text(Path(__file__).read_text("utf-8"), "utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    path = "replay_elsewhere:times"
    job = stream.start(*BATCHES[:2])
    job.reconfigure(rc.changes.assign_logic("mapped", path, parameters={"by": 5})).wait(60)
    stream.push(BATCHES[2])
    job.process_all_available(60)
    job.stop()
    monkeypatch.delitem(sys.modules, "replay_elsewhere")
    with pytest.raises(RefusedError, match=r"with the functions that they ran with: .*allow it"):
        again(stream, 3)
    assert "replay_elsewhere" not in sys.modules
    assert again(stream, 3, logic={"mapped": times(5)}).equal
    assert "replay_elsewhere" not in sys.modules
    assert again(stream, 3, allow=["replay_elsewhere"]).equal


def test_state_of_an_earlier_schema_is_read_as_the_program_of_then_did(stream):
    job = stream.start(*BATCHES[:2])
    wider = {"total": agg.sum("ms"), "n": agg.count(), "most": agg.max("ms")}
    job.reconfigure(rc.changes.change_logic("sums", wider)).wait(60)
    for rows in BATCHES[2:]:
        stream.push(rows)
        job.process_all_available(60)
    found = job.replay(range(3, 5))
    assert found.equal
    assert found.state[0].equal == 4
    job.stop()
    with pytest.raises(RefusedError, match="'sums'"):
        again(stream, range(3, 5))
    assert again(stream, range(1, 3)).equal  # the state of after the change is converted, not that
    rows = rc.read().memory(stream.rows, name="rows")
    mapped = rows.map_batches(double, schema=SCHEMA, name="mapped")
    sums = mapped.key_by("user").aggregate(**wider, name="sums")
    ends = [mapped.write.memory("plain", name="plain"), sums.write.memory("out", name="out")]
    wide = rc.Job("stream", ends, state=stream.state, settings=KEEP)
    assert wide.replay(range(3, 5), in_process=InProcess()).equal


class Trial(rc.control.Controller):
    """Replays the latest timesteps with other logic."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.found: list[Replay] = []

    def on_begin(self, control: rc.control.Control) -> None:
        latest = range(control.timestep - 1, control.timestep + 1)
        found = control.replay(latest, logic={"mapped": self.function}, examples=0)
        self.found.append(found)
        control.note(f"{sum(part.missing for part in found.output)} rows")


def until(condition: Any) -> None:
    for _ in range(6000):
        if condition():
            return
        threading.Event().wait(0.01)
    raise TimeoutError


HANDLED: list[int] = []
"""Timesteps with which a control operation came by."""


class Passing(rc.control.OperatorHandler):
    def on_complete(self, task: rc.control.TaskView) -> int:
        HANDLED.append(task.timestep)
        return task.rows_in


class Watch(rc.control.Controller):
    trigger = rc.control.every(timesteps=1)

    def on_begin(self, control: rc.control.Control) -> rc.control.Operation:
        return rc.control.operation(Passing())


def test_control_operations_do_not_travel_again(stream):
    HANDLED.clear()
    job = stream.start()
    handle = job.control(Watch())
    for rows in BATCHES:
        stream.push(rows)
        job.process_all_available(60)
        # An operation that was begun travels with the next timestep that has rows.
        until(lambda: handle.status.operation)
    job.stop()
    handled, operations = list(HANDLED), job.controllers["watch"].status.operations
    assert handled
    assert job.replay(range(1, job.status.timestep + 1)).equal
    assert handled == HANDLED
    assert job.controllers["watch"].status.operations == operations


def test_a_controller_may_replay_in_a_callback(stream):
    job = stream.start(*BATCHES)
    trial = Trial(capped)
    handle = job.control(rc.control.install(trial, seconds=60))
    handle.trigger()
    until(lambda: len(handle.status.log) > 1)
    [found] = trial.found
    assert (found.first, found.last, found.other_logic) == (3, 4, ("mapped",))
    assert handle.status.log[-1] == f"{sum(part.missing for part in found.output)} rows"
    assert not found.equal
    assert not any(part.missing_rows for part in found.output)
    job.stop()


def test_a_replay_ends_with_the_time_of_its_callback(stream):
    began: list[int] = []

    def endless(batch: pa.RecordBatch) -> pa.RecordBatch:
        began.append(batch.num_rows)
        while True:
            threading.Event().wait(0.001)

    job = stream.start(*BATCHES)
    trial = Trial(endless)
    handle = job.control(rc.control.install(trial, seconds=0.3))
    handle.trigger()
    until(lambda: handle.status.failed)
    assert "took longer than 0.3 s" in handle.status.log[-1]
    assert began
    until(lambda: not job._parts.held.files())
    stream.push(BATCHES[0])
    job.process_all_available(60)
    assert job.status.timestep == 5
    assert trial.found == []
    job.stop()


def test_no_job_no_replay():
    control: rc.control.Control = rc.control.Control(
        name="c", state=None, timestep=3, time_ms=0, configuration=Configuration()
    )
    with pytest.raises(NotReadyError, match="only a running job replays timesteps"):
        control.replay(2)


def test_state_in_a_cached_store_is_replayed_without_being_touched(tmp_path):
    settings = replace(KEEP, cache=str(tmp_path / "cache"))
    stream = Stream(tmp_path / "state", settings=settings)
    stream.start(*BATCHES).stop()
    before = digests(stream.state)
    found = again(stream, range(2, 5))
    assert found.equal
    assert found.state[0].equal == 4
    assert digests(stream.state) == before


def test_timesteps_of_an_earlier_program_are_replayed_with_it(stream):
    job = stream.start(*BATCHES[:2])
    job.reconfigure(rc.changes.change_logic("mapped", capped)).wait(60)
    for rows in BATCHES[2:]:
        stream.push(rows)
        job.process_all_available(60)
    with pytest.raises(RefusedError, match="took over from version 1 at timestep 3"):
        job.replay(range(2, 5))
    with pytest.raises(RefusedError) as caught:
        job.replay(range(1, 3))
    assert "ran under version 1 of the dataflow, and version 2 runs now" in str(caught.value)
    assert "the oldest timestep of the present one is 3" in str(caught.value)
    assert job.replay(range(3, 5)).equal
    job.stop()
    assert again(stream, range(1, 3)).equal
    assert again(stream, range(3, 5)).other_logic == ("mapped",)
    assert again(stream, range(3, 5), function=capped).equal


def test_nothing_is_published_and_no_lease_is_taken(stopped, monkeypatch):
    from rechannel import job_seams

    def never(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError((args, kwargs))

    for name in ("Lease", "open_hub", "open_with_letters", "this_opened"):
        monkeypatch.setattr(job_seams, name, never)
    opened: list[Any] = []
    for name in ("put", "put_known"):
        method = getattr(OverlayStore, name)

        def put(self: OverlayStore, key: str, *data: Any, method: Any = method) -> None:
            opened.append(key.partition("/")[0])
            method(self, key, *data)

        monkeypatch.setattr(OverlayStore, name, put)
    assert again(stopped).equal
    assert set(opened) == {"segments", "outbox"}


def test_sinks_straight_after_a_source_are_not_compared(tmp_path):
    rows = MemoryConnector(schema=SCHEMA, per_timestep=1)
    rows.push([{"user": "ann", "ms": 1}])
    stream = rc.read().memory(rows, name="rows")
    flows = [stream.write.memory("raw", name="raw")]
    job = rc.Job("raw", flows, state=tmp_path / "state", settings=KEEP)
    running = job.start(in_process=InProcess())
    running.process_all_available(60)
    found = running.replay(1)
    running.stop()
    assert (found.equal, found.output, found.not_compared) == (True, (), ("raw",))
    assert "Not compared: sink raw, which is written directly from a source." in str(found)
