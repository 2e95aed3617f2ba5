"""Operators over two streams: joins, lookups, cogroups."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, cast

from rechannel.dataflow.graph.durations import Duration
from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.graph.nodes import Node
from rechannel.dataflow.streams.asof import Direction, asof_join
from rechannel.dataflow.streams.cogroups import Cogrouped, cogroup
from rechannel.dataflow.streams.former import renamed
from rechannel.dataflow.streams.joins import How, Within, join
from rechannel.dataflow.streams.lookups import Found, lookup
from rechannel.dataflow.streams.pairing import On
from rechannel.errors import DataflowError
from rechannel.operators.window.kinds import Timed
from rechannel.sources.table import Table

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream


class Meeting:
    """The operators of `Stream` that take another stream."""

    __slots__ = ()

    if TYPE_CHECKING:
        node: Node

        def _then(self, node: Node, *others: Stream) -> Stream:
            """Make a stream of the rows of a node."""

    @property
    def _me(self) -> Stream:
        return cast("Stream", self)

    @renamed(left_time="left_time_column", right_time="right_time_column")
    def join(  # noqa: PLR0913 - as many as there are things to say
        self,
        other: Stream,
        on: On,
        *,
        how: How = "inner",
        within: Within | None = None,
        left_time_column: str | None = None,
        right_time_column: str | None = None,
        suffix: str = "_right",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Stream:
        """Join each row with the rows of another stream that have the same key.

        Emits the key columns, the other columns of this stream, the other columns of `other`. A pair
        is emitted as soon as both rows are there; a row without a match is emitted when event time
        rules out a later one. Null matches nothing.

        Args:
            other: the stream to join with.
            on: key columns: a name, several names, or a mapping of names here to names in `other`.
            how: "inner", "left", "right", "full", "semi" (rows here that have a match) or "anti"
                (rows here that have none).
            within: `rc.between(...)` of the event times, or windows such as `rc.windows.tumbling(...)`. It
                bounds the state; rows that are too late are in `.late`. None = keep all rows for
                ever, for inner and semi joins only.
            left_time_column: event times here; None = as declared with `event_time`.
            right_time_column: event times in `other`; None = as declared with `event_time`.
            suffix: appended to columns of `other` whose names this stream has too.
            name, tasks, bins: as for `KeyedStream`.

        Raises:
            DataflowError, UnknownColumnError: the streams cannot be joined like this.
        """
        need_stream("join", other)
        node = join(
            self._me,
            other,
            on,
            how=how,
            within=within,
            times=(left_time_column, right_time_column),
            suffix=suffix,
            name=name,
            tasks=tasks,
            bins=bins,
        )
        return self._then(node, other)

    @renamed(right="other", left_time="left_time_column", right_time="right_time_column")
    def asof_join(  # noqa: PLR0913 - as many as there are things to say
        self,
        other: Stream,
        on: On,
        *,
        left_time_column: str | None = None,
        right_time_column: str | None = None,
        direction: Direction = "backward",
        tolerance: Duration | None = None,
        how: Literal["left", "inner"] = "left",
        suffix: str = "_right",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Stream:
        """Join each row to the latest row of `other` with the same key at or before its event time.

        If several rows of `other` have that time, the one that came last counts. A row is emitted
        when event time has passed its own; rows that are too late are in `.late`. Null matches
        nothing.

        Args:
            other: the stream to look back in.
            on, left_time_column, right_time_column, suffix: as in `join`.
            direction: "backward" is the only one.
            tolerance: how far apart the two times may be; None = any distance.
            how: "left" also emits rows without a match, with nulls; "inner" drops them.
            name, tasks, bins: as for `KeyedStream`.

        Raises:
            DataflowError, UnknownColumnError: the streams cannot be joined like this.
        """
        need_stream("asof_join", other)
        node = asof_join(
            self._me,
            other,
            on,
            times=(left_time_column, right_time_column),
            direction=direction,
            tolerance=tolerance,
            how=how,
            suffix=suffix,
            name=name,
            tasks=tasks,
            bins=bins,
        )
        return self._then(node, other)

    @renamed(right="other", left_time="left_time_column", right_time="right_time_column")
    def cogroup(
        self,
        other: Stream,
        on: On,
        *,
        within: Timed | None = None,
        left_time_column: str | None = None,
        right_time_column: str | None = None,
        suffix: str = "_right",
    ) -> Cogrouped[Stream]:
        """Group the rows of both streams by key, for a function of all of them.

        Continue with `.apply_batches(function, schema)`.

        Args:
            other: the stream to group with.
            on, left_time_column, right_time_column: as in `join`, but null is a key like any other.
            within: windows such as `rc.windows.tumbling(...)`: the function receives all rows of a window
                when it closes; rows that are too late are in `.late`. None = the rows of each
                timestep, so that what meets depends on how input is cut into timesteps.
            suffix: appended to columns of `other` whose names this stream has too, in state and in
                `.late`.
        """
        need_stream("cogroup", other)
        return cogroup(
            self._me,
            other,
            on,
            within=within,
            times=(left_time_column, right_time_column),
            suffix=suffix,
            then=lambda node: self._then(node, other),
        )

    def lookup(  # noqa: PLR0913 - as many as there are things to say
        self,
        table: Stream | Table | Callable[[], Table],
        on: On,
        *,
        how: Found = "inner",
        by: str | Sequence[str] = (),
        refresh: Duration | None = None,
        suffix: str = "_right",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Stream:
        """Add to each row the columns of the table's row with the same key.

        Emits the key columns, the other columns of this stream, the columns of the table. Null
        matches nothing.

        Args:
            table: a stream, a DataFrame, or a function that makes a DataFrame. Of a stream, the
                newest row of every key counts: each timestep applies its rows first, then looks up
                the rows of this stream. A DataFrame is read in the first timestep.
            on: key columns, as in `join`.
            how: "inner", or "left" to keep rows without a match, with nulls.
            by: columns of the table that decide which of two rows of a key is newer. Empty = the
                row that came last; a DataFrame must then have one row per key.
            refresh: how often a DataFrame is read again, in the background. Keys that it no longer
                has are removed. If reading fails, the error is logged and the table stays as it was.
            suffix: as in `join`.
            name, tasks, bins: as for `KeyedStream`.

        Raises:
            DataflowError, UnknownColumnError: the table cannot be looked up like this.
        """
        others = (table,) if isinstance(table, Meeting) else ()
        node = lookup(
            self.node,
            table.node if isinstance(table, Meeting) else table,
            on,
            how=how,
            by=by,
            refresh=refresh,
            suffix=suffix,
            name=name,
            tasks=tasks,
            bins=bins,
        )
        return self._then(node, *others)


def need_stream(what: str, other: object) -> None:
    """Raise DataflowError unless `other` is a stream."""
    if not isinstance(other, Meeting):
        msg = f"{what} ({caller()}) takes a stream, not {type(other).__name__}"
        raise DataflowError(msg)
