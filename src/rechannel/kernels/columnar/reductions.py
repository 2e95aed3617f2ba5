"""Reductions over the consecutive groups of `Groups`, in numpy. One result per group, in order."""

from __future__ import annotations

from typing import TypeVar

import numpy as np
import numpy.typing as npt

from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask

_Scalar = TypeVar("_Scalar", bound=np.generic)


def total(values: npt.NDArray[np.generic], groups: Groups) -> IntArray:
    """Sum each group modulo 2^64, as int64: exact whenever the true sum fits.

    Takes differences of a running sum, which may wrap. This is several times faster than
    `np.add.reduceat` on small groups.
    """
    if groups.count == groups.rows:
        return values.astype(np.int64)
    running = np.cumsum(values, dtype=np.int64)
    sums = running[groups.ends - 1]
    sums[1:] -= sums[:-1].copy()
    return sums


def lowest(values: npt.NDArray[_Scalar], groups: Groups) -> npt.NDArray[_Scalar]:
    """Return the smallest value of each group. NaN counts as larger than every other float."""
    return _reduce(np.fmin if values.dtype.kind == "f" else np.minimum, values, groups)


def highest(values: npt.NDArray[_Scalar], groups: Groups) -> npt.NDArray[_Scalar]:
    """Return the largest value of each group. NaN counts as larger than every other float."""
    return _reduce(np.maximum, values, groups)


def union(bits: npt.NDArray[np.uint8], groups: Groups) -> npt.NDArray[np.uint8]:
    """Return the bitwise or of each group."""
    return _reduce(np.bitwise_or, bits, groups)


def some(mask: Mask | None, groups: Groups) -> Mask | None:
    """Return whether the mask is true anywhere in each group; None means that it is true everywhere."""
    if mask is None:
        return None
    counts = total(mask, groups)
    return None if counts.all() else counts > 0


def spread(values: npt.NDArray[_Scalar], groups: Groups) -> npt.NDArray[_Scalar]:
    """Repeat each group's value for every row of the group. Shape (rows,)."""
    return values if groups.count == groups.rows else np.repeat(values, groups.sizes)


def _reduce(
    function: np.ufunc, values: npt.NDArray[_Scalar], groups: Groups
) -> npt.NDArray[_Scalar]:
    if groups.count == groups.rows:
        return values
    reduced: npt.NDArray[_Scalar] = function.reduceat(values, groups.starts)
    return reduced
