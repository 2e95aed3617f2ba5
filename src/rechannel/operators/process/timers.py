"""Timers of keys: until when the state of a key stays if no row of it comes.

A timer is kept with the state, as the time at which it goes off: `_until`. A row sets it to its own event time and the
timeout, unless it is later already; where there are no event times, to the time of the timestep and the timeout. In a
timestep rows come first: a key whose timer had not gone off by the timestep before is as it was, and its rows set the
timer anew. Then the timers go off that event time has passed by then.

A row whose own timer had gone off by the timestep before is *late*: whatever else there is of its key. So whether it is
does not depend on state, nor on what the function did with other rows.

Runs say which timers they hold (`Run.due`), and no other run is looked at. What a run says of a key may be out of date,
so all keys of which a timer seems to have gone off are looked up before that is believed (`Grouped.together`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.protocol.bases import column_of, late_rows, some_of
from rechannel.kernels.protocol.logic import Late, OperatorInput
from rechannel.kernels.shuffle.watermarks import micros
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import NEVER, less

UNTIL = pa.field("_until", pa.int64(), False)


@dataclass(frozen=True, eq=False, kw_only=True)
class Timely:
    """What came in time. arrivals: of keys with such rows. keys: which of all keys these are, ascending.

    untils: when their timers go off, shape (keys,). late: rows that are late, ascending.
    """

    arrivals: OperatorInput
    keys: IntArray
    untils: IntArray
    late: IntArray


@dataclass(frozen=True, eq=False, kw_only=True)
class Timer:
    """How timers of one operator are set. on: the column of event times; None = the time of the timestep.

    row_schema: columns of the rows as they came.
    """

    timeout_us: int
    on: str | None
    row_schema: pa.Schema

    def timely(self, arrivals: OperatorInput, columns: tuple[pa.Schema, pa.Schema]) -> Timely:
        """Part rows that are late from the others. columns: (keys, others)."""
        if self.on is None:
            now = max(arrivals.clock.stream_ms * 1_000, arrivals.clock.before) + self.timeout_us
            return Timely(
                arrivals=arrivals,
                keys=np.arange(arrivals.groups.count, dtype=np.int64),
                untils=np.full(arrivals.groups.count, now, dtype=np.int64),
                late=np.empty(0, dtype=np.int64),
            )
        times, nulls = micros(column_of(self.on, arrivals, columns))
        late = times <= less(arrivals.clock.before, self.timeout_us)
        late = late if nulls is None else late | nulls
        rows = np.flatnonzero(~late)
        owners = arrivals.groups.ids[rows]
        starts = np.flatnonzero(np.diff(owners, prepend=-1))
        keys = owners[starts]
        whole = len(rows) == arrivals.groups.rows
        given = arrivals if whole else some_of(arrivals, keys, rows, Groups(starts, len(rows)))
        latest = np.maximum.reduceat(times[rows], starts) if len(rows) else times[:0]
        known = np.where(given.found, untils_of(given.old), NEVER)
        return Timely(
            arrivals=given,
            keys=keys,
            untils=np.maximum(latest + self.timeout_us, known),
            late=np.flatnonzero(late),
        )

    def late(
        self,
        arrivals: OperatorInput,
        rows: IntArray,
        columns: tuple[pa.Schema, pa.Schema],
        *,
        keep: bool,
    ) -> Late | None:
        """Rows that are late, as they came if they are read."""
        if not len(rows):
            return None
        if not keep:
            return Late(count=len(rows))
        return late_rows(arrivals, rows, columns, self.row_schema)


def untils_of(state: Columns) -> IntArray:
    """When timers go off; of tombstones that were migrated, which have no state, NEVER."""
    untils: IntArray = state[-1].fill_null(NEVER).to_numpy(zero_copy_only=False)
    return untils
