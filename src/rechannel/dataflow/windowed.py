"""Rows of keys in windows, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pyarrow as pa

from rechannel.dataflow.counted import CountedSpec, check_counting
from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.graph import MapBatches
from rechannel.dataflow.groupwise import ApplySessionSpec, ApplySpec
from rechannel.dataflow.naming import caller, given, keyed_name, stateless_name
from rechannel.dataflow.specs import AggregateSpec, named_aggregates
from rechannel.dataflow.timing import declared_column
from rechannel.dataflow.tops import TopSpec, number_of, order_of, ranking_of
from rechannel.dataflow.window_specs import CombineSpec, SessionSpec, WindowSpec
from rechannel.dataflow.windowing import SAME, Every, Windows, corrects, size_of
from rechannel.errors import DataflowError
from rechannel.kernels.group_frame import ApplyBatches
from rechannel.kernels.logic import AggregateFunction
from rechannel.kernels.windows import END, START
from rechannel.model.ddl import schema_of

if TYPE_CHECKING:
    from rechannel.dataflow.keyed import KeyedStream

Behind = TypeVar("Behind")
"""What a stream behind an operator is to the user."""


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
        made = AggregateSpec(aggregates=named_aggregates(columns, aggregates))
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
            counted = CountedSpec(aggregates=aggregates, size=size, every=every, on=self.column)
            return keyed._in_order_of(self.column, counted, name, tasks, bins)
        self._of_final_rows(f"window ({caller()})")
        if self.window.gap_us is not None:
            made = SessionSpec(
                aggregates=aggregates,
                gap_us=self.window.gap_us,
                on=self.column,
                lateness_us=self.lateness_us,
                on_close=self.emit == "complete",
                early_ms=self.early_ms,
            )
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
        spec = replace(spec, copies=spec.needs_copies(aggregates, keyed=bool(keyed.keys)))
        settled = given(name, keyed_name(keyed.node, spec.kind, keyed.keys))
        panes = replace(self.window, size_us=spec.pane_us, every_us=spec.pane_us)
        inside = self._inside(settled if name else None, self.window if spec.copies else panes)
        return inside._operator(spec, settled, tasks, bins, None)

    def top(  # noqa: PLR0913 - as many as there are things to say
        self,
        n: int | None,
        by: str | Sequence[str],
        *,
        descending: bool | Sequence[bool] = True,
        ties: bool = False,
        ranking: Literal["row_number", "rank", "dense_rank"] = "row_number",
        rank: str | None = "rank",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Behind:
        """The first `n` rows of every key in every window, shown when it is complete. As `KeyedStream.top`.

        ties: rows that are alike to the `n`th in the order are in as well.
        ranking: as in SQL. Of rows that are alike, each has a number of its own; or all have the first one's, and the
        next row that of its place ("rank") or the next number ("dense_rank"). `n` rows are the first `n` row numbers;
        with `ties` all of rank `n` at most, or of dense rank `n` at most.

        Sessions, lateness and emit="change" are refused.
        """
        self._shown_once(f"top ({caller()})")
        window = self.window
        spec = TopSpec(
            by=order_of(by, descending),
            n=number_of(n),
            ties=ties,
            ranking=ranking_of(ranking),
            rank=rank,
            window_us=window.size_us,
            offset_us=window.anchor_us,
            every_us=window.every_us if window.overlap else None,
            column=self.column,
        )
        settled = given(name, keyed_name(self.keyed.node, spec.kind, self.keyed.keys))
        inside = self._inside(settled if name else None, window)
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
        others share its frame. schema: columns of what it returns. Emits keys, window, these columns. Of windows that
        overlap, each holds its rows itself; lateness and other ways of showing are refused.

        Sessions take both: then the function is called for a session every time that it is shown. `window_start` and
        `window_end` are keys of the frame. All rows of a session are written again when rows come to it.
        """
        if self.window.gap_us is not None:
            self._of_final_rows(f"apply_batches ({caller()})")
            sessions = ApplySessionSpec(
                function=function,
                schema=schema_of(schema),
                gap_us=self.window.gap_us,
                on=self.column,
                lateness_us=self.lateness_us,
                on_close=self.emit == "complete",
                early_ms=self.early_ms,
            )
            return self.keyed._operator(sessions, name, tasks, bins, None)
        self._shown_once(f"apply_batches ({caller()})")
        spec = ApplySpec(
            function=function,
            schema=schema_of(schema),
            window_us=self.window.size_us,
            offset_us=self.window.anchor_us,
            every_us=self.window.every_us if self.window.overlap else None,
            column=self.column or START,
        )
        settled = given(name, keyed_name(self.keyed.node, spec.kind, self.keyed.keys))
        inside = self._inside(settled if name else None, self.window)
        return inside._operator(spec, settled, tasks, bins, None)

    def _shown_once(self, what: str) -> None:
        """Raise DataflowError for windows whose rows are not all there when they are complete."""
        corrected = self.lateness_us or self.emit != "complete" or self.early_ms
        several = self.window.gap_us is not None or self.window.counted is not None
        if several or corrected or self.column is None:
            msg = (
                f"{what}: windows are of one length and of event time, are shown when complete, and take no lateness;"
                " use rc.tumbling, rc.sliding or rc.same_window"
            )
            raise DataflowError(msg)
        self._of_final_rows(what)

    def _of_final_rows(self, what: str) -> None:
        """Raise DataflowError for windows of windows that are shown more than once."""
        of_windows = self.window.assigned or self.column in (START, END)
        if of_windows and corrects(self.keyed.node):
            msg = (
                f"{what}: the windows before it are shown again when rows come to them, and it would count them twice;"
                " leave lateness= and emit= away there"
            )
            raise DataflowError(msg)

    def _inside(self, name: str | None, windows: Windows) -> KeyedStream[Behind]:
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
            return replace(keyed, keys=keys)
        if self.column is None:
            return keyed
        assigned = MapBatches(
            name=f"{name}.windows" if name else stateless_name(keyed.node, "windows"),
            where=caller(),
            upstream=keyed.node,
            function=windows.assign(self.column),
            schema=None,
        )
        return replace(keyed, node=assigned, keys=keys)


