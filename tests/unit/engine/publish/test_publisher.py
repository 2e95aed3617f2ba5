"""Sinks around a commit: staged before it or read behind it, published once more after a crash."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from threading import Event, Thread
from typing import Any

import pyarrow as pa
import pytest
from msgspec import structs

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.entries import Note, Published
from rechannel.engine.journal.state import JournalState
from rechannel.engine.publish.publisher import Publisher
from rechannel.engine.stages.runner import Timestep
from rechannel.engine.stages.sink_rows import as_it_is
from rechannel.errors import (
    DamagedStateError,
    DataflowError,
    FencedError,
    NotReadyError,
    OtherHistoryError,
    RefusedError,
    StorageError,
)
from rechannel.job import InProcess, Job
from rechannel.model.configuration import Configuration
from rechannel.sinks.batch import Batch
from rechannel.sinks.claims import published_name
from rechannel.sinks.failure import OnFailure
from rechannel.sinks.files import FileWriter
from rechannel.sinks.spare import WithDeadLetters
from rechannel.sinks.writer import Rows
from rechannel.testing import Harness, MemoryStore, script
from rechannel.testing.folder import MemoryFolder

SCHEMA = pa.schema([("k", pa.int64())])


@dataclass
class Sink:
    """A writer that notes what it is asked to do."""

    durable: bool = True
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    batches: list[Batch] = field(default_factory=list)
    before: Callable[[], None] = lambda: None

    def stage(self, rows: Rows, batch: Batch) -> dict[str, Any]:
        self.before()
        self.calls.append(("stage", batch.timestep, rows.table().column("k").to_pylist()))
        return {"staged": batch.timestep}

    def publish(self, staged: dict[str, Any], batch: Batch) -> None:
        self.calls.append(("publish", batch.timestep, staged))
        self.batches.append(batch)

    def close(self) -> None:
        self.calls.append(("close",))


@dataclass
class Bench:
    """A publisher over a dataflow with a sink behind its source and one behind its operator."""

    direct: Sink = field(default_factory=Sink)
    behind: Sink = field(default_factory=Sink)
    backlog: int = 2
    entries: list[Any] = field(default_factory=list)
    state: JournalState = field(default_factory=JournalState)
    told: list[Published] = field(default_factory=list)
    woken: list[bool] = field(default_factory=list)
    """At each call of the driver, whether there was room."""
    failure: OnFailure = field(default_factory=OnFailure)
    trouble: Callable[..., None] = lambda topic, error: None
    meaning: Callable[..., BaseException] = as_it_is

    def __post_init__(self) -> None:
        stream = rc.read().memory(script("k long"), name="in")
        counts = stream.key_by("k").aggregate(n=agg.count(), name="counts")
        plan = Harness([stream.write.memory("direct", name="direct")]).plan
        writer = replace(counts.write, failure=self.failure)
        other = Harness([writer.memory("behind", name="behind")]).plan
        self.sinks = (*plan.sinks, *other.sinks)
        self.publisher = self.made()

    def made(self) -> Publisher:
        return Publisher(
            sinks=self.sinks,
            writers={"direct": self.direct, "behind": self.behind},
            rows_of=self.rows_of,
            journal=self,  # type: ignore[arg-type]
            backlog=self.backlog,
            wake=lambda: self.woken.append(self.publisher.has_room()),
            trouble=self.trouble,
            meaning=self.meaning,
        )

    gone: FencedError | None = None
    """Why another driver is in the place of this one."""

    def fenced(self) -> FencedError | None:
        return self.gone

    def append(self, entry: Any) -> None:
        """Be the journal."""
        if isinstance(entry, Note):
            notes = {kind: body for kind, body in self.state.notes.items() if kind != entry.kind}
            notes |= {} if entry.body is None else {entry.kind: entry.body}
            self.state = structs.replace(self.state, notes=notes)
            return
        self.told.append(entry)
        self.entries.append((entry.timestep, entry.sink))

    def rows_of(self, sink: Any, timestep: Timestep | None, kept: dict[str, list[str]]) -> Rows:
        """Rows that tell where they came from: a timestep's source, or its outbox files."""
        values = [timestep.number] if timestep else [int(k) for keys in kept.values() for k in keys]
        batch = pa.RecordBatch.from_pydict({"k": values}, schema=SCHEMA)
        return Rows(tables=lambda: iter([batch]), schema=SCHEMA)

    def commit(self, number: int) -> dict[str, Any]:
        timestep = Timestep(number=number, stream_ms=0, configuration=Configuration())
        kept = {"counts": [f"{number}00"], "other": ["7"]}
        staged = self.publisher.stage(timestep, kept)
        self.publisher.publish(timestep, kept, staged)
        return staged


