"""Streams with keys, and the operators that keep state per key."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pyarrow as pa

from rechannel.dataflow.checks.dead import has_dead_letters
from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.dataflow.graph.naming import caller, given, keyed_name
from rechannel.dataflow.graph.nodes import Node, Stateful
from rechannel.dataflow.graph.rules import label
from rechannel.dataflow.graph.timing import declared_column
from rechannel.dataflow.shown import picture_of
from rechannel.dataflow.streams.former import refuse_former, renamed
from rechannel.dataflow.streams.runnings import arranged
from rechannel.dataflow.streams.tops import number_of, order_of
from rechannel.dataflow.streams.windowed import WindowedStream, windowed
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import OnError
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.spec import AggregateSpec, ReduceSpec, named_aggregates
from rechannel.operators.ordered.running_functions import RunningFunction
from rechannel.operators.ordered.running_spec import RunningSpec
from rechannel.operators.ordered.top_spec import TopSpec
from rechannel.operators.process.track import (
    Expired,
    ExpiredBatches,
    Update,
    UpdateBatches,
)
from rechannel.operators.process.track import Initialise as InitState
from rechannel.operators.process.track_spec import TrackBatchesSpec, TrackSpec
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.kinds import Windows
from rechannel.operators.window.terms import Every

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Behind = TypeVar("Behind")
"""The stream that an operator returns."""

Preload = Callable[[], "DataFrame"]
"""Makes the state to start from: a DataFrame of key and state columns, one row per key.

