"""Which task owns each bin, what it has, and where it is to move."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from rechannel.kernels.tasks.binned import pack_bins
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.routing import Routing
from rechannel.running import bins as module
from rechannel.running.bins import bins_of
from rechannel.telemetry.recent_tasks import OperatorTasks, TimestepTasks

FOUR = Routing.even(bins=4, tasks=2)


def configured(routing: Routing, **more) -> Configuration:
    operators = {
        "counts": OperatorConfiguration(tasks=routing.tasks, routing=routing),
        "clicks": OperatorConfiguration(tasks=3),
    }
    return Configuration(operators=operators, **more)


def timestep(number: int, *per_task: list[int]) -> TimestepTasks:
    """A timestep whose tasks received these rows per bin."""
    nothing = np.zeros(len(per_task))
    tasks = OperatorTasks(
        numbers=nothing, rows=nothing, busy_ms=nothing, core_ms=nothing, began_ms=0.0, ended_ms=1.0,
        launch_ms=None, sent={}, offered={}, bins=tuple(pack_bins(np.array(rows)) for rows in per_task),
    )  # fmt: skip
    return TimestepTasks(timestep=number, duration_ms=1.0, driver=1, operators={"counts": tasks})


def test_only_operators_with_state_have_bins():
    assert list(bins_of(configured(FOUR), [], {}, [], [])) == ["counts"]
    found = bins_of(configured(FOUR), [], {}, [], [])["counts"]
    assert (found.tasks, found.bins, found.owners) == (2, 4, (0, 0, 1, 1))
    assert (found.bytes, found.rows, found.timesteps) == ((0, 0, 0, 0), None, 0)


@pytest.mark.parametrize("withdrawn", [([9] * 8,), ([9] * 8, [9] * 4)])
def test_a_withdrawn_timestep_that_ran_with_other_bins_is_left_out(withdrawn):
    tasks = [timestep(7, *withdrawn), timestep(8, [1, 2, 3, 4])]
    found = bins_of(configured(FOUR), [(1, configured(FOUR))], {}, tasks, [])["counts"]
    assert (found.rows, found.timesteps) == ((1.0, 2.0, 3.0, 4.0), 1)


def test_rows_are_means_over_the_timesteps_with_these_bins():
    now = configured(FOUR)
    tasks = [
        timestep(7, [8, 0, 0, 0]),
        timestep(8, [1, 2, 0, 0], [0, 0, 3, 4]),
        timestep(9, [3, 2, 0, 0]),
    ]
    other = configured(Routing.even(bins=8, tasks=2))
    found = bins_of(now, [(1, other), (8, now)], {}, tasks, [])["counts"]
    assert (found.rows, found.timesteps) == ((2.0, 2.0, 1.5, 2.0), 2)
    # An earlier Configuration with the same bins at other tasks counts, too.
    moved = configured(replace(FOUR, owners=(0, 1, 1, 1)))
    found = bins_of(now, [(1, other), (7, moved), (8, now)], {}, tasks, [])["counts"]
    assert (found.rows, found.timesteps) == ((4.0, pytest.approx(4 / 3, abs=0.05), 1.0, 1.3), 3)


def test_timesteps_whose_bins_are_not_known_do_not_count():
    assert bins_of(configured(FOUR), [], {}, [timestep(1, [1, 1, 1, 1])], [])["counts"].rows is None


def test_very_many_bins_are_only_counted(monkeypatch):
    monkeypatch.setattr(module, "MOST_BINS", 3)
    found = bins_of(configured(FOUR), [], {}, [], [])["counts"]
    assert (found.bins, found.owners, found.bytes, found.rows) == (4, (), (), None)
