"""A dataset against a list and a dict, while drivers die and replace each other, and readers keep a version."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

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

rows = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 9), st.sampled_from(WORDS)),
    max_size=5,
    unique_by=lambda r: r[0],
)
faults = st.one_of(
    st.none(),
    st.builds(
        Fault,
        kind=st.sampled_from([FaultKind.BEFORE, FaultKind.AFTER, FaultKind.TORN, FaultKind.FULL]),
    ),
    st.builds(Outage, calls=st.integers(1, 3), written=st.booleans()),
)
action = st.one_of(
    st.tuples(st.just("publish"), rows),
    st.tuples(
        st.sampled_from(["compact", "tidy", "wait", "restart", "zombie", "sweep", "take"]),
        st.none(),
    ),
)


@dataclass
class Job:
    """What the journal has committed, and the driver that publishes it; a dead one is followed by another."""

    kind: dict[str, Any]
    script: list[Any]
    committed: list[list[tuple[Any, ...]]] = field(default_factory=list)
    published: int = 0
    driver: Driver | None = None
    zombie: Driver | None = None

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
                self.driver = self.disk.driver(self._faults())
            act(self.driver)
        except Crash:
            self.driver = None
        except StorageError:
            pass
        self.check()

    def _faults(self) -> list[Any]:
        taken, self.script = self.script[:12], self.script[12:]
        return taken

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
@given(actions=st.lists(action, max_size=25), script=st.lists(faults, max_size=40))
def test_readers_see_each_committed_row_once_whatever_happens(kind, actions, script):
    with patch.object(compacting, "PAGE_FILES", 2), patch.object(merging, "FAN_IN", 2):
        job = Job(KINDS[kind], script)
        taken: list[tuple[float, Output, list[tuple[Any, ...]]]] = []
        for what, given in actions:
            if what == "publish":
                job.committed.append(given or [])
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
                job.zombie, job.driver = job.driver, None
                job.published = max(
                    0, job.published - 1
                )  # the journal may not know of the last one
            elif what == "zombie" and job.zombie is not None and job.driver is not None:
                with pytest.raises((FencedError, Crash, StorageError)):
                    job.haunt(job.zombie)
                job.zombie = None
                job.check()
            for at_ms, output, seen in taken:
                if job.disk.now_ms < at_ms + KEEP_MS:
                    assert sorted(zip(*output.table().to_pydict().values(), strict=True)) == seen
        finish(job)


def finish(job: Job) -> None:
    """Publish everything without faults, and tidy up: nothing is left that no version needs."""
    job.script, job.driver = [], None
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
