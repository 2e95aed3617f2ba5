"""`rc.read(spark)`: where streams begin. Nothing is opened until a job starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any, Literal

import pyarrow as pa

from rechannel.dataflow.checks.dead import has_dead_letters
from rechannel.dataflow.graph.naming import (
    DerivedName,
    caller,
    files_name,
    function_name,
    given,
    plain,
    stateless_name,
)
from rechannel.dataflow.graph.nodes import MapBatches, Source
from rechannel.dataflow.graph.rules import check_count
from rechannel.dataflow.graph.schema import known
from rechannel.dataflow.streams.formatted import Columns
from rechannel.dataflow.streams.stream import Stream
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import Malformed, OnError
from rechannel.sources.connector import Connector
from rechannel.sources.connectors import (
    FilesConnector,
    GeneratorConnector,
    MemoryConnector,
    OnDamage,
    PythonConnector,
    format_of,
    spark_options,
)
from rechannel.sources.frame import HandoverConnector
from rechannel.sources.ingest.connector import IngestConnector
from rechannel.sources.input_files.malformed import (
    COLUMN,
    FORMATS,
    keeps_text_in,
    parting,
    with_text,
)
from rechannel.sources.kafka.connector import KafkaConnector, OnLost, Starting


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reader:
    """Begins streams.

    All sources take `name`, which names the source's offsets and is derived if it is not given,
    `schema`, the columns as an Arrow schema or Spark DDL text, and `tasks`: how many tasks read the
    source when the stream begins, never more than a timestep has splits (`rescale` changes it); None =
    the job's default. What Spark's own readers read has as many tasks as Spark chooses.
    """

    session: Any | None = None

    def __repr__(self) -> str:
        where = "the job's own Spark session" if self.session is None else repr(self.session)
        return f"<Reader on {where}>"

    def files(  # noqa: PLR0913 - what users may say of files
        self,
        path: str | PathLike[str],
        *,
        format: str | None = None,  # noqa: A002 - Spark's own word
        schema: Columns | None = None,
        per_timestep: int | None = None,
        options: Mapping[str, object] | None = None,
        on_error: OnError = "fail",
        on_damage: OnDamage = "fail",
        skip: Sequence[str] = (),
        tasks: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read the files under a directory or glob, also those that appear later, in a fixed order.

        Args:
            path: directory, file or glob.
            format: any that Spark reads; None = by the suffix.
            schema: columns; None = those of the files.
            per_timestep: most files that a timestep takes.
            options: of Spark's reader.
            on_error: "fail" = a record of JSON, CSV or XML that does not fit `schema` fails the timestep
                with file and line; "dead_letter" = such records are in `.dead_letters`;
                `rc.at_most(...)` = the same, with a bound that fails the job.
            on_damage: "fail", or "skip" = files that are gone or damaged when they are read are skipped.
            skip: paths or names of files to skip in any case. Offsets and progress name skipped files.
            tasks, name: see `Reader`.

        Raises:
            DataflowError: the suffix does not show the format.
        """
        place = fspath(path)
        kind = format or format_of(place)
        if kind is None:
            msg = (
                f"files ({caller()}): the name of {place!r} does not show its format; "
                "give it, as in files(path, format='parquet')"
            )
            raise DataflowError(msg)
        connector = FilesConnector(
            path=place,
            format=kind,
            schema=schema,
            per_timestep=per_timestep,
            options=dict(options or {}),  # type: ignore[arg-type] # the constructor makes them text
            on_damage=on_damage,
            skip=(skip,) if isinstance(skip, str) else tuple(skip),
        )
        derived = DerivedName(files_name(place))
        if keeps_text_in(connector.options) == COLUMN:
            msg = f"files ({caller()}): {COLUMN} is Rechannel's own: name another column in columnNameOfCorruptRecord"
            raise DataflowError(msg)
        if has_dead_letters("files", on_error):
            return self._parted(connector, derived, on_error, name=name, tasks=tasks)
        return self.connector(connector, derived, name=name, tasks=tasks)

    def _parted(
        self,
        connector: FilesConnector,
        derived: DerivedName,
        on_error: OnError,
        *,
        name: str | None,
        tasks: int | None,
    ) -> Stream:
        """Separate the records that can be read; the others are dead letters."""
        if connector.format not in FORMATS or connector.schema is None:
            msg = (
                f"files ({caller()}): on_error='dead_letter' parts records of {', '.join(FORMATS)} that do not fit the"
                " columns: give schema=, and read other formats without it"
            )
            raise DataflowError(msg)
        if COLUMN in connector.schema.names:
            msg = f"files ({caller()}): {COLUMN} is Rechannel's own: read records without it, or without on_error="
            raise DataflowError(msg)
        kept = replace(
            connector,
            schema=with_text(connector.schema),
            options=parting(connector.options),
        )
        error = f"this is no {connector.format} record with the columns of the stream"
        source = self.connector(kept, derived, name=name, tasks=tasks).node
        node = MapBatches(
            name=given(None, stateless_name(source, "records")),
            where=caller(),
            upstream=source,
            function=Malformed(column=COLUMN, error=error, on_error=on_error),
            schema=connector.schema,
        )
        known(node)
        return Stream(node=node, session=self.session)

    def generator(
        self,
        function: Callable[[int, int], pa.RecordBatch],
        *,
        schema: Columns,
        rows_per_second: float | None = None,
        per_timestep: int | None = None,
        rows: int | None = None,
        partitions: int = 1,
        tasks: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Generate rows as a function of their offset.

        At least one of `rows_per_second`, `per_timestep` and `rows` is needed.

        Args:
            function: (start, stop) -> RecordBatch of stop - start rows.
            schema: columns.
            rows_per_second: how fast offsets grow.
            per_timestep: most rows that a timestep takes.
            rows: where offsets end.
            partitions: splits of a timestep.
            tasks, name: see `Reader`.
        """
        connector = GeneratorConnector(
            function=function,
            schema=schema,
            rows_per_second=rows_per_second,
            per_timestep=per_timestep,
            partitions=partitions,
            rows=rows,
        )
        return self.connector(
            connector, DerivedName(function_name(function, "generator")), name=name, tasks=tasks
        )

    def kafka(  # noqa: PLR0913 - what users may say of topics
        self,
        bootstrap: str,
        topics: str | Sequence[str] = (),
        *,
        pattern: str = "",
        assignments: Mapping[str, Sequence[int]] | None = None,
        starting: Starting = "earliest",
        per_timestep: int | None = None,
        headers: bool = False,
        isolation: Literal["read_committed", "read_uncommitted"] = "read_committed",
        on_lost: OnLost = "fail",
        group: str | None = None,
        wait_s: float = 30.0,
        options: Mapping[str, object] | None = None,
        tasks: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read topics of Apache Kafka, with the partitions that are added later.

        The columns are those of Spark's own source: key, value (binary), topic, partition, offset, timestamp. Offsets
        are kept in the job's journal, so that every record is read exactly once; no consumer group is needed. Needs
        `pip install 'rechannel[kafka]'`, on executors too.

        Args:
            bootstrap: brokers to begin with: host:port, separated by commas.
            topics: name or names.
            pattern: regular expression that whole names match, in place of `topics`; later topics are read too.
            assignments: partitions by topic, in place of `topics`.
            starting: where a new stream begins: "earliest", "latest", a datetime with a time zone, or
                {topic: {partition: offset}}. Partitions that appear later are read from their first record.
            per_timestep: most records that a timestep takes.
            headers: whether to read the column headers: list of (key, value).
            isolation: "read_committed" leaves out records of open and aborted transactions.
            on_lost: what happens if records are gone before they were read, by retention or because a topic was made
                anew: "fail" = the job stops, "skip" = it goes on with what is there and shows what it has skipped.
            group: consumer group for which committed offsets are stored, for tools that show its lag.
            wait_s: for how long a task waits for the next record.
            options: of the client (librdkafka), such as security.protocol.
            tasks, name: see `Reader`.

        Raises:
            DataflowError: the arguments contradict each other.
        """
        connector = KafkaConnector(
            bootstrap=bootstrap,
            topics=(topics,) if isinstance(topics, str) else tuple(topics),
            pattern=pattern,
            assignments={topic: tuple(of) for topic, of in (assignments or {}).items()},
            starting=starting,
            per_timestep=per_timestep,
            headers=headers,
            isolation=isolation,
            on_lost=on_lost,
            group=group,
            wait_s=wait_s,
            options=spark_options(options or {}),
        )
        first = next(iter((*connector.topics, *connector.assignments)), "")
        return self.connector(
            connector, DerivedName(plain(first) or "kafka"), name=name, tasks=tasks
        )

    def ingested(
        self,
        path: str | PathLike[str],
        *,
        schema: Columns | None = None,
        per_timestep: int | None = None,
        tasks: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read the rows that producers have posted to `rechannel ingest`, in the order in which they were kept.

        Args:
            path: directory or URL that `rechannel ingest` was given.
            schema: columns; None = those of the log.
            per_timestep: most rows that a timestep takes.
            tasks, name: see `Reader`.
        """
        place = fspath(path)
        connector = IngestConnector(path=place, schema=schema, per_timestep=per_timestep)
        return self.connector(connector, DerivedName(files_name(place)), name=name, tasks=tasks)

    def python(
        self,
        source: Any,
        *,
        options: Mapping[str, object] | None = None,
        schema: Columns | None = None,
        tasks: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read any PySpark Python data source (`pyspark.sql.datasource.DataSource`) that streams.

        Args:
            source: the class, which is made with `options`, or an instance.
            options: of the data source.
            schema: columns; None = those that the data source declares.
            tasks, name: see `Reader`.
        """
        connector = PythonConnector(
            source=source,
            options=dict(options or {}),  # type: ignore[arg-type] # the constructor makes them text
            schema=schema,
        )
        return self.connector(
            connector, DerivedName(plain(connector.kind) or "python"), name=name, tasks=tasks
        )

    def memory(
        self,
        rows: MemoryConnector | Columns,
        *,
        partitions: int = 1,
        per_timestep: int | None = None,
        tasks: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Read rows that a test or a notebook pushes.

        Args:
            rows: a `rc.sources.MemoryConnector` to push rows to, also while the job runs; or the columns.
            partitions: splits of a batch.
            per_timestep: most batches that a timestep takes.
            tasks, name: see `Reader`.
        """
        if not isinstance(rows, MemoryConnector):
            rows = MemoryConnector(schema=rows, partitions=partitions, per_timestep=per_timestep)
        return self.connector(rows, DerivedName("memory"), name=name, tasks=tasks)

    def handover(self, schema: Columns, *, name: str | None = None) -> Stream:
        """Read rows that arrive as whole DataFrames, for `rc.for_each_batch`. schema: their columns."""
        return self.connector(HandoverConnector(schema=schema), DerivedName("handover"), name=name)

    def connector(
        self,
        connector: Connector,
        derived: DerivedName,
        *,
        name: str | None = None,
        tasks: int | None = None,
    ) -> Stream:
        """Read any connector. derived: the name if none is given."""
        if not isinstance(connector, Connector):
            msg = (
                f"{connector!r} is not a connector: subclass rechannel.sources.connector.Connector, as the"
                " built-in ones do"
            )
            raise DataflowError(msg)
        named = given(name, derived)
        node = Source(name=named, where=caller(), connector=connector, tasks=tasks)
        check_count(node, "tasks", tasks)
        known(node)
        return Stream(node=node, session=self.session)


def read(spark: Any | None = None) -> Reader:
    """Begin streams, read with a Spark session; None = the job's own."""
    return Reader(session=spark)
