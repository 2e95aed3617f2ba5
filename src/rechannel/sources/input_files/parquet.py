"""Local Parquet files read by tasks themselves: pyarrow, one thread, no JVM.

Columns have the types that Spark reads them with, whatever wrote the file. If a file does not fit
the stream's columns, the driver rejects it by name, before a timestep is decided.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rechannel.errors import SchemaDriftError, SourceError, StorageError
from rechannel.model.ddl import UTC_TIMESTAMP, type_name
from rechannel.sources.input_files.facts import WITHOUT, refuse_other_size, refused, stat_of
from rechannel.sources.input_files.seen import SeenFile
from rechannel.sources.reader import Split

SPLIT_BYTES = 64 << 20
"""Approximate bytes (of decompressed pages) per split."""

FILE_BITS = 40
"""`split["order"]` is the file's number in the timestep, shifted by this, plus the row group."""

_BATCH_ROWS = 1 << 18

_SHOWN_AS = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
    pa.date64(): pa.date32(),
    pa.null(): pa.int32(),
}

_AS_THEY_ARE = {
    pa.bool_(), pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64(),
    pa.string(), pa.binary(), pa.date32(),
}  # fmt: skip

_WIDTHS = [pa.int8(), pa.int16(), pa.int32(), pa.int64()]


def shown_as(kind: pa.DataType) -> pa.DataType | None:
    """Return the type with which Spark reads a Parquet column of an Arrow type; None if it has
    none.
    """
    if kind in _AS_THEY_ARE:
        return kind
    if kind in _SHOWN_AS:
        return _SHOWN_AS[kind]
    if pa.types.is_timestamp(kind):
        return pa.timestamp("us") if kind.tz is None else UTC_TIMESTAMP
    if pa.types.is_decimal(kind):
        return pa.decimal128(kind.precision, kind.scale) if kind.precision <= 38 else None
    if pa.types.is_duration(kind):
        return pa.int64()
    if pa.types.is_fixed_size_binary(kind):
        return pa.binary()
    if pa.types.is_dictionary(kind):
        return shown_as(kind.value_type)
    return _nested(kind)


def _nested(kind: pa.DataType) -> pa.DataType | None:
    if pa.types.is_map(kind):
        key, item = shown_as(kind.key_type), shown_as(kind.item_type)
        return pa.map_(key, item) if key and item else None
    if pa.types.is_struct(kind):
        parts = [kind.field(i) for i in range(kind.num_fields)]
        fields = [(part.name, shown_as(part.type)) for part in parts]
        return pa.struct(fields) if all(shown for _, shown in fields) else None
    if any(is_a(kind) for is_a in (pa.types.is_list, pa.types.is_large_list)):
        value = shown_as(kind.value_type)
        return pa.list_(value) if value else None
    return None


def readable(schema: pa.Schema) -> bool:
    """Return whether tasks can read columns of these types without Spark."""
    shown = ((field.type, shown_as(field.type)) for field in schema)
    return all(kind is not None and type_name(kind) == type_name(told) for told, kind in shown)


