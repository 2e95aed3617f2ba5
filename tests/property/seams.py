"""A job with all its seams in memory: folders, lease, clock, threads, backups, parts that come and go.

The dataflow is small, so that its naive twin is a few lines (`twin_seams.py`). What happens to it is
everything that the other family of schedules leaves out: real file writers on a file system that
fails, a publisher that goes on while a commit is under way and the other way round, sweeps that are
overtaken by commits, heartbeats, drivers that sleep beyond their lease, sinks, sources and operators
that go and come back under their old names, and copies of the state directory that are put back.

Threads are steps: before every change of a folder and every deletion of a sweep another thread of
the same driver may go on, so that any two of them overlap, in an order that the seed decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

import pyarrow as pa

import rechannel as rc
from rechannel.engine.lease import FRESH_MS, Holder, Lease
from rechannel.engine.physical import SinkPlan
from rechannel.settings import Settings
from rechannel.sinks.files import FileWriter
from rechannel.sinks.outlets import FileOutlet
from rechannel.sources.connectors import MemoryConnector
from rechannel.state.keys import SEGMENTS
from rechannel.state.merging import MergePolicy
from rechannel.testing import (
    Fault,
    FaultKind,
    FaultyFolder,
    FaultyStore,
    Harness,
    ManualClock,
    MemoryFolder,
    MemoryStore,
    Process,
    script,
)
from rechannel.testing.folder import SHOWN

SCHEMA = "k string, v bigint"
AGAIN = False
"""Whether parts come back under the names of those that went."""
BACKUPS = False
"""Whether copies of the state directory are put back."""

BEAT_MS = 2_000
"""A driver that is awake gives a sign at least so often."""

DEEP = 3
"""Threads of one driver that overlap at most."""


def same(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch


# What runs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part that comes and goes: one incarnation of a name.

    kind: "rows" (a sink of the rows themselves), "totals" (a sink after the operator), "counts" (an
    operator with its sink) or "side" (a source with its sink).
    """

    name: str
    kind: str
    serial: int

    @property
    def called(self) -> str:
        """Name in the dataflow."""
        return self.name if AGAIN else f"{self.name}{self.serial}"

    @property
    def path(self) -> str:
        """Where its sink writes: never where an earlier one of its name wrote."""
        return f"/out/{self.name}-{self.serial}"


@dataclass(frozen=True, kw_only=True)
class Text:
    """A version of the program: the parts it has beside those that are always there."""

    parts: tuple[Part, ...] = ()

    def flows(self, feeds: Mapping[str, MemoryConnector]) -> list[Any]:
        """The dataflow. feeds: by source and incarnation."""
        source = rc.read().memory(feeds["in"], name="in")
        sums = source.key_by("k").aggregate(n=rc.count(), t=rc.sum("v"), name="sums")
        copied = source.map_batches(same, schema=SCHEMA, name="copied")
        flows = [
            copied.write.json(ALL, name="all"),
            sums.write.json(TOTALS, name="totals"),
        ]
        return flows + [self._flow(part, source, sums, feeds) for part in self.parts]

    @staticmethod
    def _flow(part: Part, source: Any, sums: Any, feeds: Any) -> Any:
        if part.kind == "rows":
            return source.write.json(part.path, name=part.called)
        if part.kind == "totals":
            return sums.write.json(part.path, name=part.called)
        if part.kind == "counts":
            operator = source.key_by("k").aggregate(n=rc.count(), name=part.called)
            return operator.write.json(part.path, name=f"{part.called}-out")
        # Nothing comes between: what it shows is staged before the commit.
        side = rc.read().memory(feeds[part.path], name=part.called)
        return side.write.json(part.path, name=f"{part.called}-out")


ALL, TOTALS = "/out/all", "/out/totals"
"""Where the sinks write that are always there."""

KINDS = {"more": "rows", "late": "totals", "again": "counts", "side": "side"}
"""Names that come and go."""


