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
    assert known.number("in", tasks, cores, {"in": 10.0}) == tasks
    if took_ms is not None:
        known.learn([SimpleNamespace(operator="in", took_ms=took_ms)])
    assert known.number("in", tasks, cores, {"in": 10.0}) == expected


def test_the_latest_timestep_counts():
    known = ShortTasks()
    for took_ms in (1.0, 10_000.0):
        known.number("in", 8, 2, {"a": 1.0})
        known.learn([SimpleNamespace(operator="in", took_ms=took_ms)])
    assert known.number("in", 8, 2, {"a": 1.0}) == 8
    assert known.number("other", 8, 2, {"a": 1.0}) == 8


def test_a_burst_after_short_tasks_is_read_by_more():
    known = ShortTasks()
    known.number("in", 8, 2, {"a": 100.0})
    known.learn([SimpleNamespace(operator="in", took_ms=SHORT_MS)])
    assert known.number("in", 8, 2, {"a": 200.0}) == 2
    assert known.number("in", 8, 2, {"a": 201.0}) == 4
    assert known.number("in", 8, 2, {"a": 401.0}) == 8


def test_after_a_failure_there_are_as_many_as_were_asked_for():
    known = ShortTasks()
    known.number("in", 8, 2, {"a": 1.0})
    known.learn([SimpleNamespace(operator="in", took_ms=1.0)])
    assert known.number("in", 8, 2, {"a": 1.0}) == 2
    known.forget()
    assert known.number("in", 8, 2, {"a": 1.0}) == 8


def test_nothing_is_learnt_from_a_timestep_without_input():
    known = ShortTasks()
    known.number("in", 8, 2, {"a": 0.0})
    known.learn([SimpleNamespace(operator="in", took_ms=1.0)])
    assert known.number("in", 8, 2, {"a": 5.0}) == 8


def learned(took_ms, **sizes):
    known = ShortTasks()
    known.number("sums", 64, 2, sizes)
    known.learn([SimpleNamespace(operator="sums", took_ms=took_ms)])
    return known


def test_the_source_that_has_grown_most_counts():
    """Sizes of sources have nothing in common: bytes of one, rows of another."""
    known = learned(SHORT_MS, files=64e6, rows=1_000.0)
    assert known.number("sums", 64, 2, {"files": 64e6, "rows": 1_000.0}) == 2
    assert known.number("sums", 64, 2, {"files": 0.0, "rows": 4_000.0}) == 4
    assert known.number("sums", 64, 2, {"files": 0.0, "rows": 1e6}) == 64


def test_nothing_is_known_of_a_source_that_gave_nothing():
    known = learned(SHORT_MS, a=10.0, b=0.0)
    assert known.number("sums", 64, 2, {"a": 10.0, "b": 0.0}) == 2
    assert known.number("sums", 64, 2, {"a": 10.0, "b": 1.0}) == 64


def test_nothing_is_known_of_a_timestep_without_rows():
    """Time alone may close a window with a million keys."""
    assert learned(SHORT_MS, a=10.0).number("sums", 64, 2, {"a": 0.0}) == 64
