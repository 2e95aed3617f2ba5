"""`process` with one call per key: a Python function that emits any rows, with states and timers of the key.

What happens to a key in a timestep. In the order of the stream, all its rows come first, in one call; then its timers
go off that the watermark has passed, by their time and name. In the order of event time (`on`), the rows of one time
come in one call, and before them the timers go off that are not later: so what becomes of a key is the same however its
rows are cut into timesteps, also if all of them come in one. A timer that is set to a time that has passed goes off
next.

If timers go by both times, all of that holds for those of event time. Then the timers of processing time go off that
the time of the timestep has reached, by their time and name. If one of them sets a timer of event time that is due,
that one goes off before the next one of processing time.

Either all of that counts or, if the function fails for the rows, nothing, but for the timers, which then go off as if
no row had come.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.dead_letters import divides, error_text, misfits
from rechannel.kernels.functions.emitted import Emitted, rows_in
from rechannel.kernels.functions.python_rows import LazyColumns, Rows, python_keys
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.kernels.protocol.bases import column_of, held_by
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.kernels.shuffle.watermarks import micros
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import NEVER
from rechannel.operators.process.context import (
    Context,
    Handles,
    Side,
    Timer,
    Timers,
    handles_of,
    moment_of,
    pieces_of,
    written_to,
)
from rechannel.operators.process.handles import Cursor, Made
from rechannel.operators.process.processing import Processing
from rechannel.operators.process.reading import emitting
from rechannel.operators.process.stored import Held

Process = Callable[[Any, Rows, Context], Any]
"""(key, rows, context) -> rows to emit, or None for none."""

OnTimer = Callable[[Any, Timer, Context], Any]
"""(key, timer that went off, context) -> rows to emit, or None for none."""

_Piece = tuple[int, int, int]
"""Where the rows of one time of a key begin and end, and the time."""

MOST_TIMERS = 1_000_000
"""Timers of a key that may go off in a timestep: a function that sets one for now whenever one goes off never ends."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessLogic(Processing):
    """One Python function per key: a `StatefulLogic`."""

    function: Process
    on_timer: OnTimer | None = None

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Call the functions. Raises UserFunctionError naming the key."""
        failed: dict[int, str] = {}
        while True:
            calls = _Calls.of(self, arrivals, failed)
            calls.make()
            try:
                return calls.output()
            except UserFunctionError:
                if not divides(self):
                    raise
                # Nothing tells which key it is of but trying: then everything is called again without them.
                tried = [key for key in range(arrivals.groups.count) if key not in calls.failed]
                unfit = misfits(tried, calls.fitting)
                if not unfit:
                    raise
                failed = {**calls.failed, **unfit}


@dataclass(kw_only=True)
class _Calls:
    """The calls of one `apply`. keys: as Python values. failed: what was wrong, by key, where the function failed."""

    logic: ProcessLogic
    arrivals: OperatorInput
    failed: dict[int, str]
    keys: list[Any]
    held: Held
    cursor: Cursor
    handles: Handles
    timers: Timers
    sides: dict[str, Side]
    sizes: IntArray
    """How many rows were made for each key."""
    own: Callable[[Any], Any]
    """What makes of a row that is yielded one that the function cannot change any more."""
    rows: list[Any] = field(default_factory=list)

    @classmethod
    def of(cls, logic: ProcessLogic, arrivals: OperatorInput, failed: dict[int, str]) -> _Calls:
        """Prepare the calls for all keys. Raises UserFunctionError for a key that Python cannot represent."""
        count, cursor = arrivals.groups.count, Cursor()
        held = Held(logic.layout, held_by(arrivals), count)
        unheld: dict[int, str] = {}
        keys = python_keys(arrivals.keys, logic.keys.names, count, unheld)
        if unheld and not divides(logic):
            key, why = min(unheld.items())
            msg = f"{function_name(logic.function)} cannot be called for key {keys[key]!r}: {why}"
            raise UserFunctionError(msg)
        return cls(
            logic=logic,
            arrivals=arrivals,
            failed={**failed, **unheld},
            keys=keys,
            held=held,
            cursor=cursor,
            handles=handles_of(logic.states, cursor, held, count),
            timers=Timers(held),
            sides={name: Side(emitting(fields)) for name, fields in logic.sides.items()},
            sizes=np.ones(count, dtype=np.int64),
            own=emitting(logic.fields),
        )

    def make(self) -> None:
        """Call the functions for all keys. Raises UserFunctionError."""
        logic = self.logic
        context = Context(
            self.arrivals.clock,
            self.cursor,
            self.handles,
            self.timers,
            logic.timers,
            self.sides,
            tables=self.arrivals.broadcast,
        )
        columns = LazyColumns(self.arrivals.values, tuple(logic.value_schema.names))
        if logic.on is None and not logic.timers and not self.failed:
            self._call_each(context, columns)
        else:
            self._call_in_turn(context, columns)

    def _call_each(self, context: Context, columns: LazyColumns) -> None:
        """Call the function once for every key, where nothing else can happen to one."""
        function, cursor, rows, sizes = self.logic.function, self.cursor, self.rows, self.sizes
        groups = self.arrivals.groups
        some = map(Rows, repeat(columns), groups.starts.tolist(), groups.ends.tolist())
        each = zip(range(len(self.keys)), self.keys, some, strict=True)
        while True:
            try:
                for cursor.key, key, mine in each:
                    made = function(key, mine, context)
                    if type(made) is list and len(made) == 1:
                        rows.append(made[0])
                        continue
                    every = [] if made is None else list(self._own(made))
                    sizes[cursor.key] = len(every)
                    rows += every
                return
            except Exception as error:
                self._failed(error, len(rows))
                sizes[cursor.key] = 0

    def _own(self, made: Any) -> Iterable[Any]:
        """Return the rows that a function returned, or yields, each as it is at that moment. Raises TypeError."""
        return made if type(made) is list else map(self.own, rows_in(made))

    def _call_in_turn(self, context: Context, columns: LazyColumns) -> None:
        """Call the function for the rows of every key, of one time after the other if they come so, and `on_timer`."""
        groups, function, rows = self.arrivals.groups, self.logic.function, self.rows
        pieces = self._pieces() if self.logic.on is not None else None
        clock, timed = self.arrivals.clock, bool(self.logic.timers)
        each = zip(self.keys, groups.starts.tolist(), groups.ends.tolist(), strict=True)
        for at, (key, start, stop) in enumerate(each):
            self.cursor.key, before = at, len(rows)
            if start < stop and at not in self.failed:
                try:
                    if pieces is None:
                        made = function(key, Rows(columns, start, stop), context)
                        if made is not None:
                            rows += self._own(made)
                    else:
                        self._call_by_time(key, pieces[at], context, columns)
                except _TimerFailed as failed:
                    raise failed.error from failed.error.__cause__
                except Exception as error:
                    self._failed(error, before)
            if timed and self.timers.are_set(at):
                self._fire(key, context, clock.watermark, clock.processing)
            self.sizes[at] = len(rows) - before

    def _call_by_time(
        self, key: Any, pieces: list[_Piece], context: Context, columns: LazyColumns
    ) -> None:
        """Call the function for the rows of one time of a key after the other. Raises whatever it raises."""
        function, between = self.logic.function, self.logic.by_event_time
        for begin, end, time in pieces:
            if between and self.timers.are_set(self.cursor.key):
                self._fire_before(key, time, context)
            made = function(key, Rows(columns, begin, end), context)
            if made is not None:
                self.rows += self._own(made)

    def _pieces(self) -> list[list[_Piece]]:
        """Return, for every key, where the rows of each event time begin and end, and the time."""
        groups = self.arrivals.groups
        schemas = self.logic.keys, self.logic.value_schema
        times, _ = micros(column_of(self.logic.on or "", self.arrivals, schemas))
        new = np.ones(groups.rows, dtype=np.bool_)
        new[1:] = (times[1:] != times[:-1]) | (groups.ids[1:] != groups.ids[:-1])
        begins = np.flatnonzero(new)
        found: list[list[_Piece]] = [[] for _ in range(groups.count)]
        each = zip(
            groups.ids[begins].tolist(),
            begins.tolist(),
            np.append(begins[1:], groups.rows)[: len(begins)].tolist(),
            times[begins].tolist(),
            strict=True,
        )
        for owner, begin, end, time in each:
            found[owner].append((begin, end, time))
        return found

    def _fire_before(self, key: Any, time: int, context: Context) -> None:
        """Let timers go off before rows of a time. Raises _TimerFailed, which no row is to blame for."""
        try:
            self._fire(key, context, time, NEVER)
        except UserFunctionError as error:
            raise _TimerFailed(error) from error

    def _fire(self, key: Any, context: Context, until: int, processing: int) -> None:
        """Let timers of a key go off that are due, one after the other. Raises UserFunctionError.

        until: when those are due at the latest that go by the watermark. processing: the same of `trailing` ones.
        """
        at, timers, function = self.cursor.key, self.timers, self.logic.on_timer
        if function is None:
            return
        now, name = timers.of(at), ""
        for _ in range(MOST_TIMERS):
            due = _first(now, self.logic.leading, until)
            due = due or _first(now, self.logic.trailing, processing)
            if due is None:
                return
            name = due[1]
            del now[name]
            timer = Timer(name, moment_of(due[0]))
            try:
                made = function(key, timer, context)
                if made is not None:
                    self.rows += self._own(made)
            except Exception as error:
                what = f"{function_name(function)} for timer {name!r} of key {key!r}"
                raise user_error(what, error) from error
        msg = (
            f"{function_name(function)} for key {key!r}: {MOST_TIMERS:,} timers went off in one timestep, the last one"
            f" was {name!r}. At the end of a batch all timers go off at once, so one that is set again whenever it"
            " does never ends: set it only if rows came since"
        )
        raise UserFunctionError(msg)

    def _failed(self, error: Exception, before: int) -> None:
        """Put the key back that the cursor is at. Raises UserFunctionError where there are no dead letters.

        before: how many rows there were before those of the key.
        """
        at, key = self.cursor.key, self.keys[self.cursor.key]
        if not divides(self.logic) or isinstance(error, MemoryError):
            what = f"{function_name(self.logic.function)} for key {key!r}"
            raise user_error(what, error) from error
        self.failed[at] = error_text(error)
        for handle in self.handles.values():
            handle.forget(at)
        self.timers.forget(at)
        del self.rows[before:]
        for side in self.sides.values():
            side.forget(at)

    # What comes of them -------------------------------------------------------------------------------------------

    def output(self) -> OperatorOutput:
        """Return all that the functions made. Raises UserFunctionError for what does not fit its columns."""
        logic, arrivals = self.logic, self.arrivals
        owners = np.repeat(np.arange(len(self.sizes), dtype=np.int64), self.sizes)
        emitted = self._emitted(owners, self.rows, logic.fields)
        shown, hashes = logic.emitted(arrivals, owners, emitted.columns, logic.fields)
        made, every = self._made(emitted), range(len(self.keys))
        written = list(pieces_of(self.handles, self.timers, made, self.keys, every))
        aside = {}
        for name, side in self.sides.items():
            if side.rows:
                owners, fields = np.array(side.owners, dtype=np.int64), logic.sides[name]
                columns = self._emitted(owners, side.rows, fields).columns
                aside[name] = logic.emitted(arrivals, owners, columns, fields)
        return OperatorOutput(
            state=[],
            dropped=None,
            output=shown,
            output_hashes=hashes,
            dead=logic.dead(arrivals, self.failed),
            side_outputs=aside,
            changed=logic.layout.changed(arrivals, written),
        )

    def fitting(self, chosen: Sequence[int]) -> None:
        """Raise UserFunctionError if what was made for some keys does not fit its columns."""
        for _ in written_to(self.handles, self._made(Emitted()), self.keys, chosen):
            pass
        made = [(self._borders, self.rows, self.logic.fields)]
        for name, side in self.sides.items():
            made.append((self._side_borders[name], side.rows, self.logic.sides[name]))
        for borders, rows, fields in made:
            of = [(key, at) for key in chosen for at in range(borders[key], borders[key + 1])]
            self._emitted([key for key, _ in of], [rows[at] for _, at in of], fields)

    @cached_property
    def _borders(self) -> list[int]:
        """Where the rows of each key begin, once all functions were called, and where the last ones end."""
        return [0, *np.cumsum(self.sizes).tolist()]

    @cached_property
    def _side_borders(self) -> dict[str, list[int]]:
        """The same for each side output. Its rows are in the order of the keys, as functions are called."""
        every = np.arange(len(self.keys) + 1)
        return {n: np.searchsorted(side.owners, every).tolist() for n, side in self.sides.items()}

    def _made(self, emitted: Emitted) -> Made:
        return Made(
            timestep=self.arrivals.timestep,
            now_us=self.arrivals.clock.stream_ms * 1_000,
            held=self.held,
            whose=function_name(self.logic.function),
            emitted=emitted,
        )

    def _emitted(
        self, owners: Sequence[int] | IntArray, rows: list[Any], fields: pa.Schema
    ) -> Emitted:
        """Return rows as columns. owners: position of the key of each row. Raises UserFunctionError."""
        name = function_name(self.logic.function)

        def what(row: int) -> str:
            return f"a row that {name} emitted for key {self.keys[owners[row]]!r}"

        return Emitted.of(rows, fields, name, what)


def _first(now: Mapping[str, int], names: Sequence[str], until: int) -> tuple[int, str] | None:
    """Return the first of some timers, by time and name, if it is not later than a time."""
    due = [(now[name], name) for name in names if name in now and now[name] <= until]
    return min(due, default=None)


class _TimerFailed(Exception):  # noqa: N818 - it carries the error to its caller in this file
    """`on_timer` failed between two rows."""

    def __init__(self, error: UserFunctionError) -> None:
        super().__init__(error)
        self.error = error
