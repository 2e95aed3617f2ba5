"""Reading the tables of broadcast inputs: what a process reads again, and what it keeps."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import pyarrow as pa
import pytest

from rechannel.errors import BroadcastTooLargeError
from rechannel.kernels.lsm import broadcast as module
from rechannel.kernels.lsm.broadcast import Tables
from rechannel.kernels.protocol.program import BroadcastState, StageProgram
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import Intervals
from rechannel.model.routing import Routing
from rechannel.operators.process.track import TrackLogic
from rechannel.state.merging import Merge
from tests.support.tasks import ROWS, Bench, counting, rows


def ending(timeout_ms: int | None = None) -> TrackLogic:
    """The last `v` of each `k`; a negative one ends the key."""
    return TrackLogic(
        key_schema=pa.schema([ROWS.field("k")]),
        value_schema=pa.schema([ROWS.field("v")]),
        fields=pa.schema([("v", pa.int64())]),
        timeout_ms=timeout_ms,
        update=lambda key, state, rows: None if rows[-1].v < 0 else rows[-1].v,
    )


class Reader:
    """Reads the state of a bench, and counts how often its runs were opened."""

    def __init__(self, bench: Bench, monkeypatch: pytest.MonkeyPatch, tables: Tables | None = None):
        self.bench, self.tables, self.opened = bench, tables or Tables(), 0
        self.program = bench.program
        real = module.open_run

        def counted(program: StageProgram, run: Any) -> Any:
            self.opened += 1
            return real(program, run)

        monkeypatch.setattr(module, "open_run", counted)

    def at(self, stream_ms: int = 0, runs: Any = None) -> Any:
        runs = self.bench.manifest.state if runs is None else runs
        state = BroadcastState(runs=runs, clock=Clock(stream_ms=stream_ms))
        return self.tables.of(self.program, state)


def test_a_table_is_read_again_when_its_runs_are_others(monkeypatch):
    reader = Reader(bench := Bench(ending()), monkeypatch)
    assert dict(reader.at()) == {}
    bench.step([(rows(("a", 1), ("b", 2)), 0)], routing=Routing.even(bins=2, tasks=2))
    first = reader.at()
    assert {key: row.v for key, row in first.items()} == {"a": 1, "b": 2}
    opened = reader.opened
    bench.step([])
    assert reader.at(stream_ms=99) is first
    assert reader.opened == opened
    bench.step([(rows(("a", -1), ("c", 3)), 0)])
    assert {key: row.v for key, row in reader.at().items()} == {"b": 2, "c": 3}
    assert {key: row.v for key, row in first.items()} == {"a": 1, "b": 2}


def test_a_merge_changes_nothing(monkeypatch):
    reader = Reader(bench := Bench(counting()), monkeypatch)
    for number in range(3):
        bench.step([(rows(*((f"k{i}", number) for i in range(40 >> number * 2))), 0)])
    before = reader.at().rows
    everything = Intervals.everything()
    seqs = tuple(run.seq for run in bench.manifest.state)
    merge = Merge(seqs=seqs, where=everything, level=1, bottom=True)
    bench.step([], merges={0: (merge,)})
    assert len(bench.manifest.state) == 1 < len(seqs)
    assert reader.at().rows.equals(before)


def test_rows_end_by_time_without_reading_them_again(monkeypatch):
    reader = Reader(bench := Bench(ending(timeout_ms=10)), monkeypatch)
    bench.step([(rows(("a", 1)), 0)], stream_ms=0)
    bench.step([(rows(("b", 2)), 0)], stream_ms=5)
    both = reader.at(5)
    opened = reader.opened
    assert list(both) == ["a", "b"]
    assert reader.at(10) is both
    later = reader.at(11)
    assert (list(later), list(both)) == (["b"], ["a", "b"])
    assert reader.at(15) is later
    assert list(reader.at(16)) == []
    assert reader.opened == opened
    # An earlier timestep, such as one that runs again.
    assert list(reader.at(10)) == ["a", "b"]


def test_each_program_has_a_table_of_its_own(monkeypatch):
    reader = Reader(bench := Bench(ending()), monkeypatch)
    bench.step([(rows(("a", 1)), 0)])
    first, program = reader.at(), reader.program
    reader.program = bench.program
    second = reader.at()
    assert second is not first
    assert second.rows.equals(first.rows)
    assert reader.at() is second
    reader.program = program
    assert reader.at() is first


def test_a_process_keeps_as_many_tables_as_fit(monkeypatch):
    tables = Tables()
    readers = [Reader(Bench(counting()), monkeypatch, tables) for _ in range(3)]
    for reader in readers:
        reader.bench.step([(rows(("a", 1)), 0)])
    size = readers[0].at().nbytes
    monkeypatch.setattr(module, "KEPT_BYTES", 2 * size)
    first, second, third = (reader.at() for reader in readers)
    assert readers[1].at() is second
    assert readers[2].at() is third
    assert readers[0].at() is not first
    # The one that was read longest ago has gone for it.
    assert readers[2].at() is third
    assert readers[1].at() is not second


def test_too_many_bytes_are_refused_those_of_rows_that_have_ended_do_not_count(monkeypatch):
    reader = Reader(bench := Bench(ending(timeout_ms=10)), monkeypatch)
    bench.step([(rows(*((f"k{i}", i) for i in range(90))), 0)], stream_ms=0)
    bench.step([(rows(("a", 1)), 0)], stream_ms=20)
    monkeypatch.setattr(module, "BROADCAST_BYTES", 100)
    assert list(reader.at(20)) == ["a"]
    with pytest.raises(
        BroadcastTooLargeError, match="'op' keeps has 0 MiB as a table, more than 0"
    ):
        reader.at(5)
    monkeypatch.setattr(module, "STORED_BYTES", 100)
    reader.tables = Tables()
    with pytest.raises(BroadcastTooLargeError, match="'op' keeps has 0 MiB in state, more than 0"):
        reader.at(20)


def test_a_process_keeps_a_number_of_tables_however_small(monkeypatch):
    tables = Tables()
    monkeypatch.setattr(module, "KEPT_TABLES", 2)
    readers = [Reader(Bench(counting()), monkeypatch, tables) for _ in range(3)]
    for reader in readers:
        reader.bench.step([(rows(("a", 1)), 0)])
    first, *_, last = [reader.at() for reader in readers]
    assert readers[2].at() is last
    assert readers[0].at() is not first


def test_rows_that_were_replaced_do_not_count(monkeypatch):
    reader = Reader(bench := Bench(counting()), monkeypatch)
    for _ in range(12):
        bench.step([(rows(*((f"k{i}", i) for i in range(90))), 0)])
    expected = reader.at()
    monkeypatch.setattr(module, "BROADCAST_BYTES", expected.nbytes)
    monkeypatch.setattr(module, "STORED_BYTES", 2 * expected.nbytes)
    assert sum(run.size for run in bench.manifest.runs) > module.STORED_BYTES
    reader.tables = Tables()
    assert reader.at().rows.equals(expected.rows)


def test_rows_that_were_converted_count(monkeypatch):
    tables = Tables()
    readers = [Reader(Bench(counting()), monkeypatch, tables) for _ in range(2)]
    for reader in readers:
        reader.bench.step([(rows(*((f"k{i}", i) for i in range(90))), 0)])
    first, second = (reader.at() for reader in readers)
    monkeypatch.setattr(module, "KEPT_BYTES", 3 * first.nbytes)
    assert readers[0].at() is first
    assert readers[1].at() is second
    assert len(second.values()) == 90
    assert readers[1].at() is second
    assert readers[0].at() is not first


def test_tasks_of_two_timesteps_in_flight_do_not_take_turns_in_reading(monkeypatch):
    reader = Reader(bench := Bench(counting()), monkeypatch)
    versions = []
    for number in range(3):
        bench.step([(rows(("a", number)), 0)])
        versions.append(bench.manifest.state)
    first, second = reader.at(runs=versions[0]), reader.at(runs=versions[1])
    opened = reader.opened
    assert reader.at(runs=versions[0]) is first
    assert reader.at(runs=versions[1]) is second
    assert reader.opened == opened
    third = reader.at(runs=versions[2])
    assert reader.at(runs=versions[1]) is second
    assert reader.at(runs=versions[2]) is third
    assert reader.at(runs=versions[0]) is not first


def test_a_slow_read_of_one_table_does_not_hold_up_another(monkeypatch):
    tables = Tables()
    slow, other = (Reader(Bench(counting()), monkeypatch, tables) for _ in range(2))
    for reader in (slow, other):
        reader.bench.step([(rows(("a", 1)), 0)])
    begun, go_on, real = Event(), Event(), module.open_run

    def waiting(program: StageProgram, run: Any) -> Any:
        if program is slow.program:
            begun.set()
            assert go_on.wait(60)
        return real(program, run)

    monkeypatch.setattr(module, "open_run", waiting)
    with ThreadPoolExecutor(3) as threads:
        try:
            same = [threads.submit(slow.at) for _ in range(2)]
            assert begun.wait(60)
            assert len(threads.submit(other.at).result(timeout=30)) == 1
        finally:
            go_on.set()
        assert same[0].result() is same[1].result()


def test_a_read_that_fails_is_tried_again(monkeypatch):
    reader = Reader(bench := Bench(counting()), monkeypatch)
    bench.step([(rows(("a", 1)), 0)])
    with monkeypatch.context() as failing:
        failing.setattr(module, "STORED_BYTES", 0)
        with pytest.raises(BroadcastTooLargeError):
            reader.at()
    assert len(reader.at()) == 1
