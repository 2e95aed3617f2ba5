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

import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random

import pyarrow as pa

from rechannel.control.controller import Installation
from rechannel.engine.journal.lease import FRESH_MS, Holder, Lease
from rechannel.engine.journal.reading import read_only
from rechannel.engine.journal.this_driver import ledger_of
from rechannel.engine.loop.heartbeat import Heartbeat
from rechannel.engine.program.physical import SinkPlan
from rechannel.errors import FencedError, StateInUseError, StorageError
from rechannel.model.patience import Patience
from rechannel.settings import Settings
from rechannel.sinks.claims import Ledger
from rechannel.sinks.files import FileWriter
from rechannel.sinks.outlets import FileOutlet
from rechannel.sinks.spare import WithDeadLetters
from rechannel.sinks.writer import SinkWriter
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
    Process,
    script,
)
from rechannel.testing.folder import SHOWN
from tests.property.controlling import JournalledStore
from tests.property.seams_program import SCHEMA, Text, text_of

BEAT_MS = 2_000
"""A driver that is awake gives a sign at least so often."""

BATCH = 20
"""Most rows of a batch."""

YEAR_MS = 366 * 86_400_000

FAN = 4
"""Runs of a level that meet in a merge, at most."""

DEEP = 3
"""Threads of one driver that overlap at most."""


class Overtaken(JournalledStore):
    """A store in memory, before whose deletions of state other threads may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.between: Callable[[], None] = lambda: None
        self.away = 0
        """So many writes are refused from now on: nobody answers."""

    def put(self, key: str, data: bytes | memoryview | list[memoryview]) -> None:
        self._answer(key)
        super().put(key, data)

    def create(self, key: str, data: bytes) -> bool:
        self._answer(key)
        return super().create(key, data)

    def _answer(self, key: str) -> None:
        if self.away:
            self.away -= 1
            msg = f"cannot write {key}: nobody answers"
            raise StorageError(msg)

    def delete(self, key: str) -> None:
        if key.startswith(SEGMENTS):
            self.between()
        super().delete(key)

    def copy(self) -> dict[str, bytes]:
        """Everything, as a backup has it."""
        return dict(self._data)


class OneTurn(threading.Event):
    """Lets the loop of a thread go round once: stands in for the event that ends it."""

    def __init__(self) -> None:
        super().__init__()
        self.turns = 0

    def wait(self, timeout: float | None = None) -> bool:
        del timeout
        self.turns += 1
        return self.turns > 1


@dataclass(kw_only=True)
class Heart:
    """The thread that renews a lease, turn by turn.

    failed: signs that could not be given; in_a_row: the latest ones. replaced: the journal fences its driver.
    """

    renew: Callable[[], None]
    beaten_ms: float
    failed: int = 0
    in_a_row: int = 0
    beats: bool = True
    replaced: bool = False

    def beat(self, steady_ms: float) -> None:
        """Give a sign if the last one is long ago, as long as the thread has not ended."""
        if not self.beats or steady_ms - self.beaten_ms < BEAT_MS:
            return
        self.beaten_ms, over, failed = steady_ms, OneTurn(), self.failed
        heart = Heartbeat(self.renew, over=over, replaced=self._replaced, trouble=self._trouble)
        heart._beat()
        self.beats = over.turns > 1
        self.in_a_row = self.in_a_row + 1 if self.failed > failed else 0

    def _replaced(self, error: FencedError) -> None:
        del error
        self.replaced = True

    def _trouble(self, topic: str, error: BaseException | None) -> None:
        del topic
        self.failed += error is not None


@dataclass(kw_only=True)
class Life:
    """One driver with its lease. slow: threads that seldom get a turn. ended: the error of a thread that went on in
    the middle of another one, which is not that other one's error."""

    process: Process
    lease: Lease
    heart: Heart
    slow: tuple[str, ...] = ()
    on: list[str] = field(default_factory=list)
    ended: Exception | None = None