class Overtaken(MemoryStore):
    """A store in memory, before whose deletions of state other threads may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] = lambda: None

    def delete(self, key: str) -> None:
        if key.startswith(SEGMENTS):
            self.between()
        super().delete(key)

    def copy(self) -> dict[str, bytes]:
        """Everything, as a backup has it."""
        return dict(self._data)

    def put_back(self, data: Mapping[str, bytes]) -> None:
        """What a backup had, and nothing else."""
        self._data = dict(data)


@dataclass(kw_only=True)
class Life:
    """One driver with its lease. slow: threads that seldom get a turn."""

    process: Process
    lease: Lease
    slow: frozenset[str] = frozenset()
    on: list[str] = field(default_factory=list)
    beaten_ms: float = 0.0


def random_settings(rng: Random) -> Settings:
    return Settings(
        tasks=rng.randint(1, 3),
        bins=rng.choice((1, 4, 7)),
        in_flight=rng.randint(1, 3),
        keep_versions=rng.choice((1, 1, 3)),
        snapshot_every=rng.choice((1, 2, 5, 64)),
        publish_backlog=rng.choice((1, 2, 8, 50)),
        merging=MergePolicy(fan=rng.randint(2, 4), slice_rows=rng.choice((1, 2, 8, 1 << 16))),
    )


def random_script(rng: Random, longest: int) -> list[Fault | None]:
    """Nothing, or a fault at one of the next writes."""
    if rng.random() < 0.4:
        return []
    kept = rng.choice((0.0, 0.5, 0.999))
    return [None] * rng.randint(0, longest) + [Fault(kind=rng.choice(list(FaultKind)), kept=kept)]


@dataclass(kw_only=True)
class World:
    """Everything outside of drivers: it outlives them.

    happened: how often each thing did.
    """

    rng: Random
    store: Overtaken = field(default_factory=Overtaken)
    disk: MemoryFolder = field(default_factory=MemoryFolder)
    clock: ManualClock = field(default_factory=ManualClock)
    feeds: dict[str, MemoryConnector] = field(default_factory=dict)
    pushed: dict[str, list[list[tuple[str, int]]]] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    names: Iterator[str] = field(default_factory=lambda: map("attempt{}".format, count()))
    _tokens: Iterator[int] = field(default_factory=count)
    _values: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        self.feed("in")

    def feed(self, name: str) -> None:
        """Another source, with some rows in it already."""
        per = self.rng.choice((None, 1, 2))
        made = script(SCHEMA, partitions=self.rng.randint(1, 3))
        self.feeds[name] = replace(made, per_timestep=per)
        self.pushed[name] = []
        for _ in range(self.rng.randint(0, 4)):
            self.push(name)

    def push(self, name: str) -> None:
        """One more batch."""
        keys = self.rng.choice((1, 3, 30))
        rows = [
            (f"k{self.rng.randrange(keys)}", next(self._values))
            for _ in range(self.rng.choice((0, 1, 3, 20)))
        ]
        self.pushed[name].append(rows)
        self.feeds[name].push([{"k": k, "v": v} for k, v in rows])

    # Drivers -------------------------------------------------------------------------------------

    def start(self, text: Text, *, takeover: bool, faulty: bool) -> Life:
        """Another driver. Raises StateInUseError, and what a start raises."""
        token = f"driver{next(self._tokens)}"
        lease = Lease.acquire(
            self.store,
            Holder(host=token, pid=1, started_ms=0, epoch=0, heartbeat_ms=0),
            clock=lambda: int(self.clock()),
            started=lambda _: 0,
            takeover=takeover,
        )
        folder = FaultyFolder(self.disk, random_script(self.rng, 40) if faulty else ())
        harness = Harness(
            text.flows(self.feeds),
            store=self.store,
            settings=random_settings(self.rng),
            clock=self.clock,
            choose=self.rng.randrange,
            writer=lambda sink: self._writer(sink, token, folder),
            names=self.names,
            sweep_every=self.rng.choice((1, 2, 16)),
        )
        faults = random_script(self.rng, 60) if faulty else []
        process = harness.start(faults=faults)
        slow = self.rng.choice(((), (), ("publish",), ("unit",), ("driver",)))
        life = Life(process=process, lease=lease, slow=frozenset(slow), beaten_ms=self.clock())
        folder.between = lambda: self.overlap(life, "folder")
        return life

    @staticmethod
    def _writer(sink: SinkPlan, token: str, folder: FaultyFolder) -> FileWriter:
        outlet = sink.sink.outlet
        assert isinstance(outlet, FileOutlet)
        return FileWriter(
            root=outlet.path,
            owner=f"job.{sink.sink.name}",
            token=token,
            folder=folder,
            write=folder.write,
        )

    def threads(self, life: Life) -> list[tuple[str, Callable[[], bool]]]:
        """What may happen next in a driver: a step of each of its threads that is not busy."""
        process = life.process
        units = range(len(process.executor))
        possible: list[tuple[str, Callable[[], bool]]] = [
            ("driver", process.driver.step),
            ("publish", process.publisher.publish_next),
            *(("unit", lambda i=i: process.executor.run(i)) for i in units),  # type: ignore[misc]
        ]
        return [(who, step) for who, step in possible if who == "unit" or who not in life.on]

    def step(self, life: Life) -> bool:
        """One thing happens; False: nothing can."""
        possible = self.threads(life)
        self.rng.shuffle(possible)
        if self.rng.random() < 0.95:
            possible.sort(key=lambda thread: thread[0] in life.slow)
        self.store.between = lambda: self.overlap(life, "sweep")
        for who, go_on in possible:
            life.on.append(who)
            try:
                if go_on():
                    return True
            finally:
                life.on.pop()
        return False

    def overlap(self, life: Life, where: str) -> None:
        """Another thread of the same driver goes on while one is in the middle of something."""
        if 0 < len(life.on) < DEEP and self.rng.random() < 0.3 and self.step(life):
            self.happened[f"overlapped {life.on[-1]} {where}"] += 1

    def beat(self, life: Life) -> None:
        """Time passes; a driver that is awake gives signs."""
        self.clock.advance(self.rng.choice((0, 1, 10, 400)))
        if self.clock() - life.beaten_ms >= BEAT_MS:
            life.beaten_ms = self.clock()
            life.lease.renew()
            self.happened["heartbeats"] += 1

    def shown(self) -> dict[str, pa.Table]:
        """What readers see, by file."""
        return {path: rows for path, rows in self.disk.files.items() if f"/{SHOWN}" in path}

    def expire(self) -> None:
        """So much time passes that a lease without signs is over."""
        self.clock.advance(FRESH_MS)


def store_of(process: Process) -> FaultyStore:
    """The way of a driver to the store."""
    assert isinstance(process.store, FaultyStore)
    return process.store
