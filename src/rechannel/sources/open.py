"""From connectors to readers."""

from __future__ import annotations

from concurrent.futures import Executor
from typing import TYPE_CHECKING, Protocol

from rechannel.errors import DataflowError
from rechannel.sources.connectors import (
    FilesConnector,
    GeneratorConnector,
    MemoryConnector,
    PythonConnector,
)
from rechannel.sources.files import FilesReader
from rechannel.sources.finite import FiniteConnector, FiniteReader
from rechannel.sources.frame import HandoverConnector, HandoverReader
from rechannel.sources.generator import GeneratorReader
from rechannel.sources.memory import MemoryReader
from rechannel.sources.reader import SourceReader
from rechannel.sources.table import TableConnector, TableReader
from rechannel.state.store import Store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Described(Protocol):
    """A connector of any package."""

    def describe(self) -> str:
        """Return one short line for messages."""


def open_source(
    connector: Described,
    *,
    store: Store,
    name: str,
    spark: SparkSession | None = None,
    aside: Executor | None = None,
) -> SourceReader:
    """Open a source for one driver.

    store: of the job; the source keeps its records under `sources/<name>/`. spark: None if no JVM
    is needed. aside: runs work that timesteps do not wait for; None for a thread. Raises
    SourceError, SessionError, DataflowError.
    """
    if isinstance(connector, FiniteConnector):
        inner = open_source(connector.inner, store=store, name=name, spark=spark, aside=aside)
        return FiniteReader(inner, name)
    if isinstance(connector, FilesConnector):
        return FilesReader(connector, store=store, name=name, spark=spark)
    if isinstance(connector, GeneratorConnector):
        return GeneratorReader(connector)
    if isinstance(connector, MemoryConnector):
        return MemoryReader(connector)
    if isinstance(connector, HandoverConnector):
        return HandoverReader(connector, in_process=spark is None)
    if isinstance(connector, TableConnector):
        return TableReader(connector, store=store, name=name, aside=aside)
    if isinstance(connector, PythonConnector):
        from rechannel.sources.python import PythonReader

        return PythonReader(connector)
    msg = (
        f"source {name!r}: there is no reader for {connector.describe()!r}"
        f" ({type(connector).__name__}); use a connector of rechannel.sources.connectors"
    )
    raise DataflowError(msg)
