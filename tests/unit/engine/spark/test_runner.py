"""What the runner tells tasks and Spark, without Spark."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from rechannel.engine.program.physical import SourceFrame
from rechannel.engine.spark.runner import SparkRunner
from rechannel.engine.stages.short_tasks import SHORT_MS
from rechannel.model.configuration import Resources
from rechannel.sources.generator import GeneratorReader
from rechannel.sources.kafka.reader import KafkaReader
from rechannel.sources.memory import MemoryReader
from rechannel.sources.python import PythonReader

SCHEMA = pa.schema([("k", pa.int64())])


@dataclass
class Step:
    repeats: bool = True


class Stages:
    """Keeps the step of the last call."""

    step: Any = None

    def numbers(self, count: int, anchor: object = None) -> int:
        return count

    def call(self, rows: object, function: Any, profile: object) -> object:
        self.step = function.step
        return rows


class Reader:
    native, repeats, schema = True, False, SCHEMA

    def split_reader(self, *_: object) -> Reader:
        return self


class Repeating(Reader):
    repeats = True


def runner(**given: Any) -> SparkRunner:
    needed = dict.fromkeys(
        ("spark", "plan", "programs", "readers", "store", "stages", "jobs", "keeps_order")
    )
    made = SparkRunner(**{**needed, "job": "a, b", **given})
    made._ship = lambda _: None  # type: ignore[method-assign]
    made.profile = lambda _: None
    return made


@pytest.mark.parametrize("reader", [Reader(), Repeating()])
def test_only_rows_that_come_in_the_same_batches_again_are_dealt_out_by_their_places(reader):
    stages = Stages()
    made = runner(readers={"in": reader}, stages=stages)
    frame = SourceFrame(source=SimpleNamespace(name="in"))  # type: ignore[arg-type]
    root = SimpleNamespace(schema=SCHEMA)
    stage = SimpleNamespace(name="in", frame=frame, root=root)
    operator = SimpleNamespace(tasks=1, resources=None)
    timestep = SimpleNamespace(
        slices={"in": SimpleNamespace(layout=[], start={}, end={})},
        configuration=SimpleNamespace(operators={"in": operator}),
    )
    made._source_rows(SimpleNamespace(timestep=timestep), stage, Step())  # type: ignore[arg-type]
    assert stages.step.repeats is isinstance(reader, Repeating)


def test_which_sources_come_in_the_same_batches_again():
    assert (GeneratorReader.repeats, MemoryReader.repeats) == (True, True)
    assert (KafkaReader.repeats, PythonReader.repeats) == (False, False)


def test_jobs_of_one_name_have_tags_of_their_own_that_spark_takes():
    cancelled: list[str] = []
    jobs = SimpleNamespace(cancel=cancelled.append)
    for _ in range(2):
        runner(jobs=jobs).cancel()
    one, two = cancelled
    assert one != two
    assert "," not in one


def test_a_cluster_without_executors_is_told():
    assert runner().starved() is None
    assert runner(executors=lambda: ["1"]).starved() is None
    assert runner(executors=list).starved() == "no executor takes tasks"


def bundles_of_a_stage(made: SparkRunner, resources: object = None) -> tuple[object, object]:
    """What a stage of seven tasks gets."""
    operator = SimpleNamespace(tasks=7, resources=resources)
    timestep = SimpleNamespace(
        slices={"in": SimpleNamespace(layout=[{"size": 5}]), "more": SimpleNamespace(layout=[{}])},
        configuration=SimpleNamespace(operators={"sums": operator}),
    )
    held: Any = SimpleNamespace(timestep=timestep)
    stage: Any = SimpleNamespace(name="sums")
    return made._bundles(held, stage)


def learn(made: SparkRunner, took_ms: float) -> None:
    report: Any = SimpleNamespace(operator="sums", took_ms=took_ms)
    made._short.learn([report])


def test_short_tasks_are_bundled_once_it_is_known_that_they_are():
    made = runner(cores=2)
    assert bundles_of_a_stage(made) == ((), None)
    learn(made, 20.0)
    assert bundles_of_a_stage(made) == (((0, 1, 2), (3, 4, 5, 6)), None)
    learn(made, 20.0 * SHORT_MS)
    assert bundles_of_a_stage(made) == ((), None), "they even out"
    learn(made, 3 * SHORT_MS)
    assert bundles_of_a_stage(made) == (((0,), (1, 2), (3, 4), (5, 6)), None)


def test_tasks_with_resources_of_their_own_are_not_bundled():
    made = runner(cores=2)
    bundles_of_a_stage(made)
    learn(made, 20.0)
    assert bundles_of_a_stage(made, resources=Resources(cpus=2)) == ((), None)


def test_after_a_failure_no_tasks_are_bundled():
    """They may have been too much for a worker."""

    def failing(_: str) -> object:
        raise MemoryError

    jobs = SimpleNamespace(describe=str, tag=str, untag=str)
    made = runner(cores=2, jobs=jobs, plan=SimpleNamespace(stage=failing), readers={})
    bundles_of_a_stage(made)
    learn(made, 20.0)
    assert bundles_of_a_stage(made)[0]
    made._open[1] = SimpleNamespace()  # type: ignore[assignment]
    with pytest.raises(BaseException):  # noqa: B017, PT011 - whichever it becomes
        made.run(1, "sums", Step())  # type: ignore[arg-type]
    assert bundles_of_a_stage(made) == ((), None)


def test_bundles_are_placed_by_what_places_tasks():
    asked = []

    def bundles(*given: object) -> tuple[object, object]:
        asked.append(given)
        return ((0, 1),), "anchor"

    placing = SimpleNamespace(cores=6, bundles=bundles)
    made = runner(placing=placing, task_cpus=2)
    bundles_of_a_stage(made)
    learn(made, 20.0)
    assert bundles_of_a_stage(made) == (((0, 1),), "anchor")
    ((name, operator, per_core),) = asked
    assert (name, operator.tasks, per_core) == ("sums", 7, 0.5)