def test_sinks_on_sources_are_staged_before_and_others_read_behind_the_commit():
    bench = Bench()
    staged = bench.commit(3)
    named = {"incarnation": "", "digest": ""}
    assert staged == {
        "direct": {"staged": {"staged": 3}, **named},
        "behind": {"outbox": {"counts": ["300"]}, **named},
    }
    assert bench.direct.calls == [("stage", 3, [3])]
    assert bench.behind.calls == []
    while bench.publisher.publish_next():
        pass
    assert bench.direct.calls[1:] == [("publish", 3, {"staged": 3})]
    assert bench.behind.calls == [("stage", 3, [300]), ("publish", 3, {"staged": 3})]
    assert bench.entries == [(3, "direct"), (3, "behind")]


def test_what_is_not_durable_is_not_in_the_journal():
    bench = Bench(direct=Sink(durable=False), behind=Sink(durable=False))
    assert bench.commit(3) == {}
    while bench.publisher.publish_next():
        pass
    assert bench.entries == []
    assert ("publish", 3, {"staged": 3}) in bench.direct.calls
    assert ("stage", 3, [300]) in bench.behind.calls


def test_after_a_crash_what_the_journal_says_is_published_again():
    bench = Bench()
    unpublished = {
        4: {"behind": {"outbox": {"counts": ["400"]}}},
        3: {"direct": {"staged": {"staged": 30}}, "gone": {"staged": {}}},
    }
    bench.publisher.recover(JournalState(unpublished=unpublished))
    assert bench.publisher.oldest() == 3
    while bench.publisher.publish_next():
        pass
    assert bench.direct.calls == [("publish", 3, {"staged": 30})]
    assert bench.behind.calls == [("stage", 4, [400]), ("publish", 4, {"staged": 4})]
    # Nobody waits for what a sink that is gone has not shown, so that its files can go.
    assert bench.entries == [(3, "gone"), (3, "direct"), (4, "behind")]
    assert [entry.dropped for entry in bench.told] == ["the sink is gone", "", ""]


def test_what_a_journal_of_before_owes_is_published_without_a_digest():
    unpublished = {4: {"behind": {"outbox": {"counts": ["400"]}}}}
    bench = Bench(state=JournalState(unpublished=unpublished, digests={4: "ab"}))
    bench.publisher.recover(bench.state)
    while bench.publisher.publish_next():
        pass
    assert bench.behind.batches == [Batch(timestep=4)]


def test_the_backlog_is_counted_in_timesteps():
    bench = Bench(backlog=1)
    assert bench.publisher.oldest() is None
    assert bench.publisher.idle()
    bench.commit(1)
    assert bench.publisher.has_room()
    bench.commit(2)
    assert not bench.publisher.has_room()
    assert not bench.publisher.idle()
    assert bench.publisher.oldest() == 1
    bench.publisher.publish_next()
    bench.publisher.publish_next()
    assert bench.publisher.has_room()
    assert bench.publisher.oldest() == 2


def test_a_driver_that_waits_for_room_is_woken():
    bench = Bench(backlog=1)
    bench.commit(1)
    bench.commit(2)
    assert bench.woken == []
    for _ in range(4):  # two timesteps to two sinks
        bench.publisher.publish_next()
    assert bench.woken == [False, True, True, True]


