"""What a task emits in a timestep: the operator's output and the rows that waited for this event time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.sorting import interleaved
from rechannel.kernels.functions.user_errors import placed
from rechannel.kernels.lsm.collect import whole_keys
from rechannel.kernels.lsm.merge import Rows, everything, merge_rows, slices_of
from rechannel.kernels.lsm.runs import OpenRuns, halves, live_at
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.kernels.protocol.program import StageProgram
from rechannel.kernels.tasks.measure import Measures
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import ENDED, NEVER
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.model.spread import Share

Shown = tuple[pa.RecordBatch, HashArray]
"""Rows and their hashes, ascending."""


@dataclass(frozen=True, slots=True)
class Emission:
    """One task in one timestep."""

    program: StageProgram
    timestep: int
    own: Intervals
    """Hashes of the task."""
    runs: OpenRuns
    """State of the previous timestep, newest first."""
    measures: Measures
    nexts: dict[str, int] = field(default_factory=dict)
    """By segment that was read: the first later event time that a row of the task waits for."""
    share: Share | None = None
    """The task's part in a spread bin, if the hashes are one. What it has stored now, it emits, too."""

    def of(
        self, arrivals: OperatorInput, applied: OperatorOutput, fresh: Rows
    ) -> tuple[Shown, Rows | None]:
        """Return all that is emitted, and the state rows that were due; None = none was.

        fresh: state that changed in this timestep. Raises UserFunctionError.
        """
        can, clock = self.program.can, arrivals.clock
        awaited = None if can.on_timer is not None else can.due_range(clock)
        if awaited is None and clock.since is not None:
            awaited = clock.watermark, clock.watermark
        own = applied.output, applied.output_hashes
        if awaited is None:
            return own, None
        with self.measures.activity("process"):
            due = self._due(arrivals, fresh, awaited)
            if due is None:
                return own, None
            with placed(self.program.operator, self.timestep):
                waited = can.fire(*halves(can, due), due.hashes, clock)
        if not applied.output.num_rows:
            return waited, due
        return interleaved(own, waited), due

    def _due(self, arrivals: OperatorInput, fresh: Rows, awaited: tuple[int, int]) -> Rows | None:
        """Return the state rows that waited for an event time in (after, until]; None = none did."""
        can, clock = self.program.can, arrivals.clock
        parts = [part for part in self._awaited(fresh, awaited, clock.since) if len(part)]
        if not parts:
            return None
        asking = [
            part.where(asks)
            for part in parts
            if (asks := can.together(*halves(can, part))) is not None
        ]
        if asking:
            live = live_at(can, replace(clock, watermark=clock.before))
            return whole_keys(can, asking, arrivals, self.runs, live)
        keys = len(can.logic.key_schema)
        return merge_rows(parts, keys, everything, bottom=True, row_order=can.row_order)

    def _awaited(self, fresh: Rows, awaited: tuple[int, int], since: int | None) -> list[Rows]:
        """Return the state rows that waited, newest first. since: see `OpenRuns.waiting`."""
        can, (after, until) = self.program.can, awaited
        # Fresh state may be emitted again: its key received rows after the time that it waited for.
        due, latest = can.timer_of(*halves(can, fresh)), until if since is None else ENDED
        parts = [fresh.where(_waits(fresh, due, NEVER, latest))]
        for run, opened in self.runs.waiting(after, until, since):
            # State that has changed since the last early emission is in younger runs.
            late = ENDED if since is not None and run.seq > since else until
            pieces = slices_of(opened, self.own)
            self.measures.count("rows_read", sum(map(len, pieces)))
            for piece in pieces:
                due = can.timer_of(*halves(can, piece))
                waits = _waits(piece, due, after, late)
                mine = can.considered(halves(can, piece)[0], self.share)
                parts.append(piece.where(waits if mine is None else waits & mine))
                known = self.nexts.get(run.segment, ENDED)
                self.nexts[run.segment] = min(known, _next(due, until))
        return parts


def _waits(rows: Rows, due: IntArray | None, after: int, until: int) -> Mask:
    """Return which rows wait for an event time in (after, until]. due: the time that each of them waits for."""
    if due is None:
        return np.zeros(len(rows), dtype=np.bool_)
    found: Mask = (due > after) & (due <= until)
    # A migrated tombstone has no state to tell its time, but still hides its row.
    return found if rows.dropped is None else found | rows.dropped


def _next(due: IntArray | None, until: int) -> int:
    """Return the first event time after `until` that a row waits for; ENDED if there is none."""
    return ENDED if due is None else int(due[due > until].min(initial=ENDED))
