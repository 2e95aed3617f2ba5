"""A function straight after a source sees timesteps that are not committed: who withdraws one knows, and says so."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.journal.lease import Holder
from rechannel.engine.journal.reading import read_only
from rechannel.engine.program.early import noted_sinks
from rechannel.engine.program.withdrawal import held_back, withdrawal
from rechannel.engine.repair.doing import Hand, found, repair
from rechannel.errors import UserFunctionError
from rechannel.job import InProcess, Job
from rechannel.settings import Settings
from rechannel.sinks.batch import Batch
from rechannel.state.stores.memory import MemoryStore

ROWS = 20
HAND = Hand(
    holder=Holder(host="here", pid=7, started_ms=1, epoch=0, heartbeat_ms=0),
    id="mended",
    clock=lambda: 10**6,
    started=lambda _: None,
)


def numbers(start: int, stop: int) -> pa.RecordBatch:
    return pa.record_batch({"v": range(start, stop)})


@dataclass
class Outside:
    """What a database would hold: rows and digest by incarnation and timestep."""

    rows: dict[tuple[str, int], list[int]] = field(default_factory=dict)
    digests: dict[tuple[str, int], str] = field(default_factory=dict)
    calls: int = 0
    replaced: int = 0

    def write(self, table: pa.Table, timestep: int, batch: Batch) -> None:
        """As the docs say."""
        self.calls += 1
        name = (batch.incarnation, timestep)
        if self.digests.get(name) == batch.digest:
            return
        self.replaced += name in self.rows
        self.rows[name] = table["v"].to_pylist()
        self.digests[name] = batch.digest

    def all(self) -> list[int]:
        """Every row that is there."""
        return sorted(value for rows in self.rows.values() for value in rows)


def job(store: Any, per: int, outside: Outside | None, *, bad: bool, **settings: Any) -> Job:
    """A sink that shows, if there is an outside, and after it one that fails if it is bad."""
    source = rc.read().generator(numbers, schema="v long", rows=ROWS, per_timestep=per, name="in")

    def fails(table: pa.Table, timestep: int) -> None:
        if bad:
            raise ValueError("no")

    if outside is None:
        kept = source.select("v").key_by("v").aggregate(n=agg.count(), name="n")
        ends = [kept.write.for_each_batch(fails, name="z")]
    else:
        ends = [
            source.write.for_each_batch(outside.write, name="a"),
            source.write.for_each_batch(fails, name="z"),
        ]
    return Job("j", ends, state=store, settings=Settings(tasks=1, telemetry=False, **settings))


def begun(store: MemoryStore, outside: Outside, drivers: int = 1) -> None:
    for _ in range(drivers):
        running = job(store, 10, outside, bad=True).start(in_process=InProcess())
        with pytest.raises(UserFunctionError):
            running.process_all_available(60)


def finished(store: MemoryStore, outside: Outside, **start: Any) -> None:
    running = job(store, 5, outside, bad=False).start(in_process=InProcess(), **start)
    running.process_all_available(60)
    running.stop(60)


def test_what_is_outside_is_right_where_it_replaces_by_digest(caplog):
    store, outside = MemoryStore(), Outside()
    begun(store, outside)
    assert outside.all() == [*range(10)]
    with caplog.at_level(logging.WARNING, "rechannel"):
        finished(store, outside, replan=True)
    assert "sinks 'a', 'z' may have been called with timestep 1 and" in caplog.text
    assert outside.replaced == 1
    assert outside.all() == [*range(ROWS)]


def test_a_repetition_has_the_same_digest():
    store, outside = MemoryStore(), Outside()
    begun(store, outside)
    finished(store, outside)
    assert (outside.calls, outside.replaced) == (4, 0)
    assert outside.all() == [*range(ROWS)]


def test_nothing_is_withdrawn_that_nobody_asked_for(caplog):
    store, outside = MemoryStore(), Outside()
    begun(store, outside, drivers=2)
    with caplog.at_level(logging.WARNING, "rechannel"):
        running = job(store, 5, outside, bad=False, replan_after=1).start(in_process=InProcess())
    running.process_all_available(60)
    running.stop(60)
    assert "is not withdrawn automatically (replan_after=1)" in caplog.text
    assert "start with replan=True" in caplog.text
    assert outside.replaced == 0
    assert outside.all() == [*range(ROWS)]


def test_repair_withdraws_it_only_by_name():
    store, outside = MemoryStore(), Outside()
    begun(store, outside, drivers=3)
    (finding,) = [one for one in found(store, HAND) if one.id == "open-timesteps"]
    assert not finding.advised
    assert "'a', 'z' may have been called with timestep 1 and" in finding.action.words
    assert repair(store, HAND, None) == ()
    assert [one.id for one in repair(store, HAND, ["open-timesteps"])] == ["open-timesteps"]
    finished(store, outside)
    assert outside.replaced == 1
    assert outside.all() == [*range(ROWS)]


def test_the_journal_says_which_sinks_these_are_for_as_long_as_it_matters():
    store, outside = MemoryStore(), Outside()
    begun(store, outside)
    state = read_only(store)
    assert noted_sinks(state.notes) == ["a", "z"]
    assert withdrawal(state, replan=False, after=0) is None
    assert "timestep 1" in held_back(state, 0)
    assert (held_back(state, None), held_back(state, 5)) == ("", "")
    finished(store, outside)
    assert noted_sinks(read_only(store).notes) == ["a", "z"]
    assert held_back(read_only(store), 0) == ""


def test_sinks_after_an_operator_see_nothing_before_the_commit():
    store = MemoryStore()
    running = job(store, 10, None, bad=False).start(in_process=InProcess())
    running.process_all_available(60)
    running.stop(60)
    assert "early" not in read_only(store).notes
