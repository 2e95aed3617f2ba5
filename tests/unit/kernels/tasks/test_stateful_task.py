"""The stateful task: look up, apply, write, merge, emit, report."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import UserFunctionError
from rechannel.kernels.lsm.scan import canonical, finished
from rechannel.kernels.protocol.program import StageStep, TaskState
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.receive import receive
from rechannel.kernels.tasks.binned import pack_bins, rows_per_bin, unpack_bins
from rechannel.kernels.tasks.report import Emitted
from rechannel.kernels.tasks.stateful_task import StatefulTask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.model.routing import Routing
from rechannel.operators.aggregate.functions import First, LastN
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.process.track import TrackLogic
from rechannel.state.merging import BASE_LEVEL, Merge
from tests.support.reports import reported
from tests.support.tasks import (
    ROWS,
    WHOLE,
    Bench,
    as_batch,
    blobs_of,
    counting,
    reports_of,
    rows,
    sent,
)

NOW = Clock(stream_ms=0)
MANY = rows(*((f"k{i}", i) for i in range(40)))
HALVES = Routing.even(bins=2, tasks=2)


def tracking(update: Any, timeout_ms: int | None = None) -> TrackLogic:
    return TrackLogic(
        key_schema=pa.schema([ROWS.field("k")]),
        value_schema=pa.schema([ROWS.field("v")]),
        fields=pa.schema([("n", pa.int64())]),
        timeout_ms=timeout_ms,
        update=update,
    )


def sums(key: object, state: int | None, rows: Any) -> int | None:
    """The sum of `v`; a negative value ends the key."""
    return None if min(rows["v"]) < 0 else (state or 0) + sum(rows["v"])


def shown(bench: Bench, stream_ms: int = 0) -> list[dict[str, Any]]:
    return sorted(
        finished(bench.program, bench.state, Clock(stream_ms=stream_ms)).to_pylist(), key=repr
    )


def sorted_rows(emitted: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(emitted, key=lambda row: row["k"] or "")


def test_state_goes_on_from_timestep_to_timestep():
    bench = Bench(counting())
    first = bench.step([(rows(("a", 1), ("b", 2), ("a", 3)), 0)])
    assert sorted_rows(first) == [{"k": "a", "n": 2, "total": 4}, {"k": "b", "n": 1, "total": 2}]
    assert bench.step([(rows(("a", 10)), 0)]) == [{"k": "a", "n": 3, "total": 14}]
    assert shown(bench) == [{"k": "a", "n": 3, "total": 14}, {"k": "b", "n": 1, "total": 2}]


def test_combined_rows_lead_to_the_same():
    plain, combined = Bench(counting()), Bench(counting())
    for given in (rows(("a", 1), ("a", 2), (None, 5)), rows(("a", 3))):
        got = plain.step([(given, 0)], combined=False)
        assert got == combined.step([(given, 0)], combined=True)
    assert shown(plain) == shown(combined)


def test_a_task_without_rows_changes_nothing():
    ordered = AggregateLogic.bind(
        ["k"], {"f": First(column="v"), "l": LastN(column="v", n=2)}, ROWS
    )
    for logic in (counting(), ordered, tracking(sums)):
        bench = Bench(logic)
        bench.step([(rows(("a", 1)), 0)])
        before = bench.manifest
        assert bench.step([]) == []
        assert bench.manifest == before


def test_a_small_state_is_written_anew_as_one_run():
    bench = Bench(counting())
    for number in range(3):
        bench.step([(rows(("a", number), ("b", 1)), 0)])
        (run,) = bench.manifest.runs
        assert (run.level, run.rows, run.seq) == (BASE_LEVEL, 2, number + 1)


def test_a_large_state_gets_a_run_of_what_changed():
    bench = Bench(counting())
    bench.step([(MANY, 0)])
    bench.step([(rows(("k1", 1), ("new", 1)), 0)])
    newest, oldest = bench.manifest.runs
    assert (newest.level, newest.rows) == (0, 2)
    assert (oldest.level, oldest.rows) == (BASE_LEVEL, 40)
    assert len(shown(bench)) == 41


def test_a_merge_that_is_due_leaves_what_was_there():
    bench = Bench(counting())
    for given in (MANY, rows(("k1", 1)), rows(("k1", 1), ("k2", 1))):
        bench.step([(given, 0)])
    before = canonical(bench.program, bench.state, NOW)
    left = Intervals.of([(0, SPACE // 2)])
    merge = Merge(seqs=(3, 2, 1), where=left, level=1, bottom=True)
    bench.step([], merges={0: (merge,)})
    assert canonical(bench.program, bench.state, NOW).equals(before)
    (merged,) = [run for run in bench.manifest.runs if run.level == 1]
    assert merged.clip == left
    assert merged.seq == 3
    assert bench.reports[0].costs.counts["rows_merged"] > 0


def test_a_dropped_key_leaves_a_tombstone_only_where_an_older_run_may_hold_it():
    bench = Bench(tracking(sums))
    bench.step([(rows(("a", 1), ("gone", -1)), 0)])
    assert [run.rows for run in bench.manifest.runs] == [1]
    bench.step([(MANY, 0)])
    bench.step([(rows(("a", -1)), 0)])
    assert bench.manifest.runs[0].rows == 1
    assert "a" not in [row["k"] for row in shown(bench)]
    assert bench.step([(rows(("a", 5)), 0)]) == [{"k": "a", "n": 5}]


def test_what_timed_out_counts_as_absent():
    bench = Bench(tracking(sums, timeout_ms=10))
    bench.step([(rows(("a", 1), ("b", 1)), 0)], stream_ms=100)
    bench.step([(rows(("a", 1)), 0)], stream_ms=110)
    assert shown(bench, stream_ms=110) == [{"k": "a", "n": 2}, {"k": "b", "n": 1}]
    assert shown(bench, stream_ms=111) == [{"k": "a", "n": 2}]
    assert bench.step([(rows(("b", 5)), 0)], stream_ms=111) == [{"k": "b", "n": 5}]
    assert bench.reports[0].costs.counts["keys_found"] == 0


def test_moved_bins_change_nothing():
    placements = [
        WHOLE,
        HALVES,
        Routing(starts=(0, 2**61, 2**63), owners=(1, 0, 1), tasks=3),
        Routing.even(bins=5, tasks=5),
    ]
    one, moved = Bench(counting()), Bench(counting())
    for number, routing in enumerate(placements * 2):
        given = MANY.slice(number * 3, 12)
        expected = one.step([(given, 0)])
        assert sorted_rows(moved.step([(given, 0)], routing=routing)) == sorted_rows(expected)
        assert shown(one) == shown(moved)
    tables = [canonical(bench.program, bench.state, NOW) for bench in (one, moved)]
    assert tables[0].equals(tables[1])


def test_what_a_task_emits_is_cut_where_its_bins_end():
    """So that a function behind the operator keeps the order that all tasks' rows have."""
    bench = Bench(counting())
    quarters = Routing(starts=(0, 2**62, 2**63, 3 * 2**62), owners=(0, 1, 0, 1), tasks=2)
    seen: list[np.ndarray] = []

    class Spy:
        """Stands in for an emitter."""

        def received(self, rows: int) -> None:
            assert rows > 0

        def rows(self, batch: pa.RecordBatch, order: np.ndarray) -> list[Any]:
            assert batch.num_rows == len(order)
            seen.append(order)
            return []

        def watermarks(self, own: dict[str, int]) -> list[Any]:
            assert own == {}
            return []

        def finish(self) -> Emitted:
            return Emitted()

    step = StageStep(
        timestep=1, stream_ms=0, tasks=(TaskState(own=quarters.intervals_of(0)),), routing=quarters
    )
    task = StatefulTask(program=bench.program, step=step, task=0, attempt="a")
    mine = [p for p in sent(counting(), [(MANY, 0)], routing=quarters) if p[0] == 0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rechannel.kernels.tasks.stateful_task.Emitter", lambda *_: Spy())
        list(task.run([as_batch(mine)]))
    assert [int(hashes[0]) >> 62 for hashes in seen] == [0, 2]
    assert [int(hashes[-1]) >> 62 for hashes in seen] == [0, 2]


def test_rows_per_bin_are_reported():
    bench = Bench(counting())
    bench.step([(MANY, 0)], routing=HALVES)
    per_bin = [unpack_bins(report.state.bins).tolist() for report in bench.reports]
    assert sum(map(sum, per_bin)) == 40
    assert per_bin[0][1] == per_bin[1][0] == 0


def test_rows_per_bin_need_bins_and_rows():
    received = receive(Capabilities(counting()), blobs_of(sent(counting(), [(MANY, 0)])))
    assert rows_per_bin(None, received) is None
    assert rows_per_bin(HALVES, receive(Capabilities(counting()), [])) is None
    assert pack_bins(None) is None


def test_a_report_says_who_did_what():
    bench = Bench(counting())
    bench.step([(rows(("a", 1), ("a", 2)), 0)])
    (report,) = bench.reports
    facts = {name: getattr(report, name) for name in ("operator", "task", "attempt", "timestep")}
    assert facts == {"operator": "op", "task": 0, "attempt": "a", "timestep": 1}
    counts = report.costs.counts
    assert (counts["rows_in"], counts["keys"], counts["keys_found"]) == (2, 1, 0)
    assert (counts["rows_out"], counts["runs"]) == (1, 0)
    assert report.emitted.buffered["op"].rows == 1


def test_reports_of_those_before_are_passed_on():
    bench = Bench(counting())
    step = StageStep(timestep=1, stream_ms=0, tasks=(TaskState(own=Intervals.everything()),))
    task = StatefulTask(program=bench.program, step=step, task=0, attempt="a")
    before = reported("front").blob()
    reports = reports_of(list(task.run([as_batch([(0, before)])])))
    assert [report.operator for report in reports] == ["front", "op"]


def test_files_carry_the_name_of_the_attempt():
    bench = Bench(counting())
    bench.step([(MANY, 0)])
    assert "-a.0." in bench.manifest.runs[0].segment


def test_what_a_function_raises_names_operator_and_timestep():
    def fails(key: object, state: object, rows: object) -> object:
        raise RuntimeError("no luck")

    with pytest.raises(UserFunctionError, match=r"operator 'op', timestep 1: .*(?s:.)*no luck"):
        Bench(tracking(fails)).step([(rows(("a", 1)), 0)])


def test_a_front_has_no_state():
    program = Bench(counting()).program
    assert program.can.logic is program.logic
    front = type(program)(operator="f", root=program.root, store=program.store)
    with pytest.raises(ValueError, match="'f' has no state"):
        assert front.can
