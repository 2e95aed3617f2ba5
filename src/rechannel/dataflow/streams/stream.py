"""What a user holds while writing a dataflow. Every call adds a frozen node and runs nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa

from rechannel.dataflow.checks.changelogs import need_changelog
from rechannel.dataflow.checks.dead import need_dead_letters
from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.dataflow.graph.naming import (
    DerivedName,
    caller,
    given,
    plain,
    settle,
    stateless_name,
)
from rechannel.dataflow.graph.nodes import (
    Changelog,
    Dataflow,
    DeadLetters,
    Late,
    Node,
    SideOutput,
    Source,
    Stateful,
    Union,
)
from rechannel.dataflow.graph.rules import label
from rechannel.dataflow.graph.schema import known
from rechannel.dataflow.graph.timing import declared_column
from rechannel.dataflow.shown import columns_of, picture_of
from rechannel.dataflow.streams.former import renamed
from rechannel.dataflow.streams.keyed import KeyedStream
from rechannel.dataflow.streams.meeting import Meeting
from rechannel.dataflow.streams.ordering import judge_of
from rechannel.dataflow.streams.stateless import Stateless
from rechannel.dataflow.streams.windowed import WindowedStream
from rechannel.dataflow.streams.writer import Flow, Writer
from rechannel.errors import DataflowError
from rechannel.kernels.functions.changelog import ChangelogRows
from rechannel.kernels.functions.dead_letters import LETTER
from rechannel.kernels.shuffle.watermarks import EventTime
from rechannel.model.changelog import CHANGE
from rechannel.model.ddl import schema_of
from rechannel.operators.checks import need_columns
from rechannel.operators.process.deduplicate_spec import DeduplicateSpec
from rechannel.operators.window.kinds import Windows
from rechannel.operators.window.terms import Every
from rechannel.sources.replayed.connector import ReplayedConnector


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Stream(Stateless, Meeting):
    """Rows that arrive in timesteps. A stream may be used any number of times and is computed once per timestep."""

    node: Node
    session: Any | None = None

    @property
    def name(self) -> str:
        """Name of the node that these rows come from."""
        return self.node.name

    @property
    def schema(self) -> pa.Schema | None:
        """Columns; None if only Spark knows them (downstream of a `transform`)."""
        return known(self.node)

    def union(self, *others: Stream, name: str | None = None) -> Stream:
        """Merge the rows of several streams. Names, order and types of their columns must be equal."""
        for other in others:
            if not isinstance(other, Stream):
                msg = f"union takes streams, not {type(other).__name__}"
                raise DataflowError(msg)
        node = Union(
            name=given(name, stateless_name(self.node, "union")),
            where=caller(),
            inputs=(self.node, *(other.node for other in others)),
        )
        return self._then(node, *others)

    def with_replays(
        self, of: str, *, schema: pa.Schema | str | None = None, name: str | None = None
    ) -> Stream:
        """Add the rows that an operator could not handle, each time that they are to be tried once more.

            rows.with_replays("parse").map(parsed, "shop STRING", name="parse", on_error="dead_letter")

        `rechannel replay-dead-letters` and `replay_dead_letters` of a job bring them. Nothing else may read this
        stream.

        Args:
            of: the name of the operator, which reads this stream.
            schema: columns of this stream, as an Arrow schema or DDL; needed if only the start can tell them.
            name: of the source of these rows; None = `<of>_replays`.

        Raises:
            DataflowError: the columns are not known.
        """
        columns = self.schema if schema is None else schema_of(schema)
        if columns is None:
            msg = f"with_replays ({caller()}): only the start can tell the columns of {label(self.node)}: give schema="
            raise DataflowError(msg)
        source = Source(
            name=given(name, DerivedName(f"{of}_replays")),
            where=caller(),
            connector=ReplayedConnector(operator=of, schema=columns),
        )
        return self.union(Stream(node=source, session=self.session))

    def event_time(
        self,
        column: str,
        delay: Duration = 0,
        *,
        idle: Duration | None = None,
        name: str | None = None,
    ) -> Stream:
        """Declare which column holds the event time of a row, and how far rows may be out of order.

        The watermark is the latest event time seen, less `delay`.

        Args:
            column: timestamps.
            delay: timedelta, text ("10 seconds") or milliseconds.
            idle: without rows for longer, the stream does not hold back the watermark of operators that
                read others as well; None = it always does.
            name: of the node.
        """
        what = f"event_time ({caller()})"
        silence = None if idle is None else microseconds(idle, f"{what}: idle") // 1_000
        function = EventTime(
            column=column,
            delay_us=microseconds(delay, f"{what}: delay", least=0),
            idle_ms=silence,
        )
        return self._batches(function, None, name, "event_time")

    @renamed(on="time_column")
    def deduplicate(
        self,
        *columns: str,
        within: Duration | None = None,
        time_column: str | None = None,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Stream:
        """Emit the first row, in stream order, of all rows with the same values in some columns.

        Args:
            columns: that are compared.
            within: drop a row if its event time is less than `within` after the last row emitted for
                the key; a later row is emitted. This bounds the state. Rows that the watermark has
                passed by that much, and rows without a time, are in `.late`. None = drop all later
                rows, for ever.
            time_column: event times; None = as declared with `event_time`.
            name, tasks, bins: as for `KeyedStream`.

        Raises:
            UnknownColumnError, DataflowError: a column is missing, or no event time is declared.
        """
        keyed = self.key_by(*columns)
        what = f"deduplicate ({caller()})"
        if within is None:
            return keyed._operator(DeduplicateSpec(), name, tasks, bins, None)
        column = declared_column(self.node) if time_column is None else time_column
        if column is None:
            msg = f"{what} needs a column of event times: name it with time_column= or event_time('column')"
            raise DataflowError(msg)
        spec = DeduplicateSpec(within_us=microseconds(within, f"{what}: within"), on=column)
        return keyed._operator(spec, name, tasks, bins, None)

    def distinct(
        self, *, name: str | None = None, tasks: int | None = None, bins: int | None = None
    ) -> Stream:
        """Emit every distinct row once, for ever. Raises DataflowError if only Spark knows the columns."""
        schema = self.schema
        if schema is None:
            msg = f"distinct ({caller()}): the columns are not known yet; use deduplicate with their names"
            raise DataflowError(msg)
        return self.deduplicate(*schema.names, name=name, tasks=tasks, bins=bins)

    @property
    def late(self) -> Stream:
        """Rows that came too late for this operator, with the columns that it received. Raises DataflowError."""
        judge = judge_of(self.node)
        if not (isinstance(judge, Stateful) and judge.spec.tells_late):
            msg = f"{label(self.node)} has no late rows: only operators on event time have; use .late on one of them"
            raise DataflowError(msg)
        node = Late(
            name=given(None, stateless_name(self.node, "late")),
            where=caller(),
            upstream=judge,
            function=rows_themselves,
            schema=None,
        )
        return self._then(node)

    @property
    def dead_letters(self) -> Stream:
        """Rows that this node cannot handle. Raises DataflowError unless it has `on_error="dead_letter"`.

        Columns, all strings: `operator` (its name), `error` and `row` (the row as a JSON object).
        """
        need_dead_letters(self.node)
        node = DeadLetters(
            name=given(None, stateless_name(self.node, "dead_letters")),
            where=caller(),
            upstream=self.node,
            function=rows_themselves,
            schema=LETTER,
        )
        return self._then(node)

    def side_output(self, name: str) -> Stream:
        """Return the rows that a `process` puts into one of its side outputs: keys, then the declared columns.

        Raises DataflowError: this is no operator with such a side output.
        """
        outputs = self.node.spec.side_outputs if isinstance(self.node, Stateful) else {}
        if name not in outputs:
            known = ", ".join(map(repr, outputs)) or "none"
            msg = (
                f"{label(self.node)} has no side output {name!r} (known: {known}): declare it with side_outputs= of"
                " process(...)"
            )
            raise DataflowError(msg)
        node = SideOutput(
            name=given(None, stateless_name(self.node, plain(name))),
            where=caller(),
            upstream=self.node,
            function=rows_themselves,
            schema=None,
            output=name,
        )
        return self._then(node)

    def changelog(
        self, *, before: bool = True, column: str = CHANGE, name: str | None = None
    ) -> Stream:
        """Return the changes of the table that has one row for each key of this operator.

        Columns are those of the operator and `change`: "insert" for a new key, "update_before" and "update_after" for
        the old and the new row of a key, "delete" for the last row of a key that ends. A key whose row stays equal has
        no change.

        Args:
            before: False = without "update_before".
            column: name of the column `change`; the last one.
            name: of the node.

        Raises:
            DataflowError: this is no operator, it never replaces a row, or its rows have such a column.
        """
        need_changelog(self.node)
        node = Changelog(
            name=given(name, stateless_name(self.node, "changelog")),
            where=caller(),
            upstream=self.node,
            function=ChangelogRows(before=before, column=column),
            schema=None,
        )
        return self._then(node)

    def key_by(self, *columns: str) -> KeyedStream[Stream]:
        """Key the rows by one or several columns. Raises UnknownColumnError."""
        what = f"key_by ({caller()})"
        if not columns or not all(isinstance(column, str) for column in columns):
            msg = f"{what}: name at least one column, as in key_by('carrier')"
            raise DataflowError(msg)
        if len(set(columns)) < len(columns):
            twice = next(column for column in columns if columns.count(column) > 1)
            msg = f"{what}: column {twice!r} is named twice; name each key column once"
            raise DataflowError(msg)
        schema = self.schema
        if schema is not None:
            need_columns(what, columns, schema)
        return KeyedStream(node=self.node, keys=columns, then=self._then)

    @renamed(on="time_column")
    def window(
        self,
        window: Windows,
        *,
        time_column: str | None = None,
        lateness: Duration = 0,
        emit: Literal["on_close", "on_update"] | Every = "on_close",
    ) -> WindowedStream[Stream]:
        """Put all rows into windows of event time, whatever their keys. See `KeyedStream.window`."""
        keyed = KeyedStream(node=self.node, keys=(), then=self._then)
        return keyed.window(window, time_column=time_column, lateness=lateness, emit=emit)

    @property
    def write(self) -> Writer:
        """End the stream in a sink: `stream.write.parquet("out")`."""
        return Writer(node=self.node, session=self.session)

    def __repr__(self) -> str:
        return f"<Stream {str(self.name)!r}: {columns_of(self.node)}>"

    def _repr_html_(self) -> str:
        return picture_of(self.node)

    def _then(self, node: Node, *others: Stream) -> Stream:
        known(node)
        return Stream(node=node, session=one_session(self, *others))


def dataflow_of(*ends: Flow | Stream) -> Dataflow:
    """Return the graph that leads to some ends, with settled names. Raises DataflowError."""
    for end in ends:
        if isinstance(end, KeyedStream):
            msg = f"stream {str(end.node.name)!r}: .key_by does nothing yet; add .aggregate(...), .track(...), ..."
            raise DataflowError(msg)
        if isinstance(end, Writer):
            msg = f"stream {str(end.node.name)!r}: .write has no sink; add .parquet('out') or .memory('table')"
            raise DataflowError(msg)
        if not isinstance(end, Flow | Stream):
            msg = f"a dataflow ends in stream.write..., not in {type(end).__name__}"
            raise DataflowError(msg)
    return settle(Dataflow.of(*(end.node for end in ends)))


def one_session(*ends: Flow | Stream) -> Any | None:
    """Return the Spark session that streams were read with, or None. Raises DataflowError for two."""
    sessions = {id(end.session): end.session for end in ends if end.session is not None}
    if len(sessions) > 1:
        msg = "streams of two Spark sessions cannot meet; read all of them with the same session"
        raise DataflowError(msg)
    return next(iter(sessions.values()), None)


def rows_themselves(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the rows unchanged."""
    return batch
