"""Any function per window: all rows of a key in a window are handed to it when the window is complete.

State: the rows of windows that are not complete, one state row each; they go when their window is. A row of a window
that was complete in the timestep before is late. So what the function sees of a window is what it would see in a batch
over all rows that are not late, in the order of the stream.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import from_numpy, nested_order, take
from rechannel.kernels.protocol.bases import ManyRows, late_rows
from rechannel.kernels.protocol.capabilities import (
    Emitted,
    Expiring,
    LateTelling,
    Timed,
    Viewed,
    WithoutLookup,
    WrittenOnce,
)
from rechannel.kernels.protocol.logic import Changed, OperatorInput, OperatorOutput
from rechannel.kernels.protocol.two_sides import ROW, row_numbers
from rechannel.kernels.shuffle.watermarks import MICROS, micros
from rechannel.model.buffers import IntArray, Mask
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray
from rechannel.operators.window.group_frame import ApplyBatches, GroupFrame, call
from rechannel.operators.window.logic import END, completes


class WholeWindows(ManyRows, WithoutLookup, WrittenOnce, Viewed, Expiring, Timed, LateTelling):
    """A part of a `StatefulLogic` that keeps the rows of a window until it is complete, and then shows what is made of
    them. The last of the keys is the window's start.
    """

    if TYPE_CHECKING:  # the operator has them

        @property
        def function(self) -> ApplyBatches:
            """The user's function."""

        @property
        def fields(self) -> pa.Schema:
            """Columns of what it answers."""

        @property
        def window_us(self) -> int | None:
            """Length of the windows; None = there are none, and nothing is kept."""

        @property
        def offset_us(self) -> int | None:
            """A window begins there; None = anywhere."""

    @cached_property
    def output_schema(self) -> pa.Schema:
        """Keys, the end of the window, what the function answers."""
        ends = [] if self.window_us is None else [pa.field(END, MICROS, False)]
        return pa.schema([*self.keys, *ends, *self.fields])

    @property
    def lag_us(self) -> int:
        """What is made of a window leaves when it is complete."""
        return self.window_us or 0

    def timer_of(self, keys: Columns, state: Columns) -> IntArray | None:
        """Ends of the windows."""
        return None if self.window_us is None else self._ends(keys)[0]

    def live(self, keys: Columns, state: Columns, clock: Clock) -> Mask | None:
        """Rows of windows that are not complete."""
        if self.window_us is None:
            return None
        alive: Mask = self._ends(keys)[0] > clock.watermark
        return alive

    def gone(self, timer: int, clock: Clock) -> bool:
        """Whether windows that end then are complete."""
        return timer <= clock.watermark

    def due_range(self, clock: Clock) -> tuple[int, int] | None:
        """Windows that have become complete."""
        if self.window_us is None or not completes(clock, self.window_us, self.offset_us):
            return None
        return clock.before, clock.watermark

    def _ends(self, keys: Columns) -> tuple[IntArray, Mask | None]:
        times, nulls = micros(keys[len(self.keys) - 1])
        return times + (self.window_us or 0), nulls

    def _over(self, arrivals: OperatorInput) -> Mask:
        """Which rows came when their window was complete."""
        if self.window_us is None:
            return np.zeros(arrivals.groups.rows, dtype=np.bool_)
        ends, nulls = self._ends(arrivals.keys)
        over: Mask = ends <= arrivals.clock.before
        over = over if nulls is None else over | nulls
        return over[arrivals.groups.ids]

    def _kept(
        self, arrivals: OperatorInput, values: Columns, sides: IntArray, late: Mask
    ) -> Changed:
        """Rows of windows to come. values: state columns of the rows that came."""
        numbers = row_numbers(sides, arrivals.timestep, arrivals.groups)
        rows = np.flatnonzero(~late)
        owners = arrivals.groups.ids[rows]
        order = nested_order(arrivals.hashes[owners], numbers[rows])
        rows, owners = rows[order], owners[order]
        return Changed(
            hashes=arrivals.hashes[owners],
            columns=[
                *take(arrivals.keys, owners),
                from_numpy(numbers[rows], ROW.type),
                *take(values, rows),
            ],
        )

    def _made(self, keys: Columns, hashes: HashArray, frames: tuple[GroupFrame, ...]) -> Emitted:
        """What the function makes of frames of some keys, with their hashes."""
        owners, columns = call(self.function, frames, self.fields)
        shown = take(keys, owners)
        if self.window_us is not None:
            shown.append(from_numpy(self._ends(shown)[0], pa.int64()).cast(MICROS))
        batch = pa.RecordBatch.from_arrays([*shown, *columns], schema=self.output_schema)
        return batch, hashes[owners]

    def _nothing(self) -> pa.RecordBatch:
        """No rows to show."""
        columns = [pa.array([], field.type) for field in self.output_schema]
        return pa.RecordBatch.from_arrays(columns, schema=self.output_schema)


@dataclass(frozen=True, eq=False, kw_only=True)
class ApplyLogic(WholeWindows):
    """What a function makes of all rows of a key in a window: a `StatefulLogic`."""

    keys: pa.Schema
    """The last one is the window's start."""
    rows: pa.Schema
    """The other columns."""
    row_schema: pa.Schema
    """Columns of the stream, as late rows have them."""
    function: ApplyBatches
    fields: pa.Schema
    """Columns that the function returns."""
    window_us: int
    """Length of a window."""
    offset_us: int | None = None
    """A window begins at this time after 1970; None = windows begin at other times too."""
    keep_late: bool = False
    """Late rows are read downstream, so all columns travel."""

    @property
    def key_schema(self) -> pa.Schema:
        """Keys, and what tells the rows of a key apart."""
        return self.keys.append(ROW)

    @property
    def value_schema(self) -> pa.Schema:
        """All columns that are not keys."""
        return self.rows

    @property
    def state_schema(self) -> pa.Schema:
        """Columns of the row."""
        return self.rows

    @property
    def view_schema(self) -> pa.Schema:
        """Return the columns of stored rows, keys first."""
        return pa.schema([*self.keys, *self.rows])

    def finish(self, keys: Columns, state: Columns) -> pa.RecordBatch:
        """Return stored rows, keys first."""
        columns = [*keys[: len(self.keys)], *state]
        return pa.RecordBatch.from_arrays(columns, schema=self.view_schema)

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Keep rows. Results of windows that are complete now are emitted by `fire`."""
        late = self._over(arrivals)
        rows = np.flatnonzero(late)
        columns = (self.keys, self.rows)
        return OperatorOutput(
            state=[],
            dropped=None,
            output=self._nothing(),
            output_hashes=arrivals.hashes[:0],
            late=late_rows(arrivals, rows, columns, self.row_schema) if len(rows) else None,
            changed=self._kept(
                arrivals, arrivals.values, np.zeros(len(late), dtype=np.int64), late
            ),
        )

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """What the function makes of complete windows."""
        groups, keys, state = self.by_key(keys, state, hashes)
        names = take(keys[: len(self.keys)], groups.starts)
        frame = GroupFrame(
            keys=pa.RecordBatch.from_arrays(names, schema=self.keys),
            rows=pa.RecordBatch.from_arrays(state, schema=self.rows),
            sizes=groups.sizes,
        )
        return self._made(names, hashes[groups.starts], (frame,))
