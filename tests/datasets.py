"""Drivers of a dataset, one after the other, over one store: without a job, a clock or threads."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pyarrow as pa

from rechannel.sinks.claims import Ledger
from rechannel.sinks.dataset.compacting import Compaction
from rechannel.sinks.dataset.place import DatasetPlace
from rechannel.sinks.dataset.reading import Output, output_of
from rechannel.sinks.dataset.versions import BOOKS, VERSIONS, files_of
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.sinks.marked import MarkedWriter
from rechannel.sinks.marks import Holder
from rechannel.sinks.outlet import SinkContext
from rechannel.state.store import Store
from rechannel.state.stores.faulty import Fault, FaultyStore, Outage
from rechannel.state.stores.memory import MemoryStore
from tests.publishing import SCHEMA, publish, step

KEEP_MS = 1_000


@dataclass
class Disk:
    """What outlives every driver."""

    wanted: Wanted = field(default_factory=lambda: Wanted(target=1 << 12, keep_ms=KEEP_MS))
    schema: pa.Schema = SCHEMA
    store: Store = field(default_factory=MemoryStore)
    now_ms: float = 1_000.0
    committed: int = 100
    """The last timestep that the journal has committed."""
    _epochs: count[int] = field(default_factory=lambda: count(1))

    def driver(self, faults: Iterable[Fault | Outage | None] = (), **ledger: Any) -> Driver:
        """A driver that has taken over."""
        epoch = next(self._epochs)
        known = Ledger(
            **{"opening": f"id{epoch}", "epoch": epoch, "committed": self.committed, **ledger}
        )
        driver = Driver(self, FaultyStore(self.store, faults), known)
        driver.writer.begin()
        return driver

    def read(self, **more: Any) -> Output:
        """What a reader takes now."""
        return output_of(self.store, "disk", **more)

    def rows(self) -> list[tuple[Any, ...]]:
        """What a reader sees, sorted."""
        return sorted(zip(*self.read().table().to_pydict().values(), strict=True))

    def litter(self) -> set[str]:
        """Keys that the newest version does not name."""
        output = self.read()
        named = {each.key for each in files_of(self.store, output.manifest)}
        pages = {each.key for each in output.manifest.pages}
        there = {key for key in self.store.list("") if not key.startswith(VERSIONS)}
        assert named <= there
        assert pages <= there
        return there - named - pages

    def versions(self) -> list[str]:
        """Keys of versions."""
        return [key for key in self.store.list(BOOKS) if key.startswith(VERSIONS)]


class Driver:
    """One process that publishes, and takes steps of compaction when it is told to."""

    def __init__(self, disk: Disk, store: Store, known: Ledger) -> None:
        self.disk = disk
        self.holder = Holder(
            where="dataset disk", name="rechannel-job-out", elsewhere="x", stays="y"
        )
        self.place = DatasetPlace(
            wanted=disk.wanted,
            store=store,
            holder=self.holder,
            token=f"t{known.epoch}",
            ledger=lambda: known,
            schema=disk.schema,
            clock=lambda: disk.now_ms,
            threaded=False,
        )
        self.writer = MarkedWriter(
            self.place, self.holder, SinkContext(job="job", ledger=lambda: known)
        )

    @property
    def compaction(self) -> Compaction:
        assert self.place.compaction is not None
        return self.place.compaction

    def publish(
        self, timestep: int, *rows: tuple[Any, ...], digest: str = "d", **more: Any
    ) -> None:
        """Publish one timestep."""
        publish(self.writer, timestep, *rows, digest=digest, **more)

    def shows(self, timestep: int) -> bool:
        """Whether readers may see it already, as the writer answers the driver."""
        return self.writer.shows(step(timestep))

    def compact(self, most: int = 100) -> int:
        """Take the steps that are due. Returns how many."""
        taken = 0
        while taken < most and self.compaction.step():
            taken += 1
        return taken
