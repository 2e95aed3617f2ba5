"""Streams with keys, and the operators that keep state per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from rechannel.dataflow.graph.durations import Duration
from rechannel.dataflow.graph.naming import caller, given, keyed_name
from rechannel.dataflow.graph.nodes import Node, Preload, Stateful
from rechannel.dataflow.graph.rules import check_numbers
from rechannel.dataflow.shown import picture_of
from rechannel.dataflow.streams.former import refuse_former, renamed
from rechannel.dataflow.streams.ordering import arranged, number_of, order_of
from rechannel.dataflow.streams.processed import Downstream
from rechannel.dataflow.streams.user_state import UserState
from rechannel.dataflow.streams.windowed import WindowedStream, windowed
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.operators.aggregate.spec import AggregateSpec, ReduceSpec, named_aggregates
from rechannel.operators.ordered.running_functions import RunningFunction
from rechannel.operators.ordered.running_spec import RunningSpec
from rechannel.operators.ordered.top_spec import TopSpec
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.kinds import Windows
from rechannel.operators.window.terms import Every


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedStream(UserState[Downstream]):
    """A stream whose rows have a key. Null is a key like any other, as in SQL's GROUP BY.

    All operators take these arguments:

    - name: names the state. Under the same name, the state is kept over restarts and changes.
    - tasks: initial parallelism; None = the job's default.
    - bins: pieces in which state is placed and moved; None = the job's default.
    """

    node: Node
    keys: tuple[str, ...]
    then: Callable[..., Downstream]
    """Makes the stream of a node; given more streams, it checks that they can meet."""

    def aggregate(
        self,
        columns: Mapping[str, AggregateFunction] | None = None,
        /,
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        preload: Preload | None = None,
        **aggregates: AggregateFunction,
    ) -> Downstream:
        """Aggregate all rows of a key so far: `aggregate(n=agg.count(), mean=agg.mean("price"))`.

        Emits the key and the aggregates of every key that received rows in the timestep.

        Args:
            columns: aggregates whose names are no Python identifiers, or arguments of this method.
            name, tasks, bins: see `KeyedStream`.
            preload: makes a DataFrame of state to start from.
            aggregates: name = aggregate.

        Raises:
            UnknownColumnError: an aggregate reads a column that the stream does not have.
            DataflowError: an aggregate cannot take the type of its column.
        """
        refuse_former("aggregate", aggregates, initial="preload")
        spec = AggregateSpec(aggregates=named_aggregates(columns, aggregates))
        return self._operator(spec, name, tasks, bins, preload)

    @renamed(initial="preload")
    def running_reduce(
        self,
        function: Callable[[Any, Any], Any],
        *,
        rowwise: bool = False,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        preload: Preload | None = None,
    ) -> Downstream:
        """Combine all rows of a key so far into one, two at a time.

        Args:
            function: (earlier, later) -> combined, associative, over the columns that are not keys. By
                default both are record batches of equal length, and row i belongs to row i; with
                `rowwise` both are one row (a NamedTuple), and the result is a tuple. Called in any
                bracketing, always in stream order.
            rowwise: call the function for single rows.
            name, tasks, bins: see `KeyedStream`.
            preload: makes a DataFrame of state to start from.
        """
        spec = ReduceSpec(function=function, rowwise=rowwise)
        return self._operator(spec, name, tasks, bins, preload)

    def top(
        self,
        n: int | None,
        by: str | Sequence[str],
        *,
        descending: bool | Sequence[bool] = True,
        rank: str | None = "rank",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """Rank the rows of each key and keep the first `n`: keys, rank (from 1), the other columns.

        Emits each rank whose row changed; keep the latest row per (key, rank) to materialise the table.

        Args:
            n: rows per key; None = all.
            by: columns to order by. Nulls and NaN come last; of equal rows, the one that came first.
            descending: whether the largest come first, for all columns or for each of them.
            rank: name of the rank column; None = no such column.
            name, tasks, bins: see `KeyedStream`.

        Raises:
            DataflowError, UnknownColumnError: rows cannot be ordered like this.
        """
        spec = TopSpec(by=order_of(by, descending), n=number_of(n), rank=rank)
        return self._operator(spec, name, tasks, bins, None)

    def latest(
        self,
        by: str | Sequence[str] = (),
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """Keep the latest row of each key: the one with the largest `by`, and of equal ones the last.

        Emits the row of a key when it changed.

        Args:
            by: columns, such as the event time; empty = stream order.
            name, tasks, bins: see `KeyedStream`.
        """
        order = order_of(by, descending=True) if by else ()
        spec = TopSpec(by=order, n=1, latest=True, rank=None)
        return self._operator(spec, name, tasks, bins, None)

    def running(
        self,
        columns: Mapping[str, RunningFunction] | None = None,
        /,
        *,
        time_column: str | None = None,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        **functions: RunningFunction,
    ) -> Downstream:
        """Add functions of a key's rows so far to every row.

            running(before=agg.lag("price"), n=agg.cumulative(agg.count()))

        Emits keys, the other columns, the new columns.

        Args:
            columns: as in `aggregate`.
            time_column: event times: rows wait until the watermark passes them, and are taken in the
                order of event time; late ones are in `.late`. None = stream order.
            name, tasks, bins: see `KeyedStream`.
            functions: name = running function.

        Raises:
            UnknownColumnError, DataflowError: a function cannot be computed.
        """
        refuse_former("running", functions, on="time_column")
        spec = RunningSpec(functions={**(columns or {}), **functions}, on=time_column)
        return self._in_order_of(time_column, spec, name, tasks, bins)

    @renamed(on="time_column")
    def window(
        self,
        window: Windows,
        *,
        time_column: str | None = None,
        lateness: Duration = 0,
        emit: Literal["on_close", "on_update"] | Every = "on_close",
        time: Literal["event", "processing"] = "event",
    ) -> WindowedStream[Downstream]:
        """Put the rows of each key into windows: `.window(rc.windows.tumbling("10 seconds")).aggregate(...)`.

        Args:
            window: `rc.windows.tumbling`, `sliding` or `sessions`; `same_window()` for rows that come
                out of windows; or `counting(100)`, windows of 100 rows in stream order, or in the order
                of `time_column`, which take none of the other arguments.
            time_column: event times; None = as declared with `event_time`.
            lateness: how long, in event time, a closed window still accepts rows.
            emit: "on_close" = emit a window when the watermark passes its end, and again if a late row
                is accepted; "on_update" = emit every window that received rows, in every timestep;
                `rc.every("10 seconds")` = on close, and before that at this interval of processing time
                if it received rows since.
            time: "event", or "processing" = by the time of the timestep that reads a row. If no rows
                come, a timestep without rows is started to close a window.

        A session that is emitted before it closes, or again, may since have begun earlier or have merged
        with others: a row replaces all earlier rows of its key from `window_start` to `window_end`.
        """
        return windowed(
            self, window, time_column=time_column, lateness=lateness, emit=emit, time=time
        )

    def __repr__(self) -> str:
        return f"<KeyedStream {str(self.node.name)!r} by {', '.join(self.keys) or 'nothing'}>"

    def _repr_html_(self) -> str:
        return picture_of(self.node)

    def _in_order_of(
        self,
        time_column: str | None,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
        tables: Sequence[Any] = (),
    ) -> Downstream:
        """Make an operator that depends on the order of rows: of the stream, or sorted by event time first.

        tables: streams of its broadcast inputs.
        """
        settled = given(name, keyed_name(self.node, spec.kind, self.keys))
        if time_column is None:
            return self._operator(spec, settled, tasks, bins, None, tables)
        held = self._made(*arranged(time_column, settled), tasks, bins, None)
        return replace(self, node=held)._operator(spec, settled, tasks, bins, None, tables)

    def _operator(
        self,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
        preload: Preload | None,
        tables: Sequence[Any] = (),
    ) -> Downstream:
        broadcasts = tuple(table.node for table in tables)
        return self.then(self._made(spec, name, tasks, bins, preload, broadcasts), *tables)

    def _made(
        self,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
        preload: Preload | None,
        broadcasts: tuple[Node, ...] = (),
    ) -> Stateful:
        node = Stateful(
            name=given(name, keyed_name(self.node, spec.kind, self.keys)),
            where=caller(),
            upstream=self.node,
            keys=self.keys,
            spec=spec,
            tasks=tasks,
            bins=bins,
            initial=preload,
            broadcasts=broadcasts,
        )
        check_numbers(node)
        return node
