"""What sinks are, as values. Making one writes nothing; the writers of this room know how."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from rechannel.errors import DataflowError
from rechannel.sinks.batch import Batch

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_COLUMN = re.compile(r"[A-Za-z][A-Za-z0-9_]*")

BatchWriter = Callable[["DataFrame", int], Any] | Callable[["DataFrame", int, Batch], Any]
"""(finished rows of a timestep, its number, its `Batch` if wanted) -> anything. Called at least once per timestep."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FileOutlet:
    """Files of a format that Spark writes. A timestep appears whole or not at all.

    partitions: columns whose values are directories below that of the timestep, and not in the files. column: what
    readers call the timestep, whose directories are `<column>=<number>`.
    """

    format: str
    path: str
    options: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    column: str = "timestep"

    def __post_init__(self) -> None:
        """Check that the place is named."""
        object.__setattr__(self, "options", dict(self.options))
        if not self.path or not self.format:
            msg = "a file sink needs a format and a path"
            raise DataflowError(msg)
        if not _COLUMN.fullmatch(self.column):
            msg = f"timesteps_as: {self.column!r} is no name for directories: use letters, digits and '_'"
            raise DataflowError(msg)

    def describe(self) -> str:
        """Format, path and partitions."""
        where = f" by {', '.join(self.partitions)}" if self.partitions else ""
        called = "" if self.column == "timestep" else f", timesteps as {self.column}"
        return f"{self.format} {self.path}{where}{called}"


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryOutlet:
    """A table in the driver's memory, by name."""

    name: str

    def describe(self) -> str:
        """Kind and name of the table."""
        return f"memory {self.name}"


@dataclass(frozen=True, eq=False, kw_only=True)
class ConsoleOutlet:
    """The first rows of every timestep on the driver's standard output."""

    rows: int = 20

    def __post_init__(self) -> None:
        """Check the number."""
        if self.rows < 1:
            msg = f"rows must be at least 1, not {self.rows}"
            raise DataflowError(msg)

    def describe(self) -> str:
        """Kind and number of rows."""
        return f"console, {self.rows} rows"


@dataclass(frozen=True, eq=False, kw_only=True)
class ForEachBatchOutlet:
    """A function of a timestep's finished DataFrame and number, called at least once for each.

    One that takes three arguments gets the `Batch` as well.
    """

    function: BatchWriter
    shows_at_once: ClassVar[bool] = True
    """Who looks sees the rows as soon as it is called: before the commit where that comes later."""

    def __post_init__(self) -> None:
        """Check that it can be called."""
        if not callable(self.function):
            msg = "for_each_batch needs a function (df, timestep) or (df, timestep, batch)"
            raise DataflowError(msg)

    def describe(self) -> str:
        """Name of the function."""
        return f"for each batch {getattr(self.function, '__name__', '')}".rstrip()


@dataclass(frozen=True, eq=False, kw_only=True)
class NoopOutlet:
    """Rows are made and thrown away: for measuring."""

    def describe(self) -> str:
        """One word."""
        return "noop"


def same_outlet(one: object, two: object) -> bool:
    """Whether what one outlet has open serves the other: they agree in all that they say."""
    if type(one) is not type(two):
        return False
    named = [each.name for each in fields(one)] if is_dataclass(one) else []
    return all(getattr(one, name) == getattr(two, name) for name in named)
