"""Guard, in a running stream whose timesteps take as long as the test says."""

from collections.abc import Callable
from typing import Any

import pytest

import rechannel as rc
from rechannel.control.library.trial import MOST_ON_TRIAL
from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.reconfigure.changes.change import Change
from rechannel.testing import Harness, ManualClock, script
from rechannel.testing.process import Process


class Stream:
    """A stream that is pushed one timestep at a time. cost: milliseconds of a timestep under a Configuration."""

    def __init__(
        self,
        cost: Callable[[Configuration], float],
        *others: rc.control.Controller,
        **settings: int,
    ) -> None:
        self.clock = ManualClock()
        self.rows = script("k bigint")
        keyed = rc.read().memory(self.rows).key_by("k")
        counts = keyed.aggregate(n=rc.aggregates.count(), name="counts")
        self.stream = Harness(
            counts.write.memory("out"), clock=self.clock, settings=rc.Settings(**settings)
        )
        self.cost = cost
        self.taken: set[int] = set()
        self.controllers = [*others, rc.control.library.Guard(window=4, settle=1)]
        self.process: Process = self.start()

    def start(self) -> Process:
        self.process = self.stream.start(controllers=self.controllers, task_faults=self.takes)
        return self.process

    def takes(self, operator: str, timestep: int, task: int, attempt: int) -> None:
        """Not a fault: it takes the time of the timestep, once."""
        if timestep not in self.taken:
            self.taken.add(timestep)
            self.clock.advance(self.cost(self.process.position.configuration))

    def run(self, timesteps: int) -> None:
        for _ in range(timesteps):
            self.rows.push([{"k": k} for k in range(10)])
            self.process.run()

    @property
    def tasks(self) -> int:
        return self.process.position.configuration.operators["counts"].tasks

    @property
    def causes(self) -> list[str]:
        return [record.cause for record in self.process.changes.coordination.records]

    @property
    def log(self) -> list[str]:
        return [line.text for line in self.process.controllers.board.seat("guard").log]


def tasks_cost(configuration: Configuration) -> float:
    return 10.0 * configuration.operators["counts"].tasks


def test_a_change_that_made_timesteps_slower_is_taken_back_once():
    stream = Stream(tasks_cost)
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(4)
    assert stream.tasks == 4
    stream.run(30)
    assert stream.tasks == 2
    assert stream.causes[1] == (
        "controller 'guard': takes r1 back: latency 20 ms -> 40 ms, 500 -> 250 rows/s"
    )
    assert len(stream.causes) == 2  # it does not judge its own taking back


def test_a_change_that_made_nothing_worse_stays():
    stream = Stream(lambda _: 10.0)
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(20)
    assert stream.tasks == 4
    assert stream.log == []


def test_the_taking_back_of_a_change_that_would_be_worse_is_not_judged():
    """Everything after the change is slower, with and without it."""
    stream = Stream(lambda configuration: 10.0 * configuration.version)
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(40)
    assert stream.tasks == 2
    assert len(stream.causes) == 2


def test_changes_that_overlap_are_judged_and_taken_back_together():
    stream = Stream(tasks_cost)
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(2)
    stream.process.reconfigure(rc.changes.set_in_flight(2))
    stream.run(30)
    assert stream.causes[2].startswith("controller 'guard': takes r1, r2 back: latency")
    assert stream.tasks == 2
    assert stream.process.position.configuration.in_flight == 1
    assert len(stream.causes) == 3


def test_changes_from_before_its_installation_are_left_alone():
    stream = Stream(tasks_cost)
    stream.controllers = []
    stream.start()
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(1)
    stream.controllers = [rc.control.library.Guard(window=4)]
    stream.start()
    stream.run(20)
    assert stream.tasks == 4


def test_it_goes_on_with_the_figures_from_before_after_a_restart():
    stream = Stream(tasks_cost)
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(2)
    assert stream.process.controllers.board.seat("guard").state["trial"]["ids"] == ["r1"]
    stream.start()
    stream.run(20)
    assert stream.tasks == 2


def test_it_says_that_there_is_no_way_back():
    stream = Stream(tasks_cost)
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.process.reconfigure(rc.changes.executors(1))
    stream.run(20)
    assert stream.tasks == 4
    assert any("there is no way back from it" in line for line in stream.log)


class Meddling(rc.control.Controller):
    """Requests a change with every timestep in which `changes` has one."""

    trigger = rc.control.every(timesteps=1)

    def __init__(self, changes: Callable[[int], Change | None]) -> None:
        self.changes = changes

    def on_begin(self, control: Any) -> None:
        change = self.changes(control.timestep)
        if change is not None:
            control.reconfigure(change)


def refused(stream: Stream) -> int:
    return sum("refused: " in line for line in stream.log)


def test_a_way_back_that_is_refused_is_requested_again():
    """The change that it meets sets nothing."""
    same = rc.changes.combine("counts", "auto")
    stream = Stream(tasks_cost, Meddling(lambda timestep: same if timestep < 18 else None))
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(30)
    assert refused(stream) >= 1
    assert stream.tasks == 2
    assert "controller 'guard': takes r" in stream.causes[-1]


def test_it_gives_up_a_way_back_that_is_refused_each_time():
    same = rc.changes.combine("counts", "auto")
    stream = Stream(tasks_cost, Meddling(lambda _: same))
    stream.run(8)
    stream.process.reconfigure(rc.changes.rescale("counts", 4))
    stream.run(50)
    assert refused(stream) == 5
    assert stream.tasks == 4
    assert "its way back is refused each time" in stream.log[-1]


def test_changes_that_follow_one_another_are_judged_few_at_a_time():
    def drift(timestep: int) -> Change | None:
        return rc.changes.rescale("counts", 2 + timestep // 3 % 2) if timestep % 3 == 0 else None

    stream = Stream(lambda _: 10.0, Meddling(drift))
    most = 0
    for _ in range(60):
        stream.run(1)
        trial = stream.process.controllers.board.seat("guard").state["trial"]
        most = max(most, len(trial["ids"]) if trial else 0)
    assert len(stream.causes) >= 18
    assert 1 < most <= MOST_ON_TRIAL
    assert stream.process.controllers.board.seat("guard").state["over"] > 20


@pytest.mark.parametrize(
    "wrong", [{"window": 0}, {"window": 51}, {"settle": -1}, {"tolerance": 1.0}]
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RefusedError, match="give window of 1 to 50"):
        rc.control.library.Guard(**wrong)
