"""`rc.read(spark)`: where streams begin. Nothing is opened until a job starts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from os import PathLike, fspath
from typing import Any

import pyarrow as pa

from rechannel.dataflow.dead import has_dead_letters
from rechannel.dataflow.graph import Connector, MapBatches, Source
from rechannel.dataflow.naming import (
    DerivedName,
    caller,
    files_name,
    function_name,
    given,
    plain,
    stateless_name,
)
from rechannel.dataflow.schema import known
from rechannel.dataflow.stream import Columns, Stream
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import Malformed, OnError
from rechannel.sources.connectors import (
    FilesConnector,
    GeneratorConnector,
    MemoryConnector,
    OnDamage,
    PythonConnector,
    format_of,
)
from rechannel.sources.frame import HandoverConnector
from rechannel.sources.input_files.malformed import COLUMN, FORMATS, parting, with_text


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reader:
    """Begins streams. session: the Spark session of the job; None = the job's own.

    All sources share `name` (names the source's offsets; derived where it is not given) and
    `schema` (columns as an Arrow schema or Spark DDL text).
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
        name: str | None = None,
    ) -> Stream:
        """Files under a directory or glob, those that appear later too, in a fixed order.

        format: any that Spark reads; None = by the suffix. per_timestep: at most so many files at a
        time. on_error: "dead_letter" = records of JSON, CSV or XML that do not fit the columns, which `schema` gives,
        are in `.dead_letters`; "fail" = the timestep fails and names file and line. on_damage: "skip" = files that are
        gone or damaged when they are picked up are passed over. skip: files that are passed over in any case, by path
        or name. Offsets and progress name what was passed over.
        Raises DataflowError if the suffix does not tell the format.
        """
        place = fspath(path)
        kind = format or format_of(place)
        if kind is None:
            msg = (
                f"files ({caller()}): the format of {place!r} cannot be told from its name; "
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
        if has_dead_letters("files", on_error):
            return self._parted(connector, derived, name=name)
        return self.connector(connector, derived, name=name)

    def _parted(self, connector: FilesConnector, derived: DerivedName, name: str | None) -> Stream:
        """Records that can be read; the others are dead letters."""
        if connector.format not in FORMATS or connector.schema is None:
            msg = (
                f"files ({caller()}): on_error='dead_letter' parts records of {', '.join(FORMATS)} that do not fit the"
                " columns: give schema=, and read other formats without it"
            )
            raise DataflowError(msg)
        kept = replace(
            connector,
            schema=with_text(connector.schema),
            options=parting(connector.options),
        )
        error = f"this is no {connector.format} record with the columns of the stream"
        source = self.connector(kept, derived, name=name).node
        node = MapBatches(
            name=given(None, stateless_name(source, "records")),
            where=caller(),
            upstream=source,
            function=Malformed(column=COLUMN, error=error),
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
        name: str | None = None,
    ) -> Stream:
        """Rows as a function of their offset: (start, stop) -> RecordBatch of stop - start rows.

        rows_per_second: how fast offsets grow; per_timestep: at most so many rows at a time; rows:
        where offsets end. At least one is needed.
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
            connector, DerivedName(function_name(function, "generator")), name=name
        )

    def python(
        self,
        source: Any,
        *,
        options: Mapping[str, object] | None = None,
        schema: Columns | None = None,
        name: str | None = None,
    ) -> Stream:
        """Any PySpark Python data source (`pyspark.sql.datasource.DataSource`) that streams.

        source: the class, made with `options`, or a ready instance. schema: None = what it says
        itself.
        """
        connector = PythonConnector(
            source=source,
            options=dict(options or {}),  # type: ignore[arg-type] # the constructor makes them text
            schema=schema,
        )
        return self.connector(connector, DerivedName(plain(connector.kind) or "python"), name=name)

    def memory(
        self,
        rows: MemoryConnector | Columns,
        *,
        partitions: int = 1,
        per_timestep: int | None = None,
        name: str | None = None,
    ) -> Stream:
        """Rows that a test hands over.

        rows: a `MemoryConnector` to push rows to, also while the job runs; or only the columns.
        partitions: splits of a batch; per_timestep: at most so many batches at a time.
        """
        if not isinstance(rows, MemoryConnector):
            rows = MemoryConnector(schema=rows, partitions=partitions, per_timestep=per_timestep)
        return self.connector(rows, DerivedName("memory"), name=name)

    def handover(self, schema: Columns, *, name: str | None = None) -> Stream:
        """Rows that come as whole DataFrames: for `rc.for_each_batch`. schema: their columns."""
        return self.connector(HandoverConnector(schema=schema), DerivedName("handover"), name=name)

    def connector(
        self, connector: Connector, derived: DerivedName, *, name: str | None = None
    ) -> Stream:
        """Any connector; the derived name counts where none is given."""
        node = Source(name=given(name, derived), where=caller(), connector=connector)
        known(node)
        return Stream(node=node, session=self.session)


def read(spark: Any | None = None) -> Reader:
    """Begin streams, read with a Spark session (None = the job's own)."""
    return Reader(session=spark)