def test_threads_publish_every_sink_in_order():
    bench = Bench()
    bench.publisher.start()
    for number in (1, 2, 3):
        bench.commit(number)
    bench.publisher.drain()
    bench.publisher.close()
    for sink in ("direct", "behind"):
        assert [number for number, name in bench.entries if name == sink] == [1, 2, 3]
    assert bench.direct.calls[-1] == bench.behind.calls[-1] == ("close",)


def test_what_a_sink_raises_is_raised_to_the_driver():
    def fail() -> None:
        raise StorageError("the disk is full")

    bench = Bench(behind=Sink(before=fail), failure=OnFailure(attempts=1))
    bench.commit(1)
    assert bench.publisher.publish_next()
    bench.publisher.start()
    with pytest.raises(StorageError, match="disk is full"):
        bench.publisher.drain()
    staged = bench.publisher.stage(
        Timestep(number=2, stream_ms=0, configuration=Configuration()), {}
    )
    assert sorted(staged) == ["behind", "direct"]  # it is no failure of the next timestep
    for call in (bench.publisher.idle, bench.publisher.has_room, bench.publisher.check):
        with pytest.raises(StorageError, match="disk is full"):
            call()
    bench.publisher.close()
    assert bench.entries == [(1, "direct")]


def test_closing_waits_for_what_is_under_way_and_leaves_the_rest():
    started, go_on = Event(), Event()

    def wait() -> None:
        started.set()
        assert go_on.wait(30)

    bench = Bench(behind=Sink(before=wait))
    bench.publisher.start()
    for number in (1, 2):
        bench.commit(number)
    assert started.wait(30)
    go_on.set()
    bench.publisher.close()
    assert ("close",) in bench.behind.calls
    assert bench.behind.calls[-1] == ("close",)


def test_closing_before_starting_closes_the_writers():
    bench = Bench()
    bench.publisher.close()
    assert bench.direct.calls == bench.behind.calls == [("close",)]


def test_a_sink_is_told_which_incarnation_and_intent_it_publishes():
    state = JournalState(
        notes={"incarnations": {"serial": 2, "sinks": {"direct": {"id": "sink-2", "since": 1}}}},
        unpublished={3: {}},
        digests={3: "ab"},
    )
    bench = Bench(state=state)
    staged = bench.commit(3)
    assert staged["direct"] == {"staged": {"staged": 3}, "incarnation": "sink-2", "digest": "ab"}
    while bench.publisher.publish_next():
        pass
    assert bench.direct.batches == [Batch(timestep=3, incarnation="sink-2", digest="ab")]


# Incarnations ------------------------------------------------------------------------------------------------


def told_of(**sinks: str) -> dict[str, Any]:
    named = {name: {"id": who, "since": 1} for name, who in sinks.items()}
    return {"incarnations": {"serial": 9, "sinks": named}}


def test_what_an_incarnation_is_owed_goes_to_its_own_writer():
    bench = Bench(state=JournalState(notes=told_of(direct="sink-1", behind="sink-2")))
    bench.commit(1)
    bench.commit(2)
    bench.state = structs.replace(bench.state, notes=told_of(direct="sink-1"))
    bench.publisher.switch_to(bench.sinks[:1], {"direct": bench.direct})
    bench.state = structs.replace(bench.state, notes=told_of(direct="sink-1", behind="sink-3"))
    namesake = Sink()
    bench.publisher.switch_to(bench.sinks, {"direct": bench.direct, "behind": namesake})
    bench.commit(3)
    assert ("close",) not in bench.behind.calls  # it has something to publish yet
    while bench.publisher.publish_next():
        pass
    assert [batch.timestep for batch in bench.behind.batches] == [1, 2]
    assert {batch.incarnation for batch in bench.behind.batches} == {"sink-2"}
    assert namesake.batches == [Batch(timestep=3, incarnation="sink-3")]
    assert bench.behind.calls[-1] == ("close",)
    told = [(entry.timestep, entry.incarnation) for entry in bench.told if entry.sink == "behind"]
    assert told == [(1, "sink-2"), (2, "sink-2"), (3, "sink-3")]


