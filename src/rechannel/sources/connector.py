"""What a source is to everything else: a value that describes itself and opens its reader.

A new source is a subclass of `Connector` and a reader (`SourceReader`). Nothing else lists them.
Connectors are part of the dataflow, which knows no Spark: a connector imports its reader when it is
opened, not before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

import pyarrow as pa

from rechannel.errors import RefusedError
from rechannel.sources.reader import SourceReader
from rechannel.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What the driver gives a source that it opens."""

    store: Store
    """Of the job; the source keeps its records under `sources/<name>/`."""
    name: str
    """Of the source."""
    spark: SparkSession | None = None
    """None if no JVM is needed."""
    aside: Executor | None = None
    """Runs work that timesteps do not wait for; None for a thread of the reader."""


class Connector(ABC):
    """A source as a value. Making one reads nothing."""

    rereadable: ClassVar[bool] = False
    """Whether it may be read from its beginning at any time, so that a restart may change its
    place.
    """

    if TYPE_CHECKING:  # a property at run time would be the default of a dataclass's field

        @property
        def schema(self) -> pa.Schema | None:
            """Columns; None if only a reader knows them."""

    @property
    def endless(self) -> str | None:
        """Why no batch run can read it to its end, as the rest of a sentence about it; None if one
        can.
        """
        return None

    @property
    def user_functions(self) -> tuple[object, ...]:
        """What the user wrote and workers run: it has to be serialisable."""
        return ()

    @abstractmethod
    def describe(self) -> str:
        """Return one short line for pictures and messages: kind and place."""

    @abstractmethod
    def open(self, context: SourceContext) -> SourceReader:
        """Open it for one driver. Raises SourceError, SessionError, DataflowError."""

    def beginning_at(self, to: object) -> Self:
        """Return the source as it is when a new stream of it begins elsewhere.

        to: None = where it says. Raises RefusedError for what it cannot begin at.
        """
        if to is not None:
            msg = f"{self.describe()} cannot begin at {to}: it can be reset to where a new job begins only"
            raise RefusedError(msg)
        return self

    def unbounded(self) -> Self:
        """Return the source without its own bounds of a timestep."""
        return self
