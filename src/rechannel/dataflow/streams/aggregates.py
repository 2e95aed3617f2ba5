"""Aggregates, as users write them: `aggregate(n=count(), mean=mean("dep_delay"))`.

Nulls are skipped as in SQL; a key whose values are all null has null (and count 0). Types and
results are those of Spark SQL's function of the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.operators.aggregate import functions as kernels
from rechannel.operators.ordered.running_functions import (
    Cumulative,
    Difference,
    Lag,
    RunningFunction,
)


def count(column: str | None = None) -> AggregateFunction:
    """Count rows; of a column, values that are not null (bigint)."""
    return _made(kernels.Count, column=column)


def sum(column: str) -> AggregateFunction:
    """Sum values: bigint of integers, double of floats (the same in any order), decimal of decimals."""
    return _made(kernels.Sum, column=column)


def mean(column: str) -> AggregateFunction:
    """Average values: double, or decimal of decimals."""
    return _made(kernels.Mean, column=column)


def min(column: str) -> AggregateFunction:
    """Return the smallest value of any orderable type; NaN is larger than every number."""
    return _made(kernels.Min, column=column)


def max(column: str) -> AggregateFunction:
    """Return the largest value of any orderable type; NaN is larger than every number."""
    return _made(kernels.Max, column=column)


def variance(column: str, *, population: bool = False) -> AggregateFunction:
    """Return the sample variance (n - 1; null below two values), or that of the population (n)."""
    return _made(kernels.Variance, column=column, population=population)


def stddev(column: str, *, population: bool = False) -> AggregateFunction:
    """Return the sample standard deviation (n - 1; null below two values), or that of the population (n)."""
    return _made(kernels.Stddev, column=column, population=population)


def first(column: str, *, ignore_nulls: bool = False) -> AggregateFunction:
    """Return the value of the key's first row in stream order; with `ignore_nulls`, of the first that has one."""
    return _made(kernels.First, column=column, ignore_nulls=ignore_nulls)


def last(column: str, *, ignore_nulls: bool = False) -> AggregateFunction:
    """Return the value of the key's last row in stream order; with `ignore_nulls`, of the last that has one."""
    return _made(kernels.Last, column=column, ignore_nulls=ignore_nulls)


def last_n(column: str, n: int, *, ignore_nulls: bool = False) -> AggregateFunction:
    """Return the key's last n values in stream order, oldest first (array)."""
    return _made(kernels.LastN, column=column, n=n, ignore_nulls=ignore_nulls)


def count_distinct(column: str, *, k: int = 1024) -> AggregateFunction:
    """Count distinct values with a sketch of k hashes per key.

    Exact below k; above, the standard error is 1 / sqrt(k - 2), 3.1 % for the default.
    """
    return _made(kernels.CountDistinct, column=column, k=k)


def lag(column: str, n: int = 1, *, default: Any = None) -> RunningFunction:
    """For `running`: return the value of a column n rows earlier in the key.

    default: for the first n rows of a key.
    """
    _check_before("lag", column, n)
    return Lag(column=column, n=n, default=default)


def difference(column: str, n: int = 1) -> RunningFunction:
    """For `running`: subtract the value of a column n rows earlier in the key; null for the first n rows.

    bigint of integers, double of floats, decimal of decimals.
    """
    _check_before("difference", column, n)
    return Difference(column=column, n=n)


def cumulative(aggregate: AggregateFunction) -> RunningFunction:
    """For `running`: aggregate the key's rows up to each of them, as in `cumulative(sum("price"))`.

    aggregate: any except `count_distinct`. Raises DataflowError.
    """
    if not isinstance(aggregate, AggregateFunction):
        msg = f"cumulative takes an aggregate, as in cumulative(sum('price')), not {aggregate!r}"
        raise DataflowError(msg)
    return Cumulative(function=aggregate)


def _check_before(what: str, column: object, n: object) -> None:
    """Raise DataflowError unless `column` is a name and `n` a number of rows."""
    if not isinstance(column, str):
        msg = f"{what} takes the name of a column, not {column!r}"
        raise DataflowError(msg)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        msg = f"{what}({column!r}) looks back n >= 1 rows, not {n!r}"
        raise DataflowError(msg)


def _made(make: Callable[..., AggregateFunction], **arguments: object) -> AggregateFunction:
    """Make an aggregate. Raises DataflowError for invalid arguments."""
    column = arguments["column"]
    if column is not None and not isinstance(column, str):
        msg = f"an aggregate takes the name of a column, not {column!r}"
        raise DataflowError(msg)
    try:
        return make(**arguments)
    except (ValueError, TypeError) as error:
        raise DataflowError(str(error)) from error
