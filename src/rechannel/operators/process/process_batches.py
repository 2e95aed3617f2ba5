"""`process` with one call for all keys of a task: tables in, tables out.

What happens to a key in a timestep is what `process` says, in the order of the stream: its rows, then its timers. All
timers of all keys that are due go off in one call, then those that are due after it; of a key of which timers of event
time are due, those of processing time wait for a later call. Which keys share a call depends on
the number of tasks and on the timestep: what becomes of a key must follow from its own rows and states alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.functions.dead_letters import divides, error_text, need_rows_fault
from rechannel.kernels.functions.user_errors import function_name, user_error
from rechannel.kernels.protocol.bases import held_by
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.kernels.shuffle.watermarks import MICROS
from rechannel.model.buffers import IntArray, ragged
from rechannel.model.eventtime import ENDED
from rechannel.operators.process.handles import Made
from rechannel.operators.process.kept import KEPT
from rechannel.operators.process.process_frame import DUE, Kepts, ProcessFrame, Rows, Working
from rechannel.operators.process.processing import Processing
from rechannel.operators.process.stored import Held, Piece, constant_entries
from rechannel.operators.process.track_frame import rows_of_answer

ProcessBatches = Callable[[ProcessFrame], Any]
"""(frame) -> rows to emit, with `_key` unless they are one row per key; None = none."""

NO_TIMERS = pa.RecordBatch.from_arrays([pa.nulls(0, each.type) for each in DUE], schema=DUE)
"""What a function is given as timers when rows come."""

MOST_ROUNDS = 100_000
"""Calls of `on_timer` in a timestep: a function that sets a timer for now whenever one goes off never ends."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ProcessBatchesLogic(Processing):
    """One function for all keys of a task: a `StatefulLogic`."""

    function: ProcessBatches
    on_timer: ProcessBatches | None = None

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Call the functions; with dead letters for halves of the keys where one fails. Raises UserFunctionError."""
        calls = _Calls.of(self, arrivals)
        with_rows = np.flatnonzero(arrivals.groups.sizes)
        pending = [with_rows] if len(with_rows) else []
        while pending:
            places = pending.pop()
            try:
                calls.make(self.function, places, NO_TIMERS)
            except UserFunctionError as error:
                if not divides(self):
                    raise
                need_rows_fault(error, len(places))
                if len(places) == 1:
                    calls.failed[int(places[0])] = error_text(error)
                    continue
                middle = len(places) // 2
                pending += [places[middle:], places[:middle]]
        calls.fire()
        return calls.output()


@dataclass(kw_only=True)
class _Calls:
    """The calls of one `apply`."""

    logic: ProcessBatchesLogic
    arrivals: OperatorInput
    held: Held
    before: Kepts
    now: Kepts
    shown: list[Rows] = field(default_factory=list)
    sides: dict[str, list[Rows]] = field(default_factory=dict)
    failed: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, logic: ProcessBatchesLogic, arrivals: OperatorInput) -> _Calls:
        """Return the calls of one `apply`, with what is stored."""
        count = arrivals.groups.count
        held = Held(logic.layout, held_by(arrivals), count)
        some, names, times = held.timers()
        owners, at = held.stored.owners[some], np.array(times, dtype=np.int64)
        timers = {}
        for name in logic.timers:
            mine = np.array([each == name for each in names], dtype=np.bool_)
            timers[name] = np.full(count, ENDED, dtype=np.int64)
            timers[name][owners[mine]] = at[mine]
        states = {
            name: KEPT[state.kind].of(name, state, held) for name, state in logic.states.items()
        }
        kepts = Kepts(states=states, timers=timers)
        return cls(logic=logic, arrivals=arrivals, held=held, before=kepts, now=kepts)

    def make(self, function: ProcessBatches, places: IntArray, timers: pa.RecordBatch) -> None:
        """Call a function for some keys; what it did counts if it does not fail. Raises UserFunctionError."""
        frame = self._frame(function, places, timers)
        name, count = function_name(function), len(places)
        try:
            answer = function(frame)
        except Exception as error:
            raise user_error(f"{name} for {count} keys", error) from error
        if answer is not None:
            numbers, columns = rows_of_answer(answer, self.logic.fields, count, name)
            self.shown.append((places[numbers], columns))
        self.now = frame.work.kepts
        for side, made in frame.work.sides.items():
            self.sides.setdefault(side, []).extend(made)

    def _frame(
        self, function: ProcessBatches, places: IntArray, timers: pa.RecordBatch
    ) -> ProcessFrame:
        arrivals, logic = self.arrivals, self.logic
        groups, values = arrivals.groups, arrivals.values
        sizes = np.zeros(len(places), dtype=np.int64)
        if not timers.num_rows:
            sizes = groups.sizes[places]
        whole = int(sizes.sum()) == groups.rows
        rows = values if whole else take(values, ragged(groups.starts[places], sizes))
        return ProcessFrame(
            keys=pa.RecordBatch.from_arrays(take(arrivals.keys, places), schema=logic.keys),
            rows=pa.RecordBatch.from_arrays(rows, schema=logic.value_schema),
            groups=Groups(np.cumsum(sizes) - sizes, int(sizes.sum())),
            timers=timers,
            made_by=function_name(function),
            logic=logic,
            clock=arrivals.clock,
            tables=arrivals.broadcast,
            places=places,
            among=groups.count,
            work=Working(kepts=self.now),
        )

    def fire(self) -> None:
        """Let timers go off that are due. Raises UserFunctionError."""
        function = self.logic.on_timer
        if function is None:
            return
        for _ in range(MOST_ROUNDS):
            due = self._rung()
            places = np.unique(np.concatenate(list(due.values())))
            if not len(places):
                return
            timers = self._due(due, places)
            over = {name: at.copy() for name, at in self.now.timers.items()}
            for name, some in due.items():
                over[name][some] = ENDED
            self.now = Kepts(states=self.now.states, timers=over)
            self.make(function, places, timers)
        msg = (
            f"{function_name(function)}: timers went off {MOST_ROUNDS:,} times in one timestep, one after the other. At"
            " the end of a batch all timers go off at once, so one that is set again whenever it does never ends: set"
            " it only if rows came since"
        )
        raise UserFunctionError(msg)

    def _rung(self) -> dict[str, IntArray]:
        """Return the positions of the keys whose timers go off next, by name of the timer."""
        logic, clock = self.logic, self.arrivals.clock
        first = np.zeros(self.arrivals.groups.count, dtype=np.bool_)
        due: dict[str, IntArray] = {}
        for name in logic.leading:
            at = self.now.timers[name]
            passed = (at <= clock.watermark) & (at != ENDED)
            first |= passed
            due[name] = np.flatnonzero(passed)
        for name in logic.trailing:
            at = self.now.timers[name]
            due[name] = np.flatnonzero((at <= clock.processing) & (at != ENDED) & ~first)
        return due

    def _due(self, due: dict[str, IntArray], places: IntArray) -> pa.RecordBatch:
        """Return a table of timers that go off. due: positions of their keys, by name."""
        names = sorted(due)
        owners = np.concatenate([due[name] for name in names])
        at = np.concatenate([self.now.timers[name][due[name]] for name in names])
        words = np.repeat(np.arange(len(names)), [len(due[name]) for name in names])
        order = np.lexsort((words, at, owners))
        columns = [
            pa.array(np.searchsorted(places, owners[order]), pa.int64()),
            pa.array(names).take(pa.array(words[order])),
            pa.array(at[order], pa.int64()).cast(MICROS),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=DUE)

    # What comes of them -------------------------------------------------------------------------------------------

    def output(self) -> OperatorOutput:
        """Return all that the functions made."""
        logic, arrivals = self.logic, self.arrivals
        shown, hashes = self._emitted(self.shown, logic.fields)
        made = Made(
            timestep=arrivals.timestep,
            now_us=arrivals.clock.stream_ms * 1_000,
            held=self.held,
            whose=function_name(logic.function),
        )
        places = np.zeros(arrivals.groups.count, dtype=np.int64)
        pieces = [p for kept in self.now.states.values() for p in kept.pieces(made, places)]
        return OperatorOutput(
            state=[],
            dropped=None,
            output=shown,
            output_hashes=hashes,
            dead=logic.dead(arrivals, self.failed),
            side_outputs={
                name: self._emitted(rows, logic.sides[name]) for name, rows in self.sides.items()
            },
            changed=logic.layout.changed(arrivals, [*pieces, *self._timers()]),
        )

    def _emitted(self, made: list[Rows], fields: pa.Schema) -> Any:
        """Return rows in the order of their keys; those of one key in the order in which they were made."""
        if not made:
            nothing = [pa.array([], each.type) for each in fields]
            return self.logic.emitted(self.arrivals, np.empty(0, np.int64), nothing, fields)
        if len(made) == 1:
            return self.logic.emitted(self.arrivals, *made[0], fields)
        owners = np.concatenate([each for each, _ in made])
        columns = [
            pa.concat_arrays(list(parts)) for parts in zip(*(c for _, c in made), strict=True)
        ]
        order = np.argsort(owners, kind="stable")
        return self.logic.emitted(self.arrivals, owners[order], take(columns, order), fields)

    def _timers(self) -> list[Piece]:
        """Return the rows of timers that were set, and ends of those that are there no more."""
        pieces = []
        for name, now in self.now.timers.items():
            before = self.before.timers[name]
            for ends, some in (
                (False, np.flatnonzero((now != before) & (now != ENDED))),
                (True, np.flatnonzero((now == ENDED) & (before != ENDED))),
            ):
                pieces.append(
                    Piece(
                        state=None,
                        owners=some,
                        entries=constant_entries(f":{name}", len(some)),
                        untils=None if ends else now[some],
                        ends=ends,
                    )
                )
        return pieces
