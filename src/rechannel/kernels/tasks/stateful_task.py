"""The stateful task: (blobs, runs of the previous timestep) -> (output, segments, report).

Its only effect is on files: it writes new ones, with the attempt's name, and changes none. The report says which files
count; others are swept.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.functions.broadcast import BroadcastTable
from rechannel.kernels.functions.user_errors import placed
from rechannel.kernels.lsm.broadcast import broadcast_table
from rechannel.kernels.lsm.collect import collect
from rechannel.kernels.lsm.lookup import OpenRun, find, gather
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.lsm.runs import OpenRuns, RunWriter, live_at, retired
from rechannel.kernels.protocol.capabilities import Incremental, Work
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.kernels.protocol.program import StageProgram, StageStep, TaskState
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.kernels.shuffle.receive import Inbox, Received, receive, refuse_too_large
from rechannel.kernels.shuffle.send import Order
from rechannel.kernels.shuffle.spool import Spool
from rechannel.kernels.shuffle.watermarks import latest_of
from rechannel.kernels.shuffle.wire import Blob, from_batches, to_batches
from rechannel.kernels.tasks.binned import Counts, hottest, pack_bins, rows_per_bin
from rechannel.kernels.tasks.changelog import changelog
from rechannel.kernels.tasks.clocks import clock_of, handed_on, times_after
from rechannel.kernels.tasks.control import Controls
from rechannel.kernels.tasks.emission import Emission
from rechannel.kernels.tasks.emit import Emitter
from rechannel.kernels.tasks.measure import Measures
from rechannel.kernels.tasks.parts import Demand, Part, parts_of
from rechannel.kernels.tasks.report import HotKey, SparkTask, StateReport, TaskReport, report_blob
from rechannel.kernels.tasks.storing import Storing, all_of
from rechannel.kernels.tasks.task_view import Heaviest, Viewed, is_sided
from rechannel.kernels.tasks.waking import Waking
from rechannel.model.buffers import Mask
from rechannel.model.eventtime import NEVER, Clock, Times
from rechannel.model.hashspace import HashArray
from rechannel.model.routing import Routing
from rechannel.model.spread import Share
from rechannel.state.manifest import Edit
from rechannel.state.run import Run

IN_HAND = 4
"""Blobs that arrive stay in memory up to this fraction (1/4) of a task's memory, then go to disk."""
TWICE = 2
"""With a changelog, the rows of a part are there as before and as after once more: parts are half as large."""


@dataclass
class _Done:
    """What a task did to its state, collected part by part."""

    edits: list[Edit] = field(default_factory=list)
    per_bin: Counts | None = None
    hot_keys: list[HotKey] = field(default_factory=list)
    first_timers: dict[str, int] = field(default_factory=dict)
    first_processing: dict[str, int] = field(default_factory=dict)
    heaviest: Heaviest | None = None
    """Collects the heaviest keys, where a control operation asks for them."""

    def received(self, routing: Routing | None, received: Received, rows: int) -> None:
        """Count what a part received. rows: of all parts."""
        self.hot_keys += hottest(received, rows)
        if self.heaviest is not None:
            self.heaviest.received(received)
        counts = rows_per_bin(routing, received)
        if counts is not None:
            self.per_bin = counts if self.per_bin is None else self.per_bin + counts

    def report(self, times: Times | None) -> StateReport:
        """Return it as a part of the task's report."""
        return StateReport(
            edit=all_of(self.edits),
            times=times,
            bins=pack_bins(self.per_bin),
            hot_keys=tuple(self.hot_keys),
            first_timers=self.first_timers,
            first_processing=self.first_processing,
        )


