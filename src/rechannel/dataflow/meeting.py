"""Streams that meet others: joins, look-ups, groups of two."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Literal, cast

from rechannel.dataflow.asof import Direction, asof_join
from rechannel.dataflow.cogroups import Cogrouped, cogroup
from rechannel.dataflow.durations import Duration
from rechannel.dataflow.graph import Node
from rechannel.dataflow.joins import How, Within, join
from rechannel.dataflow.lookups import Found, lookup
from rechannel.dataflow.naming import caller
from rechannel.dataflow.pairing import On
from rechannel.dataflow.window_kinds import Timed
from rechannel.errors import DataflowError
from rechannel.sources.table import Table

if TYPE_CHECKING:
    from rechannel.dataflow.stream import Stream


class Meeting:
    """A part of `Stream`: what it does with another one."""

    __slots__ = ()

    if TYPE_CHECKING:
        node: Node

        def _then(self, node: Node, *others: Stream) -> Stream:
            """A stream behind a node."""

    @property
    def _me(self) -> Stream:
        return cast("Stream", self)

    def join(  # noqa: PLR0913 - as many as there are things to say
        self,
        other: Stream,
        on: On,
        *,
        how: How = "inner",
        within: Within | None = None,
        left_time: str | None = None,
        right_time: str | None = None,
        suffix: str = "_right",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Stream:
        """Pairs of rows that are alike in some columns: those columns, the other ones here, the other ones there.

        on: a name, several, or names here to names there. how: inner, left, right, full, semi (rows here that have a
        match), anti (that have none). within: `rc.between(...)` of event times, or `rc.tumbling(...)` windows; state
        is then bounded, and rows that come too late are in `.late`. None = for ever: inner and semi only.
        left_time, right_time: columns of event times; None = those that `event_time` was given. suffix: ends names that
        both sides have. Null matches nothing. A pair is shown at once, a row without a match when event time says that
        none will come. Raises DataflowError, UnknownColumnError.
        """
        need_stream("join", other)
        node = join(
            self._me,
            other,
            on,
            how=how,
            within=within,
            left_time=left_time,
            right_time=right_time,
            suffix=suffix,
            name=name,
            tasks=tasks,
            bins=bins,
        )
        return self._then(node, other)

    def asof_join(  # noqa: PLR0913 - as many as there are things to say
        self,
        right: Stream,
        on: On,
        *,
        left_time: str | None = None,
        right_time: str | None = None,
        direction: Direction = "backward",
        tolerance: Duration | None = None,
        how: Literal["left", "inner"] = "left",
        suffix: str = "_right",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Stream:
        """Every row here with the last row there of before or at its own event time, of those alike in some columns.

        Of rows there with one time, the one that came last counts. A row here is shown when event time has passed its
        own. on, left_time, right_time, suffix: as in `join`. direction: "backward" is the only one. tolerance: how far
        apart the two are at most; None = any. how: "left" shows rows that meet none, with nulls; "inner" does not. Rows
        that come too late are in `.late`. Null matches nothing. Raises DataflowError, UnknownColumnError.
        """
        need_stream("asof_join", right)
        node = asof_join(
            self._me,
            right,
            on,
            times=(left_time, right_time),
            direction=direction,
            tolerance=tolerance,
            how=how,
            suffix=suffix,
            name=name,
            tasks=tasks,
            bins=bins,
        )
        return self._then(node, right)

    def cogroup(
        self,
        right: Stream,
        on: On,
        *,
        within: Timed | None = None,
        left_time: str | None = None,
        right_time: str | None = None,
        suffix: str = "_right",
    ) -> Cogrouped[Stream]:
        """Rows of both streams by key, for a function of all of them: `.cogroup(...).apply_batches(function, schema)`.

        on, left_time, right_time: as in `join`; null is a key like any other. within: `rc.tumbling(...)`: all rows of a
        window, when it is complete; rows that come later are in `.late`. None = the rows of each timestep: what meets
        then depends on how input is cut into timesteps. suffix: ends names that both sides have, in state and `.late`.
        """
        need_stream("cogroup", right)
        return cogroup(
            self._me,
            right,
            on,
            within=within,
            times=(left_time, right_time),
            suffix=suffix,
            then=lambda node: self._then(node, right),
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
        """Rows with the row that a table has for them: the columns of `on`, the other ones here, those of the table.

        table: a stream of which the newest row of every key counts. In each timestep its rows are applied first; then
        the rows here look theirs up and leave. Or a DataFrame, or a function that makes one: it is read in the first
        timestep, and again, beside the timesteps, after each `refresh`; keys that it no longer has are gone then. If it
        cannot be read again, that is logged, and it stays as it was until the next one. by: the table's columns that
        tell the newer row of a key; none = the one that came last, and of a DataFrame one row per key. how: inner, or
        left (rows without a match as well, with nulls). on, suffix: as in `join`. Null matches nothing. Raises
        DataflowError, UnknownColumnError.
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
    """Raise DataflowError unless something is a stream."""
    if not isinstance(other, Meeting):
        msg = f"{what} ({caller()}) takes a stream, not {type(other).__name__}"
        raise DataflowError(msg)
