"""The timestep loop: what it decides, what it journals, and what it takes up after a crash."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.log import Journal
from rechannel.engine.loop.core.in_flight import kept_of
from rechannel.engine.stages.inprocess import TaskDied
from rechannel.errors import (
    FencedError,
    MissingFileError,
    StorageError,
    TimestepError,
    UserFunctionError,
    as_rechannel_error,
)
from rechannel.job import InProcess, Job
from rechannel.kernels.tasks.report import BufferFile
from rechannel.kernels.tasks.unit_report import by_operator
from rechannel.model.configuration import Combine
from rechannel.model.patience import Patience
from rechannel.settings import Settings
from rechannel.sources.connectors import MemoryConnector
from rechannel.state.stores.faulty import Crash, Fault, FaultKind
from rechannel.testing import (
    Harness,
    ManualClock,
    MemoryStore,
    Recorder,
    TaskFaults,
    script,
)
from tests.support.reports import reported

ROWS = [[{"k": 1, "v": 1}, {"k": 2, "v": 2}], [{"k": 1, "v": 3}], [{"k": 3, "v": 4}]]
AFTER = Fault(kind=FaultKind.AFTER)


def counted(connector: MemoryConnector | None = None, **options: Any) -> Harness:
    """A sum by key over three timesteps."""
    stream = rc.read().memory(connector or script("k long, v long", ROWS), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    return Harness(sums.write.memory("out", name="out"), **options)


def totals(harness: Harness) -> dict[int, int]:
    return {row["k"]: row["total"] for row in harness.state("sums").to_pylist()}


def until(harness: Harness, reached: Callable[[], bool]) -> None:
    while not reached():
        assert harness.process.step()


def test_all_input_is_processed_in_timesteps():
    harness = counted()
    harness.start().run()
    assert totals(harness) == {1: 4, 2: 2, 3: 4}
    assert list(harness.outputs()) == [1, 2, 3]
    state = harness.journal_state()
    assert state.last_committed == 3
    assert state.offsets == {"in": {"batches": 3}}
    assert state.open_intents == ()


def test_new_input_is_found_when_there_was_none():
    connector = script("k long, v long")
    harness = counted(connector)
    process = harness.start()
    assert not process.step()
    connector.push(ROWS[0])
    process.run()
    assert totals(harness) == {1: 1, 2: 2}


def test_the_intent_is_in_the_journal_before_anything_runs():
    harness = counted()
    harness.start().driver.step()
    (intent,) = harness.journal_state().open_intents
    assert intent.timestep == 1
    assert intent.sources["in"].end == {"batches": 1}
    assert intent.configuration is not None
    assert harness.process.executor


def test_a_replay_is_the_same_timestep_under_the_same_configuration():
    clock = ManualClock(1_000)
    harness = counted(clock=clock, settings=Settings(tasks=3, bins=8, in_flight=2))
    harness.start().driver.step()
    before = harness.journal_state().open_intents
    clock.advance(500)
    process = harness.start(settings=Settings(tasks=1, bins=1))
    assert process.position.configuration == before[0].configuration
    assert process.position.configuration.operators["sums"].tasks == 3
    process.run()
    assert harness.journal_state().versions[1].stream_ms == 1_000
    assert harness.journal_state().versions[2].stream_ms == 1_000
    assert harness.journal_state().versions[3].stream_ms == 1_500
    assert totals(harness) == {1: 4, 2: 2, 3: 4}


def test_time_does_not_go_back_when_a_clock_does():
    clock = ManualClock(1_000)
    connector = script("k long, v long", ROWS[:1])
    harness = counted(connector, clock=clock, settings=Settings(keep_versions=9))
    harness.start().run()
    clock.advance(-400)
    for rows in ROWS[1:]:
        connector.push(rows)
        harness.start().run()
    assert [v.stream_ms for v in harness.journal_state().versions.values()] == [1_000] * 3
    clock.advance(500)
    connector.push(ROWS[0])
    harness.process.run()
    assert harness.journal_state().stream_ms == 1_100


def test_timesteps_in_flight_are_bounded():
    for bound in (1, 2, 3):
        harness = counted(settings=Settings(in_flight=bound))
        harness.start().driver.step()
        assert len(harness.journal_state().open_intents) == bound
        harness.process.run()
        assert totals(harness) == {1: 4, 2: 2, 3: 4}


def test_timesteps_are_committed_in_order():
    harness = counted(settings=Settings(in_flight=3))
    process = harness.start()
    process.driver.step()
    assert len(process.executor) == 3  # the fronts of three timesteps
    process.executor.run(2)
    process.executor.run(1)
    process.driver.step()
    assert harness.journal_state().last_committed is None
    process.run()
    assert harness.journal_state().last_committed == 3


def test_a_sink_that_lags_keeps_new_timesteps_back():
    connector = script("k long, v long", ROWS * 3)
    harness = counted(connector, settings=Settings(publish_backlog=2))
    process = harness.start()
    while process.driver.step() or (process.executor and process.executor.run(0)):
        pass
    # Two may wait, and a third makes it too many.
    assert harness.journal_state().last_committed == 3
    assert not process.driver.step()
    process.publisher.publish_next()
    assert process.driver.step()
    process.run()
    assert harness.journal_state().last_committed == 9


def test_a_fixed_interval_is_kept():
    clock = ManualClock(10_000)
    connector = script("k long, v long", ROWS * 2)
    harness = counted(connector, clock=clock, settings=Settings(interval_ms=100, keep_versions=9))

    def committed() -> int:
        harness.process.run()
        return harness.journal_state().last_committed or 0

    harness.start()
    assert committed() == 1
    clock.advance(99)
    assert committed() == 1
    clock.advance(1)
    assert committed() == 2
    clock.advance(130)  # late, but on the grid of 100
    assert committed() == 3
    clock.advance(70)
    assert committed() == 4
    clock.advance(1_000)  # the grid is lost: an interval from here
    assert committed() == 5
    clock.advance(99)
    assert committed() == 5
    clock.advance(1)
    assert committed() == 6


def test_a_stream_that_catches_up_waits_the_less_the_more_is_left():
    clock = ManualClock(10_000)
    row = {"k": 1, "v": 1}
    connector = script("k long, v long", [[row] * 4, [row] * 4, [row]])
    harness = counted(connector, clock=clock, settings=Settings(interval_ms=100, catch_up=True))
    process = harness.start()

    def committed() -> int:
        process.run()
        return harness.journal_state().last_committed or 0

    assert committed() == 2  # the first one left five rows, the second one of the four that it read
    clock.advance(74)
    assert committed() == 2
    clock.advance(1)
    assert committed() == 3
    connector.push([row])
    clock.advance(99)
    assert committed() == 3
    clock.advance(1)
    assert committed() == 4


def test_a_clock_that_is_turned_back_does_not_stop_the_job():
    clock = ManualClock(10_000)
    harness = counted(clock=clock, settings=Settings(interval_ms=100))
    harness.start().run()
    clock.advance(-5_000)
    harness.process.run()
    assert harness.journal_state().last_committed == 2


def test_automatic_combining_is_a_change_of_configuration():
    rows = [{"k": i, "v": i} for i in range(50)]
    connector = script("k long, v long", [rows, rows, [{"k": 1, "v": 1}] * 50, rows])
    harness = counted(connector)
    process = harness.start()
    seen = []
    until(
        harness,
        lambda: (
            seen.append(process.position.configuration.operators["sums"].combining)
            or harness.journal_state().last_committed == 4
        ),
    )
    assert seen[0] is True
    assert False in seen
    versions = [c.version for _, c in harness.journal_state().configurations]
    assert versions == sorted(set(versions))
    assert len(versions) >= 2
    assert totals(harness)[1] == 3 + 50


def test_combining_that_is_fixed_stays_as_it_is():
    def off(configuration):
        sums = replace(configuration.operators["sums"], combine=Combine.OFF)
        return replace(configuration, operators={**configuration.operators, "sums": sums})

    harness = counted(configure=off)
    harness.start().run()
    assert [c.version for _, c in harness.journal_state().configurations] == [1]


def test_a_crash_behind_the_commit_publishes_again():
    harness = counted()
    harness.start()
    until(harness, lambda: harness.journal_state().unpublished != {})
    assert harness.outputs() == {}
    harness.start().run()
    assert list(harness.outputs()) == [1, 2, 3]
    assert harness.journal_state().unpublished == {}


def test_a_driver_that_was_replaced_is_fenced():
    harness = counted()
    old = harness.start()
    old.driver.step()
    harness.start().run()
    with pytest.raises(FencedError):
        old.run()
    assert totals(harness) == {1: 4, 2: 2, 3: 4}


def test_what_a_replaced_driver_runs_into_is_that_it_was_replaced(
    monkeypatch: pytest.MonkeyPatch,
):
    harness = counted()
    old = harness.start()
    harness.start().run()
    swept = MissingFileError("segments/sums/1.arrow is missing")

    def gone(*_: object) -> None:
        raise swept

    monkeypatch.setattr(old.driver, "step", gone)
    old.driver.run()
    assert isinstance(old.driver.error, FencedError)
    assert old.driver.error.__cause__ is swept
    assert old.journal.fenced() is not None
    assert harness.process.journal.fenced() is None


def test_what_a_driver_in_charge_runs_into_is_told_as_it_is(monkeypatch: pytest.MonkeyPatch):
    harness = counted()
    process = harness.start()
    error = StorageError("the disk is full")

    def full(*_: object) -> None:
        raise error

    monkeypatch.setattr(process.driver, "step", full)
    process.driver.run()
    assert process.driver.error is error


@pytest.mark.parametrize("write", range(14))
def test_a_driver_may_die_at_any_write(write: int):
    harness = counted(settings=Settings(snapshot_every=1))
    with pytest.raises(Crash):
        harness.start(faults=[*[None] * write, AFTER]).run()
    harness.start().run()
    assert totals(harness) == {1: 4, 2: 2, 3: 4}
    assert list(harness.outputs()) == [1, 2, 3]


@pytest.mark.parametrize("write", range(9))
def test_a_driver_may_die_while_it_loads_initial_state(write: int):
    table = pa.table({"k": [1, 2, 5], "top": [100, 0, 7]})
    stream = rc.read().memory(script("k long, v long", ROWS), name="in")
    top = stream.key_by("k").aggregate(top=agg.max("v"), name="top", preload=lambda: table)
    harness = Harness(top.write.memory("out"))
    with pytest.raises(Crash):
        harness.start(faults=[*[None] * write, AFTER]).run()
    harness.start().run()
    state = {row["k"]: row["top"] for row in harness.state("top").to_pylist()}
    assert state == {1: 100, 2: 2, 3: 4, 5: 7}
    assert list(harness.outputs()) == [1, 2, 3]


def test_a_sink_that_promises_nothing_may_lag_further_behind_than_versions_are_kept():
    connector = script("k long, v long", ROWS * 2)
    settings = Settings(keep_versions=1, publish_backlog=8)
    harness = counted(connector, settings=settings, recorders={"out": Recorder(durable=False)})
    process = harness.start()
    while process.driver.step() or (process.executor and process.executor.run(0)):
        pass
    assert harness.journal_state().last_committed == 6
    assert process.sweep() > 0
    process.run()
    assert list(harness.outputs()) == [1, 2, 3, 4, 5, 6]
    assert process.sweep() > 0


def test_tasks_that_report_twice_or_not_at_all_stop_the_job():
    harness = counted()
    process = harness.start()
    run = process.runner.run

    def forgetful(timestep: int, stage: str, step: Any) -> list[Any]:
        reports = [each for report in run(timestep, stage, step) for each in report.reports]
        return by_operator(r for r in reports if r.operator != "sums" or r.task)

    process.runner.run = forgetful  # type: ignore[method-assign]
    with pytest.raises(TimestepError, match="operator 'sums', timestep 1: 1 of 2 tasks reported"):
        process.run()
    assert harness.journal_state().last_committed is None


def test_kept_rows_of_all_stages_are_read_together():
    """A function behind a union runs in the stage of every input, and each of them keeps its rows."""
    one = rc.read().memory(script("k long", [[{"k": 1}]]), name="one")
    two = rc.read().memory(script("k long", [[{"k": 2}]]), name="two")
    clean = one.union(two).map_batches(lambda batch: batch, name="clean")
    harness = Harness(clean.write.memory("out"))
    process, kept = harness.start(), []
    process.runner.kept = lambda t, node, keys: kept.append((node, len(keys)))  # type: ignore[method-assign]
    process.run()
    assert kept[-1] == ("clean", 2)
    assert sorted(harness.output().column("k").to_pylist()) == [1, 2]


def file(key: str) -> BufferFile:
    return BufferFile(key=key, rows=1, bytes=1)


def test_files_are_kept_in_the_order_of_their_tasks():
    reports = [
        reported("in", 1, buffered={"a": file("a1")}),
        reported("in", 0, buffered={"a": file("a0"), "b": file("b0")}),
        reported("in", 2),
    ]
    assert kept_of(by_operator(reports)) == {"a": ["a0", "a1"], "b": ["b0"]}


def test_errors_of_others_are_wrapped_and_keep_their_cause():
    error = KeyError("x")
    wrapped = as_rechannel_error(error)
    assert isinstance(wrapped, TimestepError)
    assert wrapped.__cause__ is error
    own = StorageError("full")
    assert as_rechannel_error(own) is own


# In its own thread ---------------------------------------------------------------------------------


def job(connector: MemoryConnector, store: MemoryStore | None = None, **settings: Any) -> Job:
    stream = rc.read().memory(connector, name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    flow = sums.write.memory("out")
    return Job("sums", flow, state=store or MemoryStore(), settings=Settings(tasks=2, **settings))


def test_a_job_runs_until_it_is_stopped():
    store = MemoryStore()
    running = job(script("k long, v long", ROWS), store, in_flight=2).start(in_process=InProcess())
    running.process_all_available(60)
    assert running.is_active
    running.stop(60)
    assert not running.is_active
    assert running.memory("out").num_rows == 4
    _, state = Journal.open(store, keep_versions=1, snapshot_every=1)
    assert state.closed


def waiting_for_its_interval() -> tuple[Harness, ManualClock]:
    """A stream with input whose next timestep comes in an hour."""
    clock, connector = ManualClock(), script("k long, v long", ROWS[:1])
    harness = counted(connector, clock=clock, settings=Settings(interval_ms=3_600_000))
    harness.start().run()
    connector.push(ROWS[1])
    harness.process.run()
    assert harness.journal_state().last_committed == 1
    return harness, clock


def test_a_shorter_interval_holds_at_once():
    harness, _ = waiting_for_its_interval()
    id_ = harness.process.reconfigure(rc.changes.set_interval(0))
    harness.process.run()
    state = harness.journal_state()
    assert (state.coordination.find(id_).phase, state.last_committed) == ("done", 2)


def test_changes_do_not_wait_for_a_long_interval():
    harness, clock = waiting_for_its_interval()
    ids = [harness.process.reconfigure(rc.changes.rescale("sums", 3))]
    ids.append(harness.process.reconfigure(rc.changes.set_interval(7_200_000)))
    for _ in range(3):
        clock.advance(1_000)
        harness.process.run()
    state = harness.journal_state()
    assert [state.coordination.find(id_).phase for id_ in ids] == ["done", "done"]
    assert state.last_committed == 1
    assert state.configuration_at(2).operators["sums"].tasks == 3


def test_the_program_changes_while_the_interval_lasts():
    harness, _ = waiting_for_its_interval()
    harness.process.reconfigure(
        rc.changes.change_logic("sums", {"total": agg.sum("v"), "n": agg.count()})
    )
    harness.process.run()
    assert harness.journal_state().configuration_at(2).dataflow == 2


def test_before_the_first_timestep_none_is_committed():
    running = job(script("k long, v long")).start(in_process=InProcess())
    running.process_all_available(60)
    assert running.status.timestep == 0
    running.stop()


def test_waiting_for_all_input_waits_for_the_next_interval():
    """Input that is there but not due yet is not processed."""
    connector = script("k long, v long", ROWS)
    running = job(connector, interval_ms=50).start(in_process=InProcess())
    running.process_all_available(60)
    assert running.status.timestep == 3
    running.stop(60)


def test_what_fails_ends_the_job_and_is_raised_from_the_handle():
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        msg = "no luck"
        raise RuntimeError(msg)

    stream = rc.read().memory(script("k long, v long", ROWS), name="in")
    sums = stream.map_batches(fails, name="bad").key_by("k").aggregate(n=agg.count(), name="sums")
    store = MemoryStore()
    running = Job("bad", sums.write.noop(), state=store).start(in_process=InProcess())
    with pytest.raises(UserFunctionError, match="no luck"):
        running.process_all_available(60)
    with pytest.raises(UserFunctionError):
        running.await_termination(60)
    assert "no luck" in str(running.exception)
    _, state = Journal.open(store, keep_versions=1, snapshot_every=1)
    assert not state.closed
    assert state.last_committed is None


def test_a_task_that_dies_again_and_again_fails_its_timestep():
    planned = {("sums", 2, 0, attempt): "before" for attempt in range(4)}
    how = InProcess(fault=TaskFaults(planned))
    running = job(script("k long, v long", ROWS), patience=Patience(seconds=0)).start(
        in_process=how
    )
    with pytest.raises(TaskDied, match="operator 'sums': task 0 failed 4 times in timestep 2"):
        running.process_all_available(60)
    assert isinstance(running.exception, TimestepError)


def test_no_thread_is_left_behind():
    before = set(threading.enumerate())
    running = job(script("k long, v long", ROWS), in_flight=3).start(in_process=InProcess())
    running.process_all_available(60)
    running.stop(60)
    left = [t for t in set(threading.enumerate()) - before if t.name != "rechannel-lease"]
    for thread in left:
        thread.join(60)
        assert not thread.is_alive(), thread
