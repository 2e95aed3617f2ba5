"""What is fetched ahead on a cluster, where to, and what becomes of it when that goes wrong."""

from __future__ import annotations

import logging
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from rechannel import changes
from rechannel.engine.reconfigure.cluster import Executor, FixedCluster
from rechannel.engine.reconfigure.prefetch_plan import Tally
from rechannel.engine.spark.placing import Placing
from rechannel.engine.spark.spark_preparer import SparkPreparer
from rechannel.errors import NotReadyError, SessionError
from rechannel.kernels.lsm.ahead import Attended
from rechannel.model.configuration import Configuration
from rechannel.model.routing import even_starts
from rechannel.reconfigure import strategies
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.record import Phase, Record
from rechannel.reconfigure.steps import apply_steps
from rechannel.reconfigure.strategies import Strategy
from rechannel.state.store import RangedStore
from tests.support.anchoring import Recording
from tests.support.changing import Paper, configuration, keyed

HALF = changes.move("counts", [0, 1, 2, 3], 1)


class Broken:
    """A session on which every job is aborted."""

    def range(self, *_: Any) -> Any:
        msg = "Job aborted due to stage failure\nDriver stacktrace:"
        raise RuntimeError(msg)


class InParts(RangedStore):
    """A store that fetches bytes when they are needed; nothing reads it here."""

    def ranges(self, key: str, known: object = None) -> None:
        del key, known

    def put_known(self, key: str, data: object, known: object) -> None:
        del key, data, known

    def close_files(self) -> None:
        pass


def program_switch() -> Any:
    program = SimpleNamespace(operator="counts", store=InParts())
    programs = {"counts": program, "sums": program}
    return SimpleNamespace(
        current=SimpleNamespace(program=SimpleNamespace(programs=programs)),
        waiting=lambda version: SimpleNamespace(
            program=SimpleNamespace(programs={"counts": SimpleNamespace()})
        ),
    )


def record(change: Change, strategy: Strategy | None = None) -> Record:
    return Record(
        id="r1", change=change, strategy=strategy or strategies.all_at_once(), cause="test"
    )


def several() -> FixedCluster:
    alive = [Executor(id=str(i), host="h", cores=2) for i in range(2)]
    return FixedCluster(alive=alive, room=9, cores=2)


def preparer(spark: Any, kind: type[SparkPreparer] = SparkPreparer) -> SparkPreparer:
    return kind(spark=spark, switch=program_switch(), cluster=several(), placing=None)


class Failing(SparkPreparer):
    """Fetching fails; whatever is asked of Spark for it."""

    def _pass(self, *given: Any) -> bool:
        msg = "executor lost\nat org.apache.spark"
        raise RuntimeError(msg)


def test_a_warm_up_that_fails_is_told_and_the_change_goes_on(caplog):
    with caplog.at_level(logging.WARNING):
        facts = preparer(Broken(), Failing).prepare(record(HALF), Paper().now, {})
    assert facts == {"warming": "RuntimeError: executor lost"}
    assert (
        "r1: a part of its preparation failed, so its first timesteps may be slower" in caplog.text
    )


def test_workers_that_do_not_start_are_no_failure_either():
    facts = preparer(Broken()).prepare(record(changes.rescale("counts", 4)), Paper().now, {})
    assert facts["warming"] == "RuntimeError: Job aborted due to stage failure"


def test_what_goes_wrong_ahead_of_later_steps_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        preparer(Broken(), Failing).prepare_next_steps(record(HALF), Paper().now, {})
    assert "executor lost" in caplog.text


def test_functions_that_cannot_be_loaded_remain_an_error(monkeypatch):
    monkeypatch.setattr("rechannel.engine.spark.spark_preparer.Shipped.of", lambda made: made)
    made = preparer(Broken())
    with pytest.raises(RuntimeError, match="Job aborted"):
        made._load(2)


def test_what_is_fetched_for_a_change_that_is_over_is_neither_waited_for_nor_remembered():
    made = preparer(Broken())
    here = record(HALF)
    seen: list[bool] = []

    def over(tally: Any, *_: Any) -> bool:
        made.final_facts(here)
        seen.append(tally.closed)
        tally.count([Attended(done=True, bytes_fetched=100)])
        return True

    made._pass = over  # type: ignore[method-assign, assignment]
    assert made._fetch(here, Paper().now, {}) == {}
    made.prepare_next_steps(here, Paper().now, {})
    assert seen == [True, True]
    assert made._tallies == {}


class Fetching(SparkPreparer):
    """Writes down what each executor is told to fetch: bins of counts of a stream on paper."""

    told: ClassVar[list[dict[str, list[int]]]] = []

    def _attend(self, shipped: Any, errands: Any, hosts: Any, *_: Any) -> list[Attended]:
        told = {}
        for host, errand in zip(hosts, errands, strict=True):
            spans = [span for piece in errand.pieces for span in piece.spans]
            told[host.id] = [
                number
                for number, start in enumerate(even_starts(8))
                if any(lo <= start < hi for lo, hi in spans)
            ]
        self.told.append(told)
        return [Attended(done=True)]


