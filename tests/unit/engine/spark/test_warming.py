"""Which executors are cold, and when they are warmed."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rechannel.engine.reconfigure.cluster import Counts, Executor
from rechannel.engine.spark import warming as module
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.session.session_limits import Kind, SessionLimits
from rechannel.engine.spark.warming import PATIENCE, REST, FirstTasks, Warming
from rechannel.model.configuration import OperatorConfiguration
from tests.support.anchoring import Recording


def executors(*ids: str, cores: int = 1) -> list[Executor]:
    return [Executor(id=id_, host="h", cores=cores) for id_ in ids]


class World:
    """Executors, a clock, and first tasks that end when they are told to. Threads are called one by one."""

    def __init__(self, *ids: str, copies: bool = False) -> None:
        self.alive = executors(*ids)
        self.now = 0.0
        self.done: dict[str, int] = {}
        self.kills: dict[str, int] = {}
        self.warmed: list[str] = []
        self.cancelled: list[str] = []
        self.lost: list[set[str]] = []
        self.died: list[set[str]] = []
        self.waiting: list[Callable[[], None]] = []
        self.steps: list[Callable[[], None]] = []
        self.errors: list[Exception] = []
        self.elsewhere = 0
        """How many first tasks Spark has run on another executor."""
        self.made = Warming(
            executors=lambda: self.alive,
            first=self,
            counts=self.counts,
            lost=lambda ids: self.lost.append(set(ids)),
            died=lambda ids: self.died.append(set(ids)),
            copies=copies,
            clock=lambda: self.now,
            pause=self.pause,
        )
        self.made._start = self.start  # type: ignore[method-assign]

    def counts(self) -> dict[str, Counts]:
        return {
            each.id: Counts(done=self.done.get(each.id, 0), killed=self.kills.get(each.id, 0))
            for each in self.alive
        }

    def run(self, executor: Executor) -> None:
        self.warmed.append(executor.id)
        if self.errors:
            raise self.errors.pop()
        if self.elsewhere:
            self.elsewhere -= 1
        else:
            self.done[executor.id] = self.done.get(executor.id, 0) + 1

    def cancel(self, executor: str) -> None:
        self.cancelled.append(executor)

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
        self.steps = [*steps, self.end]
        self.made._watch()

    def end(self) -> None:
        raise ConnectionError("the test ends here")

    def pause(self, seconds: float) -> None:
        self.now += seconds
        if self.steps:
            self.steps.pop(0)()


def test_when_a_stream_begins_all_executors_are_used_while_they_are_warmed():
    world = World("0", "1")
    assert world.look() == set()
    world.finish()
    assert world.warmed == ["0", "1"]
    assert world.look() == set()
    assert world.waiting == []


def test_an_executor_that_a_change_gives_back_has_not_died():
    world = World("0", "1", "2")
    world.look()
    world.finish()
    world.made.give_back({"1"})

    def go() -> None:
        world.alive = executors("0")

    world.watch(go, lambda: None)
    assert world.lost == [{"1", "2"}]
    assert world.died == [{"2"}]


def test_an_executor_that_a_timestep_misses_first_is_reported_too():
    world = World("0", "1")
    world.look()
    world.finish()

    def go() -> None:
        world.alive = executors("0")
        world.look()

    world.watch(go, lambda: None)
    assert (world.lost, world.died) == ([{"1"}], [{"1"}])


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


def test_an_executor_that_a_change_gives_back_is_not_awaited():
    world = World("0", "1", "2", "3")
    world.look()
    world.finish()
    world.made.give_back({"1", "2"})
    world.alive = executors("0", "2", "3")
    world.look()
    assert not world.made.awaited
    world.alive = executors("0")
    world.look()
    assert world.made.awaited, "3 was lost"
    world.alive = executors("0", "4")
    world.look()
    assert not world.made.awaited
    world.alive = executors("0")
    world.look()
    assert world.made.awaited


def test_a_lost_executor_is_told_of_between_two_timesteps():
    world = World("0", "1", "2")
    world.look()

    def dies() -> None:
        world.alive = executors("0", "3")

    world.watch(dies, lambda: None)
    assert world.lost == [{"1", "2"}]


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


def test_first_tasks_that_fail_are_run_again_for_as_long_as_an_executor_may_wait(caplog):
    """A driver that retries a timestep cancels, and a program may change meanwhile."""
    caplog.set_level("DEBUG", logger="rechannel")
    world = World("0")
    world.look()
    world.finish()
    world.alive, world.errors = executors("0", "1"), [RuntimeError("cancelled\nstack")]
    assert world.look() == {"1"}
    world.finish()
    assert world.warmed == ["0", "1", "1"]
    assert world.look() == set()
    (record,) = [each for each in caplog.records if "executor 1" in each.message]
    assert "stack" not in record.message
    world.alive, world.errors = executors("0", "1", "2"), [RuntimeError("no")] * 10_000
    began = world.now
    assert world.look() == {"2"}
    world.finish()
    assert PATIENCE <= world.now - began < PATIENCE + 1
    assert world.look() == set()


def test_first_tasks_that_spark_has_run_elsewhere_are_run_again():
    world = World("0")
    world.look()
    world.finish()
    world.alive, world.elsewhere = executors("0", "1"), 2
    assert world.look() == {"1"}
    world.finish()
    assert world.warmed == ["0", "1", "1", "1"]
    assert world.look() == set()


def test_first_tasks_that_wait_for_slots_for_good_are_cancelled():
    world = World("0")
    world.look()
    world.finish()
    world.alive = executors("0", "1")
    assert world.look() == {"1"}

    def waits(executor: Executor) -> None:
        world.run = cancelled  # type: ignore[method-assign]
        world.watch(*[lambda: None] * int(module.LONGEST / module.PAUSE - 5))
        assert world.cancelled == []
        assert world.look() == set(), "it is used long before"
        world.watch(*[lambda: None] * 10)
        assert set(world.cancelled) == {"1"}
        raise RuntimeError("cancelled")

    def cancelled(executor: Executor) -> None:
        raise AssertionError("again")

    world.run = waits  # type: ignore[method-assign]
    world.finish()
    assert world.made._running == {}


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


def test_what_is_closed_begins_nothing(monkeypatch):
    world = World("0")
    world.look()
    world.made.close()
    world.finish()
    assert world.warmed == []
    running = World("0")
    running.look()
    running.run = lambda executor: running.made.close()  # type: ignore[method-assign]
    running.finish()
    assert running.cancelled == ["0"]
    begun: list[Any] = []
    monkeypatch.setattr(module.threading, "Thread", lambda **given: begun.append(given))
    made = Warming(executors=list, first=world, counts=dict)
    made.close()
    made.look(executors("0"))
    assert begun == []


def seconds(
    world: World, many: int, kill: Sequence[str] = (), done: int = 1
) -> list[Callable[[], None]]:
    """Pauses of some seconds; in the middle of each, a task of these executors is killed, and some are done."""
    steps: list[Callable[[], None]] = [lambda: None] * (many * module.LOOKS)

    def lose() -> None:
        for id_ in kill:
            world.kills[id_] = world.kills.get(id_, 0) + 1
            world.done[id_] = world.done.get(id_, 0) + done

    for second in range(many):
        steps[second * module.LOOKS + 3] = lose
    return steps


def test_an_executor_that_loses_its_worker_time_and_again_is_warmed_again_and_rests():
    world = World("0", "1", copies=True)
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
    world = World("0", "1", copies=True)
    world.look()
    world.finish()
    world.watch(*seconds(world, 8, killed))
    assert len(world.made._cold) == (1 if killed else 0)


def test_single_losses_warm_nothing_again():
    world = World("0", "1", copies=True)
    world.look()
    world.finish()
    for _ in range(4):
        world.watch(*seconds(world, 1, ["1"]), *seconds(world, 2))
    assert world.warmed == ["0", "1"]
    assert world.waiting == []


def test_copies_that_lose_on_a_sound_executor_are_no_losses():
    world = World("0", "1", copies=True)
    world.look()
    world.finish()
    world.watch(*seconds(world, 10, ["1"], done=2))
    assert world.warmed == ["0", "1"]


def test_an_executor_that_is_warmed_again_is_not_released_by_its_first_warming():
    world = World("0", "1", copies=True)
    world.look()
    late = world.waiting.pop()
    world.finish()
    world.watch(*seconds(world, 3, ["1"]))
    assert world.look() == {"1"}
    late()
    assert world.look() == {"1"}


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


def placing_in(world: World) -> Placing:
    """Places tasks on the executors of a world, all of them warm."""
    anchors: Any = Recording()
    made = Placing(lambda: world.alive, lambda: anchors, lambda operator: True)
    made.warming = world.made
    made.look()
    world.finish()
    return made


def test_tasks_keep_off_a_cold_executor_and_go_there_once_it_is_warm():
    world = World("0", "1")
    made = placing_in(world)
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


def test_while_a_replacement_is_awaited_tasks_are_held_where_they_are():
    """Spark sends tasks to an executor some moments before it tells of it."""
    world = World("0", "1")
    made = placing_in(world)
    assert made.away_from_new(1) is None
    world.alive = executors("0")
    made.look()
    assert made.away_from_new(2) == {0: "0", 1: "0"}
    assert made.anchor("a", OperatorConfiguration(tasks=2)) == {0: "0", 1: "0"}
    world.now += module.AWAITED
    assert made.away_from_new(2) is None
    assert made.anchor("a", OperatorConfiguration(tasks=2)) is None
    world.alive = executors("0", "2")
    made.look()
    world.finish()
    made.look()
    world.alive = executors("0")
    made.look()
    assert made.away_from_new(1) == {0: "0"}
    world.alive = executors("0", "3")
    made.look()
    world.finish()
    made.look()
    assert made.away_from_new(1) is None, "it has come"


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


class Jobs:
    def __init__(self) -> None:
        self.said: list[str] = []

    def describe(self, text: str) -> None:
        self.said.append(text)

    def tag(self, tag: str) -> None:
        self.said.append(f"+{tag}")

    def untag(self, tag: str) -> None:
        self.said.append(f"-{tag}")

    def cancel(self, tag: str) -> None:
        self.said.append(f"!{tag}")


def first_tasks(stages: Stages, *, anchors: Any = Anchors, **limits: Any) -> FirstTasks:
    return FirstTasks(
        stages=stages,  # type: ignore[arg-type]
        jobs=Jobs(),
        anchors=anchors,
        shipped=list,
        limits=SessionLimits(master="spark://h", kind=Kind.STANDALONE, **limits),
        tag="job",
    )


@pytest.mark.parametrize(
    ("cores", "limits", "slots"),
    [
        (1, {}, 1),
        (3, {}, 3),
        (5, {"task_cpus": 2}, 2),
        (4, {"task_cpus": 4}, 1),
        (4, {"amounts": {"gpu": 1.0}}, 1),
        (2, {"dynamic": True}, 2),
    ],
)
def test_first_tasks_run_on_their_executor_and_one_for_each_slot(cores, limits, slots):
    stages = Stages()
    (executor,) = executors("7", cores=cores)
    made = first_tasks(stages, **limits)
    made.run(executor)
    copied = limits.get("dynamic", False)
    alone = [(["7"], 0.0, copied)] * (2 * module.ROUNDS)
    every = [(["7"] * slots, module.HOLD, copied)] if slots > 1 else []
    assert stages.calls == alone + every
    assert stages.released == module.ROUNDS
    made.cancel("7")
    said = ["rechannel: first tasks of executor 7", "+job-first-7", "-job-first-7", "!job-first-7"]
    assert made.jobs.said == said  # type: ignore[attr-defined]


def test_where_tasks_cannot_be_placed_there_are_no_first_ones():
    stages = Stages()
    first_tasks(stages, anchors=lambda: None).run(executors("7")[0])
    assert stages.calls == []


def test_a_change_that_is_prepared_counts_an_executor_that_is_still_cold():
    world = World("0", "1")
    made = placing_in(world)
    world.alive = executors("0", "2")
    made.look()
    assert made.cores == 1
    assert made.placed.executors == {"0": 1, "2": 1}
    made.keep("change", 3)
    world.alive = executors("0", "2", "3")
    world.finish()
    made.look()
    assert made.cores == 2, "the one that starts for the change waits for it"
    assert made.placed.executors == {"0": 1, "2": 1}


def test_threads_are_no_reason_to_keep_a_program_running():
    began = threading.Event()

    class Told:
        def run(self, executor: Executor) -> None:
            began.set()

        def cancel(self, executor: str) -> None:
            pass

    made = Warming(executors=lambda: executors("0"), first=Told(), counts=dict)
    made.look(executors("0"))
    assert began.wait(10)
    assert all(each.daemon for each in threading.enumerate() if each.name == "rechannel-warming")
    made.close()
