"""What a sink is to everything else: a value that describes itself and opens its writer.

A new sink is a subclass of `Outlet` and a writer (`SinkWriter`). Nothing else lists them. Outlets
are part of the dataflow, which knows no Spark: an outlet imports its writer when it is opened, not
before.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa

from rechannel.sinks.claims import Ledger
from rechannel.sinks.writer import SinkWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def new_token() -> str:
    """Return the token of a driver that opens a sink."""
    return secrets.token_hex(6)


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkContext:
    """What the driver gives a sink that it opens."""

    job: str
    """Identifies the job's state directory, for ever: numbers of timesteps mean something only
    together with it.
    """
    name: str = ""
    """Of the sink."""
    spark: SparkSession | None = None
    """None if no JVM is needed."""
    token: str = field(default_factory=new_token)
    """Of this driver, unlike every other's."""
    sync: bool = True
    """Whether local files survive a power failure."""
    ledger: Callable[[], Ledger] | None = None
    """Returns the journal's contents, which are compared with what is at a path."""
    schema: pa.Schema | None = None
    """Of the rows, to check whether the format can hold them; None to skip the check."""

    @property
    def label(self) -> str:
        """What people read: the sink's name, or the job's if it has none."""
        return self.name or self.job


class Outlet(ABC):
    """A sink as a value. Making one writes nothing."""

    shows_at_once: ClassVar[bool] = False
    """Whether readers may see a timestep's rows while they are staged, even before the commit."""
    keeps_rows: ClassVar[bool] = False
    """Whether it needs the rows of a timestep until they are published, so that it cannot be written directly from a
    source.
    """
    drops_rows: ClassVar[bool] = False
    """Whether no reader sees the rows, so that a stage need not produce them."""

    @property
    def guarantee(self) -> str:
        """How often readers see a timestep, in words: what `job.explain()` shows."""
        return "at least once, with the same rows under the same number"

    @property
    def place(self) -> str | None:
        """Where published rows stay: no other sink may write there, and the sink cannot go
        elsewhere under its name. None if the sink keeps nothing.
        """
        return None

    @property
    def home(self) -> str | None:
        """What of its place stays if its address changes: a path, a topic, a table. What a sink owes
        goes there alone. None if the sink keeps nothing.
        """
        return getattr(self, "path", None)

    @property
    def takes_newest(self) -> bool:
        """Whether it takes every row for the newest one of its key."""
        return False

    @property
    def partitions(self) -> tuple[str, ...]:
        """Columns whose values become directories."""
        return ()

    @property
    def column(self) -> str:
        """The name under which readers see the timestep; empty if they do not."""
        return ""

    @abstractmethod
    def describe(self) -> str:
        """Return one short line for pictures and messages: kind and place."""

    @abstractmethod
    def open(self, context: SinkContext) -> SinkWriter:
        """Open it for one driver.

        Raises RefusedError if a path holds the output of another job or history, DataflowError,
        StorageError.
        """
