"""Read the whole state of a range of hashes: for `job.state`, for tests, for bulk moves."""

from __future__ import annotations

import pyarrow as pa

from rechannel.kernels.columnar.sorting import from_numpy
from rechannel.kernels.lsm.merge import Rows, merge_rows, slices_of
from rechannel.kernels.lsm.runs import live_at, logic_of, needed_at, open_run
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.model.eventtime import Clock


def scan(program: StageProgram, state: TaskState, clock: Clock) -> Rows | None:
    """Return the live rows of one task's hashes, sorted by hash; None if there are none."""
    logic = logic_of(program)
    runs = [open_run(program, run) for run in state.runs]
    parts = [part for run in runs for part in slices_of(run, state.own)]
    if not parts:
        return None
    rows = merge_rows(
        parts, len(logic.key_schema), live_at(logic, clock), bottom=True, minor=logic.minor
    )
    return needed_at(logic, rows, clock)


def finished(program: StageProgram, state: TaskState, clock: Clock) -> pa.RecordBatch:
    """Return live state in the operator's view schema."""
    logic = logic_of(program)
    rows = scan(program, state, clock)
    if rows is None:
        return pa.RecordBatch.from_pylist([], schema=logic.shown_schema)
    width = len(logic.key_schema)
    return logic.finish(rows.columns[:width], rows.columns[width:])


def canonical(program: StageProgram, state: TaskState, clock: Clock) -> pa.Table:
    """Return live state as stored (hash, keys, state columns) in a fixed order: equal states give equal tables."""
    logic = logic_of(program)
    schema = pa.schema(
        [pa.field("_hash", pa.uint64(), False), *logic.key_schema, *logic.state_schema]
    )
    rows = scan(program, state, clock)
    if rows is None:
        return schema.empty_table()
    hashes = from_numpy(rows.hashes, pa.uint64())
    return pa.Table.from_arrays([hashes, *rows.columns], schema=schema)
