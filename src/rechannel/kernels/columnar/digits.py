"""Whole columns of long integers: lists of int64 arrays, most significant digit first, base 2^26.

A digit may be negative or wider than 26 bits while sums run; `carried` brings a number into its one
normal form. The base leaves room: products of two normal digits take 52 bits, so that a few of them
add up inside an int64, and two digits fit a double exactly.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from rechannel.model.buffers import IntArray

BITS = 26
_MASK = np.int64((1 << BITS) - 1)
_BASE = float(1 << BITS)

Digits = list[IntArray]
FloatArray = npt.NDArray[np.float64]


def carried(digits: Digits, more: int = 0) -> Digits:
    """Return the normal form with `more` digits in front: all in [0, 2^26) but the first, which has the sign.

    Digits must be below 2^62 in magnitude.
    """
    out: Digits = []
    carry: IntArray | np.int64 = np.int64(0)
    for digit in [*reversed(digits), *([np.zeros_like(digits[0])] * more)]:
        sum_ = digit + carry
        out.append(sum_ & _MASK)
        carry = sum_ >> BITS
    out[-1] = sum_
    return out[::-1]


def product(left: Digits, right: Digits) -> Digits:
    """Return the exact product of two numbers in normal form. Its digits are not in normal form."""
    out = [np.zeros_like(left[0]) for _ in range(len(left) + len(right) - 1)]
    for i, one in enumerate(left):
        for j, other in enumerate(right):
            out[i + j] += one * other
    return out


def difference(left: Digits, right: Digits) -> Digits:
    """Return `left - right`. Both start at the same weight; the result is as long as the longer one."""
    longest = max(len(left), len(right))
    nothing = np.zeros_like(left[0])
    padded = [digits + [nothing] * (longest - len(digits)) for digits in (left, right)]
    return [one - other for one, other in zip(*padded, strict=True)]


def to_double(digits: Digits, unit: int) -> FloatArray:
    """Return the nearest double of a number in normal form whose digit `unit` has the weight 1.

    Two digits at a time are added without error to an unevaluated pair of doubles, so the result is
    within 2^-100 of correct rounding.
    """
    high = np.zeros(len(digits[0]))
    low = np.zeros(len(digits[0]))
    for i in range(0, len(digits), 2):
        piece: FloatArray = digits[i].astype(np.float64) * _BASE
        if i + 1 < len(digits):
            piece += digits[i + 1]
        weight = 2.0 ** (BITS * (unit - i - 1))
        high, error = _two_sum(high, piece * weight)
        low += error
    rounded: FloatArray = high + low
    return rounded


def _two_sum(left: FloatArray, right: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the sum and its rounding error (Knuth, TAOCP 2, 4.2.2, theorem B)."""
    sum_ = left + right
    part = sum_ - left
    return sum_, (left - (sum_ - part)) + (right - part)
