"""Critical participation in the last timesteps of a running job."""

from dataclasses import replace

import pytest

from rechannel.profiling.api import shares_of
from rechannel.telemetry.events import Event, TimestepCommitted, TimestepStarted
from rechannel.telemetry.recent_events import RecentEvents
from rechannel.telemetry.task_finished import TaskFinished
from tests.unit.profiling.jobs import committed, small, started, task


def later(number: int) -> list[Event]:
    """The same timestep again, a second later each time."""
    at = 1_000 * (number - 1)
    return [
        replace(event, timestep=number, **shifted(event, at))
        for event in small()
        if isinstance(event, TimestepStarted | TaskFinished | TimestepCommitted)
    ]


def shifted(event: Event, at: int) -> dict[str, object]:
    if not isinstance(event, TaskFinished):
        return {"at_ms": event.at_ms + at}
    spark = event.spark
    times = {"launch_ms": spark.launch_ms + at, "finish_ms": spark.finish_ms + at}
    return {
        "started_ms": event.started_ms + at,
        "finished_ms": event.finished_ms + at,
        "spark": replace(spark, **times),
    }


def test_the_path_of_a_timestep_leads_through_its_last_tasks():
    found = shares_of(small())
    assert (found.first, found.last, found.timesteps) == (1, 1, 1)
    assert found.mean_ms == pytest.approx(107)
    assert sum(found.kinds.values()) == pytest.approx(1)
    # The second task of `counts` processes for 55 of 107 ms; all wait for it.
    assert found.kinds["process"] == pytest.approx((55 + 10) / 107, abs=0.01)
    assert found.tasks["counts"][1] == pytest.approx(59 / 107, abs=0.02)
    assert found.tasks["counts"].get(0, 0.0) == 0
    assert found.executors == {"rows": {0: "1", 1: "1"}, "counts": {0: "1", 1: "1"}}


@pytest.mark.parametrize("part", range(12))
def test_the_latest_timestep_counts_whatever_its_last_nanoseconds_are(part):
    """Today's milliseconds, in nanoseconds, are larger than what floats hold exactly."""
    today = 1_795_543_918_807
    events = [
        replace(
            event, phases={**event.phases, "release": event.phases.get("release", 0) + part / 7_000}
        )
        if isinstance(event, TimestepCommitted)
        else event
        for event in later(1)
    ]
    events = [replace(event, **shifted(event, today)) for event in events]
    found = shares_of(events)
    assert sum(found.kinds.values()) == pytest.approx(1)
    assert found.kinds["process"] == pytest.approx((55 + 10) / 107, abs=0.01)


def test_time_between_timesteps_does_not_count():
    one, three = shares_of(small()), shares_of([*small(), *later(2), *later(3)])
    assert (three.timesteps, three.mean_ms) == (3, pytest.approx(one.mean_ms))
    assert three.kinds["process"] == pytest.approx(one.kinds["process"], abs=0.01)


def test_the_latest_timesteps_are_chosen():
    events = [*small(), *later(2), *later(3), *later(4)]
    assert (shares_of(events, most=2).first, shares_of(events, after=3).timesteps) == (3, 1)
    assert shares_of(events, after=4) is None
    assert shares_of([]) is None


def test_a_timestep_of_which_something_is_missing_does_not_count():
    events = [event for event in later(2) if not isinstance(event, TimestepStarted)]
    assert shares_of(events) is None
    assert shares_of([*events, *later(3)]).first == 3


def test_events_are_kept_up_to_the_last_commit():
    recent = RecentEvents()
    recent.see([*later(1), started(2_000, 2), task("rows", 0, 2_010, {"process": 5}, number=2)])
    assert recent.recent() == tuple(later(1))
    recent.see([committed(2_000, number=2)])
    assert len(recent.recent()) == len(later(1)) + 3


def test_old_timesteps_are_let_go():
    recent = RecentEvents(timesteps=2)
    for number in range(1, 6):
        recent.see(later(number))
    assert {event.timestep for event in recent.recent()} == {4, 5}
    assert recent.recent(1) == tuple(later(5))
    few = RecentEvents(events=5)
    for number in range(1, 4):
        few.see(later(number))
    assert recent.recent() == (*later(4), *later(5))
    assert few.recent() == tuple(later(3))


def test_timesteps_that_never_end_take_no_memory():
    recent = RecentEvents(events=10)
    for _ in range(100):
        recent.see([started(10), task("rows", 0, 20, {"process": 5})])
    assert len(recent._open) <= 10