def windowed(
    keyed: KeyedStream[Behind],
    window: Windows,
    *,
    on: str | None,
    lateness: Duration,
    emit: str | Every,
    time: str,
) -> WindowedStream[Behind]:
    """Rows of keys by windows, as `KeyedStream.window` says. Raises DataflowError."""
    early = emit.ms if isinstance(emit, Every) else None
    shown = "complete" if isinstance(emit, Every) else emit
    if not isinstance(window, Windows):
        msg = (
            f"window ({caller()}): say rc.tumbling('10 seconds'), rc.sliding, rc.sessions or rc.counting,"
            f" not {window!r}"
        )
        raise DataflowError(msg)
    shows_early = window.timed or window.gap_us is not None
    if early is not None and (not shows_early or (window.overlap and time == "processing")):
        msg = (
            f"window ({caller()}): emit=rc.every(...) is for rc.tumbling and rc.sessions, and in event time for"
            " rc.sliding"
        )
        raise DataflowError(msg)
    if window.counted is not None:
        check_counting(keyed.keys, lateness, shown, time)
        return WindowedStream(keyed=keyed, window=window, column=on, lateness_us=0, emit=shown)
    if time not in ("event", "processing"):
        msg = f"window ({caller()}): time is 'event' or 'processing', not {time!r}"
        raise DataflowError(msg)
    if time == "processing":
        return replace(_processing(keyed, window, on, lateness, shown), early_ms=early)
    if window.assigned and on is not None:
        msg = f"window ({caller()}): rc.same_window() goes by the window that rows have; leave on= away"
        raise DataflowError(msg)
    if window == SAME:
        window = Windows(size_us=size_of(keyed.node), every_us=size_of(keyed.node), assigned=True)
    if not keyed.keys and window.gap_us is not None:
        msg = f"window ({caller()}): sessions need a key; use key_by"
        raise DataflowError(msg)
    column = declared_column(keyed.node) if on is None and not window.assigned else on or START
    if column is None:
        msg = (
            f"window ({caller()}): say which column has the event times, with on=, or before with"
            " stream.event_time('column')"
        )
        raise DataflowError(msg)
    if shown not in ("complete", "change"):
        msg = f"window ({caller()}): emit is 'complete', 'change' or rc.every(...), not {emit!r}"
        raise DataflowError(msg)
    kept = microseconds(lateness, f"window ({caller()}): lateness", least=0)
    return WindowedStream(
        keyed=keyed,
        window=window,
        column=column,
        lateness_us=kept,
        emit=shown,
        early_ms=early,
    )


def _processing(
    keyed: KeyedStream[Behind], window: Windows, on: str | None, lateness: Duration, emit: str
) -> WindowedStream[Behind]:
    """Windows of processing time."""
    what = f"window ({caller()})"
    if window.assigned or on is not None or lateness:
        msg = (
            f"{what}: windows of processing time are rc.tumbling, rc.sliding or rc.sessions, of no column, and nothing"
            " is late for them"
        )
        raise DataflowError(msg)
    if not keyed.keys:
        msg = f"{what}: windows of processing time need a key; use key_by"
        raise DataflowError(msg)
    if emit not in ("complete", "change") or (window.overlap and emit == "change"):
        msg = (
            f"{what}: emit is 'complete' or, of windows that do not overlap, 'change', not {emit!r}"
        )
        raise DataflowError(msg)
    return WindowedStream(keyed=keyed, window=window, column=None, lateness_us=0, emit=emit)
