"""What sources need from a Spark session: frames of split readers and files, and remote listings.

Workers unpickle `SplitRows` by reference, so nothing of Spark is imported at the top.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.errors import SchemaDriftError, SourceError, StorageError
from rechannel.kernels.functions.paths import path_of_uri
from rechannel.model.bad_rows import FILE_MARK
from rechannel.sources.input_files.malformed import COLUMN, keeps_text_in, parting, with_text
from rechannel.sources.input_files.malformed import settled as failing
from rechannel.sources.input_files.seen import SeenFile
from rechannel.sources.reader import Split, SplitReader
from rechannel.sources.spark_types import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_GLOB_MARKS = re.compile(r"([\\*?\[\]{}])")
_UNREADABLE = re.compile(r"\[FAILED_READ_FILE[^]]*\][^\n]*?reading file (?P<file>.+?)\.\s")
_OTHER_COLUMNS = re.compile(
    r"CSV header does not conform|COLUMN_DATA_TYPE_MISMATCH|SchemaColumnConvertNotSupported"
)
_DAMAGE = re.compile(
    r"FAILED_READ_FILE|UNABLE_TO_INFER_SCHEMA|PATH_NOT_FOUND|FileNotFoundException"
    r"|org\.apache\.orc\.|Malformed ORC|InvalidProtocolBufferException"
    r"|not an Avro data file|InvalidAvroMagic|AvroRuntimeException"
)
"""Errors caused by the content of a file, or by its absence."""
_NOT_DAMAGE = re.compile(
    r"Too many open files|Input/output error|Stale file handle|Permission denied|AccessDenied|AccessControlException"
    r"|java\.net\.|Timeout|No space left|OutOfMemory|Interrupted|AWS\w*IOException|AWSStatus5|SlowDown|Py4JNetworkError"
    r"|SparkContext|SafeModeException|StandbyException|BlockMissingException"
)
"""The same errors, when the message shows a transient or external cause."""
_MAY_PASS = re.compile(
    r"Too many open files|Input/output error|Stale file handle|java\.net\.|Timeout|AWSStatus5|SlowDown|\b503\b"
    r"|SafeModeException|StandbyException|BlockMissingException"
)
"""Causes outside of the files that pass by themselves."""
_FRAMES = re.compile(r"^\s+at .*$", re.MULTILINE)
_MALFORMED = "MALFORMED_RECORD_IN_PARSING"
_COMPLAINTS = 5000
_METADATA = "_metadata"
"""Column in which Spark says which file a row is from, unless the file has a column of that name."""


def spark_schema(schema: pa.Schema) -> StructType:
    """Return Arrow columns as Spark's; timestamps without a zone become TIMESTAMP_NTZ."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema.remove_metadata())


