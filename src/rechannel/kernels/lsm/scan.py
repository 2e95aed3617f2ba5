"""Read the whole state of a range of hashes: for `job.state`, for tests, for bulk moves."""

from __future__ import annotations

import pyarrow as pa

from rechannel.kernels.columnar.sorting import from_numpy
from rechannel.kernels.lsm.merge import Rows, merge_rows, slices_of
from rechannel.kernels.lsm.runs import live_at, needed_at, open_run
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.model.eventtime import Clock


def scan(program: StageProgram, state: TaskState, clock: Clock) -> Rows | None:
    """Return the live rows of one task's hashes, sorted by hash; None if there are none."""
    can = program.can
    runs = [open_run(program, run) for run in state.runs]
    parts = [part for run in runs for part in slices_of(run, state.own)]
    if not parts:
        return None
    rows = merge_rows(
        parts, len(can.logic.key_schema), live_at(can, clock), bottom=True, row_order=can.row_order
    )
    return needed_at(can, rows, clock)


def finished(program: StageProgram, state: TaskState, clock: Clock) -> pa.RecordBatch:
    """Return live state in the operator's view schema."""
    can = program.can
    rows = scan(program, state, clock)
    if rows is None:
        return pa.RecordBatch.from_pylist([], schema=can.view_schema)
    width = len(can.logic.key_schema)
    return can.logic.finish(rows.columns[:width], rows.columns[width:])


def canonical(program: StageProgram, state: TaskState, clock: Clock) -> pa.Table:
    """Return live state as stored (hash, keys, state columns) in a fixed order: equal states give equal tables."""
    can = program.can
    schema = pa.schema(
        [pa.field("_hash", pa.uint64(), False), *can.logic.key_schema, *can.logic.state_schema]
    )
    rows = scan(program, state, clock)
    if rows is None:
        return schema.empty_table()
    hashes = from_numpy(rows.hashes, pa.uint64())
    return pa.Table.from_arrays([hashes, *rows.columns], schema=schema)
