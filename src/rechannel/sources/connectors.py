"""What sources are, as values. Making one reads nothing; the readers of this room know how."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from rechannel.errors import DataflowError, SourceError
from rechannel.model.ddl import columns_text, schema_of
from rechannel.model.decoded import decoded_table
from rechannel.sources.declared import as_declared

_FORMATS = {
    "parquet": "parquet",
    "orc": "orc",
    "json": "json",
    "jsonl": "json",
    "ndjson": "json",
    "csv": "csv",
    "txt": "text",
    "text": "text",
    "avro": "avro",
    "xml": "xml",
}

_COMPRESSIONS = {".gz", ".bz2", ".zst", ".snappy", ".lz4", ".xz", ".deflate"}


def format_of(path: str) -> str | None:
    """The format that a file name's suffix says, or None."""
    suffixes = [s.lower() for s in PurePosixPath(path).suffixes]
    if len(suffixes) > 1 and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    return _FORMATS.get(suffixes[-1][1:]) if suffixes else None


def spark_options(options: Mapping[str, object]) -> dict[str, str]:
    """Options as Spark takes them: text. A plain dict, because connectors are sent to workers."""

    def text(value: object) -> str:
        return str(value).lower() if isinstance(value, bool) else str(value)

    return {name: text(value) for name, value in options.items()}


def _freeze(connector: object, columns: object, options: Mapping[str, object] | None) -> None:
    if columns is not None:
        object.__setattr__(connector, "schema", schema_of(columns))
    if options is not None:
        object.__setattr__(connector, "options", spark_options(options))


def _at_least_one(value: float | None, what: str) -> None:
    if value is not None and value < 1:
        msg = f"{what} must be at least 1, not {value}"
        raise DataflowError(msg)


OnDamage: TypeAlias = Literal["fail", "skip"]
"""What becomes of a timestep with a file that cannot be read: it fails, or the file is passed over."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FilesConnector:
    """Files that appear under a path, each read once.

    path: directory or glob. format: a format that Spark reads.
    schema: columns, as Arrow or DDL; None = as the first files say.
    per_timestep: at most so many new files in a timestep; None = all there are.
    options: of Spark's reader.
    on_damage: what becomes of a timestep with a file that is gone or damaged when it is picked up. skip: files that are
    passed over in any case, by path or by name.
    """

    path: str
    format: str
    schema: pa.Schema | None = None
    per_timestep: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    on_damage: OnDamage = "fail"
    skip: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Read the columns and check the bound."""
        object.__setattr__(self, "skip", tuple(self.skip))
        if self.on_damage not in {"fail", "skip"}:
            msg = f"files: on_damage is 'fail' or 'skip', not {self.on_damage!r}"
            raise DataflowError(msg)
        _freeze(self, self.schema, self.options)
        _at_least_one(self.per_timestep, "per_timestep (files)")

    def describe(self) -> str:
        """Format and path."""
        return f"{self.format} {self.path}"


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneratorConnector:
    """Rows as a function of their offset: the same rows whenever they are asked for.

    function: (start, stop) -> RecordBatch with stop - start rows, deterministic.
    rows_per_second: how fast offsets grow with time; None = as fast as rows are taken.
    per_timestep: at most so many rows in a timestep; None = all that are due.
    partitions: tasks that generate. rows: where offsets end; None = never.
    """

    function: Callable[[int, int], pa.RecordBatch]
    schema: pa.Schema
    rows_per_second: float | None = None
    per_timestep: int | None = None
    partitions: int = 1
    rows: int | None = None

    def __post_init__(self) -> None:
        """Read the columns and check that something bounds a timestep."""
        _freeze(self, self.schema, None)
        if not callable(self.function):
            msg = "a generator needs a function (start, stop) -> RecordBatch"
            raise DataflowError(msg)
        if self.rows_per_second is None and self.per_timestep is None and self.rows is None:
            msg = "a generator never ends: give rows_per_second, per_timestep, rows or several"
            raise DataflowError(msg)
        if self.rows_per_second is not None and not self.rows_per_second > 0:
            msg = f"rows_per_second must be positive, not {self.rows_per_second}"
            raise DataflowError(msg)
        _at_least_one(self.per_timestep, "per_timestep (rows)")
        _at_least_one(self.partitions, "partitions")
        _at_least_one(self.rows, "rows")

    def describe(self) -> str:
        """Name of the function and its rate."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        rate = "" if self.rows_per_second is None else f" {self.rows_per_second:g} rows/s"
        return f"generator {name}{rate}"


@dataclass(frozen=True, eq=False, kw_only=True)
class PythonConnector:
    """A PySpark Python data source with a stream reader.

    source: a `DataSource` class (made with `options`) or a ready instance.
    schema: columns; None = what the data source says.
    """

    source: Any
    options: Mapping[str, str] = field(default_factory=dict)
    schema: pa.Schema | None = None

    def __post_init__(self) -> None:
        """Read the columns and check that it may be a data source."""
        _freeze(self, self.schema, self.options)
        if not any(
            callable(getattr(self.source, method, None))
            for method in ("streamReader", "simpleStreamReader")
        ):
            msg = (
                f"{self.source!r} is not a Python data source that streams: subclass "
                "pyspark.sql.datasource.DataSource and define streamReader or simpleStreamReader"
            )
            raise DataflowError(msg)
        if self.options and not isinstance(self.source, type):
            msg = "options are for a data source class; an instance has got its options already"
            raise DataflowError(msg)

    @property
    def kind(self) -> str:
        """The data source's own name."""
        name = getattr(self.source, "name", None)
        if callable(name):
            return str(name())
        source = self.source if isinstance(self.source, type) else type(self.source)
        return str(source.__name__)

    def describe(self) -> str:
        """The data source's own name."""
        return f"python {self.kind}"


Rows: TypeAlias = pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]]
"""Rows as a test writes them: Arrow, or one mapping per row."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryConnector:
    """Rows that a test hands over, a batch at a time, also while the job runs.

    partitions: splits of a batch. per_timestep: at most so many batches in a timestep; None = all
    there are.
    """

    schema: pa.Schema
    partitions: int = 1
    per_timestep: int | None = None
    batches: list[pa.RecordBatch] = field(default_factory=list, repr=False)

    def __repr__(self) -> str:
        return f"<MemoryConnector: {len(self.batches)} batches of {columns_text(self.schema)}>"

    def __post_init__(self) -> None:
        """Read the columns."""
        _freeze(self, self.schema, None)
        _at_least_one(self.partitions, "partitions")
        _at_least_one(self.per_timestep, "per_timestep (batches)")

    def push(self, rows: Rows) -> None:
        """Add a batch. Raises SourceError when its columns are not the declared ones."""
        self.batches.append(_one_batch(rows, self.schema))

    def describe(self) -> str:
        """One word."""
        return "memory"


def _one_batch(rows: Rows, schema: pa.Schema) -> pa.RecordBatch:
    if isinstance(rows, pa.RecordBatch):
        return as_declared(rows, schema, "push")
    if not isinstance(rows, pa.Table):
        try:
            rows = pa.Table.from_pylist(list(rows), schema)
        except (pa.ArrowException, TypeError, ValueError) as error:
            msg = f"push: these rows do not fit the declared columns: {error}"
            raise SourceError(msg) from error
    try:
        pieces = decoded_table(rows).combine_chunks().to_batches()
    except pa.ArrowException as error:
        msg = f"push: a column of {', '.join(map(str, rows.schema))} cannot be decoded: {error}"
        raise SourceError(msg) from error
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema)
    return as_declared(pieces[0], schema, "push")
