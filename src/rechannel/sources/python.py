"""PySpark's own Python data sources, driven by the timestep loop instead of a streaming query.

The driver keeps one reader for offsets; every task makes a new one, as Spark does. Partitions are
computed again when a timestep is replayed: Spark requires them to be a function of the two
offsets. A simple reader has one partition, which is always read between two offsets: its `read`
only says how far it would get.
"""

from __future__ import annotations

import inspect
import json
import operator
import pickle
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkNotImplementedError
from pyspark.sql.datasource import DataSource, InputPartition, SimpleDataSourceStreamReader
from pyspark.sql.types import StructType

from rechannel.errors import RechannelError, SourceError
from rechannel.kernels.functions.user_errors import user_traceback
from rechannel.model.ddl import schema_of
from rechannel.sources.backlog import Backlog
from rechannel.sources.backwards import went_back
from rechannel.sources.native import NativeReader
from rechannel.sources.reader import UNBOUNDED, Bound, Offset, Split, SplitReader
from rechannel.sources.spark import spark_schema
from rechannel.sources.spark_types import arrow_schema

if TYPE_CHECKING:
    from rechannel.sources.connectors import PythonConnector

_BATCH_ROWS = 1 << 16


RANGES_KEPT = 4
"""Ranges of offsets whose partitions are kept: a few timesteps are in flight, and each is planned soon."""


class PythonReader(NativeReader):
    """Reads a `PythonConnector`. Offsets are the data source's own dicts.

    Raises SourceError, with the traceback, if the data source raises.
    """

    boundable = False
    """A data source decides itself how much it gives."""

    def __init__(self, connector: PythonConnector) -> None:
        """Make the data source, if a class was given, and its reader."""
        self._kind = connector.kind
        # The driver looks for the next timestep while the tasks of one are planned in a thread of its own.
        self._one_at_a_time = Lock()
        with self._asked("made"):
            made = isinstance(connector.source, type)
            source = connector.source(_options(connector)) if made else connector.source
            columns = _columns(source, connector.schema)
            self._reader = stream_reader(source, columns)
        self._source, self._columns = source, columns
        self._partitions: deque[tuple[Offset, Offset, list[bytes]]] = deque(maxlen=RANGES_KEPT)
        self.schema: pa.Schema = arrow_schema(columns)

    def initial(self) -> Offset:
        """Return where the data source starts."""
        with self._asked("initialOffset"):
            return _plain(self._reader.initialOffset())

    def latest(self, start: Offset, stream_ms: int, bound: Bound = UNBOUNDED) -> Offset:
        """Return how far the data source lets a timestep read. See `SourceReader`."""
        del stream_ms, bound
        with self._asked("latestOffset"):
            end = _plain(_latest(self._reader, dict(start)))
        if went_back(end, start):
            self.complaint = SourceError(
                f"the Python data source {self._kind!r} reports the end {end}, which is before its earlier end"
                f" {start}: nothing more is read from it until it has passed that offset again"
            )
            return start
        self.complaint = None
        return start if end == start else end

    def backlog(self, end: Offset, stream_ms: int) -> Backlog | None:
        """Return what the data source's own `backlog(offset)` says; None if it has no such method. See `Backlogged`."""
        del stream_ms
        count = getattr(self._reader, "backlog", None)
        if not callable(count):
            return None
        with self._asked("backlog"):
            rows = count(dict(end))
            return None if rows is None else Backlog(rows=operator.index(rows))

    def layout(self, start: Offset, end: Offset) -> list[Split]:
        """Return one split per partition; only its number is journalled."""
        return [{"order": i} for i in range(len(self._pickled(start, end)))]

    def split_reader(self, start: Offset, end: Offset, layout: list[Split]) -> SplitReader:
        """Return the data source and its partitions, pickled.

        Raises SourceError if the number of partitions differs from the layout.
        """
        partitions = self._pickled(start, end) if layout or start != end else []
        if len(partitions) != len(layout):
            msg = (
                f"the Python data source {self._kind!r} returns {len(partitions)} partitions from"
                f" {start} to {end} and returned {len(layout)} earlier: its partitions must be a"
                " function of the two offsets, or a replay would read other rows"
            )
            raise SourceError(msg)
        made = cloudpickle.dumps((self._source, self._columns))  # type: ignore[no-untyped-call]
        return PythonSplits(kind=self._kind, source=made, partitions=tuple(partitions))

    def committed(self, end: Offset) -> None:
        """Notify the data source."""
        with self._asked("commit"):
            self._reader.commit(dict(end))

    def close(self) -> None:
        """Stop the data source's reader."""
        stop = getattr(self._reader, "stop", None)
        if callable(stop):
            with self._asked("stop"):
                stop()

    def _pickled(self, start: Offset, end: Offset) -> list[bytes]:
        with self._asked("partitions"):
            for first, last, known in self._partitions:
                if (first, last) == (start, end):
                    return known
            asked = _partitions(self._reader, dict(start), dict(end))
            pickled = [cloudpickle.dumps(part) for part in asked]  # type: ignore[no-untyped-call]
            self._partitions.append((start, end, pickled))
        return pickled

    @contextmanager
    def _asked(self, method: str) -> Iterator[None]:
        with (
            self._one_at_a_time,
            _blamed(f"the Python data source {self._kind!r} failed in {method}"),
        ):
            yield