def random_settings(rng: Random) -> Settings:
    return Settings(
        tasks=rng.randint(1, 3),
        bins=rng.choice((1, 4, 7)),
        in_flight=rng.randint(1, 3),
        keep_versions=rng.choice((1, 1, 3)),
        snapshot_every=rng.choice((1, 2, 5, 64)),
        publish_backlog=rng.choice((1, 2, 8, 50)),
        replan_after=rng.choice((None, 1, 2)),
        timestep_bytes=rng.choice((None, None, 1, 1_000, 30_000)),
        task_bytes=rng.choice((None, None, None, 20_000, 100_000)),
        merging=MergePolicy(
            fan=rng.randint(2, FAN),
            slice_rows=rng.choice((1, 2, 8, 1 << 16)),
            slice_bytes=rng.choice((1, 500, 1 << 20)),
        ),
        # Time jumps: what is tried again is tried at once.
        patience=Patience(first_seconds=0, seconds=2),
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

    clock, steady: the wall clock, which may be wrong, and what passes. happened: how often each
    thing did. memory: rows of a timestep that a task can hold.
    """

    rng: Random
    store: Overtaken = field(default_factory=Overtaken)
    disk: MemoryFolder = field(default_factory=MemoryFolder)
    clock: ManualClock = field(default_factory=ManualClock)
    steady: ManualClock = field(default_factory=ManualClock)
    feeds: dict[str, MemoryConnector] = field(default_factory=dict)
    pushed: dict[str, list[list[tuple[int, int]]]] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)
    names: Iterator[str] = field(default_factory=lambda: map("attempt{}".format, count()))
    _tokens: Iterator[int] = field(default_factory=count)
    _values: Iterator[int] = field(default_factory=count)
    memory: int = 0

    def __post_init__(self) -> None:
        self.memory = self.rng.choice((2 * BATCH, 3 * BATCH, 1 << 30))
        self.feed("in")

    def feed(self, name: str) -> None:
        """Another source, with some rows in it already."""
        self.feeds[name] = script(SCHEMA, partitions=self.rng.randint(1, 3))
        self.pushed[name] = []
        for _ in range(self.rng.randint(0, 4)):
            self.push(name)

    def push(self, name: str) -> None:
        """One more batch."""
        keys = self.rng.choice((1, 3, 30))
        rows = [
            (self.rng.randrange(keys), next(self._values))
            for _ in range(self.rng.choice((0, 1, 3, BATCH)))
        ]
        self.pushed[name].append(rows)
        self.feeds[name].push([{"k": k, "v": v, "w": text_of(v)} for k, v in rows])

    # Drivers -------------------------------------------------------------------------------------

    def start(
        self,
        text: Text,
        *,
        takeover: bool,
        faulty: bool,
        replan: bool = False,
        remove_later: bool = False,
        controllers: Sequence[Installation] = (),
    ) -> Life:
        """Another driver. replan: in smaller timesteps. Raises StateInUseError, and what a start raises."""
        token, before = f"driver{next(self._tokens)}", read_only(self.store).epoch
        lease = self.acquire(token, takeover=takeover)
        folder = FaultyFolder(self.disk, random_script(self.rng, 40) if faulty else ())
        held: list[Process] = []

        def too_large(operator: str, timestep: int, task: int, attempt: int) -> str | None:
            """A timestep that nobody's memory holds fails however often it runs."""
            del operator, task, attempt
            return "before" if rows_of(held, timestep) > self.memory else None

        own: list[str] = []

        def ledger() -> Ledger:
            told = read_only(self.store)
            if not own and told.driver and told.epoch > before:
                own.append(told.driver.id)  # asked for straight after it has taken over
            return ledger_of(told, own[0] if own else "", remove_later=remove_later)

        harness = Harness(
            text.flows(self.sources(smallest=replan)),
            store=self.store,
            settings=random_settings(self.rng),
            clock=self.clock,
            steady=self.steady,
            choose=self.rng.randrange,
            writer=lambda sink: self._writer(sink, token, folder, ledger),
            names=self.names,
            sweep_every=self.rng.choice((1, 2, 16)),
        )
        faults = random_script(self.rng, 60) if faulty else []
        process = harness.start(
            faults=faults, replan=replan, task_faults=too_large, controllers=controllers
        )
        held.append(process)
        slow = self.rng.choice(((), ("publish",), ("publish",), ("unit",), ("driver",)))
        heart = Heart(renew=lambda: lease.renew(process.journal.fenced), beaten_ms=self.steady())
        life = Life(process=process, lease=lease, heart=heart, slow=slow)
        folder.between = lambda: self.overlap(life, "folder")
        return life

    def acquire(self, token: str, *, takeover: bool) -> Lease:
        """A lease of a host of its own, whose signs now and then cannot be given, never two in a row."""
        seldom = (
            self.rng.choice((None, Fault(kind=FaultKind.FULL))) if number % 2 else None
            for number in count()
        )
        return Lease.acquire(
            FaultyStore(self.store, seldom),
            Holder(host=token, pid=1, started_ms=0, epoch=0, heartbeat_ms=0),
            clock=lambda: int(self.steady()),
            started=lambda _: 0,
            takeover=takeover,
        )

    def knock(self) -> None:
        """A second driver that does not insist is refused while the first one is awake."""
        try:
            self.acquire("somebody", takeover=False)
        except StateInUseError:
            self.happened["knocked in vain"] += 1
            return
        msg = "a second driver was let in beside one that is awake and was never replaced"
        raise AssertionError(msg)

    def sources(self, *, smallest: bool) -> dict[str, MemoryConnector]:
        """Connectors as a program text has them. smallest: a batch of each in a timestep: memory holds that."""
        per = {name: 1 if smallest else self.rng.choice((None, 1, 2)) for name in self.feeds}
        return {name: replace(feed, per_timestep=per[name]) for name, feed in self.feeds.items()}

    def _writer(
        self,
        sink: SinkPlan,
        token: str,
        folder: FaultyFolder,
        ledger: Callable[[], Ledger],
    ) -> SinkWriter:
        outlet, name = sink.sink.outlet, sink.sink.name
        assert isinstance(outlet, FileOutlet)

        def opened(root: str, owner: str) -> FileWriter:
            return FileWriter(
                root=root,
                owner=owner,
                token=token,
                folder=folder,
                write=folder.write,
                ledger=ledger,
            )

        main, letters = opened(outlet.path, f"job.{name}"), sink.sink.failure.path
        if letters is None:
            return main
        spare = opened(letters, f"job.{name}.dead_letters")
        return WithDeadLetters(main=main, letters=spare, path=letters)

    def threads(self, life: Life) -> list[tuple[str, Callable[[], bool]]]:
        """What may happen next in a driver: a step of each of its threads that is not busy."""
        process = life.process
        units = range(len(process.executor))
        possible: list[tuple[str, Callable[[], bool]]] = [
            ("driver", process.driver.step),
            *(
                (f"publish {sink}", lambda turn=turn: turn() is None)
                for sink, turn in process.publisher.turns().items()
            ),
            *(("unit", lambda i=i: process.executor.run(i)) for i in units),
        ]
        return [(who, step) for who, step in possible if who == "unit" or who not in life.on]

    def step(self, life: Life) -> bool:
        """One thing happens; False: nothing can."""
        possible = self.threads(life)
        self.rng.shuffle(possible)
        if self.rng.random() < 0.95:
            possible.sort(key=lambda thread: thread[0].startswith(life.slow))
        self.store.between = lambda: self.overlap(life, "sweep")
        for who, go_on in possible:
            life.on.append(who)
            try:
                if go_on():
                    return True
            finally:
                life.on.pop()
                if life.ended is not None and not life.on:
                    raise life.ended
        return False

    def overlap(self, life: Life, where: str) -> None:
        """Another thread of the same driver goes on while one is in the middle of something."""
        if life.ended is not None or not 0 < len(life.on) < DEEP or self.rng.random() >= 0.3:
            return
        try:
            went = self.step(life)
        except Exception as error:  # a crash ends all threads at once
            life.ended, went = error, True
        if went:
            self.happened[f"overlapped {life.on[-1].partition(' ')[0]} {where}"] += 1

    def beat(self, life: Life) -> None:
        """Time passes; a driver that is awake gives signs."""
        self.advance(self.rng.choice((0, 1, 400, 1_500)))
        failed = life.heart.failed
        life.heart.beat(self.steady())
        self.happened["signs that could not be given"] += life.heart.failed - failed

    def shown(self) -> dict[str, pa.Table]:
        """What readers see, by file."""
        return {path: rows for path, rows in self.disk.files.items() if f"/{SHOWN}" in path}

    def damage(self) -> None:
        """A path cannot be written to any more, or all can be again."""
        roots = [name for name in self.disk.names("/out") if not name.endswith("-letters")]
        patient = [name for name in roots if name.startswith(("more", "late"))]
        if self.disk.refused or not patient:
            self.disk.refused.clear()
        else:
            chosen = patient if self.rng.random() < 0.9 else roots
            self.disk.refused.add(f"/out/{self.rng.choice(chosen)}")

    def expire(self) -> None:
        """So much time passes that a lease without signs is over."""
        self.advance(FRESH_MS)

    def advance(self, by_ms: float) -> None:
        """Time passes."""
        self.steady.advance(by_ms)
        self.clock.advance(by_ms)

    def set_right(self) -> None:
        """The wall clock shows what time it is."""
        self.clock.now_ms = self.steady.now_ms

    def jump(self) -> None:
        """The wall clock is set wrong, far ahead or back; or right again."""
        wrong = self.clock() != self.steady()
        self.set_right()
        if not wrong:
            self.clock.advance(self.rng.choice((75 * YEAR_MS, YEAR_MS * 2, -3_600_000)))


def rows_of(held: list[Process], timestep: int) -> int:
    """Rows that a timestep under way reads, as the journal has it."""
    intents = held[0].journal.state.open_intents if held else ()
    return sum(
        split["size"]
        for intent in intents
        if intent.timestep == timestep
        for part in intent.sources.values()
        for split in part.layout or ()
    )
