"""Which timesteps the driver runs itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import structs

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.loop.core import inline
from rechannel.engine.loop.core.inline import MERGED_PER_ROW, Choice, in_one_task, needs
from rechannel.engine.loop.core.state import LoopState
from rechannel.engine.stages.runner import SourceSlice, Timestep
from rechannel.kernels.protocol.control import ControlMessage
from rechannel.model.configuration import Resources
from rechannel.model.hashspace import Intervals
from rechannel.model.spread import SpreadBin
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.telemetry.events import TimestepStarted
from rechannel.testing import Harness, script

SCHEMA = "k STRING, v BIGINT"


def harness(rows: int, **settings: Any) -> tuple[Harness, Any]:
    source = script(SCHEMA)
    totals = rc.read().memory(source, name="in").key_by("k").aggregate(n=agg.count(), name="totals")
    made = Harness(
        totals.write.memory("out", name="out"),
        settings=Settings(tasks=3, bins=8, inline_rows=rows, **settings),
    )
    return made, source


def push(source: Any, rows: int, first: int = 0) -> None:
    source.push([{"k": f"k{v}", "v": v} for v in range(first, first + rows)])


def inline_ones(process: Any) -> list[bool]:
    events = process.parts.hub.recent_events(1_000)
    return [each.inline for each in events if isinstance(each, TimestepStarted)]


def test_timesteps_of_at_most_so_many_rows_run_in_the_driver():
    bench, source = harness(4)
    process = bench.start()
    for number in (4, 5, 1):
        push(source, number)
        process.run()
    assert inline_ones(process) == [True, False, True]
    rows = (row for table in bench.outputs("out").values() for row in table.to_pylist())
    totals = {row["k"]: row["n"] for row in rows}
    assert totals == {"k0": 3, "k1": 2, "k2": 2, "k3": 2, "k4": 1}


def test_without_the_setting_none_runs_in_the_driver():
    bench, source = harness(0)
    process = bench.start()
    push(source, 1)
    process.run()
    assert inline_ones(process) == [False]


def begun(timesteps: int = 1) -> tuple[LoopState, Timestep]:
    """A stream with some state, and a timestep of three rows that is about to run."""
    merging = MergePolicy(fan=4)
    bench, source = harness(0, merging=merging)
    process = bench.start()
    for number in range(timesteps):
        push(source, 6, first=6 * number)
        process.run()
    state = process.parts.driver._state
    layout = ({"order": 0, "batch": timesteps, "rows": [0, 3], "size": 3},)
    part = SourceSlice(start={"batches": timesteps}, end={"batches": timesteps + 1}, layout=layout)
    return state, Timestep(
        number=timesteps + 1,
        stream_ms=0,
        configuration=state.configuration,
        slices={"in": part},
    )


def is_inline(state: LoopState, timestep: Timestep, rows: int = 3) -> bool:
    return Choice(rows=rows, native=lambda name: True)(timestep, state).inline is not None


def test_what_has_failed_carries_a_control_or_does_not_say_its_rows_runs_on_spark():
    state, timestep = begun()
    assert is_inline(state, timestep)
    assert not is_inline(state, timestep, rows=2)
    tried = Choice(rows=3, native=lambda name: True)(timestep, state)
    failed = structs.replace(state, timesteps=structs.replace(state.timesteps, failures=1))
    assert not is_inline(failed, tried)
    assert Choice(rows=3, native=lambda name: True)(tried, state, rewrites=True).inline is None
    assert not is_inline(
        state, replace(timestep, controls=(ControlMessage(operation="o", handler=b""),))
    )
    silent = replace(timestep.slices["in"], layout=({"order": 0, "batch": 1, "rows": [0, 3]},))
    assert not is_inline(state, replace(timestep, slices={"in": silent}))


def test_a_timestep_that_merges_much_runs_on_spark():
    state, timestep = begun(7)
    runs = state.operators.manifests["totals"].runs
    assert is_inline(state, timestep)
    many = tuple(replace(run, rows=run.rows * 100 * MERGED_PER_ROW) for run in runs)
    manifests = {"totals": replace(state.operators.manifests["totals"], runs=many)}
    large = structs.replace(state, operators=structs.replace(state.operators, manifests=manifests))
    assert not is_inline(large, timestep)


def test_one_task_has_every_bin_and_nothing_else_changes():
    state, _ = begun()
    before = state.configuration
    one = in_one_task(before)
    assert one.version == before.version
    assert {name: each.tasks for name, each in one.operators.items()} == {"in": 1, "totals": 1}
    was, now = before.operators["totals"].routing, one.operators["totals"].routing
    assert was is not None
    assert now is not None
    assert (now.starts, set(now.owners)) == (was.starts, {0})
    assert now.intervals_of(0) == Intervals.everything()


def test_what_only_spark_can_run_is_named():
    state, _ = begun()
    before = state.configuration
    assert list(needs(state.plan, before, lambda name: True)) == []
    assert list(needs(state.plan, before, lambda name: False)) == ["Spark reads source 'in'"]
    totals = before.operators["totals"]
    assert totals.routing is not None
    lo, hi = totals.routing.span(0)
    shared = totals.routing.with_spreads([SpreadBin(lo=lo, hi=hi, tasks=(0, 1), side=0)])
    for changed, why in (
        (replace(totals, routing=shared), "operator 'totals' has keys that several tasks share"),
        (
            replace(totals, resources=Resources(cpus=2)),
            "tasks of operator 'totals' need resources of their own",
        ),
    ):
        other = before.with_operator("totals", changed)
        assert list(needs(state.plan, other, lambda name: True)) == [why]


def test_state_of_many_runs_is_left_to_the_tasks_of_spark(monkeypatch):
    monkeypatch.setattr(inline, "MOST_RUNS", 0)
    bench, source = harness(4)
    process = bench.start()
    for _ in range(3):
        push(source, 1)
        process.run()
    assert inline_ones(process) == [True, False, False]


def test_a_parquet_file_has_the_rows_that_its_footer_tells(tmp_path):
    for number, rows in enumerate((4, 5)):
        table = pa.table({"k": ["x"] * rows, "v": list(range(rows))})
        pq.write_table(table, tmp_path / f"{number}.parquet", row_group_size=2)
    read = rc.read().files(tmp_path, format="parquet", schema=SCHEMA, per_timestep=1, name="in")
    totals = read.key_by("k").aggregate(n=agg.count(), name="totals")
    process = Harness(totals.write.memory("out"), settings=Settings(inline_rows=4)).start()
    process.run()
    assert inline_ones(process) == [True, False]