@pytest.fixture
def fetching(monkeypatch):
    monkeypatch.setattr("rechannel.engine.spark.spark_preparer.Shipped.of", lambda made: made)
    Fetching.told = []

    def begun(cluster: FixedCluster, running: Configuration) -> Fetching:
        anchors: Any = Recording()
        placing = Placing(cluster.executors, lambda: anchors, lambda operator: True)
        placing.look()
        placing.anchor("counts", running.operators["counts"])
        made = program_switch()
        del made.current.program.programs["sums"]
        return Fetching(spark=Idle(), switch=made, cluster=cluster, placing=placing)

    return begun


class Idle:
    """A session on which every job does nothing."""

    def range(self, *_: Any) -> Any:
        return self

    def mapInArrow(self, *_: Any) -> Any:  # noqa: N802
        return self

    def toArrow(self) -> None:  # noqa: N802
        return None


def fetched(made: SparkPreparer, change: Change, paper: Paper) -> list[dict[str, list[int]]]:
    made.prepare(record(change), paper.now, {})
    return Fetching.told[:1]


def test_what_a_task_has_is_fetched_to_where_it_is_put(fetching):
    paper = Paper()
    made = fetching(several(), paper.configuration)
    assert made.places() == {"counts": {0: "0", 1: "1"}}
    assert fetched(made, changes.place("counts", 0, "1"), paper) == [
        {"1": [0, 1, 2, 3], "0": [4, 5, 6, 7]}
    ]


def test_what_stays_where_it_is_is_not_fetched(fetching):
    paper = Paper()
    made = fetching(several(), paper.configuration)
    assert fetched(made, changes.place("counts", 0, "0"), paper) == []
    assert fetched(made, changes.set_interval(5), paper) == []


def test_state_goes_ahead_to_new_executors_and_to_those_that_are_left(fetching):
    paper = Paper(configuration=configuration(counts=keyed(tasks=4)))
    cluster = several()
    made = fetching(cluster, paper.configuration)
    assert made.places() == {"counts": {0: "0", 1: "1", 2: "0", 3: "1"}}
    assert fetched(made, changes.executors(4), paper) == [{"2": [4, 5], "3": [6, 7]}]
    assert len(cluster.executors()) == 4
    assert set(made.places()["counts"].values()) == {"0", "1"}

    Fetching.told.clear()
    made = fetching(several(), paper.configuration)
    assert fetched(made, changes.executors(1), paper) == [{"0": [2, 3, 6, 7]}]


def test_tasks_that_stay_when_others_go_take_their_bins_along(fetching):
    put = configuration(counts=keyed(tasks=4, placement={0: "0", 1: "0"}))
    made = fetching(several(), put)
    assert made.places() == {"counts": {0: "0", 1: "0", 2: "1", 3: "1"}}
    paper = Paper(configuration=configuration(counts=keyed(tasks=4)))
    (told,) = fetched(made, changes.rescale("counts", 2), paper)
    paper.ask(changes.rescale("counts", 2))
    paper.step()
    target = paper.configuration.operators["counts"].routing
    assert target is not None
    assert set(told["1"]) == set(target.bins_of(1)) > {2, 3}


def test_where_steps_lead_is_found_out_once_for_all_operators(fetching, monkeypatch):
    seen: list[int] = []

    def counting(running: Configuration, steps: Any) -> Configuration:
        seen.append(len(steps))
        return apply_steps(running, steps)

    monkeypatch.setattr("rechannel.engine.spark.spark_preparer.apply_steps", counting)
    paper = Paper()
    made = fetching(several(), paper.configuration)
    made.switch.current.program.programs["sums"] = SimpleNamespace(store=made.switch)
    assert fetched(made, changes.place("counts", 0, "1"), paper)
    assert len(seen) == 2 * len(Fetching.told)


class Stubborn(FixedCluster):
    """Takes no requests."""

    def request(self, total: int) -> None:
        msg = f"no {total}"
        raise SessionError(msg)


def test_executors_that_stay_behind_a_change_without_a_timestep_are_used(fetching):
    paper = Paper(configuration=configuration(counts=keyed(tasks=4)))
    made = fetching(Stubborn(alive=several().alive), paper.configuration)
    made.release(replace(record(changes.executors(1)), phase=Phase.DONE))
    made._placing.look(1)
    made._placing.anchor("counts", paper.configuration.operators["counts"])
    assert set(made.places()["counts"].values()) == {"0", "1"}


def test_nothing_is_waited_for_once_the_driver_ends():
    made = SparkPreparer(
        spark=Idle(), switch=program_switch(), cluster=Starting(), placing=None, sleep=no_sleep
    )
    made.close()
    with pytest.raises(NotReadyError, match="r1 is over: it no longer waits for 9 executors"):
        made.prepare(record(changes.executors(9)), Paper().now, {})
    tally = Tally()
    made._spark = NoFrames()
    assert made._attend(None, [None], [None], 1.0, tally) == []


class Starting(FixedCluster):
    """Executors are asked for and do not come."""

    def request(self, total: int) -> None: ...


class NoFrames:
    """A session on which nothing may run."""

    conf = SimpleNamespace(get=lambda *_: "true")


def no_sleep(seconds: float) -> None:
    raise AssertionError(f"waited for {seconds} s")
