"""Stages run in this process, and what can go wrong with their tasks on purpose."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.engine.stages.inprocess import ATTEMPTS, InProcessLoader, TaskDied, no_faults
from rechannel.errors import DataflowError
from rechannel.model.patience import Patience
from rechannel.settings import Settings
from rechannel.state.keys import SEGMENTS
from rechannel.testing import Harness, Process, TaskFaults, script

ROWS = [[{"k": i % 5, "v": i} for i in range(20)], [{"k": 9, "v": 9}]]


def harness_of(**options: Any) -> Harness:
    stream = rc.read().memory(script("k long, v long", ROWS, partitions=3), name="in")
    sums = stream.key_by("k").aggregate(total=agg.sum("v"), name="sums")
    options.setdefault("settings", Settings(tasks=2, bins=4))
    return Harness(sums.write.memory("out"), **options)


def totals(harness: Harness) -> dict[int, int]:
    return {row["k"]: row["total"] for row in harness.state("sums").to_pylist()}


def expected() -> dict[int, int]:
    return {**{k: sum(range(k, 20, 5)) for k in range(5)}, 9: 9}


def segments(harness: Harness) -> list[str]:
    return list(harness.store.list(SEGMENTS))


def run_with(**planned: str) -> tuple[Harness, Process]:
    """Run with faults of task 0 of the operator in timestep 1: attempt number -> fault."""
    harness = harness_of()
    faults = {("sums", 1, 0, int(name[1:])): fault for name, fault in planned.items()}
    process = harness.start(task_faults=TaskFaults(faults))
    process.run()
    assert totals(harness) == expected()
    return harness, process


def test_without_faults_every_task_runs_once():
    harness, process = run_with()
    assert harness.injected == {}
    assert process.runner.injected == {}
    assert len(segments(harness)) == 3
    assert process.sweep() == 0


def test_a_task_that_dies_before_it_ran_leaves_nothing():
    harness, process = run_with(_0="before", _1="before")
    assert harness.injected == process.runner.injected == {"before": 2}
    assert len(segments(harness)) == 3


@pytest.mark.parametrize("fault", ["after", "twice"])
def test_files_of_attempts_that_do_not_count_stay_until_a_sweep(fault: str):
    harness, process = run_with(_0=fault)
    assert harness.injected == {fault: 1}
    before = len(segments(harness))
    assert before == 4
    assert process.sweep() == 2  # a segment and an outbox file
    assert len(segments(harness)) == 3
    assert totals(harness) == expected()


def test_a_copy_that_loses_may_still_write_when_all_is_over():
    harness, process = run_with(_0="late")
    assert len(segments(harness)) == 3
    assert process.straggle()
    assert not process.straggle()
    assert len(segments(harness)) == 4
    assert process.sweep() == 2
    assert totals(harness) == expected()


def test_a_task_fails_its_timestep_after_some_attempts():
    planned = {("in", 2, 0, attempt): "before" for attempt in range(ATTEMPTS)}
    harness = harness_of(settings=Settings(tasks=2, bins=4, patience=Patience(seconds=0)))
    process = harness.start(task_faults=TaskFaults(planned))
    with pytest.raises(TaskDied, match="operator 'in': task 0 failed 4 times in timestep 2"):
        process.run()
    assert harness.journal_state().last_committed == 1
    harness.start().run()
    assert totals(harness) == expected()


def test_faults_are_named():
    with pytest.raises(ValueError, match="no fault 'sometimes'"):
        TaskFaults({("in", 1, 0, 0): "sometimes"})


def test_no_faults_are_none():
    assert no_faults("sums", 1, 0, 0) is None


def test_arrival_makes_no_difference():
    forward, backward = harness_of(), harness_of(arrival=lambda blobs: blobs[::-1])
    for harness in (forward, backward):
        harness.start().run()
    tables = [harness.state_table("sums") for harness in (forward, backward)]
    assert tables[0].equals(tables[1])


def test_what_a_committed_timestep_held_is_freed():
    harness = harness_of()
    process = harness.start()
    process.run()
    assert process.runner._timesteps == {}
    assert process.runner._exchanges == {}


def test_a_dataframe_function_is_refused():
    stream = rc.read().memory(script("k long"), name="in").transform(lambda df: df, name="sql")
    with pytest.raises(DataflowError, match=r"'sql'.*needs Spark"):
        Harness(stream.key_by("k").aggregate(n=agg.count(), name="n").write.noop())


def test_sinks_read_sources_outboxes_and_unions_of_them():
    stream = rc.read().memory(script("k long", [[{"k": 1}], [{"k": 2}]]), name="in")
    other = rc.read().memory(script("k long", [[{"k": 7}]]), name="other")
    passed = other.map_batches(lambda batch: batch, name="passed")
    harness = Harness(
        [
            stream.write.memory("raw", name="raw"),
            stream.union(passed).write.memory("mixed", name="mixed"),
            stream.union(other, stream).write.memory("all", name="all"),
        ]
    )
    harness.start().run()
    seen = {
        name: {
            t: sorted(table.column("k").to_pylist()) for t, table in harness.outputs(name).items()
        }
        for name in ("raw", "mixed", "all")
    }
    assert seen == {
        "raw": {1: [1], 2: [2]},
        "mixed": {1: [1, 7], 2: [2]},
        "all": {1: [1, 1, 7], 2: [2, 2]},
    }


def test_state_can_be_loaded_from_a_table():
    table = pa.table({"k": [1, 2], "total": [100, 200]})
    stream = rc.read().memory(script("k long, v long", ROWS), name="in")
    loader = InProcessLoader(lambda: "x")
    assert loader.rows(table) == 2
    assert loader.schema(table) == table.schema
    biggest = stream.key_by("k").aggregate(total=agg.max("v"), name="top", preload=lambda: table)
    harness = Harness(biggest.write.memory("out"))
    harness.start().run()
    state = {row["k"]: row["total"] for row in harness.state("top").to_pylist()}
    assert state == {0: 15, 1: 100, 2: 200, 3: 18, 4: 19, 9: 9}
    assert harness.journal_state().last_committed == 2