def test_after_a_crash_a_namesake_is_not_given_what_another_was_owed():
    owed = {"outbox": {"counts": ["100"]}, "incarnation": "sink-2", "digest": "ab"}
    state = JournalState(unpublished={1: {"behind": owed}}, notes=told_of(behind="sink-5"))
    bench = Bench(state=state)
    bench.publisher.recover(state)
    assert not bench.publisher.publish_next()
    assert bench.behind.calls == []
    assert [(e.timestep, e.incarnation, e.dropped) for e in bench.told] == [
        (1, "sink-2", "the sink is gone")
    ]


def test_a_sink_that_was_removed_and_cannot_write_does_not_end_the_job():
    def fail() -> None:
        raise StorageError("the disk is full")

    bench = Bench(behind=Sink(before=fail), failure=OnFailure(attempts=1))
    bench.commit(1)
    outbox = {"outbox": {"counts": ["100"]}}
    bench.state = structs.replace(bench.state, unpublished={1: {"behind": outbox}})
    bench.publisher.switch_to(bench.sinks[:1], {"direct": bench.direct})
    while bench.publisher.publish_next():
        pass
    gone = [entry for entry in bench.told if entry.sink == "behind"]
    assert [entry.timestep for entry in gone] == [1]
    assert "removed and cannot write: StorageError: the disk is full" in gone[0].dropped
    assert bench.behind.calls == [("close",)]


# Sinks that cannot write -------------------------------------------------------------------------------------


@dataclass
class Failing:
    """Fails so many times, then never again."""

    times: int
    failed: int = 0
    error: Exception = field(default_factory=lambda: StorageError("the disk is full"))

    def __call__(self) -> None:
        if self.failed < self.times:
            self.failed += 1
            raise self.error


def assert_published_at_last(bench: Bench, fail: Failing) -> None:
    """Both sinks publish a timestep, one of them at its third attempt."""
    bench.publisher.start()
    bench.commit(1)
    bench.publisher.drain()
    bench.publisher.close()
    assert fail.failed == 2
    assert sorted(bench.entries) == [(1, "behind"), (1, "direct")]


def test_a_sink_that_fails_is_tried_again_and_delays_no_other():
    fail = Failing(times=2)
    bench = Bench(behind=Sink(before=fail), failure=OnFailure(attempts=3, pause_ms=0))
    assert_published_at_last(bench, fail)


def test_a_sink_of_a_driver_that_was_replaced_does_not_try_again():
    """Its client would shut out the one of the driver in its place."""
    fail = Failing(times=9)
    bench = Bench(behind=Sink(before=fail), failure=OnFailure(then="skip", attempts=9, pause_ms=0))
    bench.gone = FencedError("another driver")
    bench.commit(1)
    bench.publisher.publish_next()  # the other sink
    with pytest.raises(FencedError, match="another driver"):
        bench.publisher.publish_next()
    assert fail.failed == 1


def test_a_place_that_a_replaced_driver_took_for_a_moment_is_tried_again():
    """It took over before it noticed that this driver is in its place; the journal has this one."""
    fail = Failing(times=2, error=FencedError("another driver writes to topic 't'"))
    bench = Bench(behind=Sink(before=fail), failure=OnFailure(pause_ms=0))
    assert_published_at_last(bench, fail)


def test_a_place_that_another_driver_keeps_taking_ends_the_job():
    fail = Failing(times=99, error=FencedError("another driver writes to topic 't'"))
    bench = Bench(behind=Sink(before=fail), failure=OnFailure(pause_ms=0))
    bench.publisher.start()
    bench.commit(1)
    with pytest.raises(StorageError, match="no other driver has the state directory"):
        bench.publisher.drain()
    bench.publisher.close()
    assert fail.failed == 8


def test_a_sink_that_waits_for_its_next_attempt_delays_no_other():
    fail = Failing(times=1)
    bench = Bench(behind=Sink(before=fail), failure=OnFailure(attempts=2, pause_ms=60_000))
    shown, failed = Event(), Event()
    bench.trouble = lambda topic, error: failed.set()
    bench.publisher = bench.made()
    bench.direct.publish = lambda staged, batch: batch.timestep < 3 or shown.set()  # type: ignore[assignment]
    bench.publisher.start()
    for number in (1, 2, 3):
        bench.commit(number)
    assert shown.wait(30)
    assert failed.wait(30)
    bench.publisher.close()  # ends the pause
    assert fail.failed == 1
    assert not [sink for _, sink in bench.entries if sink == "behind"]


