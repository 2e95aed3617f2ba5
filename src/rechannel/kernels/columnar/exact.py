"""Float sums that do not depend on the order of addition, for many groups at once.

Floating-point addition is not associative, so a plain sum changes with the order of rows and with
how they were split into partial sums. Here a sum is an integer instead, which is associative.

Cut the number line of binary digits, from 2^-1092 to 2^1040, at fixed places into *bins* of 26
bits: bin j holds the digits worth 2^(26 j) up to 2^(26 j + 26). A double has 53 significant bits
and touches at most three bins; what it contributes to a bin is an integer below 2^26 in magnitude
that depends on the double alone. Adding contributions bin by bin in int64 is exact for at least
2^36 rows.

A group keeps only a window of bins: the highest bin that any of its values reached (`top`) and the
next ones below. Contributions below the window are dropped. `top` only rises, and a partial sum
of fewer values has a window that reaches at least as far down, so the bins that remain at the end
have received every contribution, in any order. For the same reason bins never carry into each
other in a stored state; carries are settled only when the value is read.

With the default of 4 bins at least 78 bits below the largest value of the group are kept: the error
is below n 2^-78 times the largest magnitude, 2^25 times better than what rounding does to a plain
sum. (Demmel and Nguyen, "Parallel Reproducible Summation", IEEE Trans. Computers 64(7), 2015, work
with floating-point bins in the same way.)

Sums of squares, for variances, share window and flags: the square of a value in bin j lies in the
bins 2j + 1 and below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rechannel.kernels.columnar import digits, reductions
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.digits import Digits, FloatArray
from rechannel.kernels.columnar.groups import Groups
from rechannel.model.buffers import IntArray, Mask, column, numbers

LOWEST = -39
"""Lowest `top`: a window of four bins from here reaches below the smallest subnormal, 2^-1074."""

EMPTY = -128
"""The `top` of a state that saw no value."""

NAN, POSITIVE, NEGATIVE = 1, 2, 4
"""Flags of a state: it saw NaN, +inf, -inf."""

_BASE = 2.0**digits.BITS


@dataclass(frozen=True, slots=True, kw_only=True)
class ExactSums:
    """Sum of doubles per group, and if asked the sum of their squares.

    sum_bins: bins kept for the sum, at least 4.
    square_bins: bins kept for the sum of squares; 0 keeps none.

    A state is the columns `top` (int8), `flags` (uint8) and one int64 per bin, highest first; none
    of them is null. Equal multisets of values give equal states, bit for bit.
    """

    sum_bins: int = 4
    square_bins: int = 0

    def __post_init__(self) -> None:
        """Check the number of bins."""
        if self.sum_bins < 4 or self.square_bins < 0:
            msg = f"an exact sum needs at least 4 bins, got {self.sum_bins}, {self.square_bins}"
            raise ValueError(msg)

    @property
    def fields(self) -> list[pa.Field]:
        """Fields of a state."""
        names = [f"sum_{i}" for i in range(self.sum_bins)]
        names += [f"square_{i}" for i in range(self.square_bins)]
        return [
            pa.field("top", pa.int8(), nullable=False),
            pa.field("flags", pa.uint8(), nullable=False),
            *(pa.field(name, pa.int64(), nullable=False) for name in names),
        ]

    def partial(self, values: FloatArray, valid: Mask | None, groups: Groups) -> Columns:
        """Return one state per group of rows. valid: which values are not null; None means all."""
        if valid is not None:
            values = np.where(valid, values, 0.0)
        values, flags = _set_apart(values, groups)
        tops = _bin_of(reductions.highest(np.abs(values), groups))
        values = values * reductions.spread(np.ldexp(1.0, -digits.BITS * tops), groups)
        bins = [reductions.total(part, groups) for part in _split(values, self.sum_bins)]
        if self.square_bins:
            bins += self._squares(values, groups)
        present = reductions.some(valid, groups)
        if present is not None:
            tops = np.where(present, tops, EMPTY)
        return _columns(tops, flags, bins)

    def merge(self, states: Columns, groups: Groups) -> Columns:
        """Return one state per group of states."""
        if groups.count == groups.rows:
            return list(states)
        tops, flags, bins = _unpack(states)
        merged = reductions.highest(tops, groups)
        lowered = self._lower(bins, reductions.spread(merged, groups) - tops)
        sums = [reductions.total(part, groups) for part in lowered]
        return _columns(merged, reductions.union(flags, groups), sums)

    def merge_pair(self, old: Columns, new: Columns, found: Mask) -> Columns:
        """Add old states (where found) and new states row by row."""
        old_tops, old_flags, old_bins = _unpack(old)
        new_tops, new_flags, new_bins = _unpack(new)
        old_tops = np.where(found, old_tops, EMPTY)
        tops = np.maximum(old_tops, new_tops)
        if not found.all():
            old_bins = [part * found for part in old_bins]
        lowered = self._lower(old_bins, np.where(found, tops - old_tops, 0))
        raised = self._lower(new_bins, tops - new_tops)
        bins = [one + other for one, other in zip(lowered, raised, strict=True)]
        return _columns(tops, new_flags | (old_flags * found), bins)

    def tally(self, states: Columns) -> Columns:
        """Return what `subtract` needs besides the states: their tallies, each state taken by itself.

        A tally counts the states that reach the top of the merged one, and those that have flags.
        """
        flags = numbers(states[1])
        ones = np.ones(len(flags), dtype=np.int64)
        return [column(pa.int64(), ones), column(pa.int64(), (flags != 0).astype(np.int64))]

    def merge_tallied(self, totals: Columns, groups: Groups) -> Columns:
        """Merge states that are followed by their tallies, one per group; the result is followed by its own."""
        if groups.count == groups.rows:
            return list(totals)
        merged = self.merge(totals[:-2], groups)
        tops, known = numbers(merged[0]), numbers(totals[0])
        high, flagged = _int64(numbers(totals[-2])), _int64(numbers(totals[-1]))
        high = reductions.total(high * (known == reductions.spread(tops, groups)), groups)
        flagged = reductions.total(flagged, groups)
        return [*merged, column(pa.int64(), high), column(pa.int64(), flagged)]

    def subtract(self, totals: Columns, others: Columns) -> tuple[Columns, Mask]:
        """Take states out of totals that they were merged into, row by row; both are followed by their tallies.

        Also returns which rows must be merged anew: when the last state that reached the top leaves, the window falls,
        and digits below the old window were never kept.
        """
        tops, flags, bins = _unpack(totals[:-2])
        their_tops, their_flags, their_bins = _unpack(others[:-2])
        high, flagged = (_int64(numbers(part)) for part in totals[-2:])
        their_high, their_flagged = (_int64(numbers(part)) for part in others[-2:])
        lowered = self._lower(their_bins, tops - their_tops)
        high = high - their_high * (their_tops == tops)
        flagged = flagged - their_flagged
        # If everything that is left has the only flag of the total, the flag stays.
        unclear = (flagged > 0) & (their_flags != 0) & (flags & (flags - np.uint8(1)) != 0)
        left = [one - other for one, other in zip(bins, lowered, strict=True)]
        columns = _columns(tops, np.where(flagged > 0, flags, np.uint8(0)), left)
        return [*columns, column(pa.int64(), high), column(pa.int64(), flagged)], (
            high <= 0
        ) | unclear

    def sums(self, states: Columns) -> tuple[FloatArray, IntArray]:
        """Return each state's sum as a double times a power of two: (mantissas, exponents).

        They are separate so that callers can divide before a sum overflows the doubles. NaN and
        infinities that the state saw are in the mantissas. A state without values sums to 0.
        """
        tops, flags, bins = _unpack(states)
        mantissas = np.empty(len(tops))
        for block in blocks(len(tops)):
            long = digits.carried([part[block] for part in bins[: self.sum_bins]], more=2)
            mantissas[block] = digits.to_double(long, unit=2)
        return _with_specials(mantissas, flags), digits.BITS * tops

    def empty(self, states: Columns) -> Mask:
        """Return which states saw no value."""
        out: Mask = np.equal(numbers(states[0]), EMPTY)
        return out

    def raw(self, states: Columns) -> tuple[IntArray, npt.NDArray[np.uint8], Digits, Digits]:
        """Return tops, flags, bins of the sum and bins of the squares, for formulas over both."""
        tops, flags, bins = _unpack(states)
        return tops, flags, bins[: self.sum_bins], bins[self.sum_bins :]

    def _squares(self, scaled: FloatArray, groups: Groups) -> Digits:
        """Return the bins of the sum of squares of values that are scaled to the window."""
        square, error = _exact_square(scaled)
        upper = _split(square / _BASE, self.square_bins)
        lower = _split(error / _BASE, self.square_bins)
        return [reductions.total(a + b, groups) for a, b in zip(upper, lower, strict=True)]

    def _lower(self, bins: Digits, down: IntArray) -> Digits:
        """Shift bins into a window whose top is `down` bins higher; bins that fall out of it are dropped."""
        rows = np.flatnonzero(down)
        if not len(rows):
            return bins
        sums = _shifted(bins[: self.sum_bins], rows, down[rows])
        return sums + _shifted(bins[self.sum_bins :], rows, 2 * down[rows])


def blocks(rows: int) -> Iterator[slice]:
    """Yield slices of rows, small enough for a few dozen columns of a slice to stay in the cache."""
    for start in range(0, rows, 4096):
        yield slice(start, start + 4096)


def _unpack(states: Columns) -> tuple[IntArray, npt.NDArray[np.uint8], Digits]:
    tops, flags, *bins = (numbers(state) for state in states)
    return tops.astype(np.int64), flags.astype(np.uint8, copy=False), [_int64(b) for b in bins]


def _int64(values: npt.NDArray[np.generic]) -> IntArray:
    return values.astype(np.int64, copy=False)


def _columns(tops: IntArray, flags: npt.NDArray[np.uint8], bins: Digits) -> Columns:
    return [
        column(pa.int8(), tops.astype(np.int8)),
        column(pa.uint8(), flags),
        *(column(pa.int64(), part) for part in bins),
    ]


def _set_apart(values: FloatArray, groups: Groups) -> tuple[FloatArray, npt.NDArray[np.uint8]]:
    """Replace NaN and infinities by 0. Returns the values and the flags of each group."""
    finite = np.isfinite(values)
    if finite.all():
        return values, np.zeros(groups.count, np.uint8)
    flags = np.isnan(values) * NAN | (values == np.inf) * POSITIVE | (values == -np.inf) * NEGATIVE
    return np.where(finite, values, 0.0), reductions.union(flags.astype(np.uint8), groups)


def _with_specials(values: FloatArray, flags: npt.NDArray[np.uint8]) -> FloatArray:
    if not flags.any():
        return values
    values = np.where(flags == POSITIVE, np.inf, np.where(flags == NEGATIVE, -np.inf, values))
    undefined = (flags & NAN > 0) | (flags & (POSITIVE | NEGATIVE) == (POSITIVE | NEGATIVE))
    return np.where(undefined, np.nan, values)


def _bin_of(magnitudes: FloatArray) -> IntArray:
    """Return the bin of the highest digit of each value, at least LOWEST; zero is in LOWEST."""
    _, exponents = np.frexp(magnitudes)
    bins = (exponents.astype(np.int64) - 1) // digits.BITS
    return np.where(magnitudes > 0, np.maximum(bins, LOWEST), LOWEST)


def _split(scaled: FloatArray, count: int) -> Iterator[IntArray]:
    """Yield integers below 2^26 with the weights 1, 2^-26, 2^-52 ... that add up to each value.

    Values must be below 2^26. Truncation gives the digits of the magnitude with the sign of the
    value; every step is exact. What is left after the last digit is dropped.
    """
    rest = scaled
    for _ in range(count):
        whole = rest.astype(np.int64)
        yield whole
        rest = (rest - whole) * _BASE


def _exact_square(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the square and its rounding error (Dekker, Numer. Math. 18, 1971). For magnitudes below 2^26.

    Tiny values underflow, far below every window that they can be in.
    """
    square = values * values
    spread = values * 134217729.0  # 2^27 + 1 cuts 53 bits into 26 and 27
    high = spread - (spread - values)
    low = values - high
    return square, ((high * high - square) + 2.0 * high * low) + low * low


def _shifted(bins: Digits, rows: IntArray, down: IntArray) -> Digits:
    if not bins:
        return []
    table = np.stack([part[rows] for part in bins])
    columns = np.arange(len(rows))
    out = []
    for i, part in enumerate(bins):
        source = i - down
        moved = part.copy()
        moved[rows] = np.where(source >= 0, table[np.maximum(source, 0), columns], 0)
        out.append(moved)
    return out
