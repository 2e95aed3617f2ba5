"""States that are lists: ranges of a flat column, one range per row."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, list_offsets, ragged


@dataclass(frozen=True, slots=True)
class Ranges:
    """Consecutive elements of a flat column for every row. Shapes (rows,)."""

    starts: IntArray
    lengths: IntArray

    @classmethod
    def of_lists(cls, lists: pa.Array) -> Ranges:
        """Where each list's elements lie in `lists.values`."""
        offsets = list_offsets(lists)
        return cls(offsets[:-1], np.diff(offsets))

    def joined(self, groups: Groups) -> Ranges:
        """One range per group of rows whose ranges follow one another without a gap."""
        ends = (self.starts + self.lengths)[groups.ends - 1]
        starts = self.starts[groups.starts]
        return Ranges(starts, ends - starts)

    def tail(self, longest: int | IntArray) -> Ranges:
        """The last elements of each range, at most `longest`."""
        lengths = np.minimum(self.lengths, longest)
        return Ranges(self.starts + self.lengths - lengths, lengths)

    def take(self, flat: pa.Array) -> pa.Array:
        """Elements of all ranges, one after the other."""
        return flat.take(pa.array(ragged(self.starts, self.lengths)))


def list_column(kind: pa.DataType, lengths: IntArray, flat: pa.Array) -> pa.Array:
    """List column (never null) of lists whose elements stand one after the other in `flat`."""
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    return pa.Array.from_buffers(
        kind, len(lengths), [None, pa.py_buffer(offsets)], null_count=0, children=[flat]
    )


def side_by_side(
    old: pa.Array, new: pa.Array, found: Mask, longest: int | None = None
) -> tuple[IntArray, pa.Array]:
    """Old list (where found) followed by the new one, row by row, as lengths and flat elements.

    longest: most elements to keep of each row, the last ones.
    """
    here = Ranges.of_lists(new)
    there = Ranges.of_lists(old)
    there = Ranges(there.starts, there.lengths * found)
    if longest is not None:
        here = here.tail(longest)
        there = there.tail(longest - here.lengths)
    flat = pa.concat_arrays([old.values, new.values])
    both = Ranges(
        np.column_stack([there.starts, here.starts + len(old.values)]).ravel(),
        np.column_stack([there.lengths, here.lengths]).ravel(),
    )
    return there.lengths + here.lengths, both.take(flat)
