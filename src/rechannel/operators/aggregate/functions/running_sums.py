"""Running sums of integers, per group.

They are differences of one sum over all rows, which may wrap: each is exact if the true sum fits.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, column, numbers, validity, word_pairs
from rechannel.operators.aggregate.functions import integers


def exact_sums(values: pa.Array, groups: Groups, before: pa.Array, known: Mask) -> pa.Array:
    """Return running sums of integers or decimals, null as long as there was no value.

    before, known: sum of every group before its first row, and whether there was one; its type is that of the sums.
    Raises OverflowError if a sum does not fit.
    """
    there, was = validity(values), validity(before)
    was = known if was is None else was & known
    if pa.types.is_decimal128(before.type):
        sums = _decimal_sums(values, there, groups, (before, was))
    else:
        sums = column(pa.int64(), _integer_sums(values, there, groups, (before, was)))
    if there is None:
        return sums
    seen, _ = running_sums(there.astype(np.int64), groups, was.astype(np.int64))
    return sums if seen.all() else pc.if_else(pa.array(seen > 0), sums, None)


def _integer_sums(
    values: pa.Array, there: Mask | None, groups: Groups, base: tuple[pa.Array, Mask]
) -> IntArray:
    came = numbers(values).astype(np.int64)
    came = came if there is None else came * there
    sums, wrapped = running_sums(came, groups, np.where(base[1], numbers(base[0]), 0))
    if wrapped:
        raise OverflowError
    return sums


def _decimal_sums(
    values: pa.Array, there: Mask | None, groups: Groups, base: tuple[pa.Array, Mask]
) -> pa.Array:
    if pa.types.is_integer(values.type):
        came = integers.widened(numbers(values).astype(np.int64))
    else:
        came = word_pairs(values)
    kind = base[0].type
    before = integers.masked(word_pairs(base[0]), base[1])
    sums = integers.wide_running(integers.masked(came, there), groups, before)
    # Modulo 2^128, the first sum that does not fit is still recognised: it is the sum of two numbers that fit.
    integers.check_digits(sums, kind.precision)
    return integers.decimal_column(kind, sums)


def running_sums(came: IntArray, groups: Groups, base: IntArray) -> tuple[IntArray, bool]:
    """Return the running sums of each group, from a base on, and whether one of them left int64."""
    whole = np.cumsum(came)
    skipped = whole[groups.starts] - came[groups.starts] - base
    sums: IntArray = whole - np.repeat(skipped, groups.sizes)
    earlier = sums - came
    return sums, bool((((earlier ^ sums) & (came ^ sums)) < 0).any())
