"""Files on a local (or mounted) file system, and their writing without Spark."""
# ruff: noqa: PTH104, PTH123, PTH208

from __future__ import annotations

import base64
import datetime as dt
import decimal
import errno
import json
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from rechannel.errors import DataflowError, StorageError
from rechannel.sinks.files import WriteRows, missing
from rechannel.sinks.partitioned import parts_of
from rechannel.sinks.writer import Rows

_EXISTS = (errno.EEXIST, errno.ENOTEMPTY)


@dataclass(frozen=True, slots=True)
class LocalFolder:
    """A `Folder` on the local file system.

    sync: whether what was settled survives the loss of power, not only of the process.
    """

    sync: bool = True

    def names(self, path: str) -> list[str]:
        """See `Folder.names`."""
        with storing("list", path):
            try:
                return sorted(os.listdir(path))
            except FileNotFoundError:
                return []

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
    """What the file system refuses becomes a StorageError that says where and how much is free."""
    try:
        yield
    except OSError as error:
        msg = (
            f"cannot {verb} {path}: {error.strerror or error}. {_free_space(path)}The timestep is"
            " not published: free space or correct the permissions, and start again"
        )
        raise StorageError(msg) from error


def _free_space(path: str) -> str:
    for place in (Path(path), *Path(path).parents):
        if place.exists():
            return f"{shutil.disk_usage(place).free / 2**20:,.0f} MiB are free there. "
    return ""


class _BatchFile(Protocol):
    """An open file that takes batches."""

    def write_batch(self, batch: pa.RecordBatch) -> None: ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *args: object) -> None: ...


def arrow_writer(
    format: str,  # noqa: A002 - Spark's word
    options: Mapping[str, str],
    partitions: Sequence[str] = (),
) -> WriteRows:
    """What writes rows as one file (one per partition) without Spark: parquet, json or csv.

    partitions: columns that are directories.
    Raises DataflowError for other formats, and for options that only Spark's writer knows.
    """
    kinds: dict[str, tuple[str, set[str], Callable[..., Any]]] = {
        "parquet": ("parquet", {"compression"}, pq.ParquetWriter),
        "csv": ("csv", {"header"}, _csv_file),
        "json": ("json", set(), _JsonLines),
    }
    if format not in kinds:
        msg = f"files of format {format!r} are written by Spark only; without it use {list(kinds)}"
        raise DataflowError(msg)
    suffix, known, open_file = kinds[format]
    unknown = sorted(options.keys() - known)
    if unknown:
        msg = f"without Spark, the {format} option {unknown[0]!r} is not known; leave it out"
        raise DataflowError(msg)

    def write(rows: Rows, path: str) -> int:
        own = [field for field in rows.schema if field.name not in partitions]
        return _write(
            rows,
            path,
            partitions,
            f"part-00000.{suffix}",
            lambda f: open_file(f, pa.schema(own), **options),
        )

    return write


def _write(
    rows: Rows,
    path: str,
    partitions: Sequence[str],
    name: str,
    open_file: Callable[[str], _BatchFile],
) -> int:
    written, files = 0, dict[str, _BatchFile]()
    with storing("write", path), ExitStack() as stack:
        for batch in rows.batches():
            parts = parts_of(batch, partitions) if partitions else [("", batch)]
            for where, part in parts:
                if where not in files:
                    folder = Path(path, where)
                    folder.mkdir(parents=True)
                    files[where] = stack.enter_context(open_file(f"{folder}/{name}"))
                files[where].write_batch(part)
            written += batch.num_rows
    return written


def _csv_file(file: str, schema: pa.Schema, header: str = "false") -> Any:
    options = pa_csv.WriteOptions(include_header=header.lower() == "true", quoting_style="needed")
    try:
        return pa_csv.CSVWriter(file, schema, write_options=options)
    except pa.ArrowException as error:
        msg = f"csv cannot hold these columns: {error}; write json or parquet"
        raise DataflowError(msg) from error


class _JsonLines:
    """One JSON object per row and line, with Spark's habits: nulls are left out."""

    def __init__(self, file: str, schema: pa.Schema) -> None:
        self._kind = pa.struct(list(schema))
        self._file = open(file, "w", encoding="utf-8")  # noqa: SIM115 - closed by `__exit__`

    def write_batch(self, batch: pa.RecordBatch) -> None:
        for row in batch.to_pylist():
            self._file.write(f"{json.dumps(_said(row, self._kind), ensure_ascii=False)}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *args: object) -> None:
        self._file.close()


def _said(value: Any, kind: pa.DataType) -> Any:
    """A value of a type as Spark's JSON writer says it."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        fields = (kind.field(i) for i in range(kind.num_fields))
        said = {field.name: _said(value[field.name], field.type) for field in fields}
        return {name: part for name, part in said.items() if part is not None}
    if pa.types.is_map(kind):
        return {str(key): _said(part, kind.item_type) for key, part in value}
    if pa.types.is_list(kind):
        return [_said(part, kind.value_type) for part in value]
    return _said_plainly(value)


def _said_plainly(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, decimal.Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, dt.datetime):
        text = value.isoformat(timespec="milliseconds" if value.microsecond % 1000 == 0 else "auto")
        return text.replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, dt.date) else value