def skipping(times: int) -> tuple[Bench, Failing]:
    fail = Failing(times=times)
    failure = OnFailure(then="skip", attempts=2, pause_ms=0)
    return Bench(behind=Sink(before=fail), failure=failure), fail


def committed(bench: Bench, *numbers: int) -> None:
    """Commit as the journal would: what is staged is unpublished from then on."""
    for number in numbers:
        staged = bench.commit(number)
        unpublished = {**bench.state.unpublished, number: {"behind": staged["behind"]}}
        bench.state = structs.replace(bench.state, unpublished=unpublished)


def test_a_sink_in_quarantine_owes_its_timesteps_until_it_is_released():
    bench, fail = skipping(2)
    committed(bench, 1)
    while bench.publisher.publish_next():
        pass
    assert fail.failed == 2
    assert bench.state.notes["quarantine"] == {
        "behind": {"sink": "behind", "timestep": 1, "reason": "StorageError: the disk is full"}
    }
    committed(bench, 2, 3)
    assert bench.publisher.has_room()
    while bench.publisher.publish_next():
        pass
    assert bench.publisher.idle()
    assert bench.publisher.oldest() is None
    standing = bench.publisher.standing()
    assert standing["behind"]["owed"] == 3
    assert standing["behind"]["oldest"] == 1
    assert standing["behind"]["quarantine"] == "StorageError: the disk is full"
    assert standing["direct"] == {
        "owed": 0,
        "oldest": None,
        "failures": 0,
        "error": None,
        "quarantine": None,
    }
    assert bench.publisher.release("behind") == 3
    while bench.publisher.publish_next():
        pass
    assert [batch.timestep for batch in bench.behind.batches] == [1, 2, 3]
    assert "quarantine" not in bench.state.notes


def test_a_quarantine_outlives_a_restart():
    bench, _ = skipping(2)
    committed(bench, 1)
    while bench.publisher.publish_next():
        pass
    bench.publisher = bench.made()
    bench.publisher.recover(bench.state)
    assert not bench.publisher.publish_next()
    assert bench.publisher.release("behind") == 1
    assert bench.publisher.publish_next()
    assert bench.entries[-1] == (1, "behind")


def test_a_sink_that_is_released_before_the_driver_has_recovered_is_published_once():
    bench, _ = skipping(2)
    committed(bench, 1)
    while bench.publisher.publish_next():
        pass
    bench.publisher = bench.made()
    before = bench.state
    assert bench.publisher.release("behind") == 1
    bench.publisher.recover(before)
    while bench.publisher.publish_next():
        pass
    assert [batch.timestep for batch in bench.behind.batches] == [1]


def test_a_sink_that_is_removed_in_quarantine_owes_nothing():
    bench, _ = skipping(2)
    committed(bench, 1)
    while bench.publisher.publish_next():
        pass
    bench.publisher.switch_to(bench.sinks[:1], {"direct": bench.direct})
    assert "removed in quarantine" in bench.told[-1].dropped
    assert "quarantine" not in bench.state.notes


def test_a_sink_that_is_removed_while_it_goes_into_quarantine_owes_nothing():
    bench, _ = skipping(2)
    committed(bench, 1)
    failures = bench.publisher._failures
    put_in = failures._quarantining.put_in

    def removed_meanwhile(*given: Any) -> None:
        put_in(*given)
        bench.publisher.switch_to(bench.sinks[:1], {"direct": bench.direct})

    failures._quarantining.put_in = removed_meanwhile  # type: ignore[method-assign]
    while bench.publisher.publish_next():
        pass
    assert [bool(e.dropped) for e in bench.told if e.sink == "behind"] == [True]
    assert "quarantine" not in bench.state.notes
    assert ("close",) in bench.behind.calls


