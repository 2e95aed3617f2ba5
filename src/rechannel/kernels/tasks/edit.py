"""Stored rows of some hashes as a user's function makes them anew: what is allowed, what differs, and writing them.

The function sees the rows of a piece of the hash space and may change, drop and add rows. What it returns has the same
columns and one row for each key, and every key belongs to the piece: no other piece has a row for it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.errors import UserFunctionError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.columnar.sorting import group_rows, sort_index, take
from rechannel.kernels.lsm.merge import Rows
from rechannel.kernels.lsm.scan import scan
from rechannel.kernels.protocol.program import StageProgram, TaskState
from rechannel.kernels.shuffle.send import plain_key
from rechannel.kernels.tasks.emit import guarded
from rechannel.model.buffers import IntArray
from rechannel.model.ddl import columns_text
from rechannel.model.eventtime import Clock
from rechannel.model.hashing import hash_columns, keys_equal
from rechannel.model.hashspace import Intervals

EditFunction = Callable[[pa.Table], pa.Table]
"""(stored rows: key columns, then state columns) -> the rows that take their place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """How many rows an edit touches."""

    changed: int = 0
    added: int = 0
    removed: int = 0
    same: int = 0

    def plus(self, other: Touched) -> Touched:
        """Return the sum."""
        return Touched(
            changed=self.changed + other.changed,
            added=self.added + other.added,
            removed=self.removed + other.removed,
            same=self.same + other.same,
        )

    def __bool__(self) -> bool:
        return bool(self.changed or self.added or self.removed)


def edited(
    program: StageProgram, state: TaskState, clock: Clock, function: EditFunction
) -> tuple[Rows, Touched]:
    """Return the rows that a function makes of those of a piece, sorted, and how they differ.

    Raises UserFunctionError for what the function raises, or if its result is not allowed.
    """
    schema = program.can.stored_schema
    found = scan(program, state, clock)
    columns = [] if found is None else found.columns
    before = pa.Table.from_arrays(columns, schema=schema) if columns else schema.empty_table()
    made = guarded(program.operator, lambda: function(before))
    after = _sorted(program, _checked(program, made))
    _check_own(program, state.own, after)
    return after, _compared(program, _sorted(program, _columns(before)), after)


def _check_own(program: StageProgram, own: Intervals, after: Rows) -> None:
    """Raise UserFunctionError if a row belongs to another piece."""
    mine = np.zeros(len(after), np.bool_)
    for piece in own.slices(after.hashes):
        mine[piece] = True
    if not mine.all():
        width = len(program.can.logic.key_schema)
        key = [column[0].as_py() for column in after.where(~mine).columns[:width]]
        msg = (
            f"operator {program.operator!r}: the function returned a row with the key {key}. A large state is given in"
            " pieces, and that key belongs to another piece than the rows of this call: return it in the call that it"
            " belongs to, whose rows the function can tell by their keys"
        )
        raise UserFunctionError(msg)


def _columns(table: pa.Table) -> Columns:
    return [column.combine_chunks() for column in table.columns]


def _checked(program: StageProgram, made: object) -> Columns:
    """Return the columns in stored order. Raises UserFunctionError."""
    schema = program.can.stored_schema
    if isinstance(made, pa.RecordBatch):
        made = pa.Table.from_batches([made])
    if not isinstance(made, pa.Table):
        msg = f"operator {program.operator!r}: the function returned {type(made).__name__}, not an Arrow table"
        raise UserFunctionError(msg)
    other = sorted(made.schema.names) != sorted(schema.names)
    if other or any(made.schema.field(f.name).type != f.type for f in schema):
        msg = (
            f"operator {program.operator!r}: the function returned the columns {columns_text(made.schema)}, but they"
            f" are {columns_text(schema)}"
        )
        raise UserFunctionError(msg)
    return _columns(made.select(schema.names))


def _sorted(program: StageProgram, columns: Columns) -> Rows:
    """Return rows by hash. Raises UserFunctionError if a key has two."""
    can, width = program.can, len(program.can.logic.key_schema)
    columns = [*map(plain_key, columns[:width]), *columns[width:]]
    hashes = hash_columns(columns[: can.hashed])
    order = sort_index(hashes, can.row_order(columns[:width]))
    rows = Rows(hashes[order], take(columns, order), None)
    groups, further = _groups(program, rows)
    if groups.count != groups.rows:
        first = int(np.flatnonzero(groups.sizes > 1)[0])
        at = int(groups.starts[first])
        at = at if further is None else int(further[at])
        key = [column[at].as_py() for column in rows.columns[:width]]
        msg = f"operator {program.operator!r}: the function returned two rows with the key {key}"
        raise UserFunctionError(msg)
    return rows


def _groups(program: StageProgram, rows: Rows) -> tuple[Groups, IntArray | None]:
    keys = rows.columns[: len(program.can.logic.key_schema)]
    return group_rows(rows.hashes, keys, program.can.row_order(keys))


def _compared(program: StageProgram, before: Rows, after: Rows) -> Touched:
    width, old = len(program.can.logic.key_schema), len(before)
    both = [
        pa.concat_arrays([one, other])
        for one, other in zip(before.columns, after.columns, strict=True)
    ]
    hashes = np.concatenate([before.hashes, after.hashes])
    order = sort_index(hashes, program.can.row_order(both[:width]))
    rows = Rows(hashes[order], take(both, order), None)
    groups, further = _groups(program, rows)
    if further is not None:
        order = order[further]
    alone = groups.starts[groups.sizes == 1]
    pairs = groups.starts[groups.sizes == 2]
    removed = int((order[alone] < old).sum())
    same = _equal(both[width:], order[pairs], order[pairs + 1])
    return Touched(
        changed=len(pairs) - same, added=len(alone) - removed, removed=removed, same=same
    )


def _equal(columns: Columns, left: IntArray, right: IntArray) -> int:
    """Return at how many places all columns are equal."""
    if not columns or not len(left):
        return len(left)
    one, other = take(columns, left), take(columns, right)
    try:
        return int(keys_equal(one, other).sum())
    except ValueError:  # of types that no key may have
        lists = [[column.to_pylist() for column in side] for side in (one, other)]
        return sum(
            a == b
            for a, b in zip(zip(*lists[0], strict=True), zip(*lists[1], strict=True), strict=True)
        )
