"""Sinks around a commit: staged before it or read behind it, published once more after a crash."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.engine.journal_state import JournalState
from rechannel.engine.publishing import Publisher
from rechannel.engine.runner import Timestep
from rechannel.errors import StorageError
from rechannel.model.configuration import Configuration
from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows
from rechannel.testing import Harness, script

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

    def __post_init__(self) -> None:
        stream = rc.read().memory(script("k long"), name="in")
        counts = stream.key_by("k").aggregate(n=rc.count(), name="counts")
        plan = Harness([stream.write.memory("direct", name="direct")]).plan
        other = Harness([counts.write.memory("behind", name="behind")]).plan
        self.sinks = (*plan.sinks, *other.sinks)
        self.publisher = self.made()

    def made(self) -> Publisher:
        return Publisher(
            sinks=self.sinks,
            writers={"direct": self.direct, "behind": self.behind},
            rows_of=self.rows_of,
            journal=self,  # type: ignore[arg-type]
            backlog=self.backlog,
        )

    def append(self, entry: Any) -> None:
        """Be the journal."""
        self.entries.append((entry.timestep, entry.sink))

    def rows_of(self, sink: Any, decided: Timestep | None, kept: dict[str, list[str]]) -> Rows:
        """Rows that tell where they came from: a timestep's source, or its outbox files."""
        values = [decided.number] if decided else [int(k) for keys in kept.values() for k in keys]
        batch = pa.RecordBatch.from_pydict({"k": values}, schema=SCHEMA)
        return Rows(frame=None, tables=lambda: iter([batch]), schema=SCHEMA)

    def commit(self, number: int) -> dict[str, Any]:
        decided = Timestep(number=number, now_ms=0, configuration=Configuration())
        kept = {"counts": [f"{number}00"], "other": ["7"]}
        staged = self.publisher.stage(decided, kept)
        self.publisher.publish(decided, kept, staged)
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


def test_a_thread_publishes_in_order():
    bench = Bench()
    bench.publisher.start()
    for number in (1, 2, 3):
        bench.commit(number)
    bench.publisher.drain()
    bench.publisher.close()
    both = [(number, sink) for number in (1, 2, 3) for sink in ("direct", "behind")]
    assert bench.entries == both
    assert bench.direct.calls[-1] == bench.behind.calls[-1] == ("close",)


def test_what_a_sink_raises_is_raised_to_the_driver():
    def fail() -> None:
        raise StorageError("the disk is full")

    bench = Bench(behind=Sink(before=fail))
    bench.publisher.start()
    bench.commit(1)
    with pytest.raises(StorageError, match="disk is full"):
        bench.publisher.drain()
    for call in (bench.publisher.idle, bench.publisher.has_room, lambda: bench.commit(2)):
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