def test_only_what_is_in_quarantine_is_released():
    with pytest.raises(NotReadyError, match="not in quarantine; sinks in quarantine"):
        Bench().publisher.release("behind")


def test_rows_that_a_sink_cannot_write_go_to_its_dead_letters():
    fail, letters = Failing(times=2), Sink()
    failure = OnFailure(then="dead_letter", attempts=2, pause_ms=0, path="dead")
    bench = Bench(behind=Sink(before=fail), failure=failure)
    bench.behind = WithDeadLetters(main=bench.behind, letters=letters, path="dead")  # type: ignore[assignment]
    bench.publisher = bench.made()
    bench.commit(1)
    bench.commit(2)
    while bench.publisher.publish_next():
        pass
    assert fail.failed == 2
    assert letters.calls == [("stage", 1, [100]), ("publish", 1, {"staged": 1})]
    told = [entry for entry in bench.told if entry.sink == "behind"]
    assert [bool(entry.dropped) for entry in told] == [True, False]
    assert told[0].dropped == "dead letters in dead: StorageError: the disk is full"


def burying(shown: str) -> tuple[Bench, Failing, Sink]:
    """A sink that cannot write any more, with dead letters. shown: which of the two shows the timestep already."""
    fail, letters = Failing(times=2), Sink()
    failure = OnFailure(then="dead_letter", attempts=2, pause_ms=0, path="dead")
    bench = Bench(behind=Sink(before=fail), failure=failure)
    both = {"main": bench.behind, "letters": letters}
    both[shown].shows = lambda batch: True  # type: ignore[attr-defined]
    bench.behind = WithDeadLetters(path="dead", **both)  # type: ignore[assignment]
    bench.publisher = bench.made()
    committed(bench, 1)
    # The driver died before it had journalled what became of the timestep.
    bench.publisher = bench.made()
    bench.publisher.recover(bench.state)
    while bench.publisher.publish_next():
        pass
    return bench, fail, letters


def test_what_is_among_the_dead_letters_already_is_not_shown_as_well():
    bench, fail, letters = burying("letters")
    assert (fail.failed, letters.calls) == (0, [])
    assert [e.dropped for e in bench.told if e.sink == "behind"] == ["dead letters in dead"]


def test_what_is_shown_already_does_not_become_a_dead_letter_as_well():
    bench, fail, letters = burying("main")
    assert (fail.failed, letters.calls) == (2, [])
    assert [e.dropped for e in bench.told if e.sink == "behind"] == [""]


def test_a_healthy_sink_does_not_need_the_place_of_its_dead_letters():
    letters = Sink()
    letters.shows = lambda batch: 1 / 0  # type: ignore[attr-defined]
    failure = OnFailure(then="dead_letter", attempts=2, pause_ms=0, path="dead")
    bench = Bench(failure=failure)
    bench.behind = WithDeadLetters(main=bench.behind, letters=letters, path="dead")  # type: ignore[assignment]
    bench.publisher = bench.made()
    bench.commit(1)
    while bench.publisher.publish_next():
        pass
    assert [e.dropped for e in bench.told if e.sink == "behind"] == [""]


def test_dead_letters_that_cannot_be_written_now_are_written_later():
    fail, missing = Failing(times=9), Failing(times=2)
    failure = OnFailure(then="dead_letter", attempts=2, pause_ms=0, path="dead")
    bench = Bench(behind=Sink(before=fail), failure=failure)
    letters = Sink(before=missing)
    bench.behind = WithDeadLetters(main=bench.behind, letters=letters, path="dead")  # type: ignore[assignment]
    bench.publisher = bench.made()
    bench.commit(1)
    while bench.publisher.publish_next():
        pass
    assert (missing.failed, fail.failed) == (2, 4)
    assert letters.calls == [("stage", 1, [100]), ("publish", 1, {"staged": 1})]
    bench.publisher.check()


