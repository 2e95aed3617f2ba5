"""Read the table of a broadcast input: the whole state of another operator, as of a timestep.

Every task reads it, so what it costs follows how often it changes: a process keeps the tables that it has read, and
takes one again while the runs of the state are the same. State is immutable: the same runs hold the same rows. Which of
them have outlived their time is looked at in every timestep, and the table stays the same one until another row has.

Tasks of several operators, and of timesteps that are in flight together, share a process. So two versions of a table
are kept, and a task waits only for the version that it needs, which one thread reads.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from dataclasses import dataclass, field, replace
from threading import Lock

import numpy as np
import pyarrow as pa

from rechannel.errors import BroadcastTooLargeError
from rechannel.kernels.columnar.concatenate import joined
from rechannel.kernels.functions.broadcast import BroadcastTable
from rechannel.kernels.lsm.merge import Rows, everything, merge_rows, slices_of
from rechannel.kernels.lsm.runs import halves, open_run
from rechannel.kernels.protocol.program import BroadcastState, StageProgram
from rechannel.model.buffers import Mask
from rechannel.model.eventtime import Clock
from rechannel.model.routing import Routing
from rechannel.state.run import Run

BROADCAST_BYTES = 64 << 20
"""Largest table of a broadcast input, in Arrow."""
STORED_BYTES = 4 * BROADCAST_BYTES
"""Most bytes of its rows in state, those that have outlived their time among them."""
KEPT_BYTES = 4 * BROADCAST_BYTES
"""Bytes of tables that a process keeps, with the Python values made of them; it always keeps the latest one."""
KEPT_TABLES = 16
"""Tables that it keeps: each holds its program, with the functions of its user."""
KEPT_VERSIONS = 2
"""Versions of one table that it keeps: timesteps in flight read the one before, too."""


@dataclass(frozen=True, eq=False, kw_only=True)
class _Read:
    """A table that was read. rows: if they can outlive their time, all of them; alive: which had not."""

    program: StageProgram
    rows: Rows | None = None
    alive: Mask | None = None
    table: BroadcastTable

    @property
    def nbytes(self) -> int:
        """Bytes of its columns, and of Python values that were made of them."""
        columns = [] if self.rows is None else self.rows.columns
        return int(self.table.held_bytes + sum(column.nbytes for column in columns))


@dataclass(eq=False)
class _Version:
    """A version of a table. The first thread that needs it reads it; the others wait for that."""

    program: StageProgram
    """It is known by its identity, which is its own as long as it is held here."""
    _read: _Read | None = None
    _lock: Lock = field(default_factory=Lock)

    def of(self, state: BroadcastState) -> BroadcastTable:
        """Return the table. Raises BroadcastTooLargeError."""
        with self._lock:
            known = self._read
            read = _read(self.program, state) if known is None else _as_of(known, state.clock)
            self._read = read
        return read.table

    @property
    def nbytes(self) -> int:
        """Bytes that it holds; 0 while it is read."""
        read = self._read
        return 0 if read is None else read.nbytes


@dataclass
class Tables:
    """The tables that a process has read last, by the program and the runs. Safe to use from several threads."""

    _versions: OrderedDict[tuple[int, tuple[Run, ...]], _Version] = field(
        default_factory=OrderedDict
    )
    _lock: Lock = field(default_factory=Lock)
    """Nothing is read while it is held."""

    def of(self, program: StageProgram, state: BroadcastState) -> BroadcastTable:
        """Return the table of an operator. program: reads its state. Raises BroadcastTooLargeError."""
        key = id(program), state.runs
        with self._lock:
            version = self._versions.pop(key, None) or _Version(program)
            self._versions[key] = version
        table = version.of(state)
        with self._lock:
            self._forget()
        return table

    def _forget(self) -> None:
        """Drop what was used longest ago."""
        newer = Counter[int]()
        for key in reversed(list(self._versions)):
            newer[key[0]] += 1
            if newer[key[0]] > KEPT_VERSIONS:
                del self._versions[key]
        size = sum(version.nbytes for version in self._versions.values())
        while len(self._versions) > (1 if size > KEPT_BYTES else KEPT_TABLES):
            _, gone = self._versions.popitem(last=False)
            size -= gone.nbytes


_tables = Tables()


def broadcast_table(program: StageProgram, state: BroadcastState) -> BroadcastTable:
    """Return the table of an operator as of a timestep; this process reads it only if it has changed.

    program: reads its state. Raises BroadcastTooLargeError, DamagedStateError, StorageError.
    """
    return _tables.of(program, state)


def _read(program: StageProgram, state: BroadcastState) -> _Read:
    can = program.can
    rows = _merged(program, state)
    if rows is None:
        none = pa.RecordBatch.from_pylist([], schema=can.view_schema)
        return _Read(program=program, table=BroadcastTable(none, can.hashed))
    alive = can.live(*halves(can, rows), state.clock)
    return _Read(
        program=program,
        rows=None if alive is None else rows,
        alive=alive,
        table=_table(program, rows if alive is None else rows.where(alive)),
    )


def _merged(program: StageProgram, state: BroadcastState) -> Rows | None:
    """Return the newest row of every key; None if there is none.

    A piece of the hash space at a time: rows that later ones replace stay in state until runs are merged, and may be
    many times as many.
    """
    stored = sum(run.expected_bytes for run in state.runs)
    pieces = 1 + int(stored // BROADCAST_BYTES)
    routing = Routing.even(bins=pieces, tasks=pieces)
    runs = [open_run(program, run) for run in state.runs]
    can, made, size = program.can, list[Rows](), 0
    for number in range(pieces):
        own = routing.intervals_of(number)
        if parts := [part for run in runs for part in slices_of(run, own)]:
            keys = len(can.logic.key_schema)
            rows = merge_rows(parts, keys, everything, bottom=True, row_order=can.row_order)
            size += sum(column.nbytes for column in rows.columns)
            made.append(rows)
        if size > STORED_BYTES:
            raise _too_large(program.operator, size, STORED_BYTES, "in state")
    if len(made) < 2:
        return made[0] if made else None
    hashes = np.concatenate([rows.hashes for rows in made])
    columns = [joined(list(same)) for same in zip(*(rows.columns for rows in made), strict=True)]
    return Rows(hashes, columns, None)


def _as_of(read: _Read, clock: Clock) -> _Read:
    """Return the table without the rows that have outlived their time."""
    if read.rows is None:
        return read
    alive = read.program.can.live(*halves(read.program.can, read.rows), clock)
    if alive is None or (read.alive is not None and np.array_equal(alive, read.alive)):
        return read
    return replace(read, alive=alive, table=_table(read.program, read.rows.where(alive)))


def _table(program: StageProgram, rows: Rows) -> BroadcastTable:
    can = program.can
    table = BroadcastTable(can.logic.finish(*halves(can, rows)), can.hashed)
    if table.nbytes > BROADCAST_BYTES:
        raise _too_large(program.operator, table.nbytes, BROADCAST_BYTES, "as a table")
    return table


def _too_large(operator: str, size: int, most: int, where: str) -> BroadcastTooLargeError:
    msg = (
        f"the broadcast input that operator {operator!r} keeps has {size / 2**20:,.0f} MiB {where}, more than"
        f" {most / 2**20:,.0f} MiB, and every task would hold all of it. Nothing of the timestep was committed: keep"
        f" fewer keys (a `track` that returns None, or has a timeout) or fewer columns in {operator!r}; or look rows up"
        " by their key, with lookup(...) or join(...), for which no task holds the whole table"
    )
    return BroadcastTooLargeError(msg)
