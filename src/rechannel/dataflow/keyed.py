"""Streams with keys, and the operators that keep state for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pyarrow as pa

from rechannel.dataflow.dead import has_dead_letters
from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.former import renamed
from rechannel.dataflow.graph import Node, Stateful
from rechannel.dataflow.naming import caller, given, keyed_name
from rechannel.dataflow.rules import label
from rechannel.dataflow.runnings import arranged
from rechannel.dataflow.shown import picture_of
from rechannel.dataflow.timing import declared_column
from rechannel.dataflow.tops import number_of, order_of
from rechannel.dataflow.windowed import WindowedStream, windowed
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
"""What a stream behind an operator is to the user."""

Preload = Callable[[], "DataFrame"]
"""Makes the state to start from: a DataFrame of key and state columns, one row per key.

State columns are those that the operator emits, where each of them is all the state there is of it
(count, sum, track, ...). A track with a timeout also wants `_seen`, Unix milliseconds, or, by event time
or with `expired`, `_until`, Unix microseconds: bigint.
"""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class KeyedStream(Generic[Behind]):
    """A stream whose rows belong to keys; null is a key like any other, as in SQL's GROUP BY.

    All operators share these arguments. name: names the state; keep it and the state is kept.
    tasks: parallelism to start with; bins: pieces in which state is placed and moved (None = the
    job's defaults).
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
        """Aggregates of all rows of a key so far: `aggregate(n=count(), mean=mean("price"))`.

        Emits the key and the aggregates of every key that received rows in the timestep.
        columns: aggregates whose names Python cannot spell or that are arguments here.
        preload: makes a DataFrame of state to start from.
        Raises UnknownColumnError, and DataflowError for types an aggregate cannot take.
        """
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
        """All rows of a key so far as one row, combined two by two with an associative function.

        function: (earlier, later) -> combined, over the columns that are not keys. By default both
        are record batches of equal length whose rows i belong together; with `rowwise` both are one
        row (a NamedTuple) and the answer is a tuple. Called in any bracketing, always in stream
        order.
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
        """State that your own function keeps for every key.

        update: (key, state, rows) -> new state, or None to drop the key. State is a scalar if it
        has one column, else a NamedTuple; None for a key without state. `rows["price"]` is a list
        of the key's values in stream order.
        state: columns of the state, e.g. "n BIGINT, total DOUBLE".
        init_state: (key, first row) -> state, which takes the first row of a key without state.
        timeout: a key that had no rows for longer is dropped. Emits key and state of every key that received rows and
        was not dropped.
        time: of the timestep, or "event": a key is dropped when event time is the timeout beyond its latest row; rows
        that are older than that, and those without a time, are in `.late`. time_column: event times; None = the one
        that `event_time` was given. expired: (key, state) -> the state to emit of a key that the timeout drops, or None
        for nothing; a timestep without rows is begun for it. on_error: "dead_letter" = where update or init_state fails
        for a key, its rows of this timestep are in `.dead_letters` and its state stays; "fail" = the timestep fails.
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
        """State that your own vectorised function keeps: one call for all changed keys of a task.

        update: (KeyedFrame) -> state columns as a RecordBatch, polars DataFrame or dict of arrays,
        row i for key i; a boolean column `_drop` says which keys end. What becomes of a key must
        not depend on which others share
        its frame: that changes with the number of tasks.
        timeout, time, time_column: as for `track`. expired: (KeyedFrame without rows) -> state columns to emit, or
        None for
        nothing; `_drop` says which keys show nothing. on_error: as for `track`; a function that fails
        is called for halves of the keys, down to single ones.
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
        """The first `n` rows of every key in an order, with their ranks from 1: keys, rank, the other columns.

        Emits every rank whose row has become another one: a reader that keeps the latest row of a key and rank has the
        table. n: None = all. by: columns; descending: the largest come first, for all or for each of them. Nulls and
        NaN come last; of rows that are alike, the one that came first is in front. rank: its name; None = without.
        Raises DataflowError, UnknownColumnError.
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
        """The last row of every key, whole: the one with the largest `by`, and of those the one that came last.

        by: columns, such as the event time; none = the order of the stream. Emits it when it has become another one.
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
        """Every row, with functions of its key's rows up to it: `running(before=lag("price"), n=cumulative(count()))`.

        Emits keys, the other columns, the new ones. columns: as for `aggregate`. time_column: event times: rows wait
        until event time has passed them, and go by it; late ones are in `.late`. None = the order of the stream.
        Raises UnknownColumnError, DataflowError.
        """
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
        """The rows of every key by windows of event time: `.window(rc.windows.tumbling("10 seconds")).aggregate(...)`.

        window: `rc.windows.tumbling`, `sliding` or `sessions`, or `same_window()` of rows that come out of windows; or
        `rc.windows.counting(100)`, windows of rows in the order of the stream, or of the event times in
        `time_column`, with none of the other arguments below.

        time_column: event times; None = the one that `event_time` was given. lateness: how long, in event time, a
        window that is complete still takes rows. emit: "on_close" = a window when event time has come to its end,
        and again when a row comes to it after that; "on_update" = every window that got rows, in every timestep;
        `rc.every("10 seconds")` = also before it is complete, at an interval of processing time, if it got rows since.
        time: "processing" = by the time of the timestep that reads a row; when a window is complete and nothing comes
        in, there is a timestep without rows.

        A session that is shown early, with every change, or again, may have begun earlier since, or have become one
        with others: a row takes the place of all earlier ones of its key from `window_start` to `window_end`.
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
        """The column by whose times a timeout goes; None = the time of timesteps."""
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
        """An operator that goes by the order of rows: of the stream, or of event time, behind one that holds them."""
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
    """A length of time in whole milliseconds. Raises DataflowError unless it is positive."""
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
    """Raise DataflowError for a number of tasks or bins that cannot be."""
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