def test_a_release_that_the_program_cannot_follow_changes_nothing():
    bench, _ = skipping(2)
    committed(bench, 1)
    while bench.publisher.publish_next():
        pass
    derived = {
        "behind": {
            **bench.state.unpublished[1]["behind"],
            "derived": True,
            "outbox": {"gone": ["1"]},
        }
    }
    bench.state = structs.replace(bench.state, unpublished={1: derived})
    with pytest.raises(RefusedError, match="start once with the program of then"):
        bench.publisher.release("behind")
    assert bench.publisher.standing()["behind"]["quarantine"]
    assert "quarantine" in bench.state.notes


def test_a_writer_that_cannot_be_closed_leaves_no_other_open(caplog):
    bench = Bench()
    bench.direct.close = lambda: 1 / 0  # type: ignore[method-assign]
    bench.publisher.close()
    assert bench.behind.calls == [("close",)]
    assert "sink 'direct' is no longer used and could not be closed" in caplog.text


def test_damaged_state_ends_the_job_whatever_was_chosen():
    def fail() -> None:
        raise DamagedStateError("an outbox file is damaged")

    bench = Bench(behind=Sink(before=fail), failure=OnFailure(then="skip"))
    bench.commit(1)
    assert bench.publisher.publish_next()
    with pytest.raises(DamagedStateError):
        bench.publisher.publish_next()


def test_what_an_error_means_is_asked_before_what_was_chosen():
    def fail() -> None:
        raise ValueError("what Spark says")

    bench = Bench(behind=Sink(before=fail), failure=OnFailure(then="skip", attempts=1))
    bench.meaning = lambda error, sink, timestep: DamagedStateError(f"{sink} {timestep}: {error}")
    bench.publisher = bench.made()
    bench.commit(1)
    assert bench.publisher.publish_next()
    with pytest.raises(DamagedStateError, match="behind 1: what Spark says"):
        bench.publisher.publish_next()
    assert "quarantine" not in bench.state.notes


def test_a_sink_that_is_released_while_its_thread_starts_has_one_thread(monkeypatch):
    bench, _ = skipping(2)
    committed(bench, 1)
    while bench.publisher.publish_next():
        pass
    bench.publisher = bench.made()
    made: list[str] = []
    release = Thread(target=lambda: bench.publisher.release("behind"))

    class Slow(Thread):
        """One that another thread overtakes between its making and its start."""

        def start(self) -> None:
            made.append(self.name)
            if made == ["rechannel-publish-direct", "rechannel-publish-behind"]:
                release.start()
                release.join(0.3)
            super().start()

    monkeypatch.setattr(
        "rechannel.engine.publish.publisher.daemon_thread",
        lambda target, name: Slow(target=target, name=name, daemon=True),
    )
    bench.publisher.start()
    release.join()
    bench.publisher.drain()
    bench.publisher.close()
    assert made == ["rechannel-publish-direct", "rechannel-publish-behind"]
    assert [batch.timestep for batch in bench.behind.batches] == [1]


def test_two_that_release_a_sink_at_once_queue_what_it_owes_once():
    bench, _ = skipping(2)
    committed(bench, 1, 2)
    while bench.publisher.publish_next():
        pass
    answers = during_the_release(bench, lambda: bench.publisher.release("behind"))
    assert answers == [2, "sink 'behind' is not in quarantine; sinks in quarantine: []"]
    while bench.publisher.publish_next():
        pass
    assert [batch.timestep for batch in bench.behind.batches] == [1, 2]


def test_a_sink_that_is_removed_while_it_is_released_shows_what_it_owes_once():
    bench, _ = skipping(2)
    committed(bench, 1, 2)
    while bench.publisher.publish_next():
        pass
    left = tuple(sink for sink in bench.sinks if sink.sink.name == "direct")
    remove = lambda: bench.publisher.switch_to(left, {"direct": bench.direct})  # noqa: E731
    assert during_the_release(bench, remove) == [2, None]
    while bench.publisher.publish_next():
        pass
    told = [(each.timestep, each.dropped) for each in bench.told if each.sink == "behind"]
    assert told == [(1, ""), (2, "")]


