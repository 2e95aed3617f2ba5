"""Sources as values. Making one reads nothing; the readers in this package do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Any, Literal, TypeAlias

import pyarrow as pa

from rechannel.errors import DataflowError, SourceError
from rechannel.model.ddl import columns_text, schema_of
from rechannel.model.decoded import decoded_table
from rechannel.sources.connector import Connector, SourceContext
from rechannel.sources.declared import as_declared
from rechannel.sources.reader import SourceReader

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
    """Return the format that a file name's suffix stands for, or None."""
    suffixes = [s.lower() for s in PurePosixPath(path).suffixes]
    if len(suffixes) > 1 and suffixes[-1] in _COMPRESSIONS:
        suffixes.pop()
    return _FORMATS.get(suffixes[-1][1:]) if suffixes else None


def spark_options(options: Mapping[str, object]) -> dict[str, str]:
    """Return options as Spark expects them: text, in a plain dict, because connectors are sent to
    workers.
    """

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
"""What happens to a timestep with a file that cannot be read: it fails, or the file is skipped."""


@dataclass(frozen=True, eq=False, kw_only=True)
class FilesConnector(Connector):
    """Files that appear under a path, each read once."""

    path: str
    """Directory or glob."""
    format: str
    """A format that Spark reads."""
    schema: pa.Schema | None = None
    """Columns, as Arrow or DDL; None to take them from the first files."""
    per_timestep: int | None = None
    """Maximum number of new files in a timestep; None for all."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options of Spark's reader."""
    on_damage: OnDamage = "fail"
    """What happens to a timestep with a file that is missing or damaged when it is picked up."""
    skip: tuple[str, ...] = ()
    """Files that are always skipped, by path or by name."""

    def __post_init__(self) -> None:
        """Read the columns and check the bound. Raises DataflowError."""
        object.__setattr__(self, "skip", tuple(self.skip))
        if self.on_damage not in {"fail", "skip"}:
            msg = f"files: on_damage must be 'fail' or 'skip', not {self.on_damage!r}"
            raise DataflowError(msg)
        _freeze(self, self.schema, self.options)
        _at_least_one(self.per_timestep, "per_timestep (files)")

    def describe(self) -> str:
        """Return format and path."""
        return f"{self.format} {self.path}"

    def unbounded(self) -> FilesConnector:
        """Return the source with all files in one timestep."""
        return replace(self, per_timestep=None)

    def open(self, context: SourceContext) -> SourceReader:
        """Open it: Spark is needed for formats and places that Arrow cannot read."""
        from rechannel.sources.files import FilesReader

        return FilesReader(self, store=context.store, name=context.name, spark=context.spark)


@dataclass(frozen=True, eq=False, kw_only=True)
class GeneratorConnector(Connector):
    """Rows as a function of their offset: the same rows at every call."""

    function: Callable[[int, int], pa.RecordBatch]
    """(start, stop) -> RecordBatch with stop - start rows, deterministic."""
    schema: pa.Schema
    rows_per_second: float | None = None
    """How fast offsets grow with time; None for as fast as rows are read."""
    per_timestep: int | None = None
    """Maximum number of rows in a timestep; None for all that are due."""
    partitions: int = 1
    """Number of tasks that generate."""
    rows: int | None = None
    """Where offsets end; None for never."""

    def __post_init__(self) -> None:
        """Read the columns and check that something bounds a timestep. Raises DataflowError."""
        _freeze(self, self.schema, None)
        if not callable(self.function):
            msg = "a generator needs a function (start, stop) -> RecordBatch"
            raise DataflowError(msg)
        if self.rows_per_second is None and self.per_timestep is None and self.rows is None:
            msg = (
                "a generator needs a bound per timestep: give rows_per_second, per_timestep or rows"
            )
            raise DataflowError(msg)
        if self.rows_per_second is not None and not self.rows_per_second > 0:
            msg = f"rows_per_second must be positive, not {self.rows_per_second}"
            raise DataflowError(msg)
        _at_least_one(self.per_timestep, "per_timestep (rows)")
        _at_least_one(self.partitions, "partitions")
        _at_least_one(self.rows, "rows")

    def describe(self) -> str:
        """Return the name of the function and its rate."""
        name = getattr(self.function, "__name__", type(self.function).__name__)
        rate = "" if self.rows_per_second is None else f" {self.rows_per_second:g} rows/s"
        return f"generator {name}{rate}"

    @property
    def endless(self) -> str | None:
        """A generator ends only if it has a number of rows."""
        return "never ends" if self.rows is None else None

    @property
    def user_functions(self) -> tuple[object, ...]:
        """Return the generating function."""
        return (self.function,)

    def unbounded(self) -> GeneratorConnector:
        """Return the source with all rows due at once."""
        return replace(self, rows_per_second=None, per_timestep=None)

    def open(self, context: SourceContext) -> SourceReader:
        """Open the reader."""
        del context
        from rechannel.sources.generator import GeneratorReader

        return GeneratorReader(self)


