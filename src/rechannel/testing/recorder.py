"""Stands in for a sink: keeps what was published, by timestep, across the deaths of drivers."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa

from rechannel.errors import StorageError
from rechannel.sinks.batch import Batch
from rechannel.sinks.writer import Rows, Staged


@dataclass
class Recorder:
    """A place outside of all drivers. It holds every timestep once, however often it is published.

    durable: whether it promises what file sinks do (the journal follows it) or what memory sinks do.
    published: rows by timestep. again: how often a timestep was published that was there already.
    staged: how often rows were staged.
    """

    durable: bool = True
    published: dict[int, pa.Table] = field(default_factory=dict)
    again: int = 0
    staged: int = 0
    _staged: dict[int, pa.Table] = field(default_factory=dict)

    def begin(self) -> None:
        """No driver leaves a word here."""

    def stage(self, rows: Rows, batch: Batch) -> Staged:
        """Keep the rows under a new number, as staging files have names of their own."""
        del batch
        self._staged[self.staged] = rows.table()
        self.staged += 1
        return {"number": self.staged - 1}

    def publish(self, staged: Staged, batch: Batch) -> None:
        """Show rows. Raises StorageError when a timestep comes again with other rows."""
        rows = self._staged[staged["number"]]
        known = self.published.setdefault(batch.timestep, rows)
        if known is rows:
            return
        self.again += 1
        if not _same(known, rows):
            msg = (
                f"timestep {batch.timestep} is published again, with other rows than the first time"
            )
            raise StorageError(msg)

    def forget(self) -> None:
        """Give up what was published so far, where a long run would fill the memory with it."""
        self.published.clear()
        self._staged.clear()

    def close(self) -> None:
        """Do nothing: the rows stay readable."""


def _same(one: pa.Table, other: pa.Table) -> bool:
    """Equal to the bit, with NaN equal to NaN."""
    return repr(one.to_pylist()) == repr(other.to_pylist())