def widens(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether every value of a type is also a value of another: a wider integer or float."""
    if found in _WIDTHS and expected in _WIDTHS:
        return _WIDTHS.index(found) < _WIDTHS.index(expected)
    return bool(found == pa.float32() and expected == pa.float64())


def columns_of(file: str) -> pa.Schema | None:
    """Return the columns of a Parquet file as Spark reads them; None if only Spark can read one of
    them.

    Raises SourceError, which names the file, if it cannot be read.
    """
    with _opened(file) as parquet:
        kinds = {name: shown_as(kind) for name, kind in _found(parquet).items()}
    return pa.schema(kinds.items()) if all(kinds.values()) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """The footer of a file, and the state of the file when it was read."""

    columns: Mapping[str, pa.DataType]
    groups: tuple[int, ...]
    """Bytes of the decompressed row groups."""
    rows: tuple[int, ...]
    """Rows of the row groups."""
    seen: SeenFile

    @property
    def file(self) -> str:
        """Its path."""
        return self.seen.path


def facts_of(file: str) -> FileFacts:
    """Read the footer of a file.

    Raises SourceError if it is missing or not Parquet, StorageError if it cannot be read now.
    """
    before = stat_of(file)
    with _opened(file) as parquet:
        groups = [parquet.metadata.row_group(i) for i in range(parquet.num_row_groups)]
        facts = FileFacts(
            columns=_found(parquet),
            groups=tuple(group.total_byte_size for group in groups),
            rows=tuple(group.num_rows for group in groups),
            seen=before,
        )
    if stat_of(file) != before:
        msg = f"{file} changed while its footer was read"
        raise StorageError(msg)
    return facts


def split_files(
    files: Iterable[FileFacts],
    schema: pa.Schema,
    split_bytes: int,
    *,
    first: int = 0,
    stop: int | None = None,
) -> list[Split]:
    """Return the splits of the files of a timestep, cut at row groups.

    first: row group of the first file at which the timestep begins. stop: row group of the last
    file before which it ends; None for the end of the file. Raises SchemaDriftError, which names
    the column that does not fit the stream's.
    """
    every = list(files)
    out: list[Split] = []
    for number, facts in enumerate(every):
        groups = (
            first if number == 0 else 0,
            len(facts.groups) if stop is None or number + 1 < len(every) else stop,
        )
        out.extend(_split_file(number, facts, groups, schema, split_bytes))
    return out


def _split_file(
    number: int, facts: FileFacts, groups: tuple[int, int], schema: pa.Schema, split_bytes: int
) -> Iterator[Split]:
    found = facts.columns
    check_columns(facts.file, {name: shown_as(t) or t for name, t in found.items()}, schema)
    nanos = any(_has_nanos(found[name]) for name in schema.names)
    first, last = groups
    size = 0
    for stop in range(first + 1, last + 1):
        size += facts.groups[stop - 1]
        if stop == last or size + facts.groups[stop] / 2 > split_bytes:
            yield {
                "order": (number << FILE_BITS) + first,
                "file": facts.file,
                "groups": [first, stop],
                "size": size,
                "num_rows": sum(facts.rows[first:stop]),
                "bytes": facts.seen.size,
                **({"nanos": True} if nanos else {}),
            }
            first, size = stop, 0


def _has_nanos(kind: pa.DataType) -> bool:
    """Return whether a type contains nanoseconds, which Spark's own reader rejects."""
    if pa.types.is_timestamp(kind):
        return bool(kind.unit == "ns")
    return any(_has_nanos(kind.field(i).type) for i in range(kind.num_fields))


def check_columns(file: str, found: Mapping[str, pa.DataType], expected: pa.Schema) -> None:
    """Raise SchemaDriftError unless a file has all columns, with their types or narrower ones.

    found: types as Spark reads them. Additional columns are ignored.
    """
    for field in expected:
        kind = found.get(field.name)
        if kind is None or not (
            type_name(kind) == type_name(field.type) or widens(kind, field.type)
        ):
            has = "missing" if kind is None else type_name(kind)
            msg = (
                f"column {field.name!r} of {file} is {has}, but the stream expects"
                f" {type_name(field.type)}; the file has the columns {', '.join(found)}. Move the"
                " file away, or write it again with the stream's columns"
            )
            raise SchemaDriftError(msg)


def _found(parquet: pq.ParquetFile) -> dict[str, pa.DataType]:
    """Return the types of the columns; Spark interprets the old 96-bit timestamps as UTC."""
    leaves = parquet.schema
    old = {leaves.column(i).path for i in range(len(leaves)) if _is_int96(leaves.column(i))}
    return {
        field.name: UTC_TIMESTAMP if field.name in old else field.type
        for field in parquet.schema_arrow
    }


def _is_int96(leaf: pq.ColumnSchema) -> bool:
    return bool(leaf.physical_type == "INT96")


@contextmanager
def _opened(file: str) -> Iterator[pq.ParquetFile]:
    """Open a file for reading without a map: truncating a mapped file kills the process that reads
    it.
    """
    try:
        with pq.ParquetFile(file, coerce_int96_timestamp_unit="us") as parquet:
            yield parquet
    except (
        pa.ArrowInvalid,
        pa.ArrowNotImplementedError,
        pa.ArrowKeyError,
        pa.ArrowTypeError,
    ) as error:
        raise _damaged(file, error) from error
    except OSError as error:
        # Errors about the content have no errno; errors of the file system have one.
        raise _damaged(file, error) if error.errno is None else refused(file, error) from error


def _damaged(file: str, error: Exception) -> SourceError:
    return SourceError(
        f"{file} cannot be read as Parquet: {error}. Nothing of the timestep was committed:"
        f" restore the file or move it away, and start again; or continue without it, {WITHOUT}."
        " If it was still being written: write files under a name that begins with '_', and rename them when they are"
        " complete"
    )


def _check_unchanged(split: Split) -> None:
    refuse_other_size(split["file"], split["bytes"])


@dataclass(frozen=True)
class ParquetSplits:
    """Reads row groups of Parquet files under the stream's columns."""

    schema: pa.Schema

    def only(self, columns: tuple[str, ...]) -> ParquetSplits:
        """Return a reader of these columns only."""
        return ParquetSplits(pa.schema([self.schema.field(name) for name in columns]))

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a split, in the file's order. Raises SourceError, which names the
        file.
        """
        first, stop = split["groups"]
        with _opened(split["file"]) as parquet:
            _check_unchanged(split)
            batches = parquet.iter_batches(
                batch_size=_BATCH_ROWS,
                row_groups=list(range(first, stop)),
                columns=self.schema.names,
                use_threads=False,
            )
            for batch in batches:
                yield self._typed(batch)

    def _typed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [_cast(batch.column(field.name), field.type) for field in self.schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _cast(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if column.type.equals(kind):
        return column
    # Spark's timestamps are microseconds: finer digits are truncated.
    return pc.cast(column, options=pc.CastOptions(kind, allow_time_truncate=True))
