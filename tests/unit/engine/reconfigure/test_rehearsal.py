"""Migrations are tried over the state that is there; one that failed all the same can be mended."""

from __future__ import annotations

import sys
from contextlib import nullcontext
from itertools import count
from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.engine.reconfigure import cluster_preparer, rehearsal
from rechannel.engine.reconfigure.rehearsal import (
    LAST_SECONDS,
    Rehearsal,
    migrating_programs,
    rehearse,
)
from rechannel.engine.reconfigure.switch import ProgramSwitch
from rechannel.errors import MissingFileError, OtherDataflowError, StorageError, UserFunctionError
from rechannel.model.eventtime import Clock
from rechannel.operators.process.track_spec import TrackSpec
from rechannel.reconfigure.record import Phase
from rechannel.settings import Settings
from rechannel.testing import Harness, MemoryStore, script

RULES = """
import pyarrow as pa

def inverse(batch):
    made = [{} for total in batch["total"].to_pylist()]
    return pa.record_batch({{"inverse": pa.array(made, pa.int64())}})

def counted(key, state, rows):
    return (state or 0) + 1
"""
WRONG, RIGHT = "100 // total", "100 // total if total else -1"


@pytest.fixture
def rules(tmp_path, monkeypatch) -> Any:
    """Import a module whose migration is written as given; it is forgotten at the end."""
    monkeypatch.syspath_prepend(tmp_path)
    numbers = count()

    def write(expression: str) -> Any:
        (tmp_path / "rehearsed_rules.py").write_text(RULES.format(expression) + "#" * next(numbers))
        sys.modules.pop("rehearsed_rules", None)
        import rehearsed_rules

        return rehearsed_rules

    yield write
    sys.modules.pop("rehearsed_rules", None)


def summed(key, state, rows):
    return (state or 0) + sum(rows["v"])


def bench(source: Any, store: MemoryStore, function: Any, state: str) -> Harness:
    op = rc.read().memory(source, name="in").key_by("k").track(function, state=state, name="op")
    return Harness(op.write.memory("out", name="out"), store=store, settings=Settings(tasks=2))


def running(rows: int = 50) -> tuple[Harness, Any]:
    """Keys k1 to k49, whose totals are their numbers; with k0 one that is 0."""
    source = script("k string, v bigint")
    harness = bench(source, MemoryStore(), summed, "total bigint")
    harness.start()
    source.push([{"k": f"k{n}", "v": n} for n in range(50 - rows, 50)])
    harness.process.run()
    return harness, source


def change(harness: Harness, module: Any, **how: Any) -> str:
    spec = TrackSpec(update=module.counted, state=pa.schema([("inverse", pa.int64())]))
    asked = rc.changes.change_logic("op", spec, migrate=rc.changes.migrate(using=module.inverse))
    return harness.process.reconfigure(asked, **how)


@pytest.mark.parametrize(
    "strategy", [rc.strategies.all_at_once(), rc.strategies.all_at_once(prepare=False)]
)
def test_a_row_that_cannot_be_converted_ends_the_change_and_not_the_job(rules, strategy):
    harness, source = running()
    id_ = change(harness, rules(WRONG), strategy=strategy)
    harness.process.run()
    record = harness.journal_state().coordination.find(id_)
    assert record.phase is Phase.FAILED
    assert "preparation failed: operator 'op', segment segments/op/" in record.reason
    assert "ZeroDivisionError" in record.reason
    assert record.taken == ()
    source.push([{"k": "k0", "v": 7}])
    harness.process.run()
    totals = {row["k"]: row["total"] for row in harness.state("op").to_pylist()}
    assert (totals["k0"], totals["k40"]) == (7, 40)


def test_a_migration_that_can_convert_all_of_it_says_so(rules):
    harness, source = running()
    id_ = change(harness, rules(RIGHT))
    source.push([{"k": "k1", "v": 1}])
    harness.process.run()
    record = harness.journal_state().coordination.find(id_)
    assert record.phase is Phase.DONE
    assert dict(record.prepared) == {"migrated_rows": 50, "migrated_of": 50}
    inverses = {row["k"]: row["inverse"] for row in harness.state("op").to_pylist()}
    assert (inverses["k0"], inverses["k1"], inverses["k40"]) == (-1, 50, 2)


def test_a_change_without_a_migration_tries_nothing(rules):
    harness, _ = running()
    id_ = harness.process.reconfigure(rc.changes.change_logic("op", rules(RIGHT).counted))
    harness.process.run()
    assert dict(harness.journal_state().coordination.find(id_).prepared) == {}


def late(rules: Any) -> tuple[Harness, Any, str]:
    """A row that cannot be converted comes after the preparation and before the border."""
    harness, source = running(rows=49)
    id_ = change(harness, rules(WRONG), at=harness.process.position.timestep + 1)
    while harness.journal_state().coordination.find(id_).phase is Phase.WAITING:
        assert harness.process.step()
    source.push([{"k": "k0", "v": 0}])
    harness.process.run()
    source.push([{"k": "k0", "v": 1}])
    return harness, source, id_


def test_what_came_after_the_preparation_is_tried_at_the_border(rules):
    harness, _, id_ = late(rules)
    harness.process.run()
    record = harness.journal_state().coordination.find(id_)
    assert record.prepared["migrated_rows"] == 49
    assert record.phase is Phase.FAILED
    assert "its migration fails: operator 'op', segment" in record.reason
    totals = {row["k"]: row["total"] for row in harness.state("op").to_pylist()}
    assert (totals["k0"], totals["k40"]) == (1, 40)


