"""`stream.write`: where a stream leaves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from os import PathLike, fspath
from typing import Any

from rechannel.dataflow.graph import Node, Outlet, Sink
from rechannel.dataflow.naming import (
    DerivedName,
    FreeName,
    caller,
    files_name,
    function_name,
    given,
    plain,
)
from rechannel.dataflow.shown import columns_of, picture_of
from rechannel.sinks.failure import OnFailure, Then
from rechannel.sinks.outlets import (
    BatchWriter,
    ConsoleOutlet,
    FileOutlet,
    ForEachBatchOutlet,
    MemoryOutlet,
    NoopOutlet,
)
from rechannel.sources.connectors import spark_options

Path = str | PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Flow:
    """A stream that ends in a sink: what a job is made of."""

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
    """Ends a stream in a sink. name: of the sink, in progress, metrics and messages."""

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
        """Choose what becomes of the sink that follows where it cannot write a timestep.

        then: "stop" ends the job (the default); "skip" puts the sink in quarantine: it owes its timesteps until it is
        released, and delays no other; "dead_letter" writes the timestep's rows as Parquet under `path` instead.
        attempts: at one timestep before that. pause_ms: after the first; it doubles, up to a minute.
        """
        place = None if path is None else fspath(path)
        failure = OnFailure(then=then, attempts=attempts, pause_ms=pause_ms, path=place)
        return replace(self, failure=failure)

    def parquet(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """Parquet files; a timestep appears under the path whole or not at all, exactly once."""
        return self.format("parquet").options(**options).save(path, name=name)

    def orc(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """ORC files, promised as `parquet`."""
        return self.format("orc").options(**options).save(path, name=name)

    def json(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """One JSON object per line, promised as `parquet`."""
        return self.format("json").options(**options).save(path, name=name)

    def csv(self, path: Path, *, name: str | None = None, **options: object) -> Flow:
        """CSV files, promised as `parquet`."""
        return self.format("csv").options(**options).save(path, name=name)

    def format(self, format: str) -> FormatWriter:  # noqa: A002 - Spark's own word
        """Files of any format that Spark writes: `format("avro").options(...).save(path)`."""
        return FormatWriter(writer=self, format=format)

    def memory(self, table: str, *, name: str | None = None) -> Flow:
        """A table in the driver's memory, for tests and notebooks."""
        derived = DerivedName(f"memory-{plain(table)}")
        return self.to(MemoryOutlet(name=table), derived, name=name)

    def console(self, rows: int = 20, *, name: str | None = None) -> Flow:
        """The first rows of every timestep on standard output."""
        return self.to(ConsoleOutlet(rows=rows), FreeName(f"{self.node.name}.console"), name=name)

    def for_each_batch(self, function: BatchWriter, *, name: str | None = None) -> Flow:
        """Your own function (df, timestep), at least once per timestep with the same number.

        A third argument, (df, timestep, batch), gets the `rc.sinks.Batch`: incarnation of the sink and digest of the
        timestep, by which an outside system can tell this job from another one and from a copy of it.
        """
        called = function_name(function, "for-each-batch")
        derived = DerivedName(f"{self.node.name}.{called}")
        return self.to(ForEachBatchOutlet(function=function), derived, name=name)

    def noop(self, *, name: str | None = None) -> Flow:
        """Make all rows and keep none: for measuring."""
        return self.to(NoopOutlet(), FreeName(f"{self.node.name}.noop"), name=name)

    def to(self, outlet: Outlet, derived: DerivedName, *, name: str | None = None) -> Flow:
        """Any outlet; the derived name counts where none is given."""
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

    def timesteps_as(self, column: str) -> FormatWriter:
        """Choose what readers call the timestep in place of `timestep`: directories are `<column>=<number>`."""
        return replace(self, column=column)

    def options(self, **options: object) -> FormatWriter:
        """Options of Spark's writer, added to those given before."""
        return replace(self, settings={**self.settings, **spark_options(options)})

    def partition_by(self, *columns: str) -> FormatWriter:
        """Columns whose values are directories (`day=2026-01-31/`) within that of every timestep, and not in the files.

        Texts, whole numbers, dates and booleans; a file per value and task, so keep values few.
        """
        return replace(self, partitions=columns)

    def save(self, path: Path, *, name: str | None = None) -> Flow:
        """Write under a path. Raises UnknownColumnError, DataflowError for columns that cannot be directories."""
        outlet = FileOutlet(
            format=self.format,
            path=fspath(path),
            options=self.settings,
            partitions=self.partitions,
            column=self.column,
        )
        derived = DerivedName(f"{plain(self.format)}-{files_name(outlet.path)}")
        return self.writer.to(outlet, derived, name=name)