def during_the_release(bench: Bench, other: Callable[[], Any]) -> list[Any]:
    """Release a sink, and begin something else while the journal hears of it; what either answers."""
    answers: list[Any] = []

    def run() -> None:
        try:
            answers.append(other())
        except NotReadyError as error:
            answers.append(str(error))

    thread, write = Thread(target=run), bench.append

    def append(entry: Any) -> None:
        if isinstance(entry, Note) and thread.ident is None:
            thread.start()
            thread.join(0.2)
        write(entry)

    bench.append = append  # type: ignore[method-assign]
    answers.insert(0, bench.publisher.release("behind"))
    thread.join(30)
    return answers


def test_what_another_history_shows_is_neither_taken_as_published_nor_a_dead_letter():
    disk, letters = MemoryFolder(), Sink()
    failure = OnFailure(then="dead_letter", attempts=1, pause_ms=0, path="dead")
    state = JournalState(unpublished={1: {}}, digests={1: "ab"})
    bench = Bench(failure=failure, state=state)
    main = FileWriter(root="/out", owner="o", token="t", folder=disk, write=disk.write)
    bench.behind = WithDeadLetters(main=main, letters=letters, path="dead")  # type: ignore[assignment]
    bench.publisher = bench.made()
    bench.commit(1)
    bench.publisher.publish_next()  # the other sink
    theirs = f"/out/{published_name(1)}"
    disk.put(pa.table({"k": [7]}), f"{theirs}")
    disk.make(f"{theirs}/_rechannel-sink-1-ff")
    with pytest.raises(OtherHistoryError, match="is not what this job committed"):
        bench.publisher.publish_next()
    assert letters.calls == []
    assert bench.entries == [(1, "direct")]


def test_a_sink_straight_from_a_source_cannot_be_skipped():
    stream = rc.read().memory(script("k long"), name="in")
    for write in (
        stream.write.on_failure("skip"),
        stream.write.on_failure("dead_letter", path="d"),
    ):
        store = MemoryStore()
        job = Job("j", write.memory("m", name="m"), state=store)
        with pytest.raises(DataflowError, match=r"sink 'm' .* is not possible: put an operator"):
            job.start(in_process=InProcess())
        assert list(store.list("")) == []
    Harness([stream.select("k").write.on_failure("skip").memory("m", name="m")])


def test_a_change_that_would_leave_a_sink_straight_after_its_source_is_refused():
    """Where an operator reads the source, its rows are kept for sinks too, which may then be skipped."""
    rows = script("k long", [[{"k": 1}]])
    stream = rc.read().memory(rows, name="in")
    operator = stream.select("k", name="s").write.memory("m", name="m")
    process = Harness([operator, stream.write.on_failure("skip").memory("o", name="o")]).start()
    process.run()
    with pytest.raises((DataflowError, RefusedError), match="is not possible: put an operator"):
        process.reconfigure(rc.changes.remove("m", "s"))
    rows.push([{"k": 2}])
    process.run()
    assert process.journal.state.last_committed == 2


def test_an_attempt_that_failed_keeps_no_client_alive():
    """The error is told to others, and may stay for as long as the sink fails."""
    kept, gone = list[Any](), list[Any]()

    def fail() -> None:
        client = Sink()  # as a writer that connects for each attempt has one
        gone.append(weakref.ref(client))
        raise StorageError("no answer")

    bench = Bench(behind=Sink(before=fail), trouble=lambda _, error: kept.append(error))
    bench.commit(1)
    bench.publisher.start()
    while not kept:
        time.sleep(0.01)
    assert isinstance(kept[0], StorageError)
    assert gone[0]() is None
    bench.publisher.close()


def test_a_driver_that_waits_for_room_is_woken_when_a_sink_goes_into_quarantine():
    def fail() -> None:
        raise StorageError("the disk is full")

    bench = Bench(behind=Sink(before=fail), backlog=1, failure=OnFailure(attempts=1, then="skip"))
    bench.commit(1)
    bench.commit(2)
    while bench.publisher.publish_next():
        pass
    assert bench.publisher.standing()["behind"]["quarantine"]
    assert bench.woken[-1]
    assert len(bench.woken) == 3  # two timesteps to the other sink, and the quarantine
