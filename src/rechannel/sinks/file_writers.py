"""From a file sink as a value to its writer: on local disks, or wherever Hadoop's clients reach."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.sinks.files import FileWriter, Folder
from rechannel.sinks.local import LocalFolder, arrow_writer, try_columns
from rechannel.sinks.outlet import SinkContext
from rechannel.sinks.spark import HOLD_ALL, HadoopFolder, spark_trial, spark_writer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rechannel.sinks.outlets import FileOutlet

_SCHEME = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]+):(//[^/]*)?(?=/|$)")


def file_writer(outlet: FileOutlet, context: SinkContext) -> FileWriter:
    """Return the writer of a file sink: to where its path says, with Spark if there is a session.

    Raises DataflowError if only Spark can write there and there is no session.
    """
    spark, schema = context.spark, context.schema
    found = _SCHEME.match(outlet.path)
    root, folder = outlet.path.rstrip("/"), _local(context.sync)
    if found is None or found["scheme"] == "file":
        root = str(Path(_SCHEME.sub("", outlet.path, count=1)).absolute())
    elif spark is not None:
        folder = HadoopFolder(spark)
    else:
        msg = f"{outlet.path} needs a Spark session; without one, files are written to local paths"
        raise DataflowError(msg)
    writer = arrow_writer if spark is None else spark_writer
    write = writer(outlet.format, outlet.options, outlet.partitions, outlet.size)
    return FileWriter(
        root=root,
        owner=f"{context.job}.{context.name}",
        token=context.token,
        folder=folder,
        write=write,
        ledger=context.ledger,
        column=outlet.column,
        trial=None if schema is None else _trial(context.label, outlet, schema, spark),
    )


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