@dataclass(frozen=True, kw_only=True)
class PythonSplits:
    """Reads partitions of a Python data source with a new reader each."""

    kind: str
    source: bytes
    partitions: tuple[bytes, ...]

    def read(self, split: Split) -> Iterator[pa.RecordBatch]:
        """Yield tuples, Rows by name, or Arrow batches of a partition, checked as Spark checks
        them.
        """
        # Spark's own conversion: rows must come out as they would in a streaming query.
        from pyspark.sql.worker.plan_data_source_read import records_to_arrow_batches

        number = split["order"]
        with _blamed(f"the Python data source {self.kind!r} failed to read partition {number}"):
            source, columns = pickle.loads(self.source)
            partition = pickle.loads(self.partitions[number])
            rows = iter(_read(stream_reader(source, columns), partition))
            yield from records_to_arrow_batches(rows, _BATCH_ROWS, columns, source)


def stream_reader(source: DataSource, columns: StructType) -> Any:
    """Return the data source's stream reader, or its simple one if it has no other."""
    try:
        return source.streamReader(columns)
    except PySparkNotImplementedError:
        return source.simpleStreamReader(columns)


def _latest(reader: Any, start: dict[str, Any]) -> dict[str, Any]:
    if isinstance(reader, SimpleDataSourceStreamReader):
        rows, end = reader.read(start)
        if end == start and next(iter(rows), None) is not None:
            msg = (
                f"read() returned rows and the same offset {start} again, so the stream would never advance: return the"
                " next offset with the rows"
            )
            raise ValueError(msg)
        return end
    if not inspect.signature(reader.latestOffset).parameters:
        return dict(reader.latestOffset())
    return dict(reader.latestOffset(start, reader.getDefaultReadLimit()))


def _partitions(reader: Any, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
    if isinstance(reader, SimpleDataSourceStreamReader):
        return [InputPartition((start, end))]
    return list(reader.partitions(start, end))


def _read(reader: Any, partition: InputPartition) -> Any:
    if isinstance(reader, SimpleDataSourceStreamReader):
        return reader.readBetweenOffsets(*partition.value)
    return reader.read(partition)


def _options(connector: PythonConnector) -> Any:
    from pyspark.sql.datasource import CaseInsensitiveDict

    return CaseInsensitiveDict(dict(connector.options))


def _columns(source: DataSource, declared: pa.Schema | None) -> StructType:
    if declared is not None:
        return spark_schema(declared)
    schema = source.schema()
    return schema if isinstance(schema, StructType) else spark_schema(schema_of(schema))


def _plain(offset: Any) -> Offset:
    """Return an offset in the form in which the journal will return it. Raises TypeError if JSON
    cannot hold it.
    """
    plain = json.loads(json.dumps(offset))
    if not isinstance(plain, dict):
        msg = f"an offset must be a dict, not {offset!r}"
        raise TypeError(msg)
    return plain


@contextmanager
def _blamed(what: str) -> Iterator[None]:
    """Turn errors of a data source into SourceError with their traceback."""
    try:
        yield
    except RechannelError:
        raise
    except Exception as error:
        msg = f"{what}: {type(error).__name__}: {error}\n\n{user_traceback(error)}"
        raise SourceError(msg) from error
