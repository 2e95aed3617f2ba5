"""What dynamic allocation goes by: tasks that wait, and executors that idle."""

from __future__ import annotations

import numpy as np
import pytest

from rechannel.scaling.allocated import idle_s, waiting
from rechannel.telemetry.recent_tasks import OperatorTasks, TimestepTasks


def turn(tasks, began_ms, ended_ms):
    columns = np.ones(tasks)
    return OperatorTasks(
        numbers=np.arange(float(tasks)), rows=columns, busy_ms=columns, core_ms=columns,
        began_ms=began_ms, ended_ms=ended_ms, launch_ms=None, sent={}, offered={},
    )  # fmt: skip


def timestep(number, executors, *turns):
    operators = {str(place): each for place, each in enumerate(turns)}
    return TimestepTasks(
        timestep=number, duration_ms=1.0, driver=1, operators=operators, executors=executors
    )


@pytest.mark.parametrize(
    ("tasks", "cores", "found"),
    [(4, 4, (0, 0.0)), (5, 4, (1, 1.5)), (8, 4, (4, 1.5)), (12, 4, (8, 2.0))],
)
def test_tasks_beyond_the_cores_wait_until_the_last_wave_begins(tasks, cores, found):
    assert waiting(timestep(1, 2, turn(tasks, 1_000.0, 4_000.0)), cores) == found


def test_the_longest_wait_counts():
    turns = turn(9, 0.0, 400.0), turn(3, 400.0, 9_000.0), turn(5, 9_000.0, 10_000.0)
    assert waiting(timestep(1, 2, *turns), 4) == (1, 0.5)
    assert waiting(timestep(1, 2), 4) == (0, 0.0)


def test_executors_idle_since_the_last_timestep_in_which_as_many_had_tasks():
    used = [3, 2, 2, 1]
    run = [
        timestep(n, each, turn(4, n * 10_000.0, n * 10_000.0 + 500)) for n, each in enumerate(used)
    ]
    assert idle_s(run, 4) == (10.0, 30.0, 30.0)
    assert idle_s(run[:1], 3) == ()
    assert idle_s(run, 1) == ()
    assert idle_s([], 3) == ()
    assert idle_s([timestep(0, 0, turn(4, 0.0, 1.0))], 3) == ()