@pytest.mark.parametrize("where", [(cluster_preparer, "rehearse"), (ProgramSwitch, "record")])
def test_a_store_that_is_away_at_the_border_is_asked_again(rules, where, monkeypatch):
    room, name = where
    real, away = getattr(room, name), []

    def once(*given: Any, **how: Any) -> Any:
        if how.get("seconds", LAST_SECONDS) == LAST_SECONDS and not away:
            away.append(given)
            raise StorageError("the store is away")
        return real(*given, **how)

    monkeypatch.setattr(room, name, once)
    harness, source = running()
    id_ = change(harness, rules(RIGHT), at=harness.process.position.timestep)
    source.push([{"k": "k1", "v": 1}])
    harness.process.run()
    assert len(away) == 1
    assert harness.process.position.tries == 1
    record = harness.journal_state().coordination.find(id_)
    assert (record.phase, len(record.taken)) == (Phase.DONE, 1)
    inverses = {row["k"]: row["inverse"] for row in harness.state("op").to_pylist()}
    assert (inverses["k0"], inverses["k1"], inverses["k40"]) == (-1, 101, 2)


def test_a_change_that_begins_before_it_is_prepared_is_tried_at_the_border(rules):
    harness, source = running()
    id_ = change(harness, rules(WRONG), at=harness.process.position.timestep)
    source.push([{"k": "k1", "v": 1}])
    harness.process.driver.step()  # the preparation does not get its turn
    record = harness.journal_state().coordination.find(id_)
    assert (record.phase, dict(record.prepared)) == (Phase.FAILED, {})
    harness.process.run()
    assert {row["k"]: row["total"] for row in harness.state("op").to_pylist()}["k1"] == 2


def failed(rules: Any) -> tuple[Harness, Any]:
    """A job that died of a row that there was no time to try."""
    harness, source = running(rows=49)
    change(harness, rules(WRONG), at=harness.process.position.timestep + 1)
    harness.process.driver.step()
    source.push([{"k": "k0", "v": 0}])
    harness.process.run()
    source.push([{"k": "k0", "v": 1}])
    with pytest.raises(UserFunctionError, match="ZeroDivisionError"):
        harness.process.run()
    return harness, source


def test_a_migration_that_fails_behind_the_border_is_mended(rules, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(cluster_preparer, "rehearse", lambda *_, **__: Rehearsal(rows=0, of=49))
        harness, source = failed(rules)
    store = harness.store
    module = rules(RIGHT)
    again = bench(source, store, module.counted, "inverse bigint")
    with pytest.raises(OtherDataflowError, match="start with mended=True"):
        again.start()
    again.start(mended=True).run()
    inverses = {row["k"]: row["inverse"] for row in again.state("op").to_pylist()}
    assert (inverses["k0"], inverses["k2"]) == (0, 50)
    again.process.stop()
    # The journal has the new digest: nobody has to say it again.
    later = bench(source, store, module.counted, "inverse bigint")
    later.start().run()
    later.process.stop()
    with pytest.raises(OtherDataflowError, match="start with mended=True"):
        bench(source, store, rules(WRONG).counted, "inverse bigint").start()


# The bounds ----------------------------------------------------------------------------------------


def waiting(rules: Any, rule: str = RIGHT) -> tuple[Harness, Any]:
    harness, _ = running()
    change(harness, rules(rule), at=100)
    switch = harness.process.switch
    ready = switch.waiting(2)
    assert ready is not None
    (program,) = migrating_programs(ready.program, switch.current.program)
    return harness, program


def clock(_: str) -> Clock:
    return Clock(stream_ms=0)


def test_state_is_tried_in_pieces_for_as_long_as_there_is_time(rules):
    harness, program = waiting(rules)
    manifests = harness.process.journal.state.manifests
    ticks = count()
    tried = rehearse((program,), manifests, clock, lambda: next(ticks), seconds=3, piece_rows=10)
    assert 0 < tried.rows < tried.of == 50
    assert rehearse((program,), manifests, clock, lambda: 0.0, piece_rows=7).rows == 50
    assert rehearse((program,), {}, clock, lambda: 0.0).of == 0


@pytest.mark.parametrize("rule", [WRONG, RIGHT])
def test_state_that_was_tried_is_not_kept_open(rules, monkeypatch, rule):
    closed: list[Any] = []
    monkeypatch.setattr(rehearsal, "forget_segments", closed.append)
    harness, program = waiting(rules, rule)
    closed.clear()
    manifests = harness.process.journal.state.manifests
    with pytest.raises(UserFunctionError) if rule == WRONG else nullcontext():
        rehearse((program,), manifests, clock, lambda: 0.0)
    assert closed == [program.store]


@pytest.mark.parametrize(("times", "tried"), [(1, 50), (3, 0)])
def test_files_that_are_merged_away_meanwhile_are_looked_for_again(
    rules, monkeypatch, times, tried
):
    harness, program = waiting(rules)
    real, left = rehearsal.scan, list(range(times))

    def scan(*given: Any) -> Any:
        if left:
            left.pop()
            raise MissingFileError("gone")
        return real(*given)

    monkeypatch.setattr(rehearsal, "scan", scan)
    manifests = harness.process.journal.state.manifests
    assert rehearse((program,), manifests, clock, lambda: 0.0).rows == tried
    assert not left
