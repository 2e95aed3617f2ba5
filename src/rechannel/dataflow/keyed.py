"""Streams with keys, and the operators that keep state for each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pyarrow as pa

from rechannel.dataflow.counted import CountedSpec, check_counting
from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.graph import MapBatches, Node, OperatorSpec, Stateful
from rechannel.dataflow.groupwise import ApplySpec
from rechannel.dataflow.naming import caller, given, keyed_name, stateless_name
from rechannel.dataflow.rules import label
from rechannel.dataflow.runnings import ORDER, ArrangeSpec, RunningSpec
from rechannel.dataflow.specs import (
    AggregateSpec,
    CombineSpec,
    ReduceSpec,
    SessionSpec,
    TrackBatchesSpec,
    TrackSpec,
    WindowSpec,
)
from rechannel.dataflow.timing import declared_column
from rechannel.dataflow.tops import TopSpec, number_of, order_of
from rechannel.dataflow.windowing import SAME, Every, Windows, corrects, size_of
from rechannel.errors import DataflowError
from rechannel.kernels.group_frame import ApplyBatches
from rechannel.kernels.logic import AggregateFunction
from rechannel.kernels.running_functions import RunningFunction
from rechannel.kernels.track import Initialise, Update, UpdateBatches
from rechannel.kernels.windows import END, START, AssignWindows
from rechannel.model.ddl import schema_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Behind = TypeVar("Behind")
"""What a stream behind an operator is to the user."""

Initial = Callable[[], "DataFrame"]
"""Makes the state to start from: a DataFrame of key and state columns, one row per key.

