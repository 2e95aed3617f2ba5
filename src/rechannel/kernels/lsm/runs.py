"""Open and write the runs of a task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import pyarrow as pa

from rechannel.errors import DamagedStateError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.concatenate import narrowed, wide_columns
from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.kernels.lsm.merge import Live, Rows
from rechannel.kernels.protocol.program import StageProgram, StageStep
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import ENDED, NEVER, Clock
from rechannel.model.hashspace import Intervals
from rechannel.state.keys import segment_key
from rechannel.state.merging import BASE_LEVEL
from rechannel.state.run import Run
from rechannel.state.segments.segment import SegmentMeta, Written, open_segment, write_segment


@dataclass(frozen=True, slots=True)
class Span:
    """`Run.due`, `Run.awaited` and `Run.processing` of some rows."""

    due: tuple[int, int] | None = None
    awaited: int | None = None
    processing: tuple[int, int] | None = None

    @classmethod
    def of(cls, can: Capabilities, rows: Rows) -> Span:
        """Return the span of rows. Only rows that wait themselves count for `awaited`, not those emitted with them."""
        due = can.timer_of(*halves(can, rows)) if len(rows) else None
        by_clock = can.processing_timer_of(*halves(can, rows)) if len(rows) else None
        ringing = None if by_clock is None else _extent(by_clock[by_clock != ENDED])
        if due is None:
            return cls()
        last = int(due.max())
        waits = can.together(*halves(can, rows))
        if waits is None:
            return cls((int(due.min()), last), None, ringing)
        first, awaited = due[waits].min(initial=ENDED), due[waits].max(initial=NEVER)
        return cls((int(first), last), None if awaited == last else int(awaited), ringing)


@dataclass
class RunWriter:
    """Writes the runs of one task. It writes no empty segment."""

    program: StageProgram
    step: StageStep
    task: int
    attempt: str
    _number: int = 0

    def write(self, rows: Rows, where: Intervals, seq: int, level: int) -> tuple[Run, ...]:
        """Write sorted rows as a segment. Returns a run that counts for the hashes in `where`."""
        can = self.program.can
        schema = can.stored_schema
        span = Span.of(can, rows)
        return self.write_as(rows, schema, self.program.fingerprint, where, (seq, level), span)

    def write_as(
        self,
        rows: Rows,
        schema: pa.Schema,
        schema_version: str,
        where: Intervals,
        place: tuple[int, int],
        span: Span,
    ) -> tuple[Run, ...]:
        """Write rows with columns of their own schema. place: seq and level of the run.

        Rows with more bytes than 32-bit offsets reach become several runs with disjoint rows.
        """
        if not len(rows):
            return ()
        rows = _narrow(rows, schema)
        if len(rows) > 1 and wide_columns(rows.columns, schema):
            half = np.arange(len(rows)) < len(rows) // 2
            return tuple(
                run
                for some in (half, ~half)
                for run in self.write_as(
                    rows.where(some), schema, schema_version, where, place, span
                )
            )
        key, written = self._segment(rows, schema, schema_version)
        return (
            Run(
                segment=key,
                clip=where,
                seq=place[0],
                level=place[1],
                rows=len(rows),
                size=written.size,
                span=where.width,
                due=span.due,
                awaited=span.awaited,
                processing=span.processing,
                digest=written.digest,
            ),
        )

    def _segment(self, rows: Rows, schema: pa.Schema, schema_version: str) -> tuple[str, Written]:
        """Write one segment under the next name. Returns its key in the store, its size and its digest."""
        operator, timestep = self.program.operator, self.step.timestep
        key = segment_key(
            operator=operator,
            timestep=timestep,
            task=self.task,
            attempt=f"{self.attempt}.{self._number}",
        )
        self._number += 1
        meta = SegmentMeta(
            operator=operator,
            timestep=timestep,
            task=self.task,
            attempt=self.attempt,
            logic=self.program.version,
            schema=schema_version,
        )
        columns = pa.RecordBatch.from_arrays(rows.columns, schema=schema)
        store = self.program.store
        return key, write_segment(store, key, rows.hashes, columns, meta, dropped=rows.dropped)


class OpenRuns(Sequence[OpenRun]):
    """Runs of one task, newest first, each opened on first access.

    An access raises DamagedStateError for a run whose columns no version of the program can read.
    """

    def __init__(self, program: StageProgram, runs: Sequence[Run]) -> None:
        """runs: newest first."""
        self._program, self._runs = program, runs
        self._opened: dict[int, OpenRun] = {}

    def __len__(self) -> int:
        """How many there are."""
        return len(self._runs)

    @overload
    def __getitem__(self, index: int) -> OpenRun: ...

    @overload
    def __getitem__(self, index: slice) -> list[OpenRun]: ...

    def __getitem__(self, index: int | slice) -> OpenRun | list[OpenRun]:
        """Open and return one run, or several."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index not in self._opened:
            self._opened[index] = open_run(self._program, self._runs[index])
        return self._opened[index]

    def waiting(
        self, after: int, until: int, since: int | None = None
    ) -> list[tuple[Run, OpenRun]]:
        """Return the runs that may have rows waiting for an event time in (after, until].

        since: a timestep; runs written after it also count if their rows wait longer.
        """
        return [
            (run, self[i]) for i, run in enumerate(self._runs) if _waits(run, after, until, since)
        ]

    def ringing(self, after: int, until: int) -> list[tuple[Run, OpenRun]]:
        """Return the runs that may have timers for a processing time in (after, until], beside those of event time."""
        return [(run, self[i]) for i, run in enumerate(self._runs) if run.rings(after, until)]

    @property
    def expected(self) -> float:
        """Return the expected number of rows in all runs, without opening any."""
        return sum([run.expected for run in self._runs])

    def rows_waiting(self, after: int, until: int, since: int | None = None) -> float:
        """Return the expected number of rows in the runs of `waiting`, without opening any."""
        return sum([run.expected for run in self._runs if _waits(run, after, until, since)])

    def rows_ringing(self, after: int, until: int) -> float:
        """Return the expected number of rows in the runs of `ringing`, without opening any."""
        return sum([run.expected for run in self._runs if run.rings(after, until)])


