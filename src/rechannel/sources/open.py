"""From what a source is to what reads it."""

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
    """A connector, whatever room it comes from."""

    def describe(self) -> str:
        """One short line for messages."""


def open_source(
    connector: Described,
    *,
    store: Store,
    name: str,
    spark: SparkSession | None = None,
    aside: Executor | None = None,
) -> SourceReader:
    """Open a source for one driver.

    store: of the job; the source keeps what it has to remember under `sources/<name>/`.
    spark: None = only what needs no JVM. aside: where that is done which timesteps do not wait for; None = in a thread.
    Raises SourceError, SessionError, DataflowError.
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
        f"source {name!r}: no reader is known for {connector.describe()!r}"
        f" ({type(connector).__name__}); use a connector of rechannel.sources.connectors"
    )
    raise DataflowError(msg)
