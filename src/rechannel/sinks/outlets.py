"""Sinks as values. Making one writes nothing; the writers in this package do."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rechannel.errors import DataflowError
from rechannel.sinks.batch import Batch
from rechannel.sinks.openfiles import FileSize
from rechannel.sinks.outlet import Outlet, SinkContext
from rechannel.sinks.writer import SinkWriter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

BatchWriter = Callable[["DataFrame", int], Any] | Callable[["DataFrame", int, Batch], Any]
"""(finished rows of a timestep, its number, its `Batch` if wanted) -> anything. Called at least
once per timestep.
"""


SINCE_START = "what was committed since this driver started"


@dataclass(frozen=True, eq=False, kw_only=True)
class FileOutlet(Outlet):
    """Files of a format that Spark writes. A timestep appears whole or not at all."""

    format: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    """Columns whose values become directories in that of the timestep, and which are not in the
    files.
    """
    size: FileSize = field(default_factory=FileSize)
    """Of files."""
    column: str = "timestep"
    """The name under which readers see the timestep; its directories are `<column>=<number>`."""

    def __post_init__(self) -> None:
        """Check format, path and column. Raises DataflowError."""
        object.__setattr__(self, "options", dict(self.options))
        if not self.path or not self.format:
            msg = "a file sink needs a format and a path"
            raise DataflowError(msg)
        if not _COLUMN.fullmatch(self.column):
            msg = f"timesteps_as: {self.column!r} cannot name a directory: use letters, digits and '_'"
            raise DataflowError(msg)

    @property
    def guarantee(self) -> str:
        """Return "exactly once"."""
        return "exactly once"

    def describe(self) -> str:
        """Return format, path and partitions."""
        where = f" by {', '.join(self.partitions)}" if self.partitions else ""
        called = "" if self.column == "timestep" else f", timesteps as {self.column}"
        return f"{self.format} {self.path}{where}{called}"

    @property
    def place(self) -> str:
        """Return the path, which identifies the sink's place."""
        return self.path.rstrip("/")

    def open(self, context: SinkContext) -> SinkWriter:
        """Open it: with Spark's writers if there is a session, otherwise with Arrow's."""
        from rechannel.sinks.file_writers import file_writer

        return file_writer(self, context)


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryOutlet(Outlet):
    """A table in the driver's memory, by name."""

    name: str

    @property
    def guarantee(self) -> str:
        """Return what it holds."""
        return SINCE_START

    def describe(self) -> str:
        """Return kind and name of the table."""
        return f"memory {self.name}"

    @property
    def place(self) -> str:
        """The name of the table."""
        return f"memory {self.name}"

    def open(self, context: SinkContext) -> SinkWriter:
        """Open the writer."""
        del context
        from rechannel.sinks.memory import MemoryWriter

        return MemoryWriter(self.name)


@dataclass(frozen=True, eq=False, kw_only=True)
class ConsoleOutlet(Outlet):
    """The first rows of every timestep on the driver's standard output."""

    rows: int = 20

    def __post_init__(self) -> None:
        """Check the number."""
        if self.rows < 1:
            msg = f"rows must be at least 1, not {self.rows}"
            raise DataflowError(msg)

    @property
    def guarantee(self) -> str:
        """Return what it shows."""
        return SINCE_START

    def describe(self) -> str:
        """Return kind and number of rows."""
        return f"console, {self.rows} rows"

    def open(self, context: SinkContext) -> SinkWriter:
        """Open it on standard output."""
        from rechannel.sinks.console import console_writer

        return console_writer(context.label, self.rows)


@dataclass(frozen=True, eq=False, kw_only=True)
class ForEachBatchOutlet(Outlet):
    """A function of a timestep's finished DataFrame and number, called at least once for each.

    If it takes three arguments, it receives the `Batch` as well.
    """

    function: BatchWriter
    shows_at_once: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Check that the function is callable. Raises DataflowError."""
        if not callable(self.function):
            msg = "for_each_batch needs a function (df, timestep) or (df, timestep, batch)"
            raise DataflowError(msg)

    def describe(self) -> str:
        """Return the name of the function."""
        return f"for each batch {getattr(self.function, '__name__', '')}".rstrip()

    def open(self, context: SinkContext) -> SinkWriter:
        """Open the writer."""
        from rechannel.sinks.handover import ForEachBatchWriter

        return ForEachBatchWriter(context.label, self.function)


@dataclass(frozen=True, eq=False, kw_only=True)
class NoopOutlet(Outlet):
    """Rows are computed and dropped: for measuring."""

    drops_rows: ClassVar[bool] = True

    @property
    def guarantee(self) -> str:
        """Return that there are no readers."""
        return "none: rows are dropped"

    def describe(self) -> str:
        """Return "noop"."""
        return "noop"

    def open(self, context: SinkContext) -> SinkWriter:
        """Open the writer."""
        del context
        from rechannel.sinks.handover import NoopWriter

        return NoopWriter()


def same_outlet(one: object, two: object) -> bool:
    """Return whether two outlets are equal in all fields, so that the writer of one serves the
    other.
    """
    if type(one) is not type(two):
        return False
    named = [each.name for each in fields(one)] if is_dataclass(one) else []
    return all(getattr(one, name) == getattr(two, name) for name in named)
