"""Placement from timestep to timestep: decided when something changes, and else remembered."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence, Set
from typing import Any

from py4j.protocol import Py4JError

from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.engine.spark.placing import Placing
from rechannel.engine.stages.runner import Placed
from rechannel.model.configuration import OperatorConfiguration, Resources
from tests.support.anchoring import Recording


class Awaiting:
    """Stands for Warming: a replacement may come at any moment, and none is cold."""

    awaited = True

    def __init__(self) -> None:
        self.given_back: set[str] = set()

    def look(self, alive: Sequence[Executor]) -> Set[str]:
        return frozenset()

    def give_back(self, ids: Set[str]) -> None:
        self.given_back |= ids

    def close(self) -> None:
        pass


def cluster(*cores: int) -> FixedCluster:
    alive = [Executor(id=str(i), host="h", cores=n) for i, n in enumerate(cores)]
    return FixedCluster(alive=alive, room=9, cores=2)


def placing(of: FixedCluster, anchors: Any, *, shares: bool = True) -> Placing:
    made = Placing(of.executors, lambda: anchors, lambda operator: shares)
    made.look()
    return made


FOUR = OperatorConfiguration(tasks=4)


def test_on_one_executor_nothing_is_opened() -> None:
    def never() -> Any:
        raise AssertionError("opened")

    made = Placing(cluster(8).executors, never, lambda operator: True)
    made.look()
    assert made.anchor("a", FOUR) is None
    assert made.places == {}


def test_without_what_holds_tasks_nothing_is_placed() -> None:
    opened: list[int] = []
    made = Placing(cluster(2, 2).executors, lambda: opened.append(1), lambda operator: True)
    made.look()
    assert [made.anchor("a", FOUR) for _ in range(3)] == [None] * 3
    assert opened == [1]


def test_what_stays_the_same_is_decided_once() -> None:
    there, anchors = cluster(2, 2), Recording()
    made = placing(there, anchors)
    first = made.anchor("a", FOUR)
    made.look()
    assert made.anchor("a", FOUR) is first
    assert len(anchors.made) == 1
    assert made.places == {"a": {0: "0", 1: "1", 2: "0", 3: "1"}}


def test_bundles_are_held_where_their_tasks_are() -> None:
    anchors = Recording()
    made = placing(cluster(2, 2), anchors)
    bundles, held = made.bundles("a", FOUR, 1)
    assert (bundles, held) == (((0,), (2,), (1,), (3,)), {0: "0", 1: "0", 2: "1", 3: "1"})
    bundles, held = made.bundles("b", FOUR, 0.5)
    assert (bundles, held) == (((0, 2), (1, 3)), {0: "0", 1: "1"})
    assert made.bundles("b", FOUR, 0.5)[1] is held, "decided once"
    assert made.bundles("b", FOUR, 1)[0] == ((0,), (2,), (1,), (3,)), "there is more to do"
    assert made.places["b"] == {0: "0", 1: "1", 2: "0", 3: "1"}


def test_where_no_task_is_placed_bundles_are_for_the_cores_of_the_executor() -> None:
    made = placing(cluster(2), Recording())
    assert made.bundles("a", FOUR, 1) == (((0, 1), (2, 3)), None)
    assert made.bundles("a", FOUR, 0.5) == (((0, 1, 2, 3),), None)
    unplaced = Placing(cluster(2, 2).executors, lambda: None, lambda operator: True)
    unplaced.look()
    assert unplaced.bundles("a", FOUR, 1) == ((), None), "Spark puts them anywhere"


def test_bundles_wait_for_no_executor_that_has_died() -> None:
    there = cluster(1, 1)
    made = placing(there, Recording())
    bundles, held = made.bundles("a", FOUR, 1)
    assert (bundles, held) == (((0, 2), (1, 3)), {0: "0", 1: "1"})
    made.let_go({"1"})
    assert held == {0: "0"}
    assert made.bundles("a", FOUR, 1)[1] == {0: "0"}, "of a stage that comes now"
    there.kill("1")
    made.look()
    assert made.bundles("a", FOUR, 1) == (((0, 1, 2, 3),), None)


def test_an_executor_may_die_while_bundles_are_decided() -> None:
    """The thread that watches executors waits, and lets go of it afterwards."""
    there, anchors = cluster(1, 1), Recording()
    made = placing(there, anchors)
    threads = []
    of = anchors.of

    def dying(*given: Any) -> Any:
        threads.append(threading.Thread(target=made.let_go, args=({"1"},)))
        threads[-1].start()
        time.sleep(0.01)
        return of(*given)

    anchors.of = dying  # type: ignore[method-assign]
    bundles, held = made.bundles("a", FOUR, 1)
    for thread in threads:
        thread.join(60)
    assert (bundles, held) == (((0, 2), (1, 3)), {0: "0"})


def test_an_executor_dies_and_another_comes() -> None:
    there, anchors = cluster(2, 2), Recording()
    made = placing(there, anchors)
    made.anchor("a", FOUR)
    there.request(3)
    there.kill("1")
    made.look()
    made.anchor("a", FOUR)
    assert anchors.made == [{0: "0", 1: "1", 2: "0", 3: "1"}, {0: "0", 1: "2", 2: "0", 3: "3"}]


def test_stages_that_begin_after_an_executor_has_died_wait_for_it_no_longer():
    """Also those of timesteps that began before, and whose anchors they use."""
    there, anchors = cluster(2, 2), Recording()
    made = placing(there, anchors)
    before = made.anchor("a", FOUR)
    assert before == {0: "0", 1: "1", 2: "0", 3: "1"}
    made.let_go({"1"})
    assert before == {0: "0", 2: "0"}
    assert made.anchor("b", FOUR) == {0: "0", 2: "0"}, "of an operator that comes now"
    there.kill("0")
    made.look()
    assert before == {}


def test_an_executor_that_is_taken_for_lost_by_mistake_gets_its_tasks_again():
    made = placing(cluster(2, 2), Recording())
    before = made.anchor("a", FOUR)
    made.let_go({"1"})
    made.look()
    assert made.anchor("a", FOUR) == {0: "0", 1: "1", 2: "0", 3: "1"}
    assert before == {0: "0", 2: "0"}


def test_tasks_without_state_are_not_held_on_an_executor_that_has_died():
    there = cluster(1, 1, 1)
    made = placing(there, Recording())
    made.warming = Awaiting()
    before = made.away_from_new(3)
    assert before == {0: "0", 1: "1", 2: "2"}
    made.let_go({"1"})
    assert before == {0: "0", 2: "2"}
    assert made.away_from_new(3) == {0: "0", 1: "2", 2: "0"}
    made.let_go({"0", "2"})
    assert made.away_from_new(3) is None


def test_executors_that_a_change_gives_back_are_told_of():
    made = placing(cluster(1, 1), Recording())
    made.give_back({"1"})
    made.warming = told = Awaiting()
    made.give_back({"1"})
    assert told.given_back == {"1"}


def test_where_spark_cannot_tell_the_executors_are_those_known() -> None:
    there, anchors = cluster(2, 2), Recording()
    asked: list[int] = []

    def ask() -> tuple[Executor, ...]:
        asked.append(1)
        if len(asked) == 2:
            raise Py4JError("gone")
        return there.executors()

    made = Placing(ask, lambda: anchors, lambda operator: True)
    made.look()
    before = made.anchor("a", FOUR)
    there.kill("1")
    made.look()
    assert made.anchor("a", FOUR) is before
    made.look()
    assert made.anchor("a", FOUR) is None
    assert len(asked) == 3


def test_who_asks_learns_where_tasks_are() -> None:
    there = cluster(2, 1)
    made = placing(there, Recording())
    made.anchor("a", FOUR)
    placed = made.placed
    assert placed.executors == {"0": 2, "1": 1}
    assert placed.tasks == made.places
    there.kill("1")
    made.look()
    assert made.placed == Placed()


def test_wishes_are_followed_and_then_kept() -> None:
    made = placing(cluster(2, 2), Recording())
    made.anchor("a", OperatorConfiguration(tasks=4, placement={0: "1", 2: "1"}))
    assert made.places["a"] == {0: "1", 1: "0", 2: "1", 3: "0"}
    made.anchor("a", FOUR)
    assert made.places["a"] == {0: "1", 1: "0", 2: "1", 3: "0"}


def test_operators_do_not_all_begin_with_the_same_executor() -> None:
    made = placing(cluster(2, 2, 2), Recording())
    for name in "abc":
        made.anchor(name, OperatorConfiguration(tasks=1))
    assert sorted(at for tasks in made.places.values() for at in tasks.values()) == ["0", "1", "2"]


def test_tasks_of_several_cpus_are_put_where_they_fit() -> None:
    made = placing(cluster(4, 2, 1), Recording())
    made.anchor("a", OperatorConfiguration(tasks=3, resources=Resources(cpus=2)))
    assert sorted(made.places["a"].values()) == ["0", "0", "1"]


def test_an_operator_with_executors_of_its_own_is_not_placed() -> None:
    made = placing(cluster(2, 2), Recording(), shares=False)
    assert made.anchor("a", FOUR) is None


def test_executors_of_another_profile_are_no_place() -> None:
    there = cluster(2, 2)
    there.alive.append(Executor(id="9", host="h", cores=8, profile=1))
    made = placing(there, Recording())
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1"}


def test_executors_that_come_for_a_change_get_tasks_from_its_border_on() -> None:
    there = cluster(2, 2)
    made = placing(there, Recording())
    made.anchor("a", FOUR)
    made.keep("r1", 4)
    there.request(4)
    made.look()
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1"}
    border = made.expected("a", FOUR, 4)
    assert {executor.id for executor in border.values()} == {"0", "1", "2", "3"}
    made.look(4)
    made.anchor("a", FOUR)
    assert made.places["a"] == {task: executor.id for task, executor in border.items()}
    made.look(4)
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1", "2", "3"}


def test_tasks_without_state_keep_off_executors_that_come_until_their_border() -> None:
    there = cluster(2, 2)
    made = placing(there, Recording())
    assert made.away_from_new(3) is None
    made.keep("r1", 4)
    made.look()
    assert made.away_from_new(3) == {0: "0", 1: "1", 2: "0"}
    there.request(4)
    made.look()
    assert made.away_from_new(3) == {0: "0", 1: "1", 2: "0"}
    made.look(4)
    assert made.away_from_new(3) is None


def test_tasks_without_state_run_anywhere_where_nothing_holds_them() -> None:
    made = placing(cluster(2, 2), None)
    made.keep("r1", 4)
    assert made.away_from_new(3) is None


def test_who_comes_in_the_place_of_one_that_died_is_used_at_once() -> None:
    there = cluster(2, 2)
    made = placing(there, Recording())
    made.keep("r1", 3)
    there.kill("1")
    there.request(3)
    made.look()
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "2"}


def test_executors_that_were_kept_for_a_change_that_is_over_are_used() -> None:
    there = cluster(2, 2)
    made = placing(there, Recording())
    made.keep("r1", 4)
    there.request(4)
    made.look()
    made.release("r1")
    made.look()
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1", "2", "3"}


def test_tasks_stay_on_the_only_executor_until_the_border_and_half_of_them_then() -> None:
    there = cluster(2)
    made = placing(there, Recording())
    made.keep("r1", 2)
    there.request(2)
    assert made.present("a", 4) == dict.fromkeys(range(4), "0")
    border = made.expected("a", FOUR, 2)
    made.look()
    made.anchor("a", FOUR)
    assert made.places["a"] == dict.fromkeys(range(4), "0")
    made.look(2)
    made.anchor("a", FOUR)
    assert made.places["a"] == {0: "0", 1: "0", 2: "1", 3: "1"}
    assert {task: executor.id for task, executor in border.items()} == made.places["a"]


def test_executors_that_go_with_a_change_have_no_tasks_from_its_border_on() -> None:
    there = cluster(2, 2, 2)
    made = placing(there, Recording())
    made.anchor("a", FOUR)
    border = made.expected("a", FOUR, 1)
    assert {executor.id for executor in border.values()} == {"0"}
    made.look(1)
    made.anchor("a", FOUR)
    assert made.places["a"] == dict.fromkeys(range(4), "0")
    made.release("r1")
    made.look(1)
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1", "2"}  # none has gone
    made.look(2)
    made.look(3)  # it was led back
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1", "2"}


def test_a_driver_that_finds_more_executors_than_were_asked_for_uses_them() -> None:
    made = Placing(cluster(2, 2).executors, Recording, lambda operator: True)
    made.look(1)
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1"}


def test_executors_of_a_change_that_an_idle_stream_made_are_used_while_others_are_kept() -> None:
    there = cluster(2)
    made = placing(there, Recording())
    made.keep("r1", 2)
    made.keep("r2", 3)
    there.request(3)
    made.release("r1", 2)
    made.look(2)
    made.anchor("a", FOUR)
    assert set(made.places["a"].values()) == {"0", "1"}
