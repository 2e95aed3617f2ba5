"""The stateful task: (blobs, runs of the timestep before) -> (output, segments, report). Pure but for the
files it writes.

Files carry the attempt's name; the report says which ones count; others are swept. Nothing that exists is changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.binned import hottest, pack_bins
from rechannel.kernels.clocks import clock_of, handed_on, times_after
from rechannel.kernels.collect import collect
from rechannel.kernels.emit import Emitter
from rechannel.kernels.logic import Applied, Arrivals, Columns, StatefulLogic
from rechannel.kernels.lookup import OpenRun, find, gather
from rechannel.kernels.marks import latest_of
from rechannel.kernels.measure import Measures, encode_report
from rechannel.kernels.merge import Rows, merge_rows, slices_of
from rechannel.kernels.program import StageProgram, StageStep, TaskState
from rechannel.kernels.receive import Inbox, Received, receive
from rechannel.kernels.runs import OpenRuns, RunWriter, halves, live_at, logic_of, needed_at
from rechannel.kernels.send import Order
from rechannel.kernels.showing import Showing
from rechannel.kernels.slides import Slides, slides_by_totals, without_totals
from rechannel.kernels.user_errors import placed
from rechannel.kernels.wire import REPORT, Blob, from_batches, pack, to_batches
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.state.manifest import Edit, Run
from rechannel.state.merging import BASE_LEVEL, Merge

INLINE = 2.0
"""A task whose old state is at most this many times the rows it changes rewrites the whole of it: cheaper
than a new run
plus the merges it would cause, and look-ups then see one run."""


@dataclass(frozen=True, kw_only=True)
class StatefulTask:
    """One task of a stateful stage in one timestep. origin: what the cluster calls it, for its own figures."""

    program: StageProgram
    step: StageStep
    task: int
    attempt: str
    origin: dict[str, int] | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """(partition, blob) rows in, (partition, blob) rows out; the last blob is the task's report."""
        yield from to_batches(self._parcels(batches))

    def _parcels(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        measures = Measures()
        inbox = Inbox.of(from_batches(measures.waiting(batches)))
        emitter = Emitter(self.program, self.step, self.task, self.attempt, measures)
        times = times_after(self.program, self.step, latest_of(inbox.marks))
        clock = clock_of(self.program, self.step, times)
        report = self._apply(inbox.data, emitter, measures, clock)
        yield from report.pop("parcels")
        yield from emitter.marks(
            handed_on(self.program.operator, logic_of(self.program), times.watermark)
        )
        report.update(emitter.finish())
        if self.program.times:
            report["times"] = times.to_json()
        report.update(measures.to_json())
        for body in [*inbox.reports, encode_report(report)]:
            yield self.step.reports_to, report_blob(self.task, body)

    def _apply(
        self, blobs: list[Blob], emitter: Emitter, measures: Measures, clock: Clock
    ) -> dict[str, Any]:
        logic, state = logic_of(self.program), self.step.tasks[self.task]
        with measures.activity("deserialise"):
            received = receive(logic, blobs)
        with measures.activity("lookup"):
            runs = OpenRuns(self.program, state.runs)
            arrivals = self._arrivals(logic, received, runs, clock)
        with measures.activity("process"), placed(self.program.operator, self.step.timestep):
            applied = logic.apply(arrivals)
        fresh = _fresh(arrivals, applied, has_older=bool(runs))
        writer = RunWriter(self.program, self.step, self.task, self.attempt)
        nexts: dict[str, int] = {}
        if slides_by_totals(logic):
            with measures.activity("process"):
                shown, totals = self._slid(arrivals, applied, fresh, runs, writer, measures)
        else:
            showing = Showing(self.program, self.step.timestep, state.own, runs, measures, nexts)
            shown = showing.of(arrivals, applied, fresh)
            totals = without_totals(state)
        edit = self._store(fresh, runs, writer, measures, clock)
        edit = Edit(retire=edit.retire + totals.retire, add=edit.add + totals.add)
        parcels = [p for rows, at in _pieces(*shown, state) for p in emitter.rows(rows, at)]
        if applied.late is not None:
            measures.count("rows_late", applied.late.count)
            if applied.late.rows is not None and applied.late.hashes is not None:
                late = _pieces(applied.late.rows, applied.late.hashes, state)
                parcels += [p for rows, at in late for p in emitter.late(rows, at)]
        if applied.dead is not None:
            for piece in state.own.slices(applied.dead.hashes):
                letters = applied.dead.letters.slice(piece.start, piece.stop - piece.start)
                parcels += emitter.dead(letters, applied.dead.hashes[piece])
        measures.count("rows_in", received.rows)
        measures.count("bytes_in", sum(blob.message.size for blob in blobs))
        measures.count("keys", len(received.hashes))
        measures.count("keys_found", _found(arrivals))
        measures.count("rows_out", shown[0].num_rows)
        measures.count("runs", len(runs))
        measures.count("bytes_fetched", measures.bytes_fetched)
        return {
            "operator": self.program.operator,
            "task": self.task,
            "attempt": self.attempt,
            "timestep": self.step.timestep,
            "spark": self.origin,
            "edit": edit.to_json(),
            "bins": pack_bins(self.step.routing, received),
            "hot": hottest(received),
            "parcels": parcels,
            **({"nexts": nexts} if nexts else {}),
        }

    def _arrivals(
        self, logic: StatefulLogic, received: Received, runs: OpenRuns, clock: Clock
    ) -> Arrivals:
        """What was received, with the state of its keys.

        What came too late is judged by the timestep before, and so is what it came too late for.
        """
        count = len(received.hashes)
        before = replace(clock, watermark=clock.before)
        keys = logic.stamped(received.keys, clock)
        held, old, found = None, list[pa.Array](), np.zeros(count, dtype=np.bool_)
        known: Sequence[OpenRun] = runs if logic.recalls else ()
        if logic.collects:
            asked = logic.asks(received.values, received.groups)
            held = collect(logic, known, received.hashes, keys, live_at(logic, before), asked)
        else:
            known = self._spanned(runs, keys) if logic.recalls else ()
            hits = find(known, received.hashes, keys, logic.minor)
            old, found = gather(hits, count, logic.state_schema, len(logic.key_schema))
            found = _alive(logic, keys, old, found, before)
        return Arrivals(
            keys=keys,
            hashes=received.hashes,
            values=received.values,
            groups=received.groups,
            combined=received.combined,
            old=old,
            found=found,
            held=held,
            clock=clock,
            timestep=self.step.timestep,
        )

    def _spanned(self, runs: OpenRuns, keys: Columns) -> Sequence[OpenRun]:
        """Runs that may hold state of keys, which wait for some times."""
        span = logic_of(self.program).spanned(keys)
        if span is None:
            return runs
        return [opened for _, opened in runs.waiting(span[0] - 1, span[1])]

    def _slid(
        self,
        arrivals: Arrivals,
        applied: Applied,
        fresh: Rows,
        runs: OpenRuns,
        writer: RunWriter,
        measures: Measures,
    ) -> tuple[tuple[pa.RecordBatch, HashArray], Edit]:
        """What an operator emits that keeps totals, and what becomes of those."""
        state = self.step.tasks[self.task]
        slides = Slides(self.program, state, runs, fresh, self.step.timestep)
        with placed(self.program.operator, self.step.timestep):
            shown, edit = slides.run(arrivals, applied, writer)
        measures.count("rows_read", slides.rows_read)
        return shown or (applied.output, applied.output_hashes), edit

    def _store(
        self,
        fresh: Rows,
        runs: OpenRuns,
        writer: RunWriter,
        measures: Measures,
        clock: Clock,
    ) -> Edit:
        """Write what changed and merge what is due; the edit of the manifest."""
        logic, state = logic_of(self.program), self.step.tasks[self.task]
        live = live_at(logic, clock)
        if self.program.times:
            fresh = _still(fresh, live(*halves(logic, fresh)))
        if len(fresh) and runs and _at_most(state.runs, INLINE * len(fresh)):
            with measures.activity("merge"):
                parts = [fresh, *(p for run in runs for p in slices_of(run, state.own))]
                whole = merge_rows(
                    parts, len(logic.key_schema), live, bottom=True, minor=logic.minor
                )
                whole = needed_at(logic, whole, clock)
                measures.count("rows_merged", sum(len(part) for part in parts))
            with measures.activity("write"):
                added = writer.write(whole, state.own, self.step.timestep, BASE_LEVEL)
            seqs = tuple(sorted({run.seq for run in state.runs}, reverse=True))
            return Edit(retire=((seqs, state.own),), add=added)
        level = 0 if runs else BASE_LEVEL
        with measures.activity("write"):
            added = writer.write(fresh, state.own, self.step.timestep, level)
        gone = {i for i, run in enumerate(state.runs) if run.due and logic.gone(run.due[1], clock)}
        retired, merged = self._merges(state, runs, writer, measures, clock, gone)
        unread = [((run.seq,), run.clip) for i, run in enumerate(state.runs) if i in gone]
        return Edit(retire=(*retired, *unread), add=(*added, *merged))

    def _merges(
        self,
        state: TaskState,
        runs: OpenRuns,
        writer: RunWriter,
        measures: Measures,
        clock: Clock,
        gone: set[int],
    ) -> tuple[tuple[tuple[tuple[int, ...], Intervals], ...], tuple[Run, ...]]:
        logic = logic_of(self.program)
        live = live_at(logic, clock)
        retired: list[tuple[tuple[int, ...], Intervals]] = []
        added: list[Run] = []
        for merge in state.merges:
            retired.append((merge.seqs, merge.where))
            parts = _merge_parts(state, runs, merge, gone)
            if not parts:  # nothing to write; but runs that stayed here without rows would pile up
                continue
            with measures.activity("merge"):
                whole = merge_rows(
                    parts,
                    len(logic.key_schema),
                    live,
                    bottom=merge.bottom,
                    minor=logic.minor,
                    once=logic.once,
                )
                whole = needed_at(logic, whole, clock)
                measures.count("rows_merged", sum(len(part) for part in parts))
            with measures.activity("write"):
                added.extend(writer.write(whole, merge.where, max(merge.seqs), merge.level))
        return tuple(retired), tuple(added)


def report_blob(task: int, body: bytes) -> bytes:
    """A report as a blob."""
    return pack(
        Blob(
            kind=REPORT,
            input=0,
            producer=task,
            sequence=0,
            combined=False,
            rows=0,
            message=pa.py_buffer(body),
        )
    )


def _found(arrivals: Arrivals) -> int:
    """How many keys had state."""
    if arrivals.held is None:
        return int(arrivals.found.sum())
    return int(np.count_nonzero(np.diff(arrivals.held.owners, prepend=-1)))


def _alive(
    logic: StatefulLogic,
    keys: Columns,
    old: Columns,
    found: npt.NDArray[np.bool_],
    clock: Clock,
) -> npt.NDArray[np.bool_]:
    alive = logic.live(keys, old, clock)
    return found if alive is None else found & alive


def _fresh(arrivals: Arrivals, applied: Applied, *, has_older: bool) -> Rows:
    """Changed keys as rows; a dropped key leaves a tombstone only if an older run may hold it."""
    rows = Rows(arrivals.hashes, [*arrivals.keys, *applied.state], applied.dropped)
    if applied.changed is not None:
        rows = Rows(applied.changed.hashes, applied.changed.columns, applied.changed.dropped)
    if applied.untouched is not None:
        rows = rows.where(~applied.untouched)
    if rows.dropped is None or not bool(rows.dropped.any()):
        return Rows(rows.hashes, rows.columns, None)
    if has_older:
        return rows
    kept = rows.where(~rows.dropped)
    return Rows(kept.hashes, kept.columns, None)


def _still(fresh: Rows, alive: npt.NDArray[np.bool_] | None) -> Rows:
    """Changed keys without those that nobody would look at any more."""
    if alive is None:
        return fresh
    return fresh.where(alive if fresh.dropped is None else alive | fresh.dropped)


def _pieces(
    rows: pa.RecordBatch, hashes: HashArray, state: TaskState
) -> Iterator[tuple[pa.RecordBatch, Order]]:
    """What a task emits, cut where its hashes end.

    A user's function behind the operator loses the place of single rows; of a piece, the place of the first one tells
    where all of them belong between the pieces of other tasks, however bins are placed.
    """
    for piece in state.own.slices(hashes):
        yield rows.slice(piece.start, piece.stop - piece.start), hashes[piece]


def _at_most(runs: Sequence[Run], rows: float) -> bool:
    """Whether runs have no more rows than that."""
    return all(total <= rows for total in accumulate(run.expected for run in runs))


def _merge_parts(state: TaskState, runs: OpenRuns, merge: Merge, gone: set[int]) -> list[Rows]:
    seqs = set(merge.seqs)
    return [
        part
        for i, run in enumerate(state.runs)
        if run.seq in seqs and i not in gone
        for part in slices_of(runs[i], merge.where)
    ]
