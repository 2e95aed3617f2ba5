"""Which executors are cold, and when they are warmed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rechannel.engine.reconfigure.cluster import Executor
from rechannel.engine.spark import warming as module
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.warming import PATIENCE, REST, Warming, first_tasks
from rechannel.model.configuration import OperatorConfiguration


def executors(*ids: str, cores: int = 1) -> list[Executor]:
    return [Executor(id=id_, host="h", cores=cores) for id_ in ids]


class World:
    """Executors, a clock, and first tasks that end when they are told to. Threads are called one by one."""

    def __init__(self, *ids: str, killed: bool = False) -> None:
        self.alive = executors(*ids)
        self.now = 0.0
        self.kills: dict[str, int] = {}
        self.warmed: list[str] = []
        self.waiting: list[Callable[[], None]] = []
        self.error: Exception | None = None
        self.made = Warming(
            executors=lambda: self.alive,
            warm=self.warm,
            killed=(lambda: self.kills) if killed else None,
            clock=lambda: self.now,
            pause=self.pause,
        )
        self.made._start = self.start  # type: ignore[method-assign]
        self.steps: list[Callable[[], None]] = []

    def warm(self, executor: Executor) -> None:
        self.warmed.append(executor.id)
        if self.error is not None:
            raise self.error

    def start(self, run: Callable[..., None], *given: object) -> None:
        if given:
            self.waiting.append(lambda: run(*given))

    def finish(self) -> None:
        while self.waiting:
            self.waiting.pop(0)()

    def look(self) -> set[str]:
        return set(self.made.look(self.alive))

    def watch(self, *steps: Callable[[], None]) -> None:
        """Run the watching thread here; each step is a pause of it."""
        self.steps = list(steps)
        self.made._watch()

    def pause(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()
        else:
            raise ConnectionError("the test ends here")


def test_when_a_stream_begins_all_executors_are_used_while_they_are_warmed():
    world = World("0", "1")
    assert world.look() == set()
    world.finish()
    assert world.warmed == ["0", "1"]
    assert world.look() == set()
    assert world.waiting == []


def test_an_executor_that_joins_is_cold_until_its_first_tasks_have_ended():
    world = World("0")
    world.look()
    world.finish()
    world.alive = executors("0", "1")
    assert [world.look(), world.look()] == [{"1"}, {"1"}]
    assert len(world.waiting) == 1
    world.finish()
    assert world.look() == set()
    assert world.warmed == ["0", "1"]


def test_a_replacement_is_used_at_once_where_no_other_is_left():
    world = World("0")
    world.look()
    world.finish()
    world.alive = executors("1")
    assert world.look() == set()
    world.finish()
    assert world.warmed == ["0", "1"]


def test_an_executor_that_is_gone_is_forgotten():
    world = World("0")
    world.look()
    world.alive = executors("0", "1")
    assert world.look() == {"1"}
    world.alive = executors("0")
    assert world.look() == set()
    world.finish()
    assert world.look() == set()
    assert world.made._warm == {"0"}


def test_no_executor_is_kept_waiting_for_long():
    world = World("0")
    world.look()
    world.alive = executors("0", "1")
    assert world.look() == {"1"}
    world.now += PATIENCE
    assert world.look() == set()
    world.finish()
    assert world.look() == set()


def test_first_tasks_that_fail_keep_no_executor_from_its_work(caplog):
    caplog.set_level("DEBUG", logger="rechannel")
    world = World("0")
    world.look()
    world.finish()
    world.alive, world.error = executors("0", "1"), RuntimeError("gone\nstack")
    assert world.look() == {"1"}
    world.finish()
    assert world.look() == set()
    (record,) = [each for each in caplog.records if each.message.startswith("executor 1")]
    assert "stack" not in record.message


def test_a_replacement_is_found_before_the_next_timestep():
    world = World("0", "1")
    world.look()
    world.finish()

    def lose() -> None:
        world.alive = executors("0")

    def replace() -> None:
        world.alive = executors("0", "2")

    world.watch(lose, replace, lambda: None)
    assert world.made._cold.keys() == {"2"}
    world.finish()
    assert world.warmed[-1] == "2"


def test_what_is_closed_begins_nothing():
    world = World("0")
    world.look()
    world.made.close()
    world.finish()
    assert world.warmed == []


def seconds(world: World, many: int, kill: Sequence[str] = ()) -> list[Callable[[], None]]:
    """Pauses of some seconds; in the middle of each, tasks of these executors are killed."""
    steps: list[Callable[[], None]] = [lambda: None] * (many * module.LOOKS)

    def lose() -> None:
        for id_ in kill:
            world.kills[id_] = world.kills.get(id_, 0) + 1

    for second in range(many):
        steps[second * module.LOOKS + 3] = lose
    return steps


def test_an_executor_that_loses_its_worker_time_and_again_is_warmed_again_and_rests():
    world = World("0", "1", killed=True)
    world.look()
    world.finish()
    world.watch(*seconds(world, 3, ["1"]))
    assert world.made._cold.keys() == {"1"}
    assert world.warmed == ["0", "1"]
    world.finish()
    assert world.warmed == ["0", "1", "1"]
    world.watch(*seconds(world, 5, ["1"]))
    assert world.made._cold.keys() == set(), "it rests"
    world.watch(*seconds(world, int(REST), ["1"]))
    assert world.made._cold.keys() == {"1"}
    world.finish()
    world.watch(*seconds(world, int(REST), ["1"]))
    assert world.made._cold.keys() == set(), "twice as long"
    world.watch(*seconds(world, int(REST), ["1"]))
    assert world.made._cold.keys() == {"1"}


@pytest.mark.parametrize("killed", [["0", "1"], []])
def test_one_executor_at_least_stays_in_use(killed):
    world = World("0", "1", killed=True)
    world.look()
    world.finish()
    world.watch(*seconds(world, 8, killed))
    assert len(world.made._cold) == (1 if killed else 0)


def test_single_losses_warm_nothing_again():
    world = World("0", "1", killed=True)
    world.look()
    world.finish()
    for _ in range(4):
        world.watch(*seconds(world, 1, ["1"]), *seconds(world, 2))
    assert world.warmed == ["0", "1"]
    assert world.waiting == []


def test_a_watch_that_fails_is_begun_again_by_the_next_look():
    def broken() -> Any:
        raise ConnectionError("no answer")

    world = World("0")
    world.made.executors = broken
    world.made._watch()
    started: list[object] = []
    world.made._start = lambda run, *given: started.append(run)  # type: ignore[method-assign]
    world.look()
    assert world.made._watch in started


def test_tasks_keep_off_a_cold_executor_and_go_there_once_it_is_warm():
    world = World("0", "1")

    class Recording:
        def of(self, places: Any) -> Any:
            return {task: executor.id for task, executor in places.items()}

    anchors: Any = Recording()
    made = Placing(lambda: world.alive, lambda: anchors, lambda operator: True, world.made)
    made.look()
    world.finish()
    made.look()
    assert made.away_from_new(2) is None
    world.alive = executors("0", "1", "2")
    made.look()
    assert made.cores == 2
    assert made.away_from_new(3) == {0: "0", 1: "1", 2: "0"}
    there: Any = made.anchor("a", OperatorConfiguration(tasks=4))
    assert set(there.values()) == {"0", "1"}
    world.finish()
    made.look()
    assert made.cores == 3
    assert made.away_from_new(3) is None
    there = made.anchor("a", OperatorConfiguration(tasks=3))
    assert set(there.values()) == {"0", "1", "2"}
    made.close()
    assert world.made._closed


class Stages:
    """Keeps what is called where."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, float, bool]] = []
        self.released = 0

    def numbers(self, tasks: int, anchor: Any) -> Any:
        return anchor

    def call(self, rows: Any, function: Any, profile: Any, *, copied: bool) -> Any:
        self.calls.append((rows, function.hold, copied))
        return rows

    def exchange(self, rows: Any, partitions: int) -> Any:
        return self

    def read(self, first: int, stop: int, anchor: Any) -> Any:
        return anchor

    def release(self) -> None:
        self.released += 1

    def collect(self, rows: Any) -> list[bytes]:
        return []


class Anchors:
    def of(self, places: Any) -> Any:
        return [executor.id for executor in places.values()]


@pytest.mark.parametrize("cores", [1, 3])
def test_first_tasks_run_on_their_executor_and_one_for_each_core(cores):
    stages, anchors = Stages(), Anchors()
    (executor,) = executors("7", cores=cores)
    first_tasks(stages, executor, anchors, (), copied=False)  # type: ignore[arg-type]
    alone = [(["7"], 0.0, False)] * (2 * module.ROUNDS)
    every = [(["7"] * cores, module.HOLD, False)] if cores > 1 else []
    assert stages.calls == alone + every
    assert stages.released == module.ROUNDS


def test_threads_are_no_reason_to_keep_a_program_running():
    began = threading.Event()
    made = Warming(executors=list, warm=lambda executor: began.set())
    made.look(executors("0"))
    assert began.wait(10)
    assert all(each.daemon for each in threading.enumerate() if each.name == "rechannel-warming")
    made.close()
