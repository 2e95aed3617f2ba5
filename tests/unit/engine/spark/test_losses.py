"""Jobs that begin anew when an executor is lost."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from rechannel.engine.spark.losses import MOST, RECENT_MS, Losses

NOW_S = 1_000.0


class CancelledError(Exception):
    """What Spark raises where a job was cancelled."""


@dataclass
class Jobs:
    """Jobs by tag; the one under way reads an exchange since some time."""

    since_ms: float | None = NOW_S * 1e3
    tags: list[str] = field(default_factory=list)
    cancelled: set[str] = field(default_factory=set)

    def tag(self, tag: str) -> None:
        self.tags.append(tag)

    def untag(self, tag: str) -> None:
        self.tags.remove(tag)

    def cancel(self, tag: str) -> None:
        self.cancelled.add(tag)

    def reading_since(self, tag: str) -> float | None:
        assert tag in self.tags
        return self.since_ms


@dataclass
class World:
    """A job that an executor's loss befalls some times, as often as it runs."""

    jobs: Jobs = field(default_factory=Jobs)
    befalls: int = 1
    ran: int = 0

    def __post_init__(self) -> None:
        self.losses = Losses(self.jobs, clock=lambda: NOW_S)

    def job(self) -> str:
        self.ran += 1
        if self.ran <= self.befalls:
            thread = threading.Thread(target=self.losses.lost, args=({"1"},))
            thread.start()
            thread.join()
            if self.jobs.cancelled.intersection(self.jobs.tags):
                raise CancelledError
        return f"result of run {self.ran}"


def test_a_job_whose_tasks_have_just_begun_to_read_begins_anew():
    world = World()
    assert world.losses.run(world.job) == "result of run 2"
    assert len(world.jobs.cancelled) == 1
    assert world.jobs.tags == []


@pytest.mark.parametrize("since_ms", [None, NOW_S * 1e3 - RECENT_MS - 1])
def test_spark_comes_round_where_none_reads_and_where_much_is_done(since_ms):
    world = World(Jobs(since_ms))
    assert world.losses.run(world.job) == "result of run 1"
    assert world.jobs.cancelled == set()


def test_a_job_does_not_begin_anew_for_ever():
    world = World(befalls=100)
    assert world.losses.run(world.job) == f"result of run {MOST + 1}"
    assert len(world.jobs.cancelled) == MOST


def test_what_a_job_raises_for_another_reason_is_raised():
    jobs = Jobs()
    losses = Losses(jobs, clock=lambda: NOW_S)

    def failing() -> None:
        raise CancelledError("by the user")

    with pytest.raises(CancelledError, match="by the user"):
        losses.run(failing)
    assert jobs.tags == []


def test_a_job_that_ended_before_it_could_be_cancelled_is_done():
    jobs = Jobs()
    losses = Losses(jobs, clock=lambda: NOW_S)

    def lost_at_the_end() -> str:
        losses.lost({"1"})
        return "done"

    assert losses.run(lost_at_the_end) == "done"
    assert len(jobs.cancelled) == 1


def test_jobs_of_other_threads_are_their_own():
    jobs: Any = Jobs()
    losses = Losses(jobs, clock=lambda: NOW_S)
    ready, found = threading.Barrier(3), []

    def job() -> str:
        ready.wait(30)
        return "done"

    def run() -> None:
        found.append(losses.run(job))

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    ready.wait(30)
    for thread in threads:
        thread.join()
    assert found == ["done", "done"]
    losses.lost({"1"})
    assert jobs.cancelled == set(), "nothing runs any more"
