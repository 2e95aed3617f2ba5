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
        (2 * SHORT_MS + 1, 64, 2, 4),
        (4 * SHORT_MS + 1, 64, 2, 8),
        (63 * SHORT_MS, 64, 2, 64),
        (63 * SHORT_MS, 60, 2, 60),
        (40.0, 4, 0, 4),  # the cores are not known
        (40.0, 2, 4, 2),
        (40.0, 4, 4, 4),
        (None, 4, 2, 4),  # nothing is known yet
    ],
)
def test_short_tasks_are_no_more_than_run_at_once(took_ms, tasks, cores, expected):
    known = ShortTasks()
    assert known.number("in", tasks, cores, 10.0) == tasks
    if took_ms is not None:
        known.learn([SimpleNamespace(operator="in", took_ms=took_ms)])
    assert known.number("in", tasks, cores, 10.0) == expected


def test_the_latest_timestep_counts():
    known = ShortTasks()
    for took_ms in (1.0, 10_000.0):
        known.number("in", 8, 2, 1.0)
        known.learn([SimpleNamespace(operator="in", took_ms=took_ms)])
    assert known.number("in", 8, 2, 1.0) == 8
    assert known.number("other", 8, 2, 1.0) == 8


def test_a_burst_after_short_tasks_is_read_by_more():
    known = ShortTasks()
    known.number("in", 8, 2, 100.0)
    known.learn([SimpleNamespace(operator="in", took_ms=SHORT_MS)])
    assert known.number("in", 8, 2, 200.0) == 2
    assert known.number("in", 8, 2, 201.0) == 4
    assert known.number("in", 8, 2, 401.0) == 8


def test_after_a_failure_there_are_as_many_as_were_asked_for():
    known = ShortTasks()
    known.number("in", 8, 2, 1.0)
    known.learn([SimpleNamespace(operator="in", took_ms=1.0)])
    assert known.number("in", 8, 2, 1.0) == 2
    known.forget()
    assert known.number("in", 8, 2, 1.0) == 8


def test_nothing_is_learnt_from_a_timestep_without_input():
    known = ShortTasks()
    known.number("in", 8, 2, 0.0)
    known.learn([SimpleNamespace(operator="in", took_ms=1.0)])
    assert known.number("in", 8, 2, 5.0) == 8
