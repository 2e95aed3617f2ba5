"""Several tasks in one task of Spark."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from rechannel.kernels.protocol.program import StageStep, TaskState
from rechannel.kernels.shuffle import spool
from rechannel.kernels.shuffle.wire import from_batches
from rechannel.kernels.tasks.bundle import Bundle
from rechannel.kernels.tasks.report import SparkTask
from rechannel.kernels.tasks.stateful_task import StatefulTask
from rechannel.model.routing import Routing
from rechannel.state.manifest import Manifest
from tests.support.tasks import Bench, as_batch, counting, reports_of, rows, sent

TASKS = Routing.even(bins=8, tasks=4)
FIRST = 7
"""Partition of the exchange that is for task 0."""
GIVEN = [(rows(*((f"k{i}", i) for i in range(n, n + 60))), n) for n in (0, 100)]


def step_of(memory: int) -> StageStep:
    owned = [TASKS.intervals_of(task) for task in range(TASKS.tasks)]
    return StageStep(
        timestep=1,
        stream_ms=0,
        routing=TASKS,
        memory=memory,
        tasks=tuple(TaskState(own=own, runs=Manifest().within(own), merges=()) for own in owned),
    )


def made_by(bench: Bench, step: StageStep, *numbers: int) -> list[StatefulTask]:
    origin = SparkTask(stage=3, task=30)
    return [
        StatefulTask(program=bench.program, step=step, task=n, attempt="a", origin=origin)
        for n in numbers
    ]


def files_of(bench: Bench) -> dict[str, bytes]:
    return {key: bytes(bench.store.read(key)) for key in bench.store.list("")}


@pytest.mark.parametrize("memory", [64 << 20, 4_000])
@pytest.mark.parametrize("bundle", [(0, 1, 2, 3), (1, 3), (2,)])
def test_tasks_do_together_what_each_does_alone(memory, bundle, monkeypatch):
    """Whatever the order in which their input comes, and on disk where there is too much of it."""
    spilled = []
    write = spool.Spool.write
    monkeypatch.setattr(
        spool.Spool, "write", lambda self, data: spilled.append(1) or write(self, data)
    )
    alone, together = Bench(counting()), Bench(counting())
    step = step_of(memory)
    parcels = sent(alone.logic, GIVEN, routing=TASKS, first=FIRST)
    mine = [parcel for parcel in parcels if parcel[0] - FIRST in bundle]
    assert {at - FIRST for at, _ in mine} == set(bundle)
    expected = [
        report
        for task in made_by(alone, step, *bundle)
        for report in reports_of(
            list(task.run([as_batch([p for p in mine if p[0] == FIRST + task.task])]))
        )
    ]
    assert bool(spilled) is (memory == 4_000)
    Random(1).shuffle(mine)
    batches = [as_batch(mine[:3]), as_batch(mine[3:])]
    made = list(Bundle(made_by(together, step, *bundle), FIRST).run(batches))
    found = reports_of(made)
    assert [report.task for report in found] == list(bundle)
    for one, other in zip(found, expected, strict=True):
        assert (one.emitted, one.state, one.spark) == (other.emitted, other.state, other.spark)
        counts, known = ({**each.costs.counts, "bytes_spilled": 0} for each in (one, other))
        assert counts == known
    assert files_of(together) == files_of(alone) != {}


def test_each_task_measures_itself():
    bench = Bench(counting())
    tasks = made_by(bench, step_of(64 << 20), 0, 1, 2)
    parcels = [
        (at, blob)
        for at, blob in sent(bench.logic, GIVEN, routing=TASKS, first=FIRST)
        if at < FIRST + 3
    ]
    costs = [each.costs for each in reports_of(list(Bundle(tasks, FIRST).run([as_batch(parcels)])))]
    assert ["wait" in each.ms for each in costs] == [True, False, False]
    for before, after in pairwise(costs):
        assert before.finished_ms <= after.started_ms


def test_what_is_for_another_task_is_no_input():
    bench = Bench(counting())
    parcels = sent(bench.logic, GIVEN, routing=TASKS, first=FIRST)
    bundle = Bundle(made_by(bench, step_of(64 << 20), 0, 1), FIRST)
    with pytest.raises(KeyError):
        list(bundle.run([as_batch(parcels)]))


def test_tasks_without_input_report_too():
    bench = Bench(counting())
    made = list(Bundle(made_by(bench, step_of(64 << 20), 0, 3), FIRST).run([]))
    assert [report.task for report in reports_of(made)] == [0, 3]
    assert list(from_batches(made))