def open_run(program: StageProgram, run: Run) -> OpenRun:
    """Map the run's segment. Raises DamagedStateError if no version of the program can read its columns."""
    segment = open_segment(program.store, run.segment, run.digest, run.size)
    base, schema_version = run.level == BASE_LEVEL, segment.meta.schema
    if schema_version == program.fingerprint:
        return OpenRun(segment, run.clip, base)
    chain = program.migrations.get(schema_version)
    if chain is None:
        msg = (
            f"operator {program.operator!r}: segment {run.segment} was written by version"
            f" {segment.meta.logic} of its logic with other key or state columns (fingerprint"
            f" {schema_version!r}; the running version {program.version} has {program.fingerprint!r}), and no"
            " migration leads from there. Nothing is guessed: start with the program that wrote it,"
            " and change its logic while it runs, with rc.changes.migrate(...) where columns change"
        )
        raise DamagedStateError(msg)
    return OpenRun(segment, run.clip, base, chain)


def _extent(times: IntArray) -> tuple[int, int] | None:
    return (int(times.min()), int(times.max())) if len(times) else None


def _narrow(rows: Rows, schema: pa.Schema) -> Rows:
    """Cast rows to the types of the schema, if they fit."""
    try:
        return Rows(rows.hashes, narrowed(rows.columns, schema), rows.dropped)
    except pa.ArrowInvalid:
        return rows


def live_at(can: Capabilities, clock: Clock) -> Live:
    """Return the test of which rows of an operator still count at a time."""
    return lambda keys, state: can.live(keys, state, clock)


def needed_at(can: Capabilities, rows: Rows, clock: Clock) -> Rows:
    """Drop merged rows that other rows make superfluous. Tombstones stay."""
    needed = can.needed(*halves(can, rows), rows.hashes, clock) if len(rows) else None
    if needed is None:
        return rows
    return rows.where(needed if rows.dropped is None else needed | rows.dropped)


def halves(can: Capabilities, rows: Rows) -> tuple[Columns, Columns]:
    """Return the key columns and the state columns of state rows."""
    width = len(can.logic.key_schema)
    return rows.columns[:width], rows.columns[width:]


def _waits(run: Run, after: int, until: int, since: int | None) -> bool:
    late = since is not None and run.seq > since
    return run.due is None or run.waits(after, ENDED if late else until)


def retired(runs: Sequence[Run], own: Intervals) -> tuple[tuple[tuple[int, ...], Intervals], ...]:
    """Return `Edit.retire` for runs that no longer count in some hashes."""
    return ((tuple(sorted({run.seq for run in runs})), own),) if runs else ()
