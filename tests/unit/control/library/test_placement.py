"""Placement, in a running stream whose tasks and timesteps take as long as the test says."""

from collections.abc import Callable

import pytest

import rechannel as rc
from rechannel.control import TaskView
from rechannel.control.library.traffic import AskTraffic, TaskLoad, Traffic
from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.testing import Harness, ManualClock, script
from rechannel.testing.process import Process

TASKS = 4
BUSY_MS = 10.0


class Stream:
    """A stream on two executors. cost: milliseconds of a timestep under a Configuration."""

    def __init__(self, cost: Callable[[Configuration], float], executors: str = "ab") -> None:
        self.clock, self.cost = ManualClock(), cost
        self.rows = script("k bigint")
        keyed = rc.read().memory(self.rows).key_by("k")
        counts = keyed.aggregate(n=rc.aggregates.count(), name="counts")
        self.cluster = FixedCluster(alive=[Executor(id=e, host=e, cores=1) for e in executors])
        self.stream = Harness(
            counts.write.memory("out"),
            clock=self.clock,
            settings=rc.Settings(tasks=TASKS),
            cluster=self.cluster,
        )
        self.taken: set[int] = set()
        self.process = self.start()

    def start(self) -> Process:
        placement = rc.control.library.Placement(samples=2, window=3, cool_down=500)
        self.process = self.stream.start(controllers=[placement], task_faults=self.takes)
        return self.process

    def takes(self, operator: str, timestep: int, task: int, attempt: int) -> None:
        """Not a fault: it takes the time of the timestep, once."""
        if timestep not in self.taken:
            self.taken.add(timestep)
            self.clock.advance(self.cost(self.process.position.configuration))

    def run(self, timesteps: int) -> None:
        for _ in range(timesteps):
            self.rows.push([{"k": k} for k in range(40)])
            self.process.run()

    def put(self, places: str) -> None:
        """Place tasks, one letter each."""
        moves = [rc.changes.place("counts", task, at) for task, at in enumerate(places)]
        self.process.reconfigure(moves)
        self.run(2)

    @property
    def places(self) -> str:
        at = self.process.position.configuration.operators["counts"].placement
        return "".join(at.get(task, "-") for task in range(TASKS))

    @property
    def causes(self) -> list[str]:
        return [record.cause for record in self.process.changes.coordination.records]

    @property
    def seat(self):
        return self.process.controllers.board.seat("placement")

    @property
    def log(self) -> str:
        return "\n".join(line.text for line in self.seat.log)


@pytest.fixture(autouse=True)
def tasks_take_as_long(monkeypatch):
    """Every task is busy for 10 ms."""

    def on_complete(self: AskTraffic, task: TaskView) -> Traffic:
        return Traffic(tasks=(TaskLoad(task=task.task, rows=10, busy_ms=BUSY_MS),))

    monkeypatch.setattr(AskTraffic, "on_complete", on_complete)


def busiest(configuration: Configuration) -> float:
    """What a timestep takes: 5 ms, and the tasks of the busiest executor one after the other."""
    at = list(configuration.operators["counts"].placement.values())
    return 5 + BUSY_MS * max((at.count(executor) for executor in at), default=TASKS / 2)


def test_tasks_are_spread_and_stay_where_they_are_faster():
    stream = Stream(busiest)
    stream.put("aaaa")
    stream.run(40)
    assert sorted(stream.places) == ["a", "a", "b", "b"]
    assert stream.causes[1:] == ["controller 'placement': saves 20 of 45 ms of a timestep"]
    assert "r2 saves 44% of a timestep" in stream.log


def test_what_did_not_help_is_taken_back_and_not_tried_again():
    stream = Stream(lambda _: 45.0)
    stream.put("aaaa")
    stream.run(80)
    assert stream.places == "aaaa"
    tried, back, again, back_again = stream.causes[1:]
    assert tried == again == "controller 'placement': saves 20 of 45 ms of a timestep"
    assert back == "controller 'placement': takes it back: r2 saves 0% of a timestep"
    assert back_again == "controller 'placement': takes it back: r4 saves 0% of a timestep"


def test_it_goes_on_after_a_restart():
    stream = Stream(busiest)
    stream.put("aaaa")
    while not stream.seat.state["attempt"]:
        stream.run(1)
    stream.start()
    stream.run(40)
    assert sorted(stream.places) == ["a", "a", "b", "b"]
    assert len(stream.causes) == 2


def test_new_executors_are_used():
    stream = Stream(busiest)
    stream.put("aabb")
    stream.cluster.alive += [Executor(id=e, host=e, cores=1) for e in "cd"]
    stream.run(40)
    assert sorted(stream.places) == ["a", "b", "c", "d"]
    assert "r2 saves 40% of a timestep" in stream.log


def test_a_placement_that_is_refused_is_not_waited_for():
    stream = Stream(busiest)
    stream.put("aaaa")
    while stream.seat.state["samples"] < 1:
        stream.run(1)
    stream.cluster.refuses_place = lambda executor: f"no room on {executor}"  # type: ignore[method-assign]
    stream.run(30)
    assert "no room on" in stream.log
    assert "the change was not carried out" in stream.log
    assert stream.places == "aaaa"
    assert stream.seat.state["quiet"] > 500


def test_it_is_not_judged_when_something_else_has_changed():
    stream = Stream(busiest)
    stream.put("aaaa")
    while not stream.seat.state["attempt"]:
        stream.run(1)
    stream.process.reconfigure(rc.changes.set_in_flight(2))
    stream.run(40)
    assert "is not judged: something else has changed too" in stream.log
    assert sorted(stream.places) == ["a", "a", "b", "b"]


def test_it_does_nothing_with_a_single_executor():
    stream = Stream(busiest, executors="a")
    stream.run(20)
    assert (stream.seat.sent, stream.causes) == (0, [])


def test_an_even_placement_stays():
    stream = Stream(busiest)
    stream.run(60)
    assert stream.causes == []
    assert stream.seat.sent > 20  # it keeps looking


@pytest.mark.parametrize(
    "wrong",
    [{"samples": 0}, {"window": 0}, {"window": 60}, {"least": 1.0}, {"megabytes_per_second": 0.0}],
)
def test_rules_that_make_no_sense_are_refused(wrong):
    with pytest.raises(RefusedError, match="give counts >= 1"):
        rc.control.library.Placement(**wrong)