@dataclass(frozen=True, eq=False, kw_only=True)
class PythonConnector(Connector):
    """A PySpark Python data source with a stream reader."""

    source: Any
    """A `DataSource` class, which is made with `options`, or an instance."""
    options: Mapping[str, str] = field(default_factory=dict)
    schema: pa.Schema | None = None
    """Columns; None for those that the data source declares."""

    def __post_init__(self) -> None:
        """Read the columns and check that the source can stream. Raises DataflowError."""
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
            msg = "options are for a data source class; an instance already has its options"
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
        """Return the data source's own name."""
        return f"python {self.kind}"

    @property
    def user_functions(self) -> tuple[object, ...]:
        """Return the class of the data source."""
        return (self.source,)

    def open(self, context: SourceContext) -> SourceReader:
        """Open it: makes the data source, if it is a class."""
        del context
        from rechannel.sources.python import PythonReader

        return PythonReader(self)


Rows: TypeAlias = pa.RecordBatch | pa.Table | Sequence[Mapping[str, Any]]
"""Rows as a test writes them: Arrow, or one mapping per row."""


@dataclass(frozen=True, eq=False, kw_only=True)
class MemoryConnector(Connector):
    """Rows that a test pushes, one batch at a time, even while the job runs."""

    schema: pa.Schema
    partitions: int = 1
    """Number of splits of a batch."""
    per_timestep: int | None = None
    """Maximum number of batches in a timestep; None for all."""
    batches: list[pa.RecordBatch] = field(
        default_factory=list, repr=False, metadata={"running": True}
    )

    def __repr__(self) -> str:
        return f"<MemoryConnector: {len(self.batches)} batches of {columns_text(self.schema)}>"

    def __post_init__(self) -> None:
        """Read the columns."""
        _freeze(self, self.schema, None)
        _at_least_one(self.partitions, "partitions")
        _at_least_one(self.per_timestep, "per_timestep (batches)")

    def push(self, rows: Rows) -> None:
        """Add a batch. Raises SourceError if its columns are not the declared ones."""
        self.batches.append(_one_batch(rows, self.schema))

    def describe(self) -> str:
        """Return "memory"."""
        return "memory"

    def unbounded(self) -> MemoryConnector:
        """Return the source of the same batches with all of them in one timestep."""
        return replace(self, per_timestep=None)

    def open(self, context: SourceContext) -> SourceReader:
        """Open the reader."""
        del context
        from rechannel.sources.memory import MemoryReader

        return MemoryReader(self)


def _one_batch(rows: Rows, schema: pa.Schema) -> pa.RecordBatch:
    if isinstance(rows, pa.RecordBatch):
        return as_declared(rows, schema, "push")
    if not isinstance(rows, pa.Table):
        try:
            rows = pa.Table.from_pylist(list(rows), schema)
        except (pa.ArrowException, TypeError, ValueError) as error:
            msg = f"push: the rows do not fit the declared columns: {error}"
            raise SourceError(msg) from error
    try:
        pieces = decoded_table(rows).combine_chunks().to_batches()
    except pa.ArrowException as error:
        msg = f"push: a column of {', '.join(map(str, rows.schema))} cannot be decoded: {error}"
        raise SourceError(msg) from error
    if not pieces:
        return pa.RecordBatch.from_pylist([], schema)
    return as_declared(pieces[0], schema, "push")
