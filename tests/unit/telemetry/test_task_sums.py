"""Sums over timesteps beside what adding up their tasks gives."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rechannel.telemetry.recent_tasks import OperatorTasks
from rechannel.telemetry.task_points import GROUPS, TAKEN
from rechannel.telemetry.task_sums import Summed, TaskSums, added_up, summed, with_timestep

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


def parts(found: Summed) -> dict[str, SimpleNamespace]:
    """What each operator did."""
    starts, firsts = (0, *found.ends[:-1]), (0, *found.points_ends[:-1])
    return {
        name: SimpleNamespace(
            rows=found.rows[starts[place] : found.ends[place]],
            busy_s=found.busy_s[starts[place] : found.ends[place]],
            total=found.totals[place],
            most=found.most[place],
            points=found.points[:, firsts[place] : found.points_ends[place]],
        )
        for place, name in enumerate(found.names)
    }


def check(found: Summed, steps: Sequence[dict[str, OperatorTasks]]) -> None:
    """Compare a window with what its tasks, looked at one by one, add up to."""
    core_ms = 0.0
    for name, of in parts(found).items():
        rows, busy_ms, total = defaultdict(float), defaultdict(float), 0.0
        each = [step[name] for step in steps if name in step]
        for columns in each:
            for task, took in enumerate(columns.numbers.tolist()):
                rows[took] += columns.rows[task]
                busy_ms[took] += columns.busy_ms[task]
                total += columns.rows[task]
                core_ms += columns.core_ms[task]
        assert of.rows.tolist() == [rows[task] for task in range(len(of.rows))]
        expected = [busy_ms[task] / 1e3 for task in range(len(of.rows))]
        assert of.busy_s == pytest.approx(expected, rel=1e-9)
        assert (of.total, of.most) == (total, max(rows.values()))
        tasks = [pair for e in each for pair in zip(e.rows, e.core_ms, strict=True)]
        if of.points.shape[1] == len(tasks):
            assert list(zip(*of.points, strict=True)) == tasks
        else:
            assert of.points.shape[1] == GROUPS
            assert all(len(e.rows) >= TAKEN for e in each)
    assert found.core_ms == pytest.approx(core_ms)


def test_a_window_is_what_its_tasks_add_up_to():
    steps, sums = story([{"in": 3, "counts": 2 * TAKEN + 5}] * 30)
    for first, last in ((0, 4), (7, 7), (12, 29)):
        check(summed(sums[first : last + 1]), steps[first : last + 1])


@given(
    st.lists(
        st.dictionaries(st.sampled_from("abc"), st.integers(1, 130), min_size=1),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 4),
    st.booleans(),
)
def test_windows_of_any_tasks(plans, repeated, gap):
    steps, sums = story([plan for plan in plans for _ in range(repeated)])
    if gap:
        steps[-1] = {name: columns(len(of.rows), gap=True) for name, of in steps[-1].items()}
    check(added_up(steps), steps)
    found = summed(sums[-repeated:])
    assert found is not None
    if not gap:
        check(found, steps[-repeated:])


def test_of_few_tasks_all_stay_and_points_on_their_line_stand_for_many():
    steps, sums = story([{"few": 4, "many": 3 * TAKEN, "more": 2}] * 3)
    for step in steps:
        step["many"].core_ms[:] = 20 + 0.5 * step["many"].rows
    sums = [None]
    for number, step in enumerate(steps):
        sums.append(with_timestep(sums[-1], number, step))
    found = parts(summed(sums[1:]))
    for name in ("few", "more"):
        assert found[name].points[0].tolist() == [n for s in steps for n in s[name].rows.tolist()]
    rows, core_ms = found["many"].points
    assert core_ms == pytest.approx(20 + 0.5 * rows)
    assert rows[-1] - rows[0] > 600


def test_a_timestep_that_was_slow_as_a_whole_does_not_count():
    steps, sums = [], [None]
    for number in range(5):
        steps.append({"many": columns(TAKEN)})
        steps[-1]["many"].core_ms[:] = (20 + 0.5 * steps[-1]["many"].rows) * (
            9 if number == 2 else 1
        )
        sums.append(with_timestep(sums[-1], number, steps[-1]))
    rows, core_ms = summed(sums[1:]).points
    assert core_ms == pytest.approx(20 + 0.5 * rows)


def test_other_tasks_begin_anew():
    _, sums = story([{"in": 2}] * 3 + [{"in": 4}] * 3)
    assert summed(sums[1:5]) is None
    assert len(summed(sums[3:]).rows) == 4
    assert summed(sums[:3]).points.shape == (2, 6)


def test_a_timestep_that_is_missing_and_tasks_that_are_not_numbered_say_nothing():
    _, sums = story([{"in": 2}] * 6, missing=3)
    assert summed(sums) is None
    _, whole = story([{"in": 2}] * 6)
    assert summed(whole[:2] + whole[3:]) is None
    assert with_timestep(None, 1, {"in": columns(3, gap=True)}) is None
    assert with_timestep(None, 1, {}) is None
    assert summed([None]) is None