State columns are named as the operator's output, for operators whose output is their state (count, sum,
track, ...). A track with a timeout also needs a bigint column: `_seen`, Unix milliseconds, or, with event
time or `expired`, `_until`, Unix microseconds.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedStream(Generic[Behind]):
    """A stream whose rows have a key. Null is a key like any other, as in SQL's GROUP BY.

    All operators take these arguments:

    - name: names the state. Under the same name, the state is kept over restarts and changes.
    - tasks: initial parallelism; None = the job's default.
    - bins: pieces in which state is placed and moved; None = the job's default.
    """

    node: Node
    keys: tuple[str, ...]
    then: Callable[[Node], Behind]

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
    ) -> Behind:
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
    ) -> Behind:
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

    @renamed(on="time_column", initialise="init_state", initial="preload")
    def track(  # noqa: PLR0913 - as many as there are things to say
        self,
        update: Update,
        *,
        state: pa.Schema | str,
        init_state: InitState | None = None,
        timeout: Duration | None = None,
        time: Literal["processing", "event"] = "processing",
        time_column: str | None = None,
        expired: Expired | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        preload: Preload | None = None,
    ) -> Behind:
        """Keep state per key with a Python function.

        Emits key and state of every key that received rows and was not dropped.

        Args:
            update: (key, state, rows) -> new state, or None to drop the key. State is a scalar if it has
                one column, else a NamedTuple; None for a key without state. `rows["price"]` is the list
                of the key's values in stream order.
            state: columns of the state, such as "n BIGINT, total DOUBLE".
            init_state: (key, first row) -> state: takes the first row of a key without state.
            timeout: drop a key that received no rows for longer.
            time: what `timeout` refers to. "processing" = the time of timesteps. "event" = a key is
                dropped when the watermark is `timeout` beyond its latest row; rows that are older than
                that, and rows without a time, are in `.late`.
            time_column: event times; None = as declared with `event_time`.
            expired: (key, state) -> the state to emit for a key that the timeout drops, or None to emit
                nothing. A timestep without rows is started for it if necessary.
            on_error: "fail" = the timestep fails; "dead_letter" = if a function fails for a key, the
                key's rows of this timestep are in `.dead_letters`, and its state does not change.
            name, tasks, bins: see `KeyedStream`.
            preload: makes a DataFrame of state to start from.
        """
        has_dead_letters("track", on_error)
        spec = TrackSpec(
            update=update,
            state=schema_of(state),
            initialise=init_state,
            timeout_ms=milliseconds(timeout),
            on=self._timed_by("track", time, time_column, timeout),
            expired=expired,
            on_error=on_error,
        )
        return self._operator(spec, name, tasks, bins, preload)

    @renamed(on="time_column", initial="preload")
    def track_batches(  # noqa: PLR0913 - as many as there are things to say
        self,
        update: UpdateBatches,
        *,
        state: pa.Schema | str,
        timeout: Duration | None = None,
        time: Literal["processing", "event"] = "processing",
        time_column: str | None = None,
        expired: ExpiredBatches | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        preload: Preload | None = None,
    ) -> Behind:
        """Keep state per key with a vectorised function: one call for all changed keys of a task.

        Args:
            update: (KeyedFrame) -> state columns as a RecordBatch, polars DataFrame or dict of arrays;
                row i belongs to key i. A boolean column `_drop` marks the keys to drop. The result for
                a key must not depend on the other keys in the frame, which change with the number of
                tasks.
            state: columns of the state.
            timeout, time, time_column: as in `track`.
            expired: (KeyedFrame without rows) -> state columns to emit, or None to emit nothing; `_drop`
                marks keys for which nothing is emitted.
            on_error: as in `track`; a function that fails is called for halves of the keys, down to
                single ones.
            name, tasks, bins: see `KeyedStream`.
            preload: makes a DataFrame of state to start from.
        """
        has_dead_letters("track_batches", on_error)
        spec = TrackBatchesSpec(
            update=update,
            state=schema_of(state),
            timeout_ms=milliseconds(timeout),
            on=self._timed_by("track_batches", time, time_column, timeout),
            expired=expired,
            on_error=on_error,
        )
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
    ) -> Behind:
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
    ) -> Behind:
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
    ) -> Behind:
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
    ) -> WindowedStream[Behind]:
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

    def _timed_by(
        self, operator: str, time: str, time_column: str | None, timeout: Duration | None
    ) -> str | None:
        """Return the column of event times that a timeout refers to; None = the time of timesteps."""
        what = f"{operator} ({caller()})"
        if time not in ("event", "processing"):
            msg = f"{what}: time is 'event' or 'processing', not {time!r}"
            raise DataflowError(msg)
        if time == "processing" and time_column is None:
            return None
        if time == "processing" or timeout is None:
            msg = f"{what}: time= and time_column= say by which times a timeout= goes; time_column= is for time='event'"
            raise DataflowError(msg)
        column = declared_column(self.node) if time_column is None else time_column
        if column is None:
            msg = f"{what}: say which column has the event times, with time_column= or before with event_time('column')"
            raise DataflowError(msg)
        return column

    def _in_order_of(
        self,
        time_column: str | None,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
    ) -> Behind:
        """Make an operator that depends on the order of rows: of the stream, or sorted by event time first."""
        settled = given(name, keyed_name(self.node, spec.kind, self.keys))
        if time_column is None:
            return self._operator(spec, settled, tasks, bins, None)
        held = self._made(*arranged(time_column, settled), tasks, bins, None)
        return replace(self, node=held)._operator(spec, settled, tasks, bins, None)

    def _operator(
        self,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
        preload: Preload | None,
    ) -> Behind:
        return self.then(self._made(spec, name, tasks, bins, preload))

    def _made(
        self,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
        preload: Preload | None,
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
        )
        check_numbers(node)
        return node


def milliseconds(timeout: Duration | None) -> int | None:
    """Return a length of time in whole milliseconds. Raises DataflowError unless it is positive."""
    if timeout is None:
        return None
    if isinstance(timeout, str):
        timeout = timedelta(microseconds=microseconds(timeout, "a timeout"))
    length = timeout // timedelta(milliseconds=1) if isinstance(timeout, timedelta) else timeout
    if isinstance(length, bool) or not isinstance(length, int) or length < 1:
        msg = f"a timeout is a timedelta or whole milliseconds of at least 1, not {timeout!r}"
        raise DataflowError(msg)
    return length


def check_numbers(node: Stateful) -> None:
    """Raise DataflowError for an invalid number of tasks or bins, or an invalid preload."""
    for what, value in (("tasks", node.tasks), ("bins", node.bins)):
        if value is not None and (
            isinstance(value, bool) or not isinstance(value, int) or value < 1
        ):
            msg = f"{label(node)}: {what} must be a whole number of at least 1, not {value!r}"
            raise DataflowError(msg)
    if node.tasks is not None and node.bins is not None and node.bins < node.tasks:
        msg = f"{label(node)}: {node.bins} bins cannot feed {node.tasks} tasks; give more bins"
        raise DataflowError(msg)
    if node.initial is not None and not callable(node.initial):
        msg = f"{label(node)}: preload must be a function that makes a DataFrame"
        raise DataflowError(msg)
