"""A dataset against a list and a dict, while drivers die and replace each other, and readers keep a version."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from rechannel.errors import FencedError, StorageError
from rechannel.sinks.dataset import compacting, merging
from rechannel.sinks.dataset.reading import Output
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.state.stores.faulty import Crash, Fault, FaultKind, Outage
from tests.datasets import KEEP_MS, Disk, Driver
from tests.publishing import SCHEMA

CHANGES = pa.schema([*SCHEMA, ("change", pa.string())])
WORDS = ("insert", "update_after", "delete")
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "partitions": {"partitions": ("k",)},
    "keys": {"keys": ("k",)},
    "changes": {"keys": ("k",), "changes": "change"},
    "keys and partitions": {"keys": ("k", "n"), "partitions": ("k",)},
}

ACTIONS = {
    "publish": 8,
    "compact": 6,
    "tidy": 3,
    "wait": 3,
    "take": 3,
    "restart": 2,
    "zombie": 2,
    "sweep": 2,
}
"""What happens, and how often."""
LENGTH = 60


def fault(random: Random) -> Fault | Outage | None:
    """What happens to a write; mostly nothing."""
    if random.random() < 0.9:
        return None
    if random.random() < 0.3:
        return Outage(calls=random.randint(1, 3), written=random.random() < 0.5)
    return Fault(kind=random.choice(list(FaultKind)))


def some_rows(random: Random) -> list[tuple[Any, ...]]:
    """Rows of a timestep, each of another key."""
    keys = random.sample(range(4), random.choice([0, 1, 2, 4]))
    return [(key, random.randint(0, 9), random.choice(WORDS)) for key in keys]


@dataclass
class Job:
    """What the journal has committed, and the driver that publishes it; a dead one is followed by another."""

    kind: dict[str, Any]
    random: Random
    committed: list[list[tuple[Any, ...]]] = field(default_factory=list)
    published: int = 0
    driver: Driver | None = None
    zombie: Driver | None = None
    done: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        """Begin."""
        schema = CHANGES if "changes" in self.kind else SCHEMA
        self.disk = Disk(Wanted(rows=12, keep_ms=KEEP_MS, **self.kind), schema)

    def expected(self, last: int) -> list[tuple[Any, ...]]:
        """What readers see of the first timesteps."""
        given = [row for timestep in self.committed[:last] for row in timestep]
        keys = len(self.kind.get("keys", ()))
        if not keys:
            return sorted(row[:2] for row in given)
        table: dict[Any, tuple[Any, ...]] = {}
        for row in given:
            table[row[:keys]] = row[:2]
            if "changes" in self.kind and row[2] == "delete":
                del table[row[:keys]]
        return sorted(table.values())

    def do(self, act: Callable[[Driver], object]) -> None:
        """Have a driver do something, or die over it."""
        try:
            if self.driver is None:
                self.driver = self.disk.driver(iter(lambda: fault(self.random), self))
            act(self.driver)
        except Crash:
            self.driver = None
            self.done["crash"] += 1
        except StorageError:
            pass
        self.check()

    def restart(self) -> None:
        """Have another driver go on; the journal may not know of the last publication. The first one lives on."""
        if self.driver is not None:
            self.zombie, self.driver = self.driver, None
            self.published = max(0, self.published - 1)

    def publish_owed(self, driver: Driver) -> None:
        """Publish what the journal has committed, as far as it does not know it to be published."""
        for timestep in range(self.published, len(self.committed)):
            given = [row if "changes" in self.kind else row[:2] for row in self.committed[timestep]]
            driver.publish(timestep, *given, schema=self.disk.schema)
            self.published = timestep + 1

    def haunt(self, zombie: Driver) -> None:
        """Have a driver that was replaced do what it can."""
        zombie.compaction.step()
        row = (1, 1, "insert")[: len(self.disk.schema)]
        zombie.publish(len(self.committed), row, schema=self.disk.schema)

    def check(self) -> None:
        """A reader sees what was committed up to the timestep that the manifest says."""
        if self.disk.versions():
            output = self.disk.read()
            last = -1 if output.timestep is None else output.timestep
            rest = self.committed[last + 1 : self.published]
            assert not any(rest)
            assert self.disk.rows() == self.expected(last + 1)


@pytest.mark.parametrize("kind", KINDS)
def test_readers_see_each_committed_row_once_whatever_happens(kind, thorough, monkeypatch):
    monkeypatch.setattr(compacting, "PAGE_FILES", 2)
    monkeypatch.setattr(merging, "FAN_IN", 2)
    done: Counter[str] = Counter()
    for seed in range(400 if thorough else 3):
        done += story(KINDS[kind], Random(f"{kind} {seed}"))
    assert min(done[name] for name in (*ACTIONS, "crash", "haunted", "kept")) > 0, done


def story(kind: dict[str, Any], random: Random) -> Counter[str]:
    """Let so much happen, and compare. Returns what did happen how often."""
    job, done = Job(kind, random), Counter[str]()
    taken: list[tuple[float, Output, list[tuple[Any, ...]]]] = []
    for what in random.choices(list(ACTIONS), list(ACTIONS.values()), k=LENGTH):
        done[what] += 1
        if what == "publish":
            job.committed.append(some_rows(random))
            job.do(job.publish_owed)
        elif what == "compact":
            job.do(lambda driver: driver.compact(2))
        elif what == "tidy":
            job.do(lambda driver: driver.compaction.tidy())
        elif what == "sweep":
            job.do(lambda driver: driver.compaction.sweep())
        elif what == "wait":
            job.disk.now_ms += KEEP_MS / 2
        elif what == "take" and job.disk.versions():
            taken.append((job.disk.now_ms, job.disk.read(), job.disk.rows()))
        elif what == "restart":
            job.restart()
        elif what == "zombie" and job.zombie is not None and job.driver is not None:
            with pytest.raises((FencedError, Crash, StorageError)):
                job.haunt(job.zombie)
            done["haunted"] += 1
            job.zombie = None
            job.check()
        for at_ms, output, seen in taken:
            if job.disk.now_ms < at_ms + KEEP_MS:
                assert sorted(zip(*output.table().to_pydict().values(), strict=True)) == seen
                done["kept"] += 1
    finish(job)
    return done + job.done


def finish(job: Job) -> None:
    """Publish everything without faults, and tidy up: nothing is left that no version needs."""
    driver = job.disk.driver()
    job.publish_owed(driver)
    driver.compact()
    job.check()
    assert job.disk.rows() == job.expected(len(job.committed))
    driver.compaction.sweep()
    job.disk.now_ms += 3 * KEEP_MS
    driver.compaction.tidy()
    driver.compaction.tidy()
    assert job.disk.litter() == set()
    assert job.disk.rows() == job.expected(len(job.committed))
