"""Jobs that are submitted again when an executor is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from rechannel.engine.spark.resubmitting import MOST, PATIENCE_S, RECENT_MS, Resubmitting

NOW_S = 1_000.0


class CancelledError(Exception):
    """What Spark raises where a job was cancelled."""


@dataclass
class Exchange:
    """What tasks read."""

    there: bool = True

    def incomplete(self) -> bool:
        return not self.there


@dataclass
class Jobs:
    """Jobs by tag; the stage of the one under way began at some time."""

    began_ms: float | None = NOW_S * 1e3
    tags: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)
    places: set[int] = field(default_factory=set)
    refuses: Exception | None = None

    def describe(self, text: str) -> None:
        raise AssertionError(text)

    def tag(self, tag: str) -> None:
        self.tags.append(tag)

    def untag(self, tag: str) -> None:
        self.tags.remove(tag)

    def cancel(self, tag: str) -> None:
        if self.refuses is not None:
            raise self.refuses
        self.cancelled.add(tag)

    def began(self, tag: str, place: int) -> float | None:
        assert tag in self.tags
        self.places.add(place)
        return self.began_ms


class World:
    """A job, and what happens while it runs."""

    def __init__(self, *befalls: Callable[[World], object]) -> None:
        """befalls: by run of the job."""
        self.befalls = befalls
        self.jobs, self.exchange = Jobs(), Exchange()
        self.now_s, self.ran = NOW_S, 0
        self.made = Resubmitting(self.jobs, clock=lambda: self.now_s, pause=self.pause)

    def pause(self, seconds: float) -> None:
        self.now_s += seconds

    def job(self) -> str:
        self.ran += 1
        if self.ran <= len(self.befalls):
            self.befalls[self.ran - 1](self)
            if self.jobs.cancelled.intersection(self.jobs.tags):
                raise CancelledError
        return f"result of run {self.ran}"

    def run(self, place: int = -1) -> str:
        return self.made.run(self.job, [self.exchange], place)

    def lose(self) -> None:
        """An executor is lost, and a thread looks after the jobs until it need not any more."""
        self.made.lost({"1"})
        for thread in threading.enumerate():
            if thread.name == "rechannel-resubmitting":
                thread.join(60)


def lose_rows(world: World) -> None:
    world.exchange.there = False
    world.now_s = NOW_S
    world.lose()


def test_a_job_whose_tasks_have_just_begun_runs_again():
    world = World(lose_rows)
    assert world.run(place=-2) == "result of run 2"
    assert len(world.jobs.cancelled) == 1
    assert world.jobs.places == {-2}
    assert world.jobs.tags == []


@pytest.mark.parametrize("began_ms", [None, NOW_S * 1e3 - RECENT_MS - 1])
def test_spark_recovers_where_no_task_has_begun_and_where_much_is_done(began_ms):
    world = World(lose_rows)
    world.jobs.began_ms = began_ms
    assert world.run() == "result of run 1"
    assert world.jobs.cancelled == set()


def test_a_lost_executor_that_took_no_rows_along_changes_nothing():
    world = World(World.lose)
    assert world.run() == "result of run 1"
    assert world.jobs.cancelled == set()
    assert world.now_s >= NOW_S + PATIENCE_S, "it was looked after for some time"


def test_spark_may_notice_what_is_missing_a_moment_later():
    world = World(World.lose)
    looks: list[float] = []

    def pause(seconds: float) -> None:
        world.now_s += seconds
        looks.append(world.now_s)
        world.exchange.there = len(looks) < 3

    world.made.pause = pause
    assert world.run() == "result of run 2"


def test_a_job_does_not_run_again_for_ever():
    world = World(*[lose_rows] * 100)
    assert world.run() == f"result of run {MOST + 1}"
    assert len(world.jobs.cancelled) == MOST


def test_what_a_job_raises_for_another_reason_is_raised():
    world = World()

    def failing() -> None:
        raise CancelledError("by the user")

    with pytest.raises(CancelledError, match="by the user"):
        world.made.run(failing, [world.exchange])
    assert world.jobs.tags == []


def test_a_job_that_is_cancelled_for_good_does_not_run_again():
    def both(world: World) -> None:
        lose_rows(world)
        world.made.stop()

    world = World(both)
    with pytest.raises(CancelledError):
        world.run()
    assert world.run() == "result of run 2", "later jobs run"


def test_a_job_that_ended_before_it_could_be_cancelled_is_done():
    world = World()

    def lost_at_the_end() -> str:
        lose_rows(world)
        return "done"

    assert world.made.run(lost_at_the_end, [world.exchange]) == "done"
    assert len(world.jobs.cancelled) == 1
    world.lose()
    assert len(world.jobs.cancelled) == 1, "nothing runs any more"


def test_where_spark_cannot_cancel_the_job_goes_on():
    world = World(lose_rows)
    world.jobs.refuses = ConnectionError("Spark is gone")
    assert world.run() == "result of run 1"
    world.jobs.refuses = None
    world.befalls, world.ran = (lose_rows,), 0
    assert world.run() == "result of run 2", "it is looked after jobs again"
