"""Overlapping windows from maintained totals: the previous window, plus what enters, minus what leaves.

There is a total for each key with rows in the panes that the last complete window and the next one share: what leaves
is subtracted after the last window that holds it, while its panes still exist. Totals lie in runs of their own beside
the panes and follow from them. A task that does not find them complete (state that was written without totals, other
aggregates, bins from a task that had no totals) computes them from the panes. Each window writes them anew, which is as
many rows as the window emits. In between, when rows arrive for panes of complete windows, those panes are recorded
beside the totals, as they were and as they are now.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rechannel.errors import TimestepError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.kernels.lsm.merge import Rows, slices_of
from rechannel.kernels.lsm.runs import RunWriter, Span, halves, retired
from rechannel.kernels.protocol.capabilities import Work
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import NEVER, Clock
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.operators.aggregate.running_totals import LEAVES, Running, picked
from rechannel.operators.window.panes import Panes
from rechannel.state.manifest import Edit
from rechannel.state.run import CHANGES, TOTALS, Run
from rechannel.state.segments.segment import open_segment

if TYPE_CHECKING:
    from rechannel.operators.window.sliding import SlidingLogic

MOST_CHANGES = 16
"""Runs of changes beside totals, of one task; more than that become one."""

MOST_STEPS, AT_ONCE = 32, 1 << 20
"""Of more windows than that in one timestep, the panes go into all of their windows at once if that makes few rows."""


class IncrementalWindows:
    """One task in one timestep."""

    def __init__(self, logic: SlidingLogic, running: Running, work: Work) -> None:
        """running: how totals are kept up."""
        self._program, self._state, self._timestep = work.program, work.state, work.timestep
        self._logic, self._running = logic, running
        self._panes = Panes(
            logic=logic,
            fresh=work.fresh,
            runs=work.runs,
            own=work.state.own,
            read=self._count_read,
        )
        self._windows: list[tuple[Rows, int, int]] = []
        self.rows_read = 0

    def run(
        self, arrivals: OperatorInput, applied: OperatorOutput, writer: RunWriter
    ) -> tuple[tuple[pa.RecordBatch, HashArray] | None, Edit]:
        """Windows that have become complete (None = nothing is shown), and what becomes of the totals."""
        ends = self._logic.complete(arrivals.clock)
        if not ends:
            return None, self._noted(arrivals, applied, writer)
        few = self._many_of_few(ends)
        shown = self._of_panes(ends, arrivals.clock) if few else None
        try:
            if few:
                last = ends[-1] + self._logic.every_us
                totals = self._anew(last - self._logic.length_us, ends[-1])
            else:
                base = self._base(ends.start - self._logic.every_us, arrivals, applied)
                totals = self._slide(base, ends)
                shown = self._shown()
        except TimestepError:
            # Totals are of a part of a window, and may not fit where the windows do.
            shown = shown or self._of_panes(ends, arrivals.clock)
            return shown, Edit(retire=retired(self._state.totals, self._state.own))
        run = self._write(writer, _signed(totals, leaves=False), ends[-1], TOTALS)
        edit = Edit(retire=retired(self._state.totals, self._state.own), add=run)
        return shown, edit

    def _of_panes(self, ends: range, clock: Clock) -> tuple[pa.RecordBatch, HashArray]:
        """Windows made of all panes in them. Raises TimestepError where one does not fit."""
        panes = self._panes.between(ends.start - self._logic.length_us, ends[-1])
        keys, state = halves(self._program.can, panes)
        return self._logic.fire(keys, state, panes.hashes, clock)

    def _count_read(self, rows: int) -> None:
        self.rows_read += rows

    # Windows ----------------------------------------------------------------------------------------------------

    def _many_of_few(self, ends: range) -> bool:
        """Whether there are many windows, and so few panes that they may be put into all of theirs at once."""
        if self._count(ends) <= MOST_STEPS:
            return False
        panes = self._panes.most(ends.start - self._logic.length_us, ends[-1])
        several = self._logic.length_us // self._logic.every_us + 1
        return panes * several <= AT_ONCE

    def _count(self, ends: range) -> int:
        """How many; `len` is of no use for as many as there may be between the first row and the last."""
        return (ends[-1] - ends.start) // self._logic.every_us + 1

    def _slide(self, totals: Rows, ends: range) -> Rows:
        """Return totals after the last window, and emit each window."""
        first, every, length = ends.start, self._logic.every_us, self._logic.length_us
        known, last = first - every, self._count(ends)
        entering = self._panes.between(known, ends[-1])
        leaving = self._panes.of(
            _distinct(totals.hashes), first - length, min(known, ends[-1] + every - length)
        )
        # Panes enter with the first window that holds them, and leave before the first one that does not.
        enters = -((first - self._ends(entering)) // every)
        goes = -((first - length - self._ends(entering)) // every)
        went = -((first - length - self._ends(leaving)) // every)
        gone = np.flatnonzero(goes <= last)
        entering, leaving = self._single(entering), self._single(leaving)
        steps = np.unique(np.concatenate([[0, last], enters, goes[gone], went]))
        come = _Steps(entering, enters)
        leave = _Steps(leaving, went), _Steps(picked(entering, gone), goes[gone])
        for step, behind in zip(steps, np.append(steps[1:], last), strict=True):
            # No window follows the last one yet: panes that the next one will not hold are subtracted by then.
            end = min(first + int(step) * every, ends[-1])
            after = first + int(step) * every - length
            totals = self._next(
                totals, [come.at(step)], [one.at(step) for one in leave], after, end
            )
            if len(totals) and behind > step:
                self._windows.append((totals, end, int(behind - step)))
        return totals

    def _next(
        self, totals: Rows, come: list[Rows], leave: list[Rows], after: int, until: int
    ) -> Rows:
        """Totals of the panes that end in (after, until], out of earlier ones."""
        try:
            totals = self._running.merged([totals, *come])
            totals, unclear = self._running.less(totals, self._running.merged(leave))
        except TimestepError:
            # On the way from one sum to the next there may be one that does not fit.
            return self._anew(after, until)
        return self._cleared(totals, unclear, after, until)

    def _cleared(self, totals: Rows, unclear: IntArray, after: int, until: int) -> Rows:
        """Recompute totals that are unclear from the panes of their keys."""
        if not len(unclear):
            return totals
        asked = picked(totals, unclear)
        found = self._panes.of(_distinct(asked.hashes), after, until)
        made = self._running.merged([self._single(found)])
        by = picked(made, self._running.places(made, asked))
        return self._running.replaced(totals, unclear, by)

    def _anew(self, after: int, until: int) -> Rows:
        """Totals made of panes."""
        return self._running.merged([self._single(self._panes.between(after, until))])

    def _shown(self) -> tuple[pa.RecordBatch, HashArray] | None:
        """What is shown, sorted by hash and window; None = nothing."""
        if not self._windows:
            return None
        width, every = len(self._running.keys), self._logic.every_us
        columns: list[Columns] = []
        hashes, ends = [], []
        for totals, end, count in self._windows:
            whole = [*totals.columns[:width], *self._running.states(totals)]
            rows = np.repeat(np.arange(len(totals)), count)
            columns.append(take(whole, rows) if count > 1 else whole)
            hashes.append(totals.hashes[rows])
            ends.append(np.tile(end + np.arange(count) * every, len(totals)))
        whole = [pa.concat_arrays(parts) for parts in zip(*columns, strict=True)]
        return self._logic.shown(
            whole[:width], whole[width:], np.concatenate(hashes), np.concatenate(ends)
        )

    def _single(self, panes: Rows) -> Rows:
        """Panes as totals."""
        width = len(self._logic.key_schema)
        return self._running.entering(
            panes.hashes, panes.columns[: width - 1], panes.columns[width:]
        )

    def _ends(self, panes: Rows) -> IntArray:
        return self._logic.timer_of(panes.columns[: len(self._logic.key_schema)], [])

    # What is kept -----------------------------------------------------------------------------------------------

    @property
    def _era(self) -> str:
        """What the columns of totals are: those of the state, and their tallies, by the same functions."""
        by = self._program.combined_by
        return f"{self._program.fingerprint}.totals{by and f'.{by}'}"

    def _known(self, end: int) -> list[tuple[Run, OpenRun]]:
        """Runs of the totals of a window and of their changes."""
        runs = [run for run in self._state.totals if run.due == (end, end)]
        store = self._program.store
        opened = [
            OpenRun(open_segment(store, run.segment, run.digest, run.size), run.clip)
            for run in runs
        ]
        return [
            (run, each)
            for run, each in zip(runs, opened, strict=True)
            if each.segment.meta.schema == self._era
        ]

    def _whole(self, known: list[tuple[Run, OpenRun]]) -> bool:
        """Whether they hold totals of all hashes of the task."""
        spans = (span for run, _ in known if run.level == TOTALS for span in run.clip)
        return not self._state.own.subtract(Intervals.of(spans))

    def _base(self, end: int, arrivals: OperatorInput, applied: OperatorOutput) -> Rows:
        """Return totals after the window that ends then, the last one before those that are emitted now."""
        after = end + self._logic.every_us - self._logic.length_us
        known = self._known(end)
        if not self._whole(known):
            return self._anew(after, end)
        come, leave = ([rows] for rows in self._changes(end, arrivals, applied))
        for _, run in known:
            for piece in slices_of(run, self._state.own):
                self._count_read(len(piece))
                leaves = piece.columns[-1].to_numpy(zero_copy_only=False)
                bare = Rows(piece.hashes, piece.columns[:-1], None)
                come.append(bare.where(~leaves))
                leave.append(bare.where(leaves))
        return self._next(come[0], come[1:], leave, after, end)

    def _changes(
        self, end: int, arrivals: OperatorInput, applied: OperatorOutput
    ) -> tuple[Rows, Rows]:
        """Panes of complete windows that rows came to in this timestep: as they are now, and as they were."""
        ends = self._logic.timer_of(arrivals.keys, [])
        changed = ends <= end
        if applied.untouched is not None:
            changed &= ~applied.untouched
        now = np.flatnonzero(changed)
        was = np.flatnonzero(changed & arrivals.found)
        keys, hashes = arrivals.keys[:-1], arrivals.hashes
        come = self._running.entering(hashes[now], take(keys, now), take(applied.state, now))
        leave = self._running.entering(hashes[was], take(keys, was), take(arrivals.old, was))
        return come, leave

    def _noted(self, arrivals: OperatorInput, applied: OperatorOutput, writer: RunWriter) -> Edit:
        """No window has become complete: changes of the totals that there are are written down."""
        before = arrivals.clock.before
        if before == NEVER:
            return Edit()
        end = self._logic.last_end(before)
        come, leave = self._changes(end, arrivals, applied)
        if not len(come):
            return Edit()
        # Also where totals are not whole: other tasks may find them so, with other bins.
        known = self._known(end)
        if not known:
            return Edit(retire=retired(self._state.totals, self._state.own))
        older = [run for run, _ in known if run.level == CHANGES]
        parts = [_signed(come, leaves=False), _signed(leave, leaves=True)]
        if len(older) < MOST_CHANGES:
            older = []
        for run, opened in known:
            if run in older:
                parts += slices_of(opened, self._state.own)
        noted = self._write(writer, _sorted(parts), end, CHANGES)
        return Edit(retire=retired(tuple(older), self._state.own), add=noted)

    def _write(self, writer: RunWriter, rows: Rows, end: int, level: int) -> tuple[Run, ...]:
        return writer.write_as(
            rows,
            self._running.schema,
            self._era,
            self._state.own,
            (-self._timestep, level),
            Span((end, end)),
        )


class _Steps:
    """Rows by the step at which they come or go; those of one step stay in their order."""

    def __init__(self, rows: Rows, steps: IntArray) -> None:
        order = np.argsort(steps, kind="stable")
        self._rows, self._steps = picked(rows, order), steps[order]

    def at(self, step: int) -> Rows:
        first, last = np.searchsorted(self._steps, [step, step + 1])
        rows = self._rows
        columns = [column.slice(first, last - first) for column in rows.columns]
        return Rows(rows.hashes[first:last], columns, None)


def _distinct(hashes: HashArray) -> HashArray:
    new = np.ones(len(hashes), dtype=np.bool_)
    np.not_equal(hashes[1:], hashes[:-1], out=new[1:])
    distinct: HashArray = hashes[new]
    return distinct


def _signed(rows: Rows, *, leaves: bool) -> Rows:
    signs = pa.array(np.full(len(rows), leaves), LEAVES.type)
    return Rows(rows.hashes, [*rows.columns, signs], None)


def _sorted(parts: list[Rows]) -> Rows:
    hashes = np.concatenate([part.hashes for part in parts])
    order = np.argsort(hashes, kind="stable")
    whole = zip(*(part.columns for part in parts), strict=True)
    return Rows(hashes[order], take([pa.concat_arrays(each) for each in whole], order), None)
