"""How many tasks read a source."""

from types import SimpleNamespace

import pytest

from rechannel.engine.stages.short_tasks import SHORT_MS, ShortTasks


@pytest.mark.parametrize(
    ("took_ms", "tasks", "cores", "expected"),
    [
        (40.0, 4, 2, 2),
        (2 * SHORT_MS, 4, 2, 2),
        (2 * SHORT_MS + 1, 4, 2, 4),  # long ones even out
        (40.0, 4, 0, 4),  # the cores are not known
        (40.0, 2, 4, 2),
        (40.0, 4, 4, 4),
        (None, 4, 2, 4),  # nothing is known yet
    ],
)
def test_short_tasks_are_no_more_than_run_at_once(took_ms, tasks, cores, expected):
    known = ShortTasks()
    if took_ms is not None:
        known.learn([SimpleNamespace(operator="in", took_ms=took_ms)])
    assert known.number("in", tasks, cores) == expected


def test_the_latest_timestep_counts():
    known = ShortTasks()
    for took_ms in (1.0, 10_000.0):
        known.learn([SimpleNamespace(operator="in", took_ms=took_ms)])
    assert known.number("in", 8, 2) == 8
    assert known.number("other", 8, 2) == 8
