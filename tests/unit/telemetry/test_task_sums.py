"""Sums over timesteps beside what adding up their tasks gives."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from rechannel.telemetry.recent_tasks import OperatorTasks
from rechannel.telemetry.task_sums import PICKED, TaskSums, summed, with_timestep

RANDOM = np.random.default_rng(3)


def columns(tasks: int, *, gap: bool = False) -> OperatorTasks:
    numbers = np.arange(float(tasks))
    numbers[-1] += gap
    rows = RANDOM.integers(0, 1000, tasks).astype(float)
    busy = RANDOM.uniform(0, 50, tasks)
    return OperatorTasks(
        numbers=numbers, rows=rows, busy_ms=busy, core_ms=busy + 1 + rows, began_ms=0, ended_ms=1,
        launch_ms=None, sent={}, offered={},
    )  # fmt: skip


def story(
    plans: Sequence[dict[str, int]], *, missing: int = 0
) -> tuple[list[dict[str, OperatorTasks]], list[TaskSums | None]]:
    """Timesteps whose operators have so many tasks."""
    steps, sums = [], list[TaskSums | None]()
    for number, plan in enumerate(plans):
        steps.append({name: columns(tasks) for name, tasks in plan.items()})
        before = sums[-1] if sums else None
        timestep = number + (number >= missing > 0)
        sums.append(with_timestep(before, timestep, steps[-1]))
    return steps, sums


def test_a_window_is_what_its_tasks_add_up_to():
    plan = {"in": 3, "counts": 2 * PICKED + 5}
    steps, sums = story([plan] * 30)
    for first, last in ((0, 4), (7, 7), (12, 29)):
        found = summed(sums[first : last + 1])
        for name, of in found.items():
            each = [step[name] for step in steps[first : last + 1]]
            assert of.rows.tolist() == sum(e.rows for e in each).tolist()
            assert of.busy_s == pytest.approx(sum(e.busy_ms for e in each) / 1e3)
            assert of.total == sum(e.rows.sum() for e in each)
            assert of.most == of.rows.max()
            assert of.core_ms == pytest.approx(sum(e.core_ms.sum() for e in each))


def test_of_few_tasks_all_are_picked_and_of_many_others_in_each_timestep():
    steps, sums = story([{"few": 4, "many": 3 * PICKED}] * 3)
    found = summed(sums)
    assert found["few"].picked[0].tolist() == [n for s in steps for n in s["few"].rows.tolist()]
    rows, core_ms = found["many"].picked
    assert rows.shape == (3 * PICKED,)
    known = {(r, c) for s in steps for r, c in zip(s["many"].rows, s["many"].core_ms, strict=True)}
    picked = set(zip(rows.tolist(), core_ms.tolist(), strict=True))
    assert picked <= known
    assert len(picked) > 2.9 * PICKED


def test_other_tasks_begin_anew():
    _, sums = story([{"in": 2}] * 3 + [{"in": 4}] * 3)
    assert summed(sums[1:5]) is None
    assert len(summed(sums[3:])["in"].rows) == 4
    assert summed(sums[:3])["in"].picked.shape == (2, 6)


def test_a_timestep_that_is_missing_and_tasks_that_are_not_numbered_say_nothing():
    _, sums = story([{"in": 2}] * 6, missing=3)
    assert summed(sums) is None
    _, whole = story([{"in": 2}] * 6)
    assert summed(whole[:2] + whole[3:]) is None
    assert with_timestep(None, 1, {"in": columns(3, gap=True)}) is None
    assert with_timestep(None, 1, {}) is None
    assert summed([None]) is None
