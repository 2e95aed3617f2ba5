"""The example of Megaphone's workshop paper, to the letter (running sums, two workers, all keys start on worker 0).

Data (dog,10), (cat,5) at t=100; (dog,13), (cat,23) at t=200. Control: dog -> worker 1 at t=150, cat -> worker 1 at
t=200. A move *at* t takes the state up to, not including, t: records at t go to the new place.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.engine.journal.entries import ConfigurationChanged, Intent
from rechannel.kernels.protocol.program import StageStep
from rechannel.kernels.tasks.report import TaskReport
from rechannel.model.configuration import Configuration, OperatorConfiguration
from rechannel.model.hashing import hash_columns
from rechannel.model.routing import Routing
from rechannel.reconfigure import strategies
from rechannel.reconfigure.requests import Request
from rechannel.settings import Settings
from rechannel.sources.connectors import MemoryConnector
from rechannel.state.keys import timestep_of
from rechannel.state.segments.segment import open_segment
from rechannel.testing import Harness, ManualClock, script
from tests.support.reconfiguring import accepted

BINS = 8
ANIMALS = ("dog", "cat")


def hash_of(animal: str) -> int:
    return int(hash_columns([pa.array([animal])])[0])


def bin_of(animal: str) -> int:
    return Routing.even(bins=BINS, tasks=1).bin_of(hash_of(animal))


def all_on_0(configuration: Configuration) -> Configuration:
    everything = Routing(
        starts=Routing.even(bins=BINS, tasks=2).starts, owners=(0,) * BINS, tasks=2
    )
    sums = OperatorConfiguration(tasks=2, routing=everything)
    return Configuration(operators={**configuration.operators, "sums": sums})


class Zoo:
    """The dataflow of the example on the bench, with everything that its tasks are told and tell."""

    def __init__(self) -> None:
        self.clock = ManualClock(0)
        self.connector: MemoryConnector = script("animal string, n long")
        stream = rc.read().memory(self.connector, name="in")
        sums = stream.key_by("animal").aggregate(total=agg.sum("n"), name="sums")
        settings = Settings(keep_versions=9)
        self.harness = Harness(
            sums.write.memory("out"), clock=self.clock, configure=all_on_0, settings=settings
        )
        self.process = self.harness.start()
        self.told: dict[int, StageStep] = {}
        self.reports: dict[int, list[TaskReport]] = {}
        run = self.process.runner.run

        def watched(timestep: int, stage: str, step: StageStep) -> list[Any]:
            reports = run(timestep, stage, step)
            if stage == "sums":
                self.told[timestep] = step
                self.reports[timestep] = [
                    each for r in reports if r.operator == "sums" for each in r.reports
                ]
            return reports

        self.process.runner.run = watched  # type: ignore[method-assign]

    def move(self, animal: str, at_ms: int) -> None:
        """Control: an animal's bin to task 1, at a time."""
        request = Request(
            change=changes.move("sums", bin_of(animal), 1),
            strategy=strategies.all_at_once(),
            at_ms=at_ms,
        )
        accepted(self.process.changes, request, self.process.position)

    def at(self, stream_ms: int, *rows: tuple[str, int]) -> None:
        """Let time come, and rows with it."""
        self.clock.now_ms = stream_ms
        if rows:
            self.connector.push([{"animal": animal, "n": n} for animal, n in rows])
        self.process.run()

    def owner(self, animal: str) -> int:
        """The task that owns an animal's bin from now on."""
        routing = self.process.position.configuration.operators["sums"].routing
        assert routing is not None
        return routing.owners[bin_of(animal)]

    def written(self, timestep: int) -> dict[int, dict[str, int]]:
        """Keys and sums that every task wrote in a timestep, by the task in the key of the segment."""
        state = self.harness.state("sums", timestep=timestep).to_pylist()
        totals = {row["animal"]: row["total"] for row in state}
        out: dict[int, dict[str, int]] = {}
        for run in self.harness.journal_state().versions[timestep].manifests["sums"].runs:
            if timestep_of(run.segment) == timestep:
                segment = open_segment(self.harness.store, run.segment)
                assert segment.meta.task == _task_of(run.segment)
                out[segment.meta.task] = {a: totals[a] for a in segment.column(0).to_pylist()}
        return out

    def reads(self, timestep: int, task: int) -> set[int]:
        """Tasks that wrote what a task is told to read."""
        return {_task_of(run.segment) for run in self.told[timestep].tasks[task].runs}

    def received(self, timestep: int) -> dict[int, int]:
        """Rows that reached every task."""
        return {r.task: r.costs.counts["rows_in"] for r in self.reports[timestep]}


