"""Store the state of a timestep: write what changed and carry out due merges, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from rechannel.kernels.lsm.merge import Rows, merge_rows, slices_of
from rechannel.kernels.lsm.runs import OpenRuns, RunWriter, halves, live_at, needed_at
from rechannel.kernels.protocol.program import StageProgram, StageStep, TaskState
from rechannel.kernels.tasks.measure import Measures
from rechannel.kernels.tasks.parts import SHARE, Part
from rechannel.model.buffers import Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import Intervals
from rechannel.state.manifest import Edit
from rechannel.state.merging import BASE_LEVEL, Merge, portion
from rechannel.state.run import Run

MOST_REWRITTEN = 2.0
"""A task rewrites all its state if that has at most this many times as many rows as change.

That is cheaper than a new run and the merges that it would cause, and lookups then read one run.
"""


@dataclass(kw_only=True)
class Storing:
    """State of one task in one timestep."""

    program: StageProgram
    step: StageStep
    task: int
    writer: RunWriter
    measures: Measures
    clock: Clock
    rewritten: bool = False
    """Whether all state was written anew."""
    _runs: OpenRuns | None = None

    @property
    def _state(self) -> TaskState:
        return self.step.tasks[self.task]

    def fresh(self, part: Part, fresh: Rows, runs: OpenRuns) -> Edit:
        """Write what changed in a part of the task."""
        can, state = self.program.can, part.state
        if part.whole:
            self._runs = runs
        live = live_at(can, self.clock)
        if self.program.times:
            fresh = _still(fresh, live(*halves(can, fresh)))
        if self._rewrites_all(part, fresh):
            self.rewritten = True
            with self.measures.activity("merge"):
                parts = [fresh, *(p for run in runs for p in slices_of(run, state.own))]
                whole = merge_rows(
                    parts, len(can.logic.key_schema), live, bottom=True, row_order=can.row_order
                )
                whole = needed_at(can, whole, self.clock)
                self.measures.count("rows_merged", sum(len(part) for part in parts))
            with self.measures.activity("write"):
                added = self.writer.write(whole, state.own, self.step.timestep, BASE_LEVEL)
            seqs = tuple(sorted({run.seq for run in state.runs}, reverse=True))
            return Edit(retire=((seqs, state.own),), add=added)
        # Other tasks write runs of a spread bin as well, so none of them holds everything.
        level = 0 if runs or part.share is not None else BASE_LEVEL
        with self.measures.activity("write"):
            return Edit(add=self.writer.write(fresh, state.own, self.step.timestep, level))

    def merges(self) -> Edit:
        """Carry out the merges that are due, and retire runs that are no longer needed, unless all was written anew."""
        if self.rewritten:
            return Edit()
        can, state = self.program.can, self._state
        gone = {
            i for i, run in enumerate(state.runs) if run.due and can.gone(run.due[1], self.clock)
        }
        runs = self._runs or OpenRuns(self.program, state.runs)
        retired: list[tuple[tuple[int, ...], Intervals]] = []
        added: list[Run] = []
        for merge in state.merges:
            # A merge without rows writes nothing, but its runs must be retired, or they would pile up.
            retired.append((merge.seqs, merge.where))
            seqs = set(merge.seqs)
            met = [i for i, run in enumerate(state.runs) if run.seq in seqs and i not in gone]
            for where in self._bounded(runs, met, merge.where):
                added += self._merged(runs, met, merge, where)
        retired += [((run.seq,), run.clip) for i, run in enumerate(state.runs) if i in gone]
        return Edit(retire=tuple(retired), add=tuple(added))

    def _merged(
        self, runs: OpenRuns, met: Sequence[int], merge: Merge, where: Intervals
    ) -> tuple[Run, ...]:
        """Merge a part of the hashes; return the run."""
        can = self.program.can
        with self.measures.activity("merge"):
            parts = [part for i in met for part in slices_of(runs[i], where)]
            if not parts:
                return ()
            whole = merge_rows(
                parts,
                len(can.logic.key_schema),
                live_at(can, self.clock),
                bottom=merge.bottom,
                row_order=can.row_order,
                once=can.written_once is not None,
            )
            whole = needed_at(can, whole, self.clock)
            self.measures.count("rows_merged", sum(len(part) for part in parts))
        with self.measures.activity("write"):
            return self.writer.write(whole, where, max(merge.seqs), merge.level)

    def _bounded(self, runs: OpenRuns, met: Sequence[int], where: Intervals) -> Iterator[Intervals]:
        """Yield the hashes of a merge in parts of bounded bytes; a part has at least one hash."""
        most = self.step.memory // SHARE
        if sum(self._state.runs[i].size for i in met) <= most:
            yield where
            return
        size = 0.0
        for i in met:
            run, opened = self._state.runs[i], runs[i]
            pieces = opened.segment.slices(opened.clip.intersect(where))
            size += sum(p.stop - p.start for p in pieces) * run.size / max(1, run.rows)
        if size <= most or where.width < 2:
            yield where
            return
        for half in (0, 1):
            yield from self._bounded(runs, met, portion(where, half, 2))

    def _rewrites_all(self, part: Part, fresh: Rows) -> bool:
        """Whether all state of a part is written anew. It must be all of the task's: then no merge is left to do."""
        old = part.state.runs
        return (
            part.whole and bool(len(fresh) and old) and _at_most(old, MOST_REWRITTEN * len(fresh))
        )


def all_of(edits: Sequence[Edit]) -> Edit:
    """Join the edits of one task."""
    return Edit(
        retire=tuple(each for edit in edits for each in edit.retire),
        add=tuple(run for edit in edits for run in edit.add),
    )


def _still(fresh: Rows, alive: Mask | None) -> Rows:
    """Return changed keys without those that no longer count. Tombstones stay."""
    if alive is None:
        return fresh
    return fresh.where(alive if fresh.dropped is None else alive | fresh.dropped)


def _at_most(runs: Sequence[Run], rows: float) -> bool:
    """Whether runs have at most this number of rows in total."""
    return all(total <= rows for total in accumulate(run.expected for run in runs))
