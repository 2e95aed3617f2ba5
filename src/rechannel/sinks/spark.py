"""Files through Spark's writers, on any file system that the session's Hadoop knows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.errors import DataflowError, NotPermittedError, SessionError, StorageError
from rechannel.sinks.files import WriteRows, missing
from rechannel.sinks.openfiles import ANY_SIZE, FileSize
from rechannel.sinks.writer import Rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_REFUSALS = (
    "No space left on device",
    "Disk quota exceeded",
    "Permission denied",
    "Read-only file system",
    "Mkdirs failed",
    "AccessControlException",
    "DSQuotaExceededException",
    "NSQuotaExceededException",
)
_DENIED = ("Permission denied", "Read-only file system", "AccessControlException")
"""Those that waiting does not help."""
_COMPLAINTS = 5000


def spark_writer(
    format: str,  # noqa: A002 - Spark's word
    options: Mapping[str, str],
    partitions: Sequence[str] = (),
    size: FileSize = ANY_SIZE,
) -> WriteRows:
    """Return a function that writes rows with Spark's own writer of a format. partitions: columns
    that become directories. size: of files. Raises DataflowError for bytes, which Spark's writers do not count.
    """
    if size.bytes is not None:
        msg = "file_size: Spark's writers count rows alone: give rows=, or write.dataset(path, file_bytes=)"
        raise DataflowError(msg)
    if size.rows is not None:
        options = {**options, "maxRecordsPerFile": str(size.rows)}

    def write(rows: Rows, path: str) -> int:
        from pyspark.sql import Observation
        from pyspark.sql import functions as F  # noqa: N812

        if rows.frame is None:
            msg = f"files of format {format!r} need rows in a Spark DataFrame"
            raise DataflowError(msg)
        local = path.startswith("/")
        observed = Observation()
        counted = rows.frame.observe(observed, F.count(F.lit(1)).alias("rows"))
        with refusing(path):
            writer = counted.write.format(format).options(**options)
            if partitions:
                writer = writer.partitionBy(*partitions)
            writer.save(f"file:{path}" if local else path)
        if local and not Path(path).is_dir():
            msg = (
                f"Spark wrote {path} on another machine than this driver's: use a path that all"
                " machines mount, or a URI with a scheme"
            )
            raise StorageError(msg)
        return int(observed.get["rows"])

    return write


_UNKNOWN = "[DATA_SOURCE_NOT_FOUND]"

HOLD_ALL = ("parquet", "orc", "json")
"""Formats of Spark that can write every column that a stream can have."""


def spark_trial(
    spark: SparkSession,
    format: str,  # noqa: A002 - Spark's word
    options: Mapping[str, str],
    partitions: Sequence[str],
    schema: pa.Schema,
) -> Callable[[str], None]:
    """Return a function that writes no rows with Spark's own writer, and raises DataflowError if
    the format cannot hold them.
    """

    def trial(path: str) -> None:
        from pyspark.errors import AnalysisException
        from pyspark.sql.pandas.types import from_arrow_schema

        empty = spark.createDataFrame([], from_arrow_schema(schema))
        rows = Rows(planned=lambda: empty, tables=lambda: iter([]), schema=schema)
        try:
            spark_writer(format, options, partitions)(rows, path)
        except Exception as error:
            text = str(error)
            if _UNKNOWN not in text and not isinstance(error, AnalysisException):
                raise
            why = text[max(text.find("["), 0) :].partition("\n")[0]
            msg = (
                f"Spark cannot write these rows as {format}: {why} Convert or leave out"
                " the column, or write another format: parquet, orc and json hold all columns"
            )
            raise DataflowError(msg) from error

    return trial


@contextmanager
def refusing(path: str) -> Iterator[None]:
    """Turn failures of a file system in a Spark job into StorageError; other errors pass."""
    try:
        yield
    except Exception as error:
        text = str(error)
        reason = next((reason for reason in _REFUSALS if reason in text), None)
        if reason is None:
            raise
        msg = (
            f"cannot write {path}: {reason}. The timestep is not published: free space or correct"
            f" the permissions, and start again. Spark says: {text[:_COMPLAINTS]}"
        )
        raise _kind(text)(msg) from error


_ONE_STEP = frozenset({"file", "hdfs", "webhdfs", "swebhdfs", "viewfs", "ofs", "o3fs"})
"""Schemes of file systems with a rename in one step."""


@dataclass(frozen=True)
class HadoopFolder:
    """A `Folder` of URIs, through the classic session's Hadoop.

    A rename is one step on HDFS and similar systems; an object store copies file by file, so that
    readers may see part of a timestep while it is being published (`stepwise.py`).
    """

    spark: SparkSession

    def __post_init__(self) -> None:
        """Check that the session has a JVM. Raises SessionError."""
        if getattr(self.spark, "_jvm", None) is None:
            msg = (
                "a file sink with a URI renames through the driver's JVM, which a Spark Connect"
                " session does not provide: use a classic session, or a path that all machines mount"
            )
            raise SessionError(msg)

    def names(self, path: str) -> list[str]:
        """See `Folder.names`."""
        with _storing("list", path):
            system, place = self._system(path)
            if not system.exists(place):
                return []
            return sorted(status.getPath().getName() for status in system.listStatus(place))

    def exists(self, path: str) -> bool:
        """See `Folder.exists`."""
        with _storing("look at", path):
            system, place = self._system(path)
            return bool(system.exists(place))

    def make(self, path: str) -> None:
        """See `Folder.make`."""
        with _storing("make", path):
            system, place = self._system(path)
            system.mkdirs(place)

    def rename(self, source: str, target: str) -> bool:
        """See `Folder.rename`."""
        with _storing("publish", target):
            system, place = self._system(source)
            goal = self._hadoop.Path(target)
            if not system.exists(place):
                if not system.exists(goal):
                    raise missing(source)
                return False
            # FileSystem.rename would move the source *into* a target that exists.
            context = self._hadoop.FileContext.getFileContext(place.toUri(), self._settings)
            kind = self._hadoop.Options.Rename
            options: Any = self.spark.sparkContext._gateway.new_array(kind, 0)  # type: ignore[union-attr]
            try:
                context.rename(place, goal, options)
            except Exception as error:
                if "FileAlreadyExistsException" not in str(error):
                    raise
                return False
            return True

    def renames_in_steps(self, path: str) -> bool:
        """See `SteppedFolder.renames_in_steps`."""
        with _storing("look at", path):
            system, _ = self._system(path)
            return system.getUri().getScheme() not in _ONE_STEP

    def move_rest(self, source: str, target: str) -> None:
        """See `SteppedFolder.move_rest`."""
        with _storing("publish", target):
            system, place = self._system(source)
            if not system.exists(place):
                return
            above = f"{system.makeQualified(place).toString()}/"
            files = system.listFiles(place, True)
            while files.hasNext():
                status = files.next()
                file = status.getPath()
                goal = self._hadoop.Path(f"{target}/{file.toString().removeprefix(above)}")
                if system.exists(goal):
                    if system.getFileStatus(goal).getLen() == status.getLen():
                        system.delete(file, False)
                        continue
                    system.delete(goal, False)
                system.mkdirs(goal.getParent())
                if not system.rename(file, goal):
                    raise StorageError(f"cannot publish {target}: {file.toString()} stays")
            system.delete(place, True)

    def remove(self, path: str) -> None:
        """See `Folder.remove`."""
        with _storing("remove", path):
            system, place = self._system(path)
            system.delete(place, True)

    def settle(self, path: str) -> None:
        """Do nothing: the file system's own guarantee holds."""

    @property
    def _hadoop(self) -> Any:
        session: Any = self.spark
        return session._jvm.org.apache.hadoop.fs

    @property
    def _settings(self) -> Any:
        session: Any = self.spark
        return session._jsparkSession.sessionState().newHadoopConf()

    def _system(self, path: str) -> tuple[Any, Any]:
        place = self._hadoop.Path(path)
        return place.getFileSystem(self._settings), place


@contextmanager
def _storing(verb: str, path: str) -> Iterator[None]:
    from py4j.protocol import Py4JError

    try:
        yield
    except Py4JError as error:
        reason = _reason(str(error))
        msg = f"cannot {verb} {path}: {reason}. Check that the path is reachable and writable"
        raise _kind(str(error))(msg) from error


def _reason(text: str) -> str:
    """Return the exception of the JVM in one line: Py4J puts its own call first and the stack trace last."""
    lines = text.strip().splitlines() or [""]
    return next((line for line in lines if line.startswith(": ")), lines[0]).removeprefix(": ")


def _kind(text: str) -> type[StorageError]:
    """Return the class of an error by whether Hadoop's message is about a transient cause."""
    denied = any(reason in text for reason in _DENIED)
    return NotPermittedError if denied else StorageError