def _task_of(segment: str) -> int:
    """Task that wrote a segment: its key says so."""
    return int(segment.rpartition("/")[2].split("-")[1])


@pytest.fixture
def zoo() -> Zoo:
    return Zoo()


def test_dog_and_cat_are_in_different_bins():
    assert bin_of("dog") != bin_of("cat")


def test_the_example(zoo: Zoo):
    zoo.move("dog", at_ms=150)
    zoo.move("cat", at_ms=200)

    zoo.at(100, ("dog", 10), ("cat", 5))
    assert zoo.received(1) == {0: 2, 1: 0}
    assert zoo.written(1) == {0: {"dog": 10, "cat": 5}}
    assert (zoo.owner("dog"), zoo.owner("cat")) == (0, 0)

    zoo.at(149)
    assert (zoo.owner("dog"), zoo.owner("cat")) == (0, 0)
    zoo.at(150)
    assert (zoo.owner("dog"), zoo.owner("cat")) == (1, 0)

    zoo.at(200, ("dog", 13), ("cat", 23))
    assert (zoo.owner("dog"), zoo.owner("cat")) == (1, 1)
    assert zoo.received(2) == {0: 0, 1: 2}
    # Applied to strictly earlier state: what task 0 wrote at t=100, and nothing else.
    assert zoo.reads(2, 1) == {0}
    assert {timestep_of(run.segment) for run in zoo.told[2].tasks[1].runs} == {1}
    assert zoo.written(2) == {1: {"dog": 23, "cat": 28}}
    assert {zoo.told[2].routing.owners[bin_of(animal)] for animal in ANIMALS} == {1}
    # Task 0 holds nothing: no key that there is belongs to its hashes.
    own = zoo.told[2].tasks[0].own
    assert not [a for a in ANIMALS for lo, hi in own if lo <= hash_of(a) < hi]

    outputs = {t: table.sort_by("animal").to_pylist() for t, table in zoo.harness.outputs().items()}
    assert outputs == {
        1: [{"animal": "cat", "total": 5}, {"animal": "dog", "total": 10}],
        2: [{"animal": "cat", "total": 28}, {"animal": "dog", "total": 23}],
    }


def test_dog_moved_without_a_timestep_and_cat_with_that_of_200(zoo: Zoo):
    """Nothing came in at 150: the move holds from then on, and the journal says so."""
    zoo.move("dog", at_ms=150)
    zoo.move("cat", at_ms=200)
    zoo.at(100, ("dog", 10), ("cat", 5))
    bodies = []
    journal = zoo.process.journal
    for name in ("append", "append_soon"):
        write = getattr(journal, name)
        setattr(journal, name, lambda body, write=write: (bodies.append(body), write(body))[1])
    zoo.at(150)
    zoo.at(200, ("dog", 13), ("cat", 23))
    (changed,) = [body for body in bodies if isinstance(body, ConfigurationChanged)]
    assert (changed.from_timestep, changed.cause) == (2, "r1")
    assert [(step.id, step.time_ms) for step in changed.steps] == [("r1", 150)]
    (intent,) = [body for body in bodies if isinstance(body, Intent)]
    assert (intent.timestep, intent.stream_ms) == (2, 200)
    assert [step.id for step in intent.steps] == ["r2"]
    records = {record.id: record for record in zoo.harness.journal_state().coordination.records}
    assert {id_: str(record.phase) for id_, record in records.items()} == {
        "r1": "done",
        "r2": "done",
    }
    assert [records[id_].taken[0].bins for id_ in ("r1", "r2")] == [1, 1]


def test_rows_of_t_go_to_the_new_place_of_a_move_at_t(zoo: Zoo):
    """A timestep at 150, in place of the pause: it is the first one under the new placement."""
    zoo.move("dog", at_ms=150)
    zoo.at(100, ("dog", 10), ("cat", 5))
    zoo.at(149, ("dog", 1))
    zoo.at(150, ("dog", 1), ("cat", 1))
    assert zoo.received(2) == {0: 1, 1: 0}
    assert zoo.received(3) == {0: 1, 1: 1}
    # What task 0 wrote before t, up to and not including t.
    assert zoo.reads(3, 1) == {0}
    assert zoo.written(3) == {0: {"cat": 6}, 1: {"dog": 12}}
