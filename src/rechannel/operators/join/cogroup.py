"""`cogroup`: all rows of a key, of two streams, are handed to a function: when their window is complete, or, without
windows, in the timestep in which they come.

State: rows of both sides of windows that are not complete, as `window.groupwise` has them. Without windows there is
none: the function sees what comes together, as a function of a timestep's rows does. Null is a key like any other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.sorting import take
from rechannel.kernels.protocol.capabilities import Emitted
from rechannel.kernels.protocol.logic import OperatorInput, OperatorOutput
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT, Side, sides_of
from rechannel.model.buffers import IntArray
from rechannel.model.eventtime import Clock
from rechannel.model.hashspace import HashArray
from rechannel.operators.join.two_inputs import TwoSided
from rechannel.operators.window.group_frame import ApplyBatches, GroupFrame
from rechannel.operators.window.groupwise import WholeWindows


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupLogic(WholeWindows, TwoSided):
    """What a function makes of the rows of a key, of both sides: a `StatefulLogic`.

    keys: the common keys; the last one is the start of a window where there are windows. left, right, slots: columns of
    both sides. function, fields: what is called, and the columns of what it answers. window_us: length of the windows;
    offset_us: one begins there. keep_late: late rows are read.
    """

    keys: pa.Schema
    left: Side
    right: Side
    slots: pa.Schema
    function: ApplyBatches
    fields: pa.Schema
    window_us: int | None = None
    offset_us: int | None = None
    keep_late: bool = False

    @property
    def state_schema(self) -> pa.Schema:
        """Columns of the row."""
        return self.slots

    def undivided(self, side: int) -> str:
        """Return why rows of no side can be dealt out: the function is the user's."""
        del side
        return "its function receives all rows of a key, of both sides, at once"

    def depends_on_order(self, side: int) -> bool:
        """The function sees rows in their order."""
        del side
        return True

    def apply(self, arrivals: OperatorInput) -> OperatorOutput:
        """Keep rows, or call the function at once where there are no windows."""
        sides = arrivals.values[0].to_numpy(zero_copy_only=False).astype(np.int64)
        late, slots = self._over(arrivals), arrivals.values[1:]
        shown, hashes = self._nothing(), arrivals.hashes[:0]
        if self.window_us is None:
            frames = self._frames(arrivals.keys, arrivals.groups.ids, sides, slots)
            shown, hashes = self._made(arrivals.keys, arrivals.hashes, frames)
        left_out = late if self.window_us is not None else np.ones(len(sides), dtype=np.bool_)
        return OperatorOutput(
            state=[],
            dropped=None,
            output=shown,
            output_hashes=hashes,
            late=self._late(arrivals, late),
            changed=self._kept(arrivals, slots, sides, left_out),
        )

    def fire(self, keys: Columns, state: Columns, hashes: HashArray, clock: Clock) -> Emitted:
        """What the function makes of complete windows."""
        groups, keys, state = self.by_key(keys, state, hashes)
        names = take(keys[: len(self.keys)], groups.starts)
        frames = self._frames(names, groups.ids, sides_of(self.row_order(keys)), state)
        return self._made(names, hashes[groups.starts], frames)

    def _frames(
        self, keys: Columns, owners: IntArray, sides: IntArray, slots: Columns
    ) -> tuple[GroupFrame, GroupFrame]:
        """Rows of both sides. owners: number of each row's key, ascending."""
        batch = pa.RecordBatch.from_arrays(keys, schema=self.keys)
        left, right = (
            GroupFrame(
                keys=batch,
                rows=_rows_of(side, take(slots, of)),
                sizes=np.bincount(owners[of], minlength=batch.num_rows).astype(np.int64),
            )
            for side, of in (
                (self.left, np.flatnonzero(sides == LEFT)),
                (self.right, np.flatnonzero(sides == RIGHT)),
            )
        )
        return left, right


def _rows_of(side: Side, slots: Columns) -> pa.RecordBatch:
    """Rows of a side under the names that they have there."""
    names = [source.partition(".")[2] for source in side.sources]
    return pa.RecordBatch.from_arrays(side.columns(slots), names=names)