@dataclass(frozen=True)
class SplitRows:
    """A mapInArrow function over one number per partition: returns the rows of the split of that
    number.
    """

    reader: SplitReader
    splits: tuple[Split, ...]

    def __call__(self, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the splits with these numbers."""
        for batch in numbers:
            for number in batch.column(0).to_pylist():
                yield from self.reader.read(self.splits[number])


def split_frame(
    spark: SparkSession, reader: SplitReader, layout: Sequence[Split], schema: pa.Schema
) -> DataFrame:
    """Return a DataFrame whose partition i is what a split reader reads of split i."""
    if not layout:
        return empty_frame(spark, schema)
    numbers = spark.range(0, len(layout), 1, len(layout))
    return numbers.mapInArrow(SplitRows(reader, tuple(layout)), spark_schema(schema))


def empty_frame(spark: SparkSession, schema: pa.Schema) -> DataFrame:
    """Return a DataFrame without rows."""
    return spark.createDataFrame([], spark_schema(schema))


@dataclass(frozen=True, kw_only=True)
class FileFormat:
    """A file format with its options, for one of Spark's own readers."""

    spark: SparkSession
    name: str
    options: Mapping[str, str]

    def frame(self, schema: pa.Schema, files: Sequence[str]) -> DataFrame:
        """Return the rows of the files. Raises SourceError, which names a missing file."""
        if not files:
            return empty_frame(self.spark, schema)
        try:
            frame = self._reader(schema).schema(spark_schema(schema)).load(_escaped(files))
            return _naming_files(frame) if keeps_text_in(self.options) == COLUMN else frame
        except Exception as error:
            raise _not_analysed(error, files) from error

    def columns(self, file: str) -> pa.Schema:
        """Return the columns that Spark finds in a file. Raises SourceError with the file,
        DataflowError with a column.
        """
        try:
            found = self._reader().load(_escaped([file])).schema
        except Exception as error:
            raise _not_analysed(error, [file]) from error
        return arrow_schema(found)

    def malformed(self, schema: pa.Schema, file: str) -> str | None:
        """Return the text of the first record of a file that does not have these columns; None if
        all have.
        """
        apart = replace(self, options=parting(self.options))
        rows = apart.frame(with_text(schema), [file])
        found = rows.where(rows[COLUMN].isNotNull()).limit(1).collect()
        return None if not found else str(found[0][COLUMN]).split(FILE_MARK, 2)[2]

    def _reader(self, columns: pa.Schema | None = None) -> Any:
        # A session may be configured to skip what it cannot read; a stream that skips loses rows.
        settled = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
        if self.name == "csv":
            settled["enforceSchema"] = (
                "false"  # otherwise columns go by position, whatever the header
            )
        strict = failing(self.name, self.options, columns)
        return self.spark.read.format(self.name).options(**{**settled, **strict, **self.options})


def _naming_files(rows: DataFrame) -> DataFrame:
    """Put its file in front of the text of every malformed record, see `FILE_MARK`; nothing if Spark does not tell."""
    from pyspark.errors import AnalysisException
    from pyspark.sql import functions as F  # noqa: N812

    def named(file: Column) -> DataFrame:
        mark = F.lit(FILE_MARK)
        return rows.withColumn(COLUMN, F.concat(mark, file, mark, F.col(COLUMN)))

    if _METADATA not in {name.lower() for name in rows.columns}:
        try:
            made = named(F.col(f"{_METADATA}.file_path"))
            _ = made.schema
            return made
        except AnalysisException:
            pass
    return named(F.lit(""))


def _escaped(files: Sequence[str]) -> list[str]:
    """Return files as Spark's `load` expects them: local ones with a scheme, no character a glob."""
    located = (f"file:{file}" if file.startswith("/") else file for file in files)
    return [_GLOB_MARKS.sub(r"\\\1", file) for file in located]


def _kind(error: Exception) -> type[SourceError] | type[StorageError]:
    """Return the class of an error by whether its cause may pass."""
    return StorageError if _MAY_PASS.search(str(error)) else SourceError


def _not_analysed(error: Exception, files: Sequence[str]) -> SourceError | StorageError:
    known = unreadable(error)
    if known is not None:
        return known
    if _MALFORMED in str(error):
        return SourceError(
            f"a record of {files[0]} cannot be read, so its columns are unknown: correct or move the file, or give"
            " schema="
        )
    named = files[0] if len(files) == 1 else f"one of {len(files)} files from {files[0]} on"
    return _kind(error)(f"Spark cannot read {named}: {str(error)[:_COMPLAINTS]}")


def is_damage(error: SourceError) -> bool:
    """Return whether an error about a file is caused by its content or absence, and so will recur.

    What Spark reports for other reasons may be transient; a file is not given up for it.
    """
    if error.__cause__ is None or isinstance(error.__cause__, (OSError, pa.ArrowException)):
        return True  # not Spark's: classified where the file was opened
    text = _FRAMES.sub("", str(error.__cause__))
    return _DAMAGE.search(text) is not None and _NOT_DAMAGE.search(text) is None


def malformed_file(error: BaseException) -> str | None:
    """Return the file with a malformed record that an error of a Spark job reports; None if it
    reports something else.
    """
    text = str(error)
    found = _UNREADABLE.search(text)
    if found is None or _MALFORMED not in text:
        return None
    return path_of_uri(found["file"])


def unreadable(error: Exception) -> SourceError | None:
    """Return what an error of a Spark job says about an input file; None if it is about something
    else.

    SchemaDriftError if the file has other columns, SourceError if it is damaged or missing.
    """
    text = str(error)
    found = _UNREADABLE.search(text)
    if found is None:
        return None
    file = path_of_uri(found["file"])
    if _OTHER_COLUMNS.search(text):
        msg = (
            f"{file} has other columns than the stream was started with: move it away or write it"
            f" again with the stream's columns. Spark says: {text[:_COMPLAINTS]}"
        )
        return SchemaDriftError(msg)
    msg = (
        f"{file} cannot be read: it is damaged or missing. Nothing of the timestep was committed:"
        f" restore the file and start again. Spark says: {text[:_COMPLAINTS]}"
    )
    return SourceError(msg)


@dataclass(frozen=True, kw_only=True)
class RemoteFiles:
    """Files that match a URI pattern of any scheme that the session's Hadoop knows."""

    spark: SparkSession
    pattern: str

    def find(self) -> Iterator[SeenFile]:
        """Yield all files that match, or that are in a directory that matches; hidden ones too.

        Raises SourceError if the place cannot be listed, StorageError if it may be later.
        """
        try:
            if getattr(self.spark, "_jvm", None) is None:
                yield from self._by_reading()
            else:
                yield from self._by_listing()
        except Exception as error:
            msg = f"cannot list {self.pattern}: {str(error)[:_COMPLAINTS]}"
            raise _kind(error)(msg) from error

    def _by_listing(self) -> Iterator[SeenFile]:
        """List through Hadoop's file system, in the driver's JVM."""
        session: Any = self.spark
        path = session._jvm.org.apache.hadoop.fs.Path(self.pattern)
        system = path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf())
        for status in system.globStatus(path) or ():
            if status.isDirectory():
                files = system.listFiles(status.getPath(), True)
                while files.hasNext():
                    yield _seen(files.next())
            else:
                yield _seen(status)

    def _by_reading(self) -> Iterator[SeenFile]:
        """List through a job: the only way over Spark Connect."""
        from pyspark.errors import AnalysisException

        reader = self.spark.read.format("binaryFile").option("recursiveFileLookup", "true")
        try:
            found = reader.load(self.pattern)
        except AnalysisException as error:
            if "PATH_NOT_FOUND" in str(error):
                return
            raise
        facts = found.selectExpr("path", "unix_millis(modificationTime) AS modified", "length")
        for row in facts.toArrow().to_pylist():
            yield SeenFile(path=row["path"], modified_ms=row["modified"], size=row["length"])


def _seen(status: Any) -> SeenFile:
    return SeenFile(
        path=status.getPath().toString(),
        modified_ms=status.getModificationTime(),
        size=status.getLen(),
    )
