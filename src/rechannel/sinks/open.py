"""From outlets to writers."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.sinks.claims import Ledger
from rechannel.sinks.console import ConsoleWriter
from rechannel.sinks.failure import OnFailure
from rechannel.sinks.files import FileWriter, Folder
from rechannel.sinks.handover import ForEachBatchWriter, NoopWriter
from rechannel.sinks.local import LocalFolder, arrow_writer, try_columns
from rechannel.sinks.memory import MemoryWriter
from rechannel.sinks.outlets import (
    ConsoleOutlet,
    FileOutlet,
    ForEachBatchOutlet,
    MemoryOutlet,
    NoopOutlet,
)
from rechannel.sinks.spare import WithDeadLetters
from rechannel.sinks.spark import HOLD_ALL, HadoopFolder, spark_trial, spark_writer
from rechannel.sinks.writer import SinkWriter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(?=/|$)")


class Described(Protocol):
    """An outlet of any package."""

    def describe(self) -> str:
        """Return one short line for messages."""


def open_sink(
    outlet: Described,
    *,
    job: str,
    name: str = "",
    spark: SparkSession | None = None,
    token: str | None = None,
    sync: bool = True,
    ledger: Callable[[], Ledger] | None = None,
    schema: pa.Schema | None = None,
) -> SinkWriter:
    """Open a sink for one driver.

    Args:
        outlet: the sink as a value.
        job: identifies the job's state directory, for ever: numbers of timesteps mean something
            only together with it.
        name: of the sink.
        spark: None if no JVM is needed.
        token: of this driver, unlike every other's; drawn if not given.
        sync: whether local files survive a power failure.
        ledger: returns the journal's contents, which are compared with what is at a path.
        schema: of the rows, to check whether the format can hold them; None to skip the check.

    Raises RefusedError if a path holds the output of another job or history, DataflowError,
    StorageError.
    """
    if isinstance(outlet, FileOutlet):
        write = _files(outlet, spark, sync)
        return write(
            owner=f"{job}.{name}",
            token=token or secrets.token_hex(6),
            ledger=ledger,
            trial=None if schema is None else _trial(name or job, outlet, schema, spark),
        )
    if isinstance(outlet, MemoryOutlet):
        return MemoryWriter(outlet.name)
    if isinstance(outlet, ConsoleOutlet):
        from rich.console import Console

        return ConsoleWriter(name or job, outlet.rows, Console())
    if isinstance(outlet, ForEachBatchOutlet):
        return ForEachBatchWriter(name or job, outlet.function)
    if isinstance(outlet, NoopOutlet):
        return NoopWriter()
    msg = (
        f"there is no writer for {outlet.describe()!r} ({type(outlet).__name__});"
        " use an outlet of rechannel.sinks.outlets"
    )
    raise DataflowError(msg)


def open_with_letters(  # noqa: PLR0913 - as `open_sink`
    outlet: Described,
    failure: OnFailure,
    *,
    job: str,
    name: str,
    spark: SparkSession | None = None,
    sync: bool = True,
    ledger: Callable[[], Ledger] | None = None,
    schema: pa.Schema | None = None,
    main: SinkWriter | None = None,
) -> SinkWriter:
    """Open a sink and, if its user chose them, its dead letters: Parquet, which holds what other
    formats cannot.

    main: the sink, if it is already open. Raises as `open_sink` does.
    """
    more: dict[str, Any] = {"spark": spark, "sync": sync, "ledger": ledger}
    main = main or open_sink(outlet, job=job, name=name, schema=schema, **more)
    if failure.path is None:
        return main
    dead = FileOutlet(format="parquet", path=failure.path)
    letters = open_sink(dead, job=job, name=f"{name}.dead_letters", **more)
    return WithDeadLetters(main=main, letters=letters, path=failure.path)


def _files(outlet: FileOutlet, spark: SparkSession | None, sync: bool) -> Callable[..., FileWriter]:
    """Return a constructor with place and format of the files; the caller gives the rest."""
    found = _SCHEME.match(outlet.path)
    root, folder = outlet.path.rstrip("/"), _local(sync)
    if found is None or found["scheme"] == "file":
        root = str(Path(_SCHEME.sub("", outlet.path, count=1)).absolute())
    elif spark is not None:
        folder = HadoopFolder(spark)
    else:
        msg = f"{outlet.path} needs a Spark session; without one, files are written to local paths"
        raise DataflowError(msg)
    writer = arrow_writer if spark is None else spark_writer
    write = writer(outlet.format, outlet.options, outlet.partitions)
    return partial(FileWriter, root=root, folder=folder, write=write, column=outlet.column)


def _trial(
    name: str, outlet: FileOutlet, schema: pa.Schema, spark: SparkSession | None
) -> Callable[[str], None] | None:
    """Return a function that tries, in a new directory, whether a sink can write its columns; None
    if not needed.
    """
    if spark is not None and outlet.format in HOLD_ALL:
        return None

    def trial(path: str) -> None:
        try:
            if spark is None:
                try_columns(outlet.format, schema, outlet.partitions)
            else:
                write = spark_trial(spark, outlet.format, outlet.options, outlet.partitions, schema)
                write(path)
        except DataflowError as error:
            msg = f"sink {name!r}: {error}"
            raise DataflowError(msg) from error

    return trial


def _local(sync: bool) -> Folder:
    return LocalFolder(sync)
