"""Operators with two inputs and a hot key, undisturbed and while tasks share the rows of keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel import changes
from rechannel.dataflow.streams.stream import Stream
from rechannel.engine.stages.inprocess import TaskDied
from rechannel.errors import RefusedError, StorageError
from rechannel.reconfigure.changes.change import Change
from rechannel.reconfigure.record import Phase
from rechannel.settings import Settings
from rechannel.state.merging import MergePolicy
from rechannel.testing import Crash, Fault, FaultKind, Harness, Process, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
LEFT = "k BIGINT, a BIGINT, at TIMESTAMP"
RIGHT = "id BIGINT, b BIGINT, at TIMESTAMP"
TIMESTEPS = 9
LIVES = 5
"""Drivers that may die; the next one is left alone."""

Meet = Callable[[Stream, Stream], Stream]

NEAR = rc.between("-4 seconds", "3 seconds")
TUMBLING = rc.windows.tumbling("5 seconds")


def joined(how: str, within: Any = None) -> Meet:
    """A join of this kind."""

    def meet(left: Stream, right: Stream) -> Stream:
        return left.join(right, {"k": "id"}, how=how, within=within, name="joined")  # type: ignore[arg-type]

    return meet


def asof(how: str, tolerance: str | None = None) -> Meet:
    """An as-of join."""

    def meet(left: Stream, right: Stream) -> Stream:
        return left.asof_join(right, {"k": "id"}, how=how, tolerance=tolerance, name="joined")  # type: ignore[arg-type]

    return meet


def lookup(how: str) -> Meet:
    """A lookup, in a table of the right rows."""

    def meet(left: Stream, right: Stream) -> Stream:
        table = right.select("id", "b", "at")
        return left.lookup(table, {"k": "id"}, how=how, by=["at", "b"], name="joined")  # type: ignore[arg-type]

    return meet


KINDS: Mapping[str, tuple[Meet, tuple[str, ...]]] = {
    "inner": (joined("inner"), ("left", "right")),
    "inner near": (joined("inner", NEAR), ("left", "right")),
    "inner windows": (joined("inner", TUMBLING), ("left", "right")),
    "left near": (joined("left", NEAR), ("left",)),
    "left windows": (joined("left", TUMBLING), ("left",)),
    "right near": (joined("right", NEAR), ("right",)),
    "semi": (joined("semi"), ("left",)),
    "semi near": (joined("semi", NEAR), ("left",)),
    "anti near": (joined("anti", NEAR), ("left",)),
    "asof left": (asof("left"), ("left",)),
    "asof inner": (asof("inner", "3 seconds"), ("left",)),
    "lookup inner": (lookup("inner"), ("left",)),
    "lookup left": (lookup("left"), ("left",)),
}
"""By name, the operator and the sides that can be dealt out."""


@dataclass
class Tested:
    """One schedule."""

    rng: Random
    kind: str
    happened: Counter[str] = field(default_factory=Counter)

    def rows(self) -> tuple[list[list[dict[str, Any]]], list[list[dict[str, Any]]]]:
        """Rows of both sides by timestep; most have key 1. Times lag up to three seconds."""
        sides = []
        for key, value in (("k", "a"), ("id", "b")):
            batches = []
            for timestep in range(TIMESTEPS):
                size = self.rng.choice((0, 1, 3, 8))
                batches.append(
                    [
                        {
                            key: self.rng.choice((1, 1, 1, 1, 2, 3, 4, None)),
                            value: 1000 * timestep + number,
                            "at": EPOCH + timedelta(seconds=2 * timestep - self.rng.randrange(6)),
                        }
                        for number in range(size)
                    ]
                )
            sides.append(batches)
        return sides[0], sides[1]

    def harness(self, batches: tuple[list[Any], list[Any]], **options: Any) -> Harness:
        """The operator, its late rows and a sum of what it shows."""
        meet, _ = KINDS[self.kind]
        left, right = (
            rc.read()
            .memory(script(columns, rows), name=name)
            .event_time("at", "2 seconds", name=f"{name}-time")
            for name, columns, rows in zip(("left", "right"), (LEFT, RIGHT), batches, strict=True)
        )
        stream = meet(left, right)
        ends = [stream.write.memory("out", name="out")]
        sums = stream.key_by("k").aggregate(n=rc.aggregates.count(), name="sums")
        ends.append(sums.write.memory("sums", name="sums-out"))
        if not self.kind.startswith("lookup") and self.kind not in {"inner", "semi"}:
            ends.append(stream.late.write.memory("late", name="late"))
        return Harness(ends, **options)

    def change(self, process: Process) -> None:
        """Ask for something."""
        configuration = process.position.configuration
        routing = configuration.operators["joined"].routing
        assert routing is not None
        asked = self._asked(routing.bins, routing.tasks)
        try:
            process.reconfigure(asked, supersede=self.rng.random() < 0.2)
        except RefusedError:
            self.happened[f"refused {asked.kind}"] += 1

    def _asked(self, bins: int, tasks: int) -> Change:
        rng, (_, sides) = self.rng, KINDS[self.kind]
        place: dict[str, Any] = {"key": rng.choice((1, 1, 1, 2, None))}
        if place["key"] is None or "windows" in self.kind:
            place = {"bin": rng.randrange(bins)}
        over = rng.choice((2, 3, None, rng.sample(range(tasks), min(tasks, 2))))
        kinds: list[Callable[[], Change]] = [
            lambda: changes.gather("joined"),
            lambda: changes.gather("joined", **place),
            lambda: changes.rescale("joined", rng.randint(1, 5)),
            lambda: changes.move("joined", rng.randrange(bins), rng.randrange(tasks)),
            lambda: changes.rebalance("joined"),
            lambda: changes.rewrite("joined"),
            lambda: changes.split("joined", rng.randrange(bins)),
            lambda: changes.set_in_flight(rng.choice((1, 3))),
        ]
        if rng.random() < 1 / 3:
            kinds = [lambda: changes.spread("joined", **place, over=over, side=rng.choice(sides))]
        asked: Change = rng.choice(kinds)()
        return asked

    def disturbed(self, batches: tuple[list[Any], list[Any]]) -> Harness:
        """Drivers that are asked for changes, and die."""
        harness = self.harness(
            batches,
            settings=Settings(
                tasks=4,
                bins=5,
                keep_versions=64,
                in_flight=self.rng.choice((1, 3)),
                task_bytes=self.rng.choice((None, 2_000)),
                merging=MergePolicy(
                    fan=self.rng.choice((2, 8)), slice_rows=self.rng.choice((1, 4, 1 << 16))
                ),
            ),
            choose=self.rng.randrange,
            arrival=lambda blobs: self.rng.sample(blobs, len(blobs)),
        )
        for life in range(LIVES + 1):
            if self._live(harness, calm=life == LIVES):
                return harness
        return harness

    def _live(self, harness: Harness, *, calm: bool) -> bool:
        faults: list[Fault | None] = []
        if not calm and self.rng.random() < 0.6:
            faults = [None] * self.rng.randrange(60) + [
                Fault(kind=self.rng.choice(list(FaultKind)))
            ]
        try:
            process = harness.start(faults=faults, task_faults=self._task_fault(calm=calm))
            while process.step():
                self._look(process)
                if not calm and self.rng.random() < 0.12:
                    self.change(process)
            process.stop()
        except (Crash, TaskDied, StorageError):
            self.happened["crashed"] += 1
            return False
        for record in harness.journal_state().coordination.records:
            if record.phase is Phase.DONE:
                self.happened[f"done {record.change.kind}"] += 1
        return True

    def _task_fault(self, *, calm: bool) -> Callable[[str, int, int, int], str | None]:
        def fault(operator: str, timestep: int, task: int, attempt: int) -> str | None:
            del operator, timestep, task, attempt
            if calm or self.rng.random() > 0.03:
                return None
            self.happened["task fault"] += 1
            return self.rng.choice(("before", "after", "twice", "late"))

        return fault

    def _look(self, process: Process) -> None:
        routing = process.position.configuration.operators["joined"].routing
        if routing is not None and routing.spreads:
            self.happened["spread"] += 1


def texts(table: pa.Table) -> list[str]:
    """Rows, sorted."""
    return sorted(map(repr, zip(*(column.to_pylist() for column in table.columns), strict=True)))


def check(kind: str, seed: int) -> Counter[str]:
    """Run one schedule and compare it, row for row, with an undisturbed run of one task. Returns what happened."""
    tested = Tested(Random(f"{kind} {seed}"), kind)
    batches = tested.rows()
    calm = tested.harness(batches, settings=Settings(tasks=1, bins=1, keep_versions=64))
    calm.start().run()
    harness = tested.disturbed(batches)
    for sink in calm.recorders:
        got, expected = harness.outputs(sink), calm.outputs(sink)
        assert list(got) == list(expected), f"{sink}: timesteps {list(got)}"
        for timestep, table in expected.items():
            where = f"{kind}, seed {seed}: {sink}, timestep {timestep}"
            assert texts(got[timestep]) == texts(table), where
            tested.happened[f"rows of {sink}"] += table.num_rows
    here, there = harness.journal_state(), calm.journal_state()
    for timestep in here.versions:
        stored, of_calm = (
            texts(bench.state("joined", timestep=timestep, journal=journal))
            for bench, journal in ((harness, here), (calm, there))
        )
        assert stored == of_calm, f"{kind}, seed {seed}: state of timestep {timestep}"
        tested.happened["rows of state"] += len(of_calm)
    tested.happened["schedules"] += 1
    return tested.happened
