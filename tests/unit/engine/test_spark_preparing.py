"""What is fetched ahead on a cluster, where to, and what becomes of it when that goes wrong."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from rechannel.engine.cluster import Executor, FixedCluster
from rechannel.engine.spark.preparing import SparkPreparer
from rechannel.kernels.ahead import Attended
from rechannel.reconfigure import ask
from rechannel.reconfigure.changes import Change
from rechannel.reconfigure.record import Record
from rechannel.reconfigure.strategies import Strategy
from tests.support.changing import Paper

HALF = ask.move("counts", [0, 1, 2, 3], 1)


class Broken:
    """A session on which every job is aborted."""

    def range(self, *_: Any) -> Any:
        msg = "Job aborted due to stage failure\nDriver stacktrace:"
        raise RuntimeError(msg)


def exchange() -> Any:
    program = SimpleNamespace(operator="counts", store=SimpleNamespace(ranges=True))
    programs = {"counts": program, "sums": program}
    return SimpleNamespace(
        current=SimpleNamespace(program=SimpleNamespace(programs=programs)),
        waiting=lambda version: SimpleNamespace(
            program=SimpleNamespace(programs={"counts": SimpleNamespace()})
        ),
    )


def record(change: Change, strategy: Strategy | None = None) -> Record:
    return Record(id="r1", change=change, strategy=strategy or ask.all_at_once(), cause="test")


def preparer(spark: Any, kind: type[SparkPreparer] = SparkPreparer) -> SparkPreparer:
    alive = [Executor(id=str(i), host="h", cores=2) for i in range(2)]
    cluster = FixedCluster(alive=alive, room=9, cores=2)
    return kind(spark=spark, exchange=exchange(), cluster=cluster, placing=None)


class Failing(SparkPreparer):
    """Fetching fails; whatever is asked of Spark for it."""

    def _pass(self, *given: Any) -> bool:
        msg = "executor lost\nat org.apache.spark"
        raise RuntimeError(msg)


def test_a_warm_up_that_fails_is_told_and_the_change_goes_on(caplog):
    with caplog.at_level(logging.WARNING):
        facts = preparer(Broken(), Failing).prepare(record(HALF), Paper().now, {})
    assert facts == {"warming": "RuntimeError: executor lost"}
    assert "r1 begins less warm than it could" in caplog.text


def test_workers_that_do_not_start_are_no_failure_either():
    facts = preparer(Broken()).prepare(record(ask.rescale("counts", 4)), Paper().now, {})
    assert facts["warming"] == "RuntimeError: Job aborted due to stage failure"


def test_what_goes_wrong_ahead_of_later_steps_is_logged(caplog):
    with caplog.at_level(logging.WARNING):
        preparer(Broken(), Failing).ahead(record(HALF), Paper().now, {})
    assert "executor lost" in caplog.text


def test_functions_that_cannot_be_loaded_remain_an_error(monkeypatch):
    monkeypatch.setattr("rechannel.engine.spark.preparing.Shipped.of", lambda made: made)
    made = preparer(Broken())
    with pytest.raises(RuntimeError, match="Job aborted"):
        made._load(2)


def test_what_is_fetched_for_a_change_that_is_over_is_neither_waited_for_nor_remembered():
    made = preparer(Broken())
    here = record(HALF)
    seen: list[bool] = []

    def over(tally: Any, *_: Any) -> bool:
        made.facts(here)
        seen.append(tally.closed)
        tally.count([Attended(done=True, bytes_fetched=100)])
        return True

    made._pass = over  # type: ignore[method-assign, assignment]
    assert made._fetch(here, Paper().now, {}) == {}
    made.ahead(here, Paper().now, {})
    assert seen == [True, True]
    assert made._tallies == {}
