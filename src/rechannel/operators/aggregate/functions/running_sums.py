"""Running sums of integers, per group.

They are differences of one sum over all rows, which may wrap: each is exact if the true sum fits.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, column, numbers, validity


def integer_sums(values: pa.Array, groups: Groups, before: pa.Array, known: Mask) -> pa.Array:
    """Return running sums, null as long as there was no value. Raises OverflowError."""
    there, was = validity(values), validity(before)
    was = known if was is None else was & known
    came = numbers(values).astype(np.int64)
    came = came if there is None else came * there
    sums, wrapped = running_sums(came, groups, np.where(was, numbers(before), 0))
    if wrapped:
        raise OverflowError
    if there is None:
        return column(pa.int64(), sums)
    seen, _ = running_sums(there.astype(np.int64), groups, was.astype(np.int64))
    return column(pa.int64(), sums, None if seen.all() else seen > 0)


def running_sums(came: IntArray, groups: Groups, base: IntArray) -> tuple[IntArray, bool]:
    """Return the running sums of each group, from a base on, and whether one of them left int64."""
    whole = np.cumsum(came)
    skipped = whole[groups.starts] - came[groups.starts] - base
    sums: IntArray = whole - np.repeat(skipped, groups.sizes)
    earlier = sums - came
    return sums, bool((((earlier ^ sums) & (came ^ sums)) < 0).any())
