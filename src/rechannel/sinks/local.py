"""Files on a local (or mounted) file system, and their writing without Spark."""
# ruff: noqa: PTH104, PTH208

from __future__ import annotations

import errno
import io
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from rechannel.errors import DataflowError
from rechannel.sinks.files import WriteRows, missing
from rechannel.sinks.jsonlines import JsonLines
from rechannel.sinks.openfiles import ANY_SIZE, BatchFile, FileSize, OpenFiles
from rechannel.sinks.partitioned import parts_of
from rechannel.sinks.writer import Rows
from rechannel.state.stores.refusals import refusal

_EXISTS = (errno.EEXIST, errno.ENOTEMPTY)


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A `Folder` on the local file system."""

    sync: bool = True
    """Whether settled files survive a power failure, not only the death of the process."""

    def names(self, path: str) -> list[str]:
        """See `Folder.names`."""
        with storing("list", path):
            try:
                return sorted(os.listdir(path))
            except FileNotFoundError:
                return []

    def exists(self, path: str) -> bool:
        """See `Folder.exists`."""
        with storing("look at", path):
            return Path(path).is_dir()

    def make(self, path: str) -> None:
        """See `Folder.make`."""
        with storing("make", path):
            Path(path).mkdir(parents=True, exist_ok=True)

    def rename(self, source: str, target: str) -> bool:
        """See `Folder.rename`."""
        with storing("publish", target):
            try:
                os.rename(source, target)
            except FileNotFoundError:
                if not Path(target).is_dir():
                    raise missing(source) from None
                return False
            except OSError as error:
                if error.errno not in _EXISTS:
                    raise
                return False
            self._sync(str(Path(target).parent))
            return True

    def remove(self, path: str) -> None:
        """See `Folder.remove`."""
        with storing("remove", path):
            try:
                shutil.rmtree(path)
            except FileNotFoundError:
                return

    def settle(self, path: str) -> None:
        """See `Folder.settle`."""
        if not self.sync:
            return
        with storing("write", path):
            for folder, _, names in os.walk(path):
                for name in names:
                    self._sync(f"{folder}/{name}")
                self._sync(folder)
            self._sync(str(Path(path).parent))

    def _sync(self, path: str) -> None:
        if self.sync:
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)


@contextmanager
def storing(verb: str, path: str) -> Iterator[None]:
    """Turn OSError into StorageError with the place and the free space."""
    try:
        yield
    except OSError as error:
        raise refusal(verb, path, error, "The timestep is not published.") from error


def arrow_writer(
    format: str,  # noqa: A002 - Spark's word
    options: Mapping[str, str],
    partitions: Sequence[str] = (),
    size: FileSize = ANY_SIZE,
) -> WriteRows:
    """Return a function that writes rows as one file (one per partition) without Spark: parquet,
    json or csv.

    partitions: columns that become directories. size: of files. Raises DataflowError for other formats, and for
    options that only Spark's writer knows.
    """
    kinds: dict[str, tuple[str, set[str], Callable[..., Any]]] = {
        "parquet": ("parquet", {"compression"}, pq.ParquetWriter),
        "csv": ("csv", {"header"}, _csv_file),
        "json": ("json", set(), JsonLines),
    }
    if format not in kinds:
        msg = (
            f"only Spark can write files of format {format!r}; without it use one of {list(kinds)}"
        )
        raise DataflowError(msg)
    suffix, known, open_file = kinds[format]
    unknown = sorted(options.keys() - known)
    if unknown:
        msg = f"without Spark, the {format} option {unknown[0]!r} is not supported; leave it out"
        raise DataflowError(msg)

    def write(rows: Rows, path: str) -> int:
        own = [field for field in rows.schema if field.name not in partitions]
        return _write(
            rows,
            path,
            partitions,
            f"part-{{:05d}}.{suffix}",
            lambda f: open_file(f, pa.schema(own), **options),
            size,
        )

    return write


def try_columns(
    format: str,  # noqa: A002 - Spark's word
    schema: pa.Schema,
    partitions: Sequence[str] = (),
) -> None:
    """Raise DataflowError if a format cannot hold these columns. Nothing is written."""
    own = pa.schema([field for field in schema if field.name not in partitions])
    if format == "csv":
        _csv_file(io.BytesIO(), own)


def _write(
    rows: Rows,
    path: str,
    partitions: Sequence[str],
    name: str,
    open_file: Callable[[str], BatchFile],
    size: FileSize,
) -> int:
    written = 0
    with storing("write", path), OpenFiles(path, name, open_file, size=size) as files:
        for batch in rows.batches():
            parts = parts_of(batch, partitions) if partitions else [("", batch)]
            for where, part in parts:
                files.write(where, part)
            written += batch.num_rows
    return written


def _csv_file(file: str | io.BytesIO, schema: pa.Schema, header: str = "false") -> Any:
    options = pa_csv.WriteOptions(include_header=header.lower() == "true", quoting_style="needed")
    try:
        return pa_csv.CSVWriter(file, schema, write_options=options)
    except pa.ArrowException as error:
        msg = f"csv cannot hold these columns: {error}; write json or parquet"
        raise DataflowError(msg) from error
