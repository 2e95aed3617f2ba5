"""Exact sums of 64-bit and 128-bit integers per group that notice when they do not fit.

All functions raise OverflowError where a result does not fit; the aggregates name column and type.
128-bit integers are pairs (low uint64, high int64) in two's complement, as Arrow keeps decimals.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.columnar import reductions
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, bitmap

Wide = tuple[npt.NDArray[np.uint64], IntArray]

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)
_LIMIT = 1 << 63


def total(values: IntArray, groups: Groups) -> IntArray:
    """Sum of each group."""
    if groups.count == groups.rows or _surely_fits(values, groups):
        return reductions.total(values, groups)
    low, high = _limbs_total(widened(values), groups)
    narrow = low.view(np.int64)
    if (high != narrow >> 63).any():
        raise OverflowError
    return narrow


def add(left: IntArray, right: IntArray) -> IntArray:
    """Sum of each pair."""
    out = left + right
    if (((left ^ out) & (right ^ out)) < 0).any():
        raise OverflowError
    return out


def less(left: IntArray, right: IntArray) -> IntArray:
    """Difference of each pair."""
    out = left - right
    if (((left ^ right) & (left ^ out)) < 0).any():
        raise OverflowError
    return out


def negative(values: Wide) -> Wide:
    """The numbers with the other sign; the least one has none."""
    low, high = values
    return ~low + np.uint64(1), ~high + (low == 0)


def widened(values: IntArray) -> Wide:
    """The same numbers in 128 bits."""
    return values.view(np.uint64), values >> 63


def masked(values: Wide, valid: Mask | None) -> Wide:
    """The numbers, with 0 where the mask does not hold."""
    return values if valid is None else (values[0] * valid, values[1] * valid)


def wide_total(values: Wide, groups: Groups) -> Wide:
    """Sum of each group, for up to 2^31 rows."""
    narrow = values[0].view(np.int64)
    if groups.count == groups.rows:
        return values
    if (values[1] == narrow >> 63).all() and _surely_fits(narrow, groups):
        return widened(reductions.total(narrow, groups))
    return _limbs_total(values, groups)


def _surely_fits(values: IntArray, groups: Groups) -> bool:
    """Whether no group can leave int64, judged by the largest magnitude and the largest group."""
    largest = max(abs(int(values.min())), abs(int(values.max())))
    return largest * int(groups.sizes.max()) < _LIMIT


def _limbs_total(values: Wide, groups: Groups) -> Wide:
    """Sum of each group: four limbs of 32 bits are summed apart, then carried."""
    low, high = values
    unsigned = high.view(np.uint64)
    limbs = (low & _LOW_HALF, low >> _HALF, unsigned & _LOW_HALF, high >> 32)
    carry = np.zeros(groups.count, np.int64)
    parts = []
    for limb in limbs:
        sums = reductions.total(limb, groups) + carry
        carry = sums >> 32
        parts.append(sums.view(np.uint64) & _LOW_HALF)
    if (carry != parts[3].astype(np.uint32).view(np.int32) >> 31).any():
        raise OverflowError
    return parts[0] | parts[1] << _HALF, (parts[2] | parts[3] << _HALF).view(np.int64)


def wide_running(values: Wide, groups: Groups, before: Wide) -> Wide:
    """Running sums of each group, modulo 2^128, for up to 2^31 rows. before: of each group, what it begins with."""
    low, high = values

    def within(limb: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        whole = np.cumsum(limb, dtype=np.uint64)
        skipped = whole[groups.starts] - limb[groups.starts]
        return whole - np.repeat(skipped, groups.sizes)

    lowest, middle = within(low & _LOW_HALF), within(low >> _HALF)
    middle += lowest >> _HALF
    sums = (lowest & _LOW_HALF) | (middle << _HALF)
    upper = within(high.view(np.uint64)) + (middle >> _HALF)
    total_low = sums + np.repeat(before[0], groups.sizes)
    upper += np.repeat(before[1].view(np.uint64), groups.sizes) + (total_low < sums)
    return total_low, upper.view(np.int64)


def wide_add(left: Wide, right: Wide) -> Wide:
    """Sum of each pair."""
    low = left[0] + right[0]
    high = left[1] + right[1] + (low < left[0])
    if (((left[1] ^ high) & (right[1] ^ high)) < 0).any():
        raise OverflowError
    return low, high


def check_digits(values: Wide, digits: int) -> None:
    """Raise OverflowError unless every number has at most `digits` decimal digits."""
    low, high = values
    bound = 10**digits
    upper_low, upper_high = _halves(bound)
    lower_low, lower_high = _halves(-bound)
    above = (high > upper_high) | ((high == upper_high) & (low >= upper_low))
    below = (high < lower_high) | ((high == lower_high) & (low <= lower_low))
    if (above | below).any():
        raise OverflowError


def decimal_column(kind: pa.DataType, values: Wide, valid: Mask | None = None) -> pa.Array:
    """Decimal128 column of unscaled values."""
    words = np.empty((len(values[0]), 2), np.uint64)
    words[:, 0], words[:, 1] = values[0], values[1].view(np.uint64)
    return pa.Array.from_buffers(kind, len(words), [bitmap(valid), pa.py_buffer(words)])


def _halves(number: int) -> tuple[np.uint64, np.int64]:
    return np.uint64(number & (2**64 - 1)), np.int64(number >> 64)
