"""A timestep that fails for reasons that pass runs again, and with it those after it; nothing shows in the result."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.stages.inprocess import TaskDied
from rechannel.errors import SessionError, SourceError, StorageError, UserFunctionError
from rechannel.job import InProcess, Job
from rechannel.model.patience import Patience
from rechannel.settings import Settings
from rechannel.sources.memory import MemoryReader
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Harness, ManualClock, Recorder, TaskFaults, script

TIMESTEPS = 12
ROWS = [[{"k": (7 * t + i) % 5, "v": t * i} for i in range(6)] for t in range(1, TIMESTEPS + 1)]
OPERATORS = ("in", "sums", "tops")


def chained(**options: Any) -> Harness:
    """Two stateful operators in a row, and a sink behind each."""
    stream = rc.read().memory(script("k long, v long", ROWS, partitions=2), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    tops = sums.key_by("k").aggregate(top=agg.max("total"), updates=agg.count(), name="tops")
    ends = [sums.write.memory("a", name="a"), tops.write.memory("b", name="b")]
    return Harness(ends, **options)


def told(harness: Harness) -> Any:
    tables = {op: harness.state_table(op) for op in ("sums", "tops")}
    return tables, {sink: harness.outputs(sink) for sink in ("a", "b")}


@pytest.fixture(scope="module")
def undisturbed() -> Any:
    harness = chained()
    harness.start().run()
    return told(harness)


def deaths(*units: tuple[str, int], tries: int = 1, kind: str = "before") -> TaskFaults:
    """Units whose first task dies in every attempt of so many tries."""
    attempts = range(4 * tries)
    return TaskFaults({(op, t, 0, attempt): kind for op, t in units for attempt in attempts})


def test_a_timestep_that_fails_runs_again_under_the_same_intent(undisturbed):
    harness = chained()
    faults = deaths(("sums", 3), ("tops", 5), tries=2, kind="after")
    process = harness.start(task_faults=faults)
    process.run()
    assert harness.injected["after"] == 16
    assert process.position.tries == 4
    assert process.position.next_try_ms is None
    assert told(harness) == undisturbed
    assert harness.journal_state().last_committed == TIMESTEPS
    assert harness.journal_state().epoch == 1


def test_a_try_waits_for_its_time():
    class Standing(ManualClock):
        def pass_until(self, at_ms: float) -> None:
            """Time passes only when the test says so."""

    clock = Standing()
    harness = chained(clock=clock)
    process = harness.start(task_faults=deaths(("sums", 3)))
    process.run()
    assert harness.journal_state().last_committed == 2
    assert process.position.next_try_ms == clock() + 500
    clock.advance(499)
    process.run()
    assert harness.journal_state().last_committed == 2
    clock.advance(1)
    process.run()
    assert harness.journal_state().last_committed == TIMESTEPS


@pytest.mark.parametrize("set_by_ms", [-3_600_000, 3_600_000])
@pytest.mark.parametrize("what", ["timestep", "source"])
def test_a_clock_that_is_set_while_something_waits_changes_nothing(
    set_by_ms, what, monkeypatch, undisturbed
):
    class Standing(ManualClock):
        def pass_until(self, at_ms: float) -> None:
            """Time passes only when the test says so."""

    looked, failed = MemoryReader.latest, []

    def latest(self: MemoryReader, *given: Any) -> Any:
        if what == "source" and len(failed) < 2 and harness.journal_state().last_committed == 2:
            failed.append(given)
            raise StorageError("the source's store is away")
        return looked(self, *given)

    monkeypatch.setattr(MemoryReader, "latest", latest)
    clock, steady = ManualClock(), Standing(0)
    harness = chained(clock=clock, steady=steady)
    units = [("sums", 3)] if what == "timestep" else []
    process = harness.start(task_faults=deaths(*units, tries=2))
    process.run()
    assert harness.journal_state().last_committed == 2
    assert process.position.tries == 1
    clock.advance(set_by_ms)
    process.run()
    assert harness.journal_state().last_committed == 2  # nor does it begin before its time
    steady.advance(500)
    process.run()
    assert process.position.tries == 2  # patience is not exhausted either
    steady.advance(1_000)
    process.run()
    assert told(harness)[1] == undisturbed[1]
    assert harness.journal_state().last_committed == TIMESTEPS


@pytest.mark.parametrize("seed", range(40))
def test_later_timesteps_that_are_under_way_run_again_too(seed, undisturbed):
    chance = random.Random(seed)
    units = {(chance.choice(OPERATORS), chance.randint(1, TIMESTEPS)) for _ in range(4)}
    faults = deaths(*units, tries=chance.randint(1, 3), kind=chance.choice(["before", "after"]))
    harness = chained(
        settings=Settings(in_flight=chance.randint(1, 4), tasks=chance.randint(1, 3)),
        choose=chance.randrange,
    )
    process = harness.start(task_faults=faults)
    process.run()
    assert process.position.tries >= 1
    assert sum(harness.injected.values()) >= 4
    assert told(harness)[1] == undisturbed[1]
    assert harness.journal_state().last_committed == TIMESTEPS


def test_exhausted_patience_ends_the_job_and_says_how_often_it_was_tried():
    harness = chained(settings=Settings(patience=Patience(seconds=20)))
    process = harness.start(task_faults=deaths(("sums", 2), tries=1000))
    with pytest.raises(TaskDied, match=r"timestep 2 failed \d+ times in 20 s.*task 0 failed 4"):
        process.run()
    assert process.position.tries > 3
    assert harness.journal_state().last_committed == 1
    harness.start().run()
    assert harness.journal_state().last_committed == TIMESTEPS


def test_patience_begins_anew_with_every_timestep():
    patience = Patience(seconds=4, first_seconds=1, most_seconds=1)
    harness = chained(settings=Settings(patience=patience))
    faults = deaths(*((op, t) for t in range(1, TIMESTEPS + 1) for op in ("in", "sums")), tries=2)
    harness.start(task_faults=faults).run()
    assert harness.journal_state().last_committed == TIMESTEPS


def test_without_patience_nothing_is_tried_again():
    harness = chained(settings=Settings(patience=Patience(seconds=0)))
    with pytest.raises(TaskDied, match="operator 'sums': task 0 failed 4 times in timestep 2"):
        harness.start(task_faults=deaths(("sums", 2))).run()


def test_an_error_of_the_user_is_raised_at_once():
    def fails(batch: pa.RecordBatch) -> pa.RecordBatch:
        raise ValueError("no luck")

    stream = rc.read().memory(script("k long, v long", ROWS), name="in").map_batches(fails)
    harness = Harness(stream.write.memory("out"))
    process = harness.start()
    with pytest.raises(UserFunctionError, match="no luck"):
        process.run()
    assert process.position.tries == 0


def test_a_source_that_cannot_be_looked_at_is_asked_again(undisturbed, monkeypatch):
    looked, away = MemoryReader.latest, [3, 4, 9]

    def latest(self: MemoryReader, *given: Any) -> Any:
        calls.append(1)
        if len(calls) in away:
            raise StorageError("the source's store is away")
        return looked(self, *given)

    calls: list[int] = []
    monkeypatch.setattr(MemoryReader, "latest", latest)
    harness = chained()
    process = harness.start()
    process.run()
    assert process.position.tries == len(away)
    assert process.position.next_try_ms is None
    assert told(harness) == undisturbed


def test_a_source_that_is_damaged_ends_the_job(monkeypatch):
    def latest(*_: Any) -> Any:
        raise SourceError("not what was promised")

    monkeypatch.setattr(MemoryReader, "latest", latest)
    with pytest.raises(SourceError):
        chained().start().run()


def test_what_a_sink_stages_before_the_commit_is_staged_again():
    class Away(Recorder):
        tries = 0

        def stage(self, *given: Any) -> Any:
            self.tries += 1
            if self.tries in {2, 3}:
                raise StorageError("the sink's store is away")
            return super().stage(*given)

    stream = rc.read().memory(script("k long, v long", ROWS[:4]), name="in")
    away = Away()
    harness = Harness(stream.write.memory("out", name="out"), recorders={"out": away})
    process = harness.start()
    process.run()
    assert away.tries == 6
    assert process.position.tries == 2
    assert [table.num_rows for table in away.published.values()] == [6] * 4


def test_attempts_that_are_counted_end_the_job_also_before_the_commit():
    class Away(Recorder):
        tries = 0

        def stage(self, *given: Any) -> Any:
            self.tries += 1
            raise StorageError("the sink's store is away")

    stream = rc.read().memory(script("k long, v long", ROWS[:1]), name="in")
    away = Away()
    write = stream.write.on_failure("stop", attempts=1)
    process = Harness(write.memory("out", name="out"), recorders={"out": away}).start()
    with pytest.raises(StorageError, match="is away"):
        process.run()
    assert away.tries == 1
    assert process.position.tries == 0


def test_a_driver_that_is_given_up_puts_no_sink_in_quarantine():
    class Broken(Recorder):
        def stage(self, *given: Any) -> Any:
            process.driver.abandon(SessionError("Spark has died"))
            return super().stage(*given) if self.published else {}[given]

    stream = rc.read().memory(script("k long", [[{"k": 1}]]), name="in").select("k")
    made = stream.key_by("k").aggregate(n=agg.count(), name="counts")
    write = made.write.on_failure("skip", attempts=1)
    harness = Harness(write.memory("out", name="out"), recorders={"out": Broken()})
    process = harness.start()
    with pytest.raises(KeyError):
        process.run()
    assert "quarantine" not in harness.journal_state().notes


def test_a_running_job_shows_what_it_tries_again():
    stream = rc.read().memory(script("k long, v long", ROWS), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    settings = Settings(patience=Patience(first_seconds=0.2, most_seconds=0.2))
    job = Job("j", sums.write.memory("out"), state=MemoryStore(), settings=settings)
    running = job.start(in_process=InProcess(fault=deaths(("sums", 3), tries=3)))
    try:
        running.process_all_available(60)
        assert running.status.retries == 3
        assert running.status.troubles == {}
        failures = {p.timestep: p.failures for p in running.recent_progress}
        assert failures == {t: 3 if t == 3 else 0 for t in range(1, TIMESTEPS + 1)}
        assert running._hub.troubles.counts["timestep"] == 3
    finally:
        running.stop(60)


def test_a_job_that_stops_ends_with_the_error_of_its_last_timestep_and_the_next_start_goes_on(
    undisturbed,
):
    harness = chained()
    process = harness.start(task_faults=deaths(("sums", 3)))
    while 3 not in process.driver._state.in_flight:
        process.step()
    with pytest.raises(TaskDied):
        process.stop()
    assert harness.journal_state().last_committed == 2
    harness.start().run()
    assert told(harness) == undisturbed