@dataclass(frozen=True, kw_only=True)
class StatefulTask:
    """One task of a stateful stage in one timestep."""

    program: StageProgram
    step: StageStep
    task: int
    attempt: str
    origin: SparkTask | None = None
    """Spark's names of the task, by which telemetry finds Spark's own figures."""

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Turn (partition, blob) rows into (partition, blob) rows; the last blob is the task's report."""
        yield from to_batches(self.parcels(batches))

    def parcels(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, bytes]]:
        """Turn (partition, blob) rows into pairs of a partition and a blob, as `run` does."""
        measures = Measures()
        with closing(Spool()) as spool:
            blobs = from_batches(measures.waiting(batches))
            inbox = Inbox.of(blobs, spool, self.step.memory // IN_HAND)
            yield from self.handled(inbox, spool, measures)

    def handled(
        self, inbox: Inbox, spool: Spool, measures: Measures
    ) -> Iterator[tuple[int, bytes]]:
        """Turn what has arrived into pairs of a partition and a blob. spool: has what memory has no room for."""
        emitter = Emitter(self.program, self.step, self.task, self.attempt, measures)
        seen = latest_of(inbox.watermarks)
        times = times_after(self.program, self.step, seen)
        clock = clock_of(self.program, self.step, times)
        controls, done = None, _Done()
        if self.step.controls:
            controls = Controls(self.program, self.step, self.task, inbox.controls, inbox.data)
            done.heaviest = Heaviest(controls.heaviest, sided=is_sided(self.program.can))
            viewed = Viewed(
                program=self.program,
                step=self.step,
                task=self.task,
                measures=measures,
                emitter=emitter,
                clock=clock.earlier,
                latest_us=max(seen.values(), default=NEVER),
            )
            controls.run(viewed, blocking=True)
        yield from self._apply(inbox.data, spool, emitter, measures, clock, done)
        measures.count("bytes_spilled", spool.size)
        yield from emitter.watermarks(
            handed_on(self.program.operator, self.program.can, times.watermark)
        )
        if controls is not None:
            heaviest = () if done.heaviest is None else done.heaviest.keys
            viewed = replace(viewed, bin_rows=done.per_bin, heaviest=heaviest)
            controls.run(viewed, blocking=False)
            yield from controls.parcels(emitter)
        report = TaskReport(
            operator=self.program.operator,
            timestep=self.step.timestep,
            task=self.task,
            attempt=self.attempt,
            spark=self.origin,
            emitted=emitter.finish(),
            state=done.report(times if self.program.times else None),
            costs=measures.costs(),
            controls=() if controls is None else controls.ended(),
        )
        for body in [*inbox.reports, report.to_bytes()]:
            yield self.step.reports_to, report_blob(self.task, body)

    def _apply(
        self,
        blobs: list[Blob],
        spool: Spool,
        emitter: Emitter,
        measures: Measures,
        clock: Clock,
        done: _Done,
    ) -> Iterator[tuple[int, bytes]]:
        """Yield blobs of what is emitted, part by part (see `parts`), and collect in `done` what happens to state."""
        can, state = self.program.can, self.step.tasks[self.task]
        runs = OpenRuns(self.program, state.runs)
        demand = Demand.of(
            blobs, _read(state) if can.needs_lookup else (), _waiting(can, clock, runs)
        )
        writer = RunWriter(self.program, self.step, self.task, self.attempt)
        storing = Storing(
            program=self.program,
            step=self.step,
            task=self.task,
            writer=writer,
            measures=measures,
            clock=clock,
        )
        memory = self.step.memory // (TWICE if self.program.has_changelog else 1)
        for part in parts_of(state, can, blobs, demand, memory, spool, runs=runs):
            with measures.activity("deserialise"):
                received = receive(can, part.blobs, part.rows)
            refuse_too_large(self.program.operator, self.step.timestep, can, received)
            done.received(self.step.routing, received, demand.rows)
            known = runs if part.whole else OpenRuns(self.program, part.state.runs)
            yield from self._part(
                part,
                received,
                known,
                storing=storing,
                emitter=emitter,
                done=done,
            )
            del received
        done.edits.append(storing.merges())
        measures.count("rows_in", demand.rows)
        emitter.received(demand.rows)
        measures.count("bytes_in", demand.size)
        measures.count("runs", len(state.runs))
        measures.count("bytes_fetched", measures.bytes_fetched)

    def _part(
        self,
        part: Part,
        received: Received,
        runs: OpenRuns,
        *,
        storing: Storing,
        emitter: Emitter,
        done: _Done,
    ) -> Iterator[tuple[int, bytes]]:
        """Yield what one part emits, and collect its edits of state in `done`. runs: its state."""
        can, state = self.program.can, part.state
        measures, clock = storing.measures, storing.clock
        with measures.activity("lookup"):
            if can.on_timer is not None:
                firsts = done.first_timers, done.first_processing
                waking = Waking(can, state.own, runs, measures, *firsts)
                received = waking.with_due(received, clock)
            arrivals = self._arrivals(can, received, runs, clock, part.share)
        with measures.activity("process"), placed(self.program.operator, self.step.timestep):
            applied = can.logic.apply(arrivals)
        fresh = _fresh(arrivals, applied, has_older=bool(runs))
        due = None
        if can.totals is not None:
            work = Work(
                program=self.program,
                state=state,
                timestep=self.step.timestep,
                runs=runs,
                fresh=fresh,
                arrivals=arrivals,
                applied=applied,
                writer=storing.writer,
            )
            with measures.activity("process"):
                shown, totals = self._advanced(can.totals, work, measures)
        else:
            showing = Emission(
                self.program,
                self.step.timestep,
                state.own,
                runs,
                measures,
                done.first_timers,
                part.share,
            )
            shown, due = showing.of(arrivals, applied, fresh)
            totals = Edit(retire=retired(state.totals, state.own))
        done.edits += [storing.fresh(part, fresh, runs), totals]
        measures.count("keys", len(arrivals.hashes))
        measures.count("keys_found", _found(arrivals))
        measures.count("rows_out", shown[0].num_rows)
        if applied.late is not None:
            measures.count("rows_late", applied.late.count)
        for rows, at in _pieces(*shown, state):
            yield from emitter.rows(rows, at)
        yield from _side_outputs(applied, state, emitter)
        if self.program.has_changelog:
            with measures.activity("process"):
                told = changelog(can, arrivals, applied, fresh, shown=shown, due=due)
            for rows, at in _pieces(*told, state):
                yield from emitter.changes(rows, at)

    def _arrivals(
        self,
        can: Capabilities,
        received: Received,
        runs: OpenRuns,
        clock: Clock,
        share: Share | None,
    ) -> OperatorInput:
        """Return what was received, with the state of its keys.

        The previous timestep's watermark decides which rows are late, and also which stored state still counts. share:
        the task's part in the spread bin of the keys.
        """
        count = len(received.hashes)
        before = clock.earlier
        keys = can.stamped(received.keys, clock)
        held, old, found = None, list[pa.Array](), np.zeros(count, dtype=np.bool_)
        known: Sequence[OpenRun] = runs if can.needs_lookup else ()
        if can.several_rows is not None:
            asked = can.lookup_range(received.values, received.groups)
            live = live_at(can, before)
            held = collect(can, known, received.hashes, keys, live, asked, share=share)
        else:
            known = self._spanned(runs, keys) if can.needs_lookup else ()
            hits = find(known, received.hashes, keys, can.row_order)
            old, found = gather(hits, count, can.logic.state_schema, len(can.logic.key_schema))
            found = _alive(can, keys, old, found, before)
        return OperatorInput(
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
            share=share,
            broadcast=self._broadcast() if count else {},
        )

    def _broadcast(self) -> dict[str, BroadcastTable]:
        """Return the tables of broadcast inputs, by name."""
        return {
            name: broadcast_table(program, self.step.broadcasts[program.operator])
            for name, program in self.program.broadcasts.items()
        }

    def _spanned(self, runs: OpenRuns, keys: Columns) -> Sequence[OpenRun]:
        """Return the runs that may hold state of keys, given the times that the keys wait for."""
        span = self.program.can.span_of(keys)
        if span is None:
            return runs
        return [opened for _, opened in runs.waiting(span[0] - 1, span[1])]

    def _advanced(
        self, incremental: Incremental, work: Work, measures: Measures
    ) -> tuple[tuple[pa.RecordBatch, HashArray], Edit]:
        """Return what an operator with totals emits, and the edit of its totals."""
        with placed(self.program.operator, self.step.timestep):
            made = incremental.advance(work)
        measures.count("rows_read", made.rows_read)
        return made.emitted or (work.applied.output, work.applied.output_hashes), made.edit


def _side_outputs(
    applied: OperatorOutput, state: TaskState, emitter: Emitter
) -> Iterator[tuple[int, bytes]]:
    """Yield blobs of late rows, dead letters and side outputs, if they are read downstream."""
    if (
        applied.late is not None
        and applied.late.rows is not None
        and applied.late.hashes is not None
    ):
        for rows, at in _pieces(applied.late.rows, applied.late.hashes, state):
            yield from emitter.late(rows, at)
    if applied.dead is not None:
        for piece in state.own.slices(applied.dead.hashes):
            letters = applied.dead.letters.slice(piece.start, piece.stop - piece.start)
            yield from emitter.dead(letters, applied.dead.hashes[piece])
    for name, made in applied.side_outputs.items():
        for rows, at in _pieces(*made, state):
            yield from emitter.side_output(name, rows, at)


def _read(state: TaskState) -> tuple[Run, ...]:
    """Return the runs that a task reads: those of its hashes, and of spread bins that other tasks own."""
    others = (run for one in state.shared if not one.share.primary for run in one.runs)
    return (*state.runs, *others)


def _waiting(can: Capabilities, clock: Clock, runs: OpenRuns) -> float:
    """Return how many state rows may be emitted as due, or early. Opens no run."""
    awaited = can.due_range(clock)
    if awaited is None and clock.since is not None:
        awaited = clock.watermark, clock.watermark
    due = 0.0 if awaited is None else runs.rows_waiting(*awaited, clock.since)
    ringing = can.processing_range(clock)
    due += 0.0 if ringing is None else runs.rows_ringing(*ringing)
    # All rows of a key whose timer goes off are read, whichever runs they are in.
    return runs.expected if due and can.on_timer is not None else due


def _found(arrivals: OperatorInput) -> int:
    """Return how many keys had state."""
    if arrivals.held is None:
        return int(arrivals.found.sum())
    return int(np.count_nonzero(np.diff(arrivals.held.owners, prepend=-1)))


def _alive(
    can: Capabilities,
    keys: Columns,
    old: Columns,
    found: Mask,
    clock: Clock,
) -> Mask:
    alive = can.live(keys, old, clock)
    return found if alive is None else found & alive


def _fresh(arrivals: OperatorInput, applied: OperatorOutput, *, has_older: bool) -> Rows:
    """Return changed keys as rows. A dropped key leaves a tombstone only if an older run may hold the key."""
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


def _pieces(
    rows: pa.RecordBatch, hashes: HashArray, state: TaskState
) -> Iterator[tuple[pa.RecordBatch, Order]]:
    """Yield what a task emits, cut into one piece per interval of the task's hashes.

    After a user's function, only the place of a piece's first row is known. Since no other task has hashes within the
    piece, that tells where all its rows belong among those of other tasks, however bins are placed. Of a spread bin,
    several tasks have pieces with the same hashes: nothing downstream depends on their order.
    """
    for piece in state.own.slices(hashes):
        yield rows.slice(piece.start, piece.stop - piece.start), hashes[piece]
