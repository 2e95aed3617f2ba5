"""`stream.write`: ends a stream in a sink."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any

from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.dataflow.graph.naming import (
    DerivedName,
    FreeName,
    caller,
    files_name,
    function_name,
    given,
    plain,
)
from rechannel.dataflow.graph.nodes import Node, Sink
from rechannel.dataflow.shown import columns_of, picture_of
from rechannel.errors import DataflowError
from rechannel.sinks.dataset.outlet import DatasetOutlet
from rechannel.sinks.dataset.wanted import Wanted
from rechannel.sinks.delta.outlet import DeltaOutlet
from rechannel.sinks.failure import OnFailure, Then
from rechannel.sinks.iceberg.outlet import IcebergOutlet
from rechannel.sinks.kafka.outlet import KafkaOutlet
from rechannel.sinks.keyed_rows import named
from rechannel.sinks.openfiles import FileSize
from rechannel.sinks.outlet import Outlet
from rechannel.sinks.outlets import (
    BatchWriter,
    ConsoleOutlet,
    FileOutlet,
    ForEachBatchOutlet,
    MemoryOutlet,
    NoopOutlet,
)
from rechannel.sinks.postgres.outlet import PostgresOutlet
from rechannel.sources.connectors import spark_options

Path = str | PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flow:
    """A stream that ends in a sink: what a job consists of."""

    node: Sink
    session: Any | None = None

    @property
    def name(self) -> str:
        """Name of the sink."""
        return self.node.name

    def __repr__(self) -> str:
        return f"<Flow {str(self.name)!r}: {self.node.outlet.describe()}>"

    def _repr_html_(self) -> str:
        return picture_of(self.node)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Writer:
    """Ends a stream in a sink. All sinks take `name`, for progress, metrics and messages."""

    node: Node
    session: Any | None = None
    failure: OnFailure = field(default_factory=OnFailure)

    def __repr__(self) -> str:
        return f"<Writer of {str(self.node.name)!r}: {columns_of(self.node)}>"

    def on_failure(
        self,
        then: Then,
        *,
        attempts: int | None = None,
        pause_ms: int = 500,
        path: Path | None = None,
    ) -> Writer:
        """Choose what happens if the sink that follows cannot write a timestep.

        Args:
            then: "stop" ends the job (the default). "skip" puts the sink in quarantine: it owes its
                timesteps until it is released, and delays no other sink. "dead_letter" writes the
                timestep's rows as Parquet under `path` instead.
            attempts: at one timestep before that; None = 1 to 8, by the kind of failure.
            pause_ms: after the first attempt; it doubles, up to a minute.
            path: for dead letters.
        """
        place = None if path is None else fspath(path)
        failure = OnFailure(then=then, attempts=attempts, pause_ms=pause_ms, path=place)
        return replace(self, failure=failure)

    def parquet(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """Write Parquet files; a timestep appears under the path whole or not at all, exactly once."""
        return self.format("parquet").options(**options).save(path, name=name)

    def orc(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """Write ORC files, with the promise of `parquet`."""
        return self.format("orc").options(**options).save(path, name=name)

    def json(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """Write one JSON object per line, with the promise of `parquet`."""
        return self.format("json").options(**options).save(path, name=name)

    def csv(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """Write CSV files, with the promise of `parquet`."""
        return self.format("csv").options(**options).save(path, name=name)

    def format(self, format: str) -> FormatWriter:  # noqa: A002 - Spark's own word
        """Write files of any format that Spark writes: `format("avro").options(...).save(path)`."""
        return FormatWriter(writer=self, format=format)

    def dataset(  # noqa: PLR0913 - what users may want of files
        self,
        path: Path,
        *,
        keys: str | Sequence[str] = (),
        changes: str = "",
        partitions: str | Sequence[str] = (),
        metadata: str | Sequence[str] = (),
        file_bytes: int = 128 << 20,
        file_rows: int | None = None,
        keep: Duration = "1 hour",
        compact: int = 16 << 20,
        compression: str = "zstd",
        name: str | None = None,
    ) -> Flow:
        """Write Parquet files that a manifest names, exactly once; small files become large ones while the job runs.

        Readers take one version of the manifest, with `rc.read_output(path)`: the output up to a timestep, which stays
        readable while the job goes on.

        Args:
            path: a directory, or a URL of an object store.
            keys: a row takes the place of the one with its keys; () = rows are appended.
            changes: column of changes, of a stream.changelog(): a key that is gone is removed; "" = rows are no
                changes.
            partitions: columns by whose values rows get into files of their own; with keys, some of these.
            metadata: columns that rows get besides: "timestep", "digest" (of what the timestep was made of),
                "published_at".
            file_bytes: of a file, about.
            file_rows: of a file at most; None = any number.
            keep: how long files stay for readers once others have replaced them.
            compact: bytes per second that are read to make large files of small ones; 0 = no file is merged.
            compression: zstd, snappy, lz4, gzip or none.
        """
        wanted = Wanted(
            keys=named(keys),
            changes=changes,
            partitions=named(partitions),
            metadata=named(metadata),
            target=file_bytes,
            rows=file_rows,
            keep_ms=microseconds(keep, "keep") // 1_000,
            rate=compact,
            compression=compression,
        )
        outlet = DatasetOutlet(path=fspath(path), wanted=wanted)
        return self.to(outlet, DerivedName(f"dataset-{files_name(outlet.path)}"), name=name)

    def memory(self, table: str, *, name: str | None = None) -> Flow:
        """Keep all rows as a table in the driver's memory, for tests and notebooks: `job.memory(table)`."""
        derived = DerivedName(f"memory-{plain(table)}")
        return self.to(MemoryOutlet(name=table), derived, name=name)

    def console(self, rows: int = 20, *, name: str | None = None) -> Flow:
        """Print the first rows of every timestep on standard output."""
        return self.to(ConsoleOutlet(rows=rows), FreeName(f"{self.node.name}.console"), name=name)

    def for_each_batch(self, function: BatchWriter, *, name: str | None = None) -> Flow:
        """Call a function (df, timestep) at least once per timestep, with the same number and rows each time.

        A function with a third argument also receives the `rc.sinks.Batch`: the incarnation of the sink and
        the digest of the timestep, by which an outside system can tell this job from another one and from a
        copy of it.
        """
        called = function_name(function, "for-each-batch")
        derived = DerivedName(f"{self.node.name}.{called}")
        return self.to(ForEachBatchOutlet(function=function), derived, name=name)

    def kafka(  # noqa: PLR0913 - what users may say of records
        self,
        bootstrap: str,
        topic: str,
        *,
        key: str = "",
        changes: str = "",
        value: str = "",
        timestamp: str = "",
        exactly_once: bool = True,
        wait_s: float = 60.0,
        options: Mapping[str, object] | None = None,
        name: str | None = None,
    ) -> Flow:
        """Write records to a topic of Apache Kafka, a transaction per timestep.

        Readers with isolation.level=read_committed see each timestep whole and once, whatever happens to the driver or
        the brokers. Needs `pip install 'rechannel[kafka]'` on the driver.

        Args:
            bootstrap: brokers to begin with: host:port, separated by commas.
            topic: has to exist.
            key: column of the records' keys: text, binary, whole numbers as text; "" = no keys.
            changes: column of changes, of a stream.changelog(): a key that is gone gets a record without value,
                and of an update only the row after it is written; "" = rows are no changes.
            value: column of the values, text or binary; "" = all columns as one JSON object, without nulls.
            timestamp: column of the records' times; "" = when they are written.
            exactly_once: False = without transactions: rows are seen sooner, and again after a crash.
            wait_s: for how long the driver waits for the brokers.
            options: of the client (librdkafka), such as security.protocol or compression.type.
        """
        outlet = KafkaOutlet(
            bootstrap=bootstrap,
            topic=topic,
            key=key,
            changes=changes,
            value=value,
            timestamp=timestamp,
            exactly_once=exactly_once,
            wait_s=wait_s,
            options=spark_options(options or {}),
        )
        return self.to(outlet, DerivedName(f"kafka-{plain(topic)}"), name=name)

    def postgres(
        self,
        url: str,
        table: str,
        *,
        keys: Sequence[str] = (),
        changes: str = "",
        wait_s: float = 60.0,
        name: str | None = None,
    ) -> Flow:
        """Write rows to a table of PostgreSQL, a transaction per timestep: exactly once.

        Needs `pip install 'rechannel[postgres]'` on the driver.

        Args:
            url: postgresql://user@host:port/database, as libpq reads it.
            table: has to exist, with a column for each of the stream's: its name, or schema.name.
            keys: columns with a unique index: a row takes the place of the one with its keys; () = rows are appended.
            changes: column of changes, of a stream.changelog(): a key that is gone is removed; "" = rows are no
                changes.
            wait_s: for how long a transaction waits for another one.
        """
        outlet = PostgresOutlet(
            url=url, table=table, keys=named(keys), changes=changes, wait_s=wait_s
        )
        return self.to(outlet, DerivedName(f"postgres-{plain(table)}"), name=name)

    def delta(
        self,
        path: Path,
        *,
        keys: Sequence[str] = (),
        changes: str = "",
        partitions: Sequence[str] = (),
        options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Flow:
        """Write rows to a table of Delta Lake, a version of it per timestep: exactly once.

        Needs `pip install 'rechannel[delta]'` on the driver; no Spark package. Columns that the table lacks are added
        to it.

        Args:
            path: of the table: a directory, or a URL of an object store. The table is created if there is none.
            keys: a row takes the place of the one with its keys, by MERGE; () = rows are appended.
            changes: column of changes, of a stream.changelog(): a key that is gone is removed; "" = rows are no
                changes.
            partitions: columns by which a new table is divided into directories.
            options: of the store, as `deltalake` reads them ("storage_options"): endpoint, region, credentials.
        """
        outlet = DeltaOutlet(
            path=fspath(path),
            keys=named(keys),
            changes=changes,
            partitions=named(partitions),
            options=dict(options or {}),
        )
        return self.to(outlet, DerivedName(f"delta-{files_name(fspath(path))}"), name=name)

    def iceberg(
        self,
        table: str,
        *,
        catalog: str = "default",
        keys: Sequence[str] = (),
        changes: str = "",
        options: Mapping[str, str] | None = None,
        name: str | None = None,
    ) -> Flow:
        """Write rows to a table of Apache Iceberg, a snapshot of it per timestep: exactly once.

        Needs `pip install 'rechannel[iceberg]'` on the driver; no Spark package. Columns that the table lacks are added
        to it.

        Args:
            table: namespace.name. It is created if there is none; the namespace has to exist.
            catalog: its name in the configuration of PyIceberg, if it has one there.
            keys: a row takes the place of the one with its keys; () = rows are appended.
            changes: column of changes, of a stream.changelog(): a key that is gone is removed; "" = rows are no
                changes.
            options: of the catalog, as PyIceberg reads them: type, uri, warehouse, credentials.
        """
        outlet = IcebergOutlet(
            table=table,
            catalog=catalog,
            keys=named(keys),
            changes=changes,
            options=dict(options or {}),
        )
        return self.to(outlet, DerivedName(f"iceberg-{plain(table)}"), name=name)

    def noop(self, *, name: str | None = None) -> Flow:
        """Compute all rows and drop them, to measure."""
        return self.to(NoopOutlet(), FreeName(f"{self.node.name}.noop"), name=name)

    def to(self, outlet: Outlet, derived: DerivedName, *, name: str | None = None) -> Flow:
        """End in any outlet. derived: the name if none is given."""
        if not isinstance(outlet, Outlet):
            msg = (
                f"{outlet!r} is not an outlet: subclass rechannel.sinks.outlet.Outlet, as the"
                " built-in ones do"
            )
            raise DataflowError(msg)
        sink = Sink(
            name=given(name, derived),
            where=caller(),
            upstream=self.node,
            outlet=outlet,
            failure=self.failure,
        )
        return Flow(node=sink, session=self.session)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class FormatWriter:
    """Files of one format, with options for Spark's writer."""

    writer: Writer
    format: str
    settings: Mapping[str, str] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    column: str = "timestep"
    size: FileSize = field(default_factory=FileSize)

    def timesteps_as(self, column: str) -> FormatWriter:
        """Name the directories of timesteps `<column>=<number>` in place of `timestep=<number>`."""
        return replace(self, column=column)

    def options(self, **options: object) -> FormatWriter:
        """Add options of Spark's writer."""
        return replace(self, settings={**self.settings, **spark_options(options)})

    def partition_by(self, *columns: str) -> FormatWriter:
        """Write the values of some columns as directories (`day=2026-01-31/`) within that of each timestep.

        The files do not contain them. Columns are texts, whole numbers, dates or booleans; there is a file
        per value and task, so keep the values few.
        """
        return replace(self, partitions=columns)

    def file_size(self, *, rows: int | None = None, bytes: int | None = None) -> FormatWriter:  # noqa: A002
        """Begin another file when one has `rows` rows, or about `bytes` bytes (not with Spark's writers).

        For few large files in place of many small ones, see `dataset`.
        """
        return replace(self, size=FileSize(rows=rows, bytes=bytes))

    def save(self, path: Path, *, name: str | None = None) -> Flow:
        """Write under a path. Raises UnknownColumnError, DataflowError for columns that cannot be directories."""
        outlet = FileOutlet(
            format=self.format,
            path=fspath(path),
            options=self.settings,
            partitions=self.partitions,
            column=self.column,
            size=self.size,
        )
        derived = DerivedName(f"{plain(self.format)}-{files_name(outlet.path)}")
        return self.writer.to(outlet, derived, name=name)