State columns are those that the operator emits, where each of them is all the state there is of it
(count, sum, track, ...). A track with a timeout also wants `_seen`: Unix milliseconds, bigint.
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
        initial: Initial | None = None,
        **aggregates: AggregateFunction,
    ) -> Behind:
        """Aggregates of all rows of a key so far: `aggregate(n=count(), mean=mean("price"))`.

        Emits the key and the aggregates of every key that received rows in the timestep.
        columns: aggregates whose names Python cannot spell or that are arguments here.
        initial: makes a DataFrame of state to start from.
        Raises UnknownColumnError, and DataflowError for types an aggregate cannot take.
        """
        spec = AggregateSpec(aggregates={**(columns or {}), **aggregates})
        return self._operator(spec, name, tasks, bins, initial)

    def running_reduce(
        self,
        function: Callable[[Any, Any], Any],
        name: str | None = None,
        *,
        rowwise: bool = False,
        tasks: int | None = None,
        bins: int | None = None,
        initial: Initial | None = None,
    ) -> Behind:
        """All rows of a key so far as one row, combined two by two with an associative function.

        function: (earlier, later) -> combined, over the columns that are not keys. By default both
        are record batches of equal length whose rows i belong together; with `rowwise` both are one
        row (a NamedTuple) and the answer is a tuple. Called in any bracketing, always in stream
        order.
        """
        spec = ReduceSpec(function=function, rowwise=rowwise)
        return self._operator(spec, name, tasks, bins, initial)

    def track(
        self,
        update: Update,
        *,
        state: pa.Schema | str,
        initialise: Initialise | None = None,
        timeout: timedelta | int | None = None,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        initial: Initial | None = None,
    ) -> Behind:
        """State that your own function keeps for every key.

        update: (key, state, rows) -> new state, or None to drop the key. State is a scalar if it
        has one column, else a NamedTuple; None for a key without state. `rows["price"]` is a list
        of the key's values in stream order.
        state: columns of the state, e.g. "n BIGINT, total DOUBLE".
        initialise: (key, first row) -> state, which takes the first row of a key without state.
        timeout: a key that had no rows for longer (timedelta or milliseconds, in timestep time) is
        dropped. Emits key and state of every key that received rows and was not dropped.
        """
        spec = TrackSpec(
            update=update,
            state=schema_of(state),
            initialise=initialise,
            timeout_ms=milliseconds(timeout),
        )
        return self._operator(spec, name, tasks, bins, initial)

    def track_batches(
        self,
        update: UpdateBatches,
        *,
        state: pa.Schema | str,
        timeout: timedelta | int | None = None,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        initial: Initial | None = None,
    ) -> Behind:
        """State that your own vectorised function keeps: one call for all changed keys of a task.

        update: (KeyedFrame) -> state columns as a RecordBatch, polars DataFrame or dict of arrays,
        row i for key i; a boolean column `_drop` says which keys end. What becomes of a key must
        not depend on which others share
        its frame: that changes with the number of tasks.
        """
        spec = TrackBatchesSpec(
            update=update, state=schema_of(state), timeout_ms=milliseconds(timeout)
        )
        return self._operator(spec, name, tasks, bins, initial)

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

        Emits every rank whose row has become another one: whoever keeps the latest row of a key and rank has the
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
        on: str | None = None,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        **functions: RunningFunction,
    ) -> Behind:
        """Every row, with functions of its key's rows up to it: `running(before=lag("price"), n=cumulative(count()))`.

        Emits keys, the other columns, the new ones. columns: as for `aggregate`. on: column of event times: rows wait
        until event time has passed them, and go by it; late ones are in `.late`. None = the order of the stream.
        Raises UnknownColumnError, DataflowError.
        """
        spec = RunningSpec(functions={**(columns or {}), **functions}, on=on)
        settled = given(name, keyed_name(self.node, spec.kind, self.keys))
        if on is None:
            return self._operator(spec, settled, tasks, bins, None)
        held = self._made(ArrangeSpec(on=on), f"{settled}{ORDER}", tasks, bins, None)
        return replace(self, node=held)._operator(spec, settled, tasks, bins, None)

    def window(
        self,
        window: Windows,
        *,
        on: str | None = None,
        lateness: Duration = 0,
        emit: Literal["complete", "change"] | Every = "complete",
        time: Literal["event", "processing"] = "event",
    ) -> WindowedStream[Behind]:
        """The rows of every key by windows of event time: `.window(rc.tumbling("10 seconds")).aggregate(...)`.

        window: `rc.tumbling`, `rc.sliding`, `rc.sessions`, or `rc.same_window()` of rows that come out of windows; or
        `rc.counting(100)`, windows of rows in the order of the stream, which have none of the arguments below.

        on: column of event times; None = the one that `event_time` was given. lateness: how long, in event time, a
        window that is complete still takes rows. emit: "complete" = a window when event time has come to its end,
        and again when a row comes to it after that; "change" = every window that got rows, in every timestep;
        `rc.every("10 seconds")` = also before it is complete, at an interval of processing time, if it got rows since.
        time: "processing" = by the time of the timestep that reads a row; when a window is complete and nothing comes
        in, there is a timestep without rows.
        """
        early = emit.ms if isinstance(emit, Every) else None
        shown = "complete" if isinstance(emit, Every) else emit
        if early is not None and isinstance(window, Windows) and not window.follow:
            msg = f"window ({caller()}): emit=rc.every(...) is for windows that follow one another: rc.tumbling"
            raise DataflowError(msg)
        if not isinstance(window, Windows):
            msg = (
                f"window ({caller()}): say rc.tumbling('10 seconds'), rc.sliding, rc.sessions or rc.counting,"
                f" not {window!r}"
            )
            raise DataflowError(msg)
        if window.counted is not None:
            check_counting(self.keys, on, lateness, shown, time)
            return WindowedStream(keyed=self, window=window, column=None, lateness_us=0, emit=shown)
        if time not in ("event", "processing"):
            msg = f"window ({caller()}): time is 'event' or 'processing', not {time!r}"
            raise DataflowError(msg)
        if time == "processing":
            return replace(self._processing(window, on, lateness, shown), early_ms=early)
        if window.assigned and on is not None:
            msg = f"window ({caller()}): rc.same_window() goes by the window that rows have; leave on= away"
            raise DataflowError(msg)
        if window == SAME:
            window = Windows(size_us=size_of(self.node), every_us=size_of(self.node), assigned=True)
        if not self.keys and window.every_us != window.size_us:
            msg = f"window ({caller()}): windows that overlap need a key; use key_by"
            raise DataflowError(msg)
        column = declared_column(self.node) if on is None and not window.assigned else on or START
        if column is None:
            msg = (
                f"window ({caller()}): say which column has the event times, with on=, or before with"
                " stream.event_time('column')"
            )
            raise DataflowError(msg)
        if shown not in ("complete", "change"):
            msg = f"window ({caller()}): emit is 'complete' or 'change', not {emit!r}"
            raise DataflowError(msg)
        kept = microseconds(lateness, f"window ({caller()}): lateness", least=0)
        fickle = window.every_us != window.size_us or window.gap_us is not None
        if fickle and (kept or shown == "change"):
            msg = (
                f"window ({caller()}): windows that overlap, and sessions, are shown when complete, and take no"
                " lateness"
            )
            raise DataflowError(msg)
        return WindowedStream(
            keyed=self,
            window=window,
            column=column,
            lateness_us=kept,
            emit=shown,
            early_ms=early,
        )

    def _processing(
        self, window: Windows, on: str | None, lateness: Duration, emit: str
    ) -> WindowedStream[Behind]:
        """Windows of processing time."""
        what = f"window ({caller()})"
        if window.gap_us is not None or window.assigned or on is not None or lateness:
            msg = (
                f"{what}: windows of processing time are rc.tumbling or rc.sliding, of no column, and nothing is late"
                " for them"
            )
            raise DataflowError(msg)
        if not self.keys:
            msg = f"{what}: windows of processing time need a key; use key_by"
            raise DataflowError(msg)
        if emit not in ("complete", "change") or (
            window.every_us != window.size_us and emit == "change"
        ):
            msg = f"{what}: emit is 'complete' or, of windows that do not overlap, 'change', not {emit!r}"
            raise DataflowError(msg)
        return WindowedStream(keyed=self, window=window, column=None, lateness_us=0, emit=emit)

    def _operator(
        self,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
        initial: Initial | None,
    ) -> Behind:
        return self.then(self._made(spec, name, tasks, bins, initial))

    def _made(
        self,
        spec: OperatorSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
        initial: Initial | None,
    ) -> Stateful:
        node = Stateful(
            name=given(name, keyed_name(self.node, spec.kind, self.keys)),
            where=caller(),
            upstream=self.node,
            keys=self.keys,
            spec=spec,
            tasks=tasks,
            bins=bins,
            initial=initial,
        )
        check_numbers(node)
        return node


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowedStream(Generic[Behind]):
    """A stream whose rows belong to keys and windows. column: of event times; None = of processing time, or of rows.

    early_ms: at which interval windows that are not complete are shown.
    """

    keyed: KeyedStream[Behind]
    window: Windows
    column: str | None
    lateness_us: int
    emit: str
    early_ms: int | None = None

    def aggregate(
        self,
        columns: Mapping[str, AggregateFunction] | None = None,
        /,
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        **aggregates: AggregateFunction,
    ) -> Behind:
        """Aggregates of the rows of a key in a window: key columns, `window_start`, `window_end`, aggregates.

        Windows of rows have `window`, their number from 0, instead of the two times.
        Arguments as in `KeyedStream.aggregate`. Rows that come when their window is gone are in `.late` of what
        this returns, and counted in either case.
        """
        made = AggregateSpec(aggregates={**(columns or {}), **aggregates})
        return self._aggregated(made, name, tasks, bins)

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        *,
        inverse: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Behind:
        """The rows of a key in a window as one, combined two by two: keys, `window_start`, `window_end`, other columns.

        function: (earlier, later) -> combined, associative and commutative, over the columns that are neither keys nor
        the event time: record batches of equal length whose rows i belong together. inverse: (combined, leaving) ->
        what is left, exactly what `function` makes of the others; windows that overlap then cost what enters and
        leaves them, and not all that is in them.
        """
        return self._aggregated(CombineSpec(function=function, inverse=inverse), name, tasks, bins)

    def _aggregated(
        self,
        aggregates: AggregateSpec | CombineSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
    ) -> Behind:
        keyed = self.keyed
        if self.window.counted is not None:
            size, every = self.window.counted
            if isinstance(aggregates, CombineSpec):
                msg = f"window ({caller()}): windows of rows have aggregates; reduce is for windows of time"
                raise DataflowError(msg)
            counted = CountedSpec(aggregates=aggregates, size=size, every=every)
            return keyed._operator(counted, name, tasks, bins, None)
        if self.window.gap_us is not None and self.column is not None:
            made = SessionSpec(aggregates=aggregates, gap_us=self.window.gap_us, on=self.column)
            return keyed._operator(made, name, tasks, bins, None)
        spec = WindowSpec(
            aggregates=aggregates,
            size_us=self.window.size_us,
            every_us=self.window.every_us,
            offset_us=self.window.offset_us,
            lateness_us=self.lateness_us,
            on_close=self.emit == "complete",
            assigned=self.window.assigned,
            column=self.column,
            processing=self.column is None,
            early_ms=self.early_ms,
        )
        settled = given(name, keyed_name(keyed.node, spec.kind, keyed.keys))
        inside = self._inside(settled if name else None, spec.pane_us)
        return inside._operator(spec, settled, tasks, bins, None)

    def top(
        self,
        n: int | None,
        by: str | Sequence[str],
        *,
        descending: bool | Sequence[bool] = True,
        ties: bool = False,
        rank: str | None = "rank",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Behind:
        """The first `n` rows of every key in every window, shown when it is complete. As `KeyedStream.top`.

        ties: rows that are alike to the `n`th in the order are in as well.

        Windows that overlap, lateness and emit="change" are refused.
        """
        self._shown_once(f"top ({caller()})")
        window = self.window
        spec = TopSpec(
            by=order_of(by, descending),
            n=number_of(n),
            ties=ties,
            rank=rank,
            window_us=window.size_us,
            offset_us=None if window.assigned else window.offset_us,
            column=self.column,
        )
        settled = given(name, keyed_name(self.keyed.node, spec.kind, self.keyed.keys))
        inside = self._inside(settled if name else None, window.size_us)
        return inside._operator(spec, settled, tasks, bins, None)

    def apply_batches(
        self,
        function: ApplyBatches,
        schema: pa.Schema | str,
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Behind:
        """What a vectorised function makes of all rows of a key in a window, when it is complete.

        function: (GroupFrame) -> rows, as a RecordBatch, polars DataFrame or dict of arrays: one per key, or, with a
        column `_key` that has the number of each row's key, any number. What is made of a key must not depend on which
        others share its frame. schema: columns of what it returns. Emits keys, window, these columns. Windows that
        overlap, sessions, lateness and emit="change" are refused.
        """
        self._shown_once(f"apply_batches ({caller()})")
        spec = ApplySpec(
            function=function,
            schema=schema_of(schema),
            window_us=self.window.size_us,
            offset_us=None if self.window.assigned else self.window.offset_us,
            column=self.column or START,
        )
        settled = given(name, keyed_name(self.keyed.node, spec.kind, self.keyed.keys))
        inside = self._inside(settled if name else None, self.window.size_us)
        return inside._operator(spec, settled, tasks, bins, None)

    def _shown_once(self, what: str) -> None:
        """Raise DataflowError for windows whose rows are not all there when they are complete."""
        window = self.window
        fickle = window.every_us != window.size_us or window.gap_us is not None
        corrected = self.lateness_us or self.emit != "complete" or self.early_ms
        if fickle or corrected or self.column is None:
            msg = (
                f"{what}: windows follow one another, are of event time, are shown when complete, and take no lateness;"
                " use rc.tumbling or rc.same_window"
            )
            raise DataflowError(msg)
        if window.assigned and corrects(self.keyed.node):
            msg = (
                f"{what}: the windows before it are shown again when rows come to them, and it would count them twice;"
                " leave lateness= and emit='change' away there"
            )
            raise DataflowError(msg)

    def _inside(self, name: str | None, pane_us: int) -> KeyedStream[Behind]:
        """Rows with the start of their window (or pane), which is a key. name: of the operator, if it has one."""
        keyed = self.keyed
        for key in (START, END):
            if key in keyed.keys:
                msg = (
                    f"window ({caller()}): key {key!r} has the name of a window's column; rename it"
                )
                raise DataflowError(msg)
        keys = (*keyed.keys, START)
        if self.window.assigned:
            return KeyedStream(node=keyed.node, keys=keys, then=keyed.then)
        if self.column is None:
            return keyed
        assigned = MapBatches(
            name=f"{name}.windows" if name else stateless_name(keyed.node, "windows"),
            where=caller(),
            upstream=keyed.node,
            function=AssignWindows(
                column=self.column, size_us=pane_us, offset_us=self.window.offset_us
            ),
            schema=None,
        )
        return KeyedStream(node=assigned, keys=keys, then=keyed.then)


def milliseconds(timeout: timedelta | int | None) -> int | None:
    """A length of time in whole milliseconds. Raises DataflowError unless it is positive."""
    if timeout is None:
        return None
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
        msg = f"{label(node)}: initial must be a function that makes a DataFrame"
        raise DataflowError(msg)
