"""Timesteps that nobody can run: their numbers are planned anew, and nothing of the first plan is left."""

from __future__ import annotations

import logging
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.entries import Committed, Opened
from rechannel.engine.journal.incarnations import SINKS, incarnation, since
from rechannel.engine.journal.log import Journal
from rechannel.engine.program.withdrawal import described, withdrawal
from rechannel.errors import FencedError, RefusedError, UserFunctionError
from rechannel.job import InProcess, Job
from rechannel.reconfigure.record import Phase
from rechannel.settings import Settings
from rechannel.state.keys import SEGMENTS, SINK_BUFFERS
from rechannel.testing import Harness, MemoryStore, script

ROWS = 40


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"k": [n % 3 for n in range(start, stop)], "v": range(start, stop)})


def small(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Stands for memory: nobody can hold more than ten rows."""
    if batch.num_rows > 10:
        raise MemoryError
    return batch


def flows(per_timestep: int) -> Any:
    source = rc.read().generator(
        numbers, schema="k long, v long", rows=ROWS, per_timestep=per_timestep, name="in"
    )
    fits = source.map_batches(small, schema="k long, v long", name="fits")
    sums = fits.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    return sums.write.memory("out", name="out")


def bench(per_timestep: int, store: MemoryStore, **settings: Any) -> Harness:
    return Harness(flows(per_timestep), store=store, settings=Settings(tasks=1, bins=4, **settings))


def totals(harness: Harness) -> dict[int, int]:
    return {row["k"]: row["total"] for row in harness.state("sums").to_pylist()}


RIGHT = {k: sum(n for n in range(ROWS) if n % 3 == k) for k in range(3)}


def stuck() -> MemoryStore:
    """A state directory whose first timestep is too large for everybody."""
    store = MemoryStore()
    with pytest.raises(UserFunctionError):
        bench(ROWS, store).start().run()
    return store


def test_a_timestep_that_is_too_large_runs_again_as_it_was():
    harness = bench(5, stuck())
    with pytest.raises(UserFunctionError):
        harness.start().run()
    assert harness.journal_state().attempts == 2


def test_it_is_planned_anew_when_somebody_asks():
    harness = bench(5, stuck())
    harness.start(replan=True).run()
    assert totals(harness) == RIGHT
    assert list(harness.outputs()) == list(range(1, ROWS // 5 + 1))
    state = harness.journal_state()
    assert (state.open_intents, state.attempts) == ((), 0)


def test_it_is_planned_anew_after_so_many_attempts():
    store = stuck()
    with pytest.raises(UserFunctionError):
        bench(5, store, replan_after=2).start().run()
    harness = bench(5, store, replan_after=2)
    harness.start().run()
    assert totals(harness) == RIGHT


def test_to_replan_changes_nothing_where_nothing_is_open():
    harness = bench(5, MemoryStore())
    harness.start(replan=True).run()
    before = harness.journal_state()
    harness.start(replan=True).run()
    assert harness.journal_state().last_committed == before.last_committed
    assert totals(harness) == RIGHT


def test_what_was_committed_stays_and_is_not_read_again():
    store = MemoryStore()
    first = bench(10, store)
    process = first.start()
    while first.journal_state().last_committed != 1:
        process.step()
    with pytest.raises(UserFunctionError):
        bench(20, store).start().run()
    assert first.journal_state().open_intents[0].timestep == 2
    harness = bench(5, store)
    harness.start(replan=True).run()
    assert totals(harness) == RIGHT
    assert harness.journal_state().last_committed == 1 + 30 // 5


def test_the_driver_that_still_runs_it_is_fenced_and_its_files_are_swept():
    store = MemoryStore()
    sleeper = bench(10, store)
    asleep = sleeper.start()
    while not any(True for _ in store.list(SEGMENTS)):
        asleep.step()
    assert sleeper.journal_state().last_committed is None
    theirs = {*store.list(SEGMENTS), *store.list(SINK_BUFFERS)}
    harness = bench(5, store)
    process = harness.start(replan=True)
    with pytest.raises(FencedError):
        asleep.run()
    process.run()
    assert totals(harness) == RIGHT
    process.sweep()
    assert theirs.isdisjoint({*store.list(SEGMENTS), *store.list(SINK_BUFFERS)})


def test_the_first_timesteps_begin_anew_with_the_settings_of_the_next_driver():
    store = stuck()
    again = Harness(flows(5), store=store, settings=Settings(tasks=3, bins=8))
    again.start(replan=True).run()
    routing = again.process.position.configuration.operators["sums"].routing
    assert routing is not None
    assert (routing.tasks, routing.bins) == (3, 8)
    assert totals(again) == RIGHT


# Changes that rode on it ---------------------------------------------------------------------------


def changed(change: Any, in_flight: int = 1) -> tuple[Harness, str]:
    """A stream in whose open timesteps a change has begun; and its id."""
    connector = script("k long, v long", [[{"k": k, "v": k} for k in range(20)]])
    stream = rc.read().memory(connector, name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    harness = Harness(
        sums.write.memory("out", name="out"),
        settings=Settings(tasks=2, bins=8, in_flight=in_flight),
    )
    process = harness.start()
    process.run()
    for _ in range(3):
        connector.push([{"k": k, "v": 1} for k in range(20)])
    id_ = process.reconfigure(change, rc.strategies.all_at_once(), at=2)
    while not harness.journal_state().open_intents:
        process.driver.step()
    process.driver.step()
    record = harness.journal_state().coordination.find(id_)
    assert record.last_timestep == 2
    assert harness.journal_state().last_committed == 1
    return harness, id_


@pytest.mark.parametrize("in_flight", [1, 2])
def test_a_change_that_rode_on_it_holds_from_the_timestep_in_its_place(in_flight):
    harness, id_ = changed(rc.changes.rescale("sums", 4), in_flight)
    harness.start(replan=True).run()
    state = harness.journal_state()
    assert state.coordination.find(id_).phase is Phase.DONE
    assert state.configuration_at(4).operators["sums"].tasks == 4
    assert totals(harness) == {k: k + 3 for k in range(20)}


def test_what_it_was_to_write_anew_is_written_by_the_one_in_its_place():
    harness, id_ = changed(rc.changes.rewrite("sums"))
    process = harness.start(replan=True)
    assert process.changes.rewritten_hashes(2)
    process.run()
    state = harness.journal_state()
    assert state.coordination.find(id_).phase is Phase.DONE
    assert all(run.seq >= 2 for run in state.manifests["sums"].runs)


# Deciding ------------------------------------------------------------------------------------------


def test_what_is_withdrawn_and_when():
    store = stuck()
    state = bench(5, store).journal_state()
    assert withdrawal(state, replan=False, after=None) is None
    asked = withdrawal(state, replan=True, after=None)
    assert asked is not None
    assert asked.from_timestep == 1
    assert "timestep 1 is withdrawn and planned anew" in described(state, asked)
    journal, _ = Journal.open(store, keep_versions=1, snapshot_every=64)
    opened = Opened(host="", pid=0, time_ms=0, fingerprint="", version="")
    state = journal.append(opened)
    assert state.attempts == 2
    assert withdrawal(state, replan=False, after=2) is None
    state = journal.append(opened)
    failed = withdrawal(state, replan=False, after=2)
    assert failed is not None
    assert failed.reason == "2 drivers ended before it was committed"
    state = journal.append(Committed(timestep=1))
    assert withdrawal(state, replan=True, after=1) is None


@pytest.mark.parametrize("number", [0, -1, "2"])
def test_attempts_are_a_number(number):
    with pytest.raises(RefusedError, match="replan_after must be at least 1"):
        Settings(replan_after=number)


def test_a_job_plans_anew_and_says_so(tmp_path, caplog):
    def started(per_timestep: int, **how: Any) -> Any:
        job = Job("sums", flows(per_timestep), state=tmp_path, settings=Settings(tasks=1))
        return job.start(in_process=InProcess(), **how)

    with pytest.raises(UserFunctionError):
        started(ROWS).process_all_available(60)
    with caplog.at_level(logging.WARNING, "rechannel"):
        running = started(5, replan=True)
    running.process_all_available(60)
    assert running.status.timestep == ROWS // 5
    running.stop()
    assert "timestep 1 is withdrawn and planned anew" in caplog.text


def test_what_a_restart_added_is_there_from_the_first_timestep_that_is_planned_anew():
    """A sink was added after timesteps that were open then; planned anew, they have it."""
    store, source = MemoryStore(), script("k long, v long")
    ill = True

    def holds(batch: pa.RecordBatch) -> pa.RecordBatch:
        if ill:
            raise MemoryError
        return batch

    def harness(*more: str) -> Harness:
        rows = rc.read().memory(source, name="in")
        held = rows.map_batches(holds, schema="k long, v long", name="held").key_by("k")
        sums = held.aggregate(total=agg.sum("v"), name="sums")
        ends = [sums.write.memory(name, name=name) for name in ("out", *more)]
        return Harness(ends, store=store, settings=Settings(in_flight=3))

    def since_of(found: Harness) -> tuple[int, ...]:
        notes = found.journal_state().notes
        return tuple(since(notes, SINKS, name) for name in ("out", "late"))

    for _ in range(3):
        source.push([{"k": 1, "v": 2}])
    process = harness().start()
    while process.driver.step():  # intents, and no unit has run
        pass
    added = harness("late")
    added.start()
    assert [intent.timestep for intent in added.journal_state().open_intents] == [1, 2, 3]
    assert since_of(added) == (0, 4)
    ill = False
    again = harness("late")
    again.start(replan=True).run()
    assert since_of(again) == (0, 1)
    assert list(again.outputs("late")) == [1, 2, 3]
    assert incarnation(again.journal_state().notes, SINKS, "late") == incarnation(
        added.journal_state().notes, SINKS, "late"
    )
