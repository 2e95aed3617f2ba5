"""Naive values: when two rows count as equal, and every aggregate over a list of all its values."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

from rechannel import aggregates as agg
from rechannel.kernels.protocol.logic import AggregateFunction

Row = tuple[Any, ...]

# Values ------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value without what GROUP BY does not see: one zero, one NaN, one way to write UTC."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return [plain(item) for item in value] if isinstance(value, list) else value


def mix(values: Iterable[Any]) -> int:
    """A number that depends on every value."""
    return zlib.crc32(repr([plain(value) for value in values]).encode())


@dataclass(frozen=True)
class Near:
    """A float that may be a few roundings off. slack: in units of the value's column."""

    value: float
    slack: float

    def accepts(self, got: float | None) -> bool:
        if got is None:
            return False
        if not math.isfinite(self.value) or not math.isfinite(got):
            same = repr(got) == repr(self.value)
            return same or (max(abs(got), abs(self.value)) == math.inf and self._huge(got))
        return math.isclose(got, self.value, rel_tol=1e-14, abs_tol=self.slack + 5e-324)

    def _huge(self, got: float) -> bool:
        return min(abs(got), abs(self.value)) > 1.7e308


def alike(expected: list[Row], got: list[Row]) -> bool:
    """The same rows in any order, with expected floats near the ones that came."""
    if len(expected) != len(got):
        return False
    if not expected:
        return True
    near = [isinstance(value, Near) for value in expected[0]]
    for row in expected:
        near = [n or isinstance(value, Near) for n, value in zip(near, row, strict=True)]

    def exact(row: Row) -> str:
        return repr([plain(value) for value, n in zip(row, near, strict=True) if not n])

    pairs = zip(sorted(expected, key=exact), sorted(got, key=exact), strict=True)
    return all(exact(one) == exact(other) and _near(one, other, near) for one, other in pairs)


def _near(expected: Row, got: Row, near: list[bool]) -> bool:
    return all(
        value.accepts(other) if isinstance(value, Near) else value is other is None
        for value, other, n in zip(expected, got, near, strict=True)
        if n
    )


# Aggregates --------------------------------------------------------------------------------------


def present(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def special(values: list[float]) -> float | None:
    """What NaN and infinities make of a sum."""
    odd = {value for value in values if not math.isfinite(value)}
    if not odd:
        return None
    return math.nan if any(map(math.isnan, odd)) or len(odd) > 1 else odd.pop()


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def slack(values: list[float], power: int) -> float:
    largest = max((abs(value) for value in values), default=0.0)
    return float(min(largest, 1e300)) * 2.0**-60 if power == 1 else largest * (largest * 2.0**-60)


def exact_sum(values: list[Any], scale: Fraction = Fraction(1)) -> Any:
    some = present(values)
    if not some:
        return None
    if all(isinstance(value, int) for value in some) and scale == 1:
        return sum(some)
    odd = special([float(value) for value in some])
    total = odd if odd is not None else rounded(sum(map(Fraction, some), Fraction(0)) * scale)
    return Near(total, slack([float(value) for value in some], 1))


def exact_mean(values: list[Any]) -> Any:
    some = present(values)
    return exact_sum(some, Fraction(1, len(some))) if len(some) > 1 else _single(some)


def _single(values: list[Any]) -> Any:
    return Near(float(values[0]), 0.0) if values else None


def exact_variance(values: list[Any]) -> Any:
    some = [float(value) for value in present(values)]
    if len(some) < 2:
        return None
    if special(some) is not None:
        return Near(math.nan, 0.0)
    exact = [Fraction(value) for value in some]
    mean = sum(exact, Fraction(0)) / len(exact)
    total = sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - 1)
    return Near(rounded(total), slack(some, 2))


def exact_deviation(values: list[Any]) -> Any:
    variance = exact_variance(values)
    if variance is None or not math.isfinite(variance.value):
        return variance
    return Near(math.sqrt(variance.value), math.sqrt(variance.slack))


def rank(value: Any) -> Any:
    """NaN behind all numbers, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


Naive = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Column:
    """An aggregate. kind: DDL type of its result ("?" = its input's)."""

    function: Callable[[str], AggregateFunction]
    naive: Naive
    kind: str
    takes: tuple[str, ...] = ("long", "double", "string")
    near: bool = False


NUMBERS = ("long", "double")

AGGREGATES = {
    "count": Column(lambda _: agg.count(), len, "long"),
    "count_of": Column(agg.count, lambda values: len(present(values)), "long"),
    "sum": Column(agg.sum, exact_sum, "long", ("long",)),
    "sum_of_floats": Column(agg.sum, exact_sum, "double", ("double",), near=True),
    "mean": Column(agg.mean, exact_mean, "double", NUMBERS, near=True),
    "min": Column(agg.min, lambda v: min(present(v), key=rank, default=None), "?"),
    "max": Column(agg.max, lambda v: max(present(v), key=rank, default=None), "?"),
    "variance": Column(agg.variance, exact_variance, "double", NUMBERS, near=True),
    "stddev": Column(agg.stddev, exact_deviation, "double", ("long",), near=True),
    "first": Column(agg.first, lambda values: values[0], "?"),
    "last": Column(agg.last, lambda values: values[-1], "?"),
    "first_value": Column(
        lambda column: agg.first(column, ignore_nulls=True),
        lambda values: next(iter(present(values)), None),
        "?",
    ),
    "last_n": Column(lambda column: agg.last_n(column, 3), lambda v: v[-3:], "array"),
    "distinct": Column(
        agg.count_distinct, lambda values: len({repr(plain(v)) for v in present(values)}), "long"
    ),
}
