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
    """Number of rows; of a column, number of values that are not null (bigint)."""
    return _made(kernels.Count, column=column)


def sum(column: str) -> AggregateFunction:
    """Sum: bigint of integers, double of floats (in any order the same), decimal of decimals."""
    return _made(kernels.Sum, column=column)


def mean(column: str) -> AggregateFunction:
    """Arithmetic mean: double, or decimal of decimals."""
    return _made(kernels.Mean, column=column)


def min(column: str) -> AggregateFunction:
    """Smallest value of any orderable type; NaN is larger than every number."""
    return _made(kernels.Min, column=column)


def max(column: str) -> AggregateFunction:
    """Largest value of any orderable type; NaN is larger than every number."""
    return _made(kernels.Max, column=column)


def variance(column: str, *, population: bool = False) -> AggregateFunction:
    """Sample variance (n - 1; null below two values), or that of the population (n)."""
    return _made(kernels.Variance, column=column, population=population)


def stddev(column: str, *, population: bool = False) -> AggregateFunction:
    """Sample standard deviation (n - 1; null below two values), or of the population (n)."""
    return _made(kernels.Stddev, column=column, population=population)


def first(column: str, *, ignore_nulls: bool = False) -> AggregateFunction:
    """Value of the key's first row in stream order, or of the first that has one."""
    return _made(kernels.First, column=column, ignore_nulls=ignore_nulls)


def last(column: str, *, ignore_nulls: bool = False) -> AggregateFunction:
    """Value of the key's last row in stream order, or of the last that has one."""
    return _made(kernels.Last, column=column, ignore_nulls=ignore_nulls)


def last_n(column: str, n: int, *, ignore_nulls: bool = False) -> AggregateFunction:
    """The key's last n values in stream order, oldest first (array)."""
    return _made(kernels.LastN, column=column, n=n, ignore_nulls=ignore_nulls)


def count_distinct(column: str, *, k: int = 1024) -> AggregateFunction:
    """Number of distinct values, by a sketch of k hashes per key.

    Exact below k; above, the standard error is 1 / sqrt(k - 2), 3.1 % for the default.
    """
    return _made(kernels.CountDistinct, column=column, k=k)


def lag(column: str, n: int = 1, *, default: Any = None) -> RunningFunction:
    """For `running`: the value that a column had n rows of the key before; `default` where there are not so many."""
    _check_before("lag", column, n)
    return Lag(column=column, n=n, default=default)


def difference(column: str, n: int = 1) -> RunningFunction:
    """For `running`: by how much a column is larger than n rows of the key before; null where there are not so many.

    bigint of integers, double of floats, decimal of decimals.
    """
    _check_before("difference", column, n)
    return Difference(column=column, n=n)


def cumulative(aggregate: AggregateFunction) -> RunningFunction:
    """For `running`: an aggregate of the key's rows up to each of them, as in `cumulative(sum("price"))`.

    Any but `count_distinct`. Raises DataflowError.
    """
    if not callable(getattr(aggregate, "merge_pair", None)):
        msg = f"cumulative takes an aggregate, as in cumulative(sum('price')), not {aggregate!r}"
        raise DataflowError(msg)
    return Cumulative(function=aggregate)


def _check_before(what: str, column: object, n: object) -> None:
    """Raise DataflowError unless this names a column and a number of rows."""
    if not isinstance(column, str):
        msg = f"{what} takes the name of a column, not {column!r}"
        raise DataflowError(msg)
    if isinstance(n, bool) or not isinstance(n, int) or n < 1:
        msg = f"{what}({column!r}) looks back a whole number of rows of at least 1, not {n!r}"
        raise DataflowError(msg)


def _made(make: Callable[..., AggregateFunction], **arguments: object) -> AggregateFunction:
    """An aggregate. Raises DataflowError for arguments that it cannot have."""
    column = arguments["column"]
    if column is not None and not isinstance(column, str):
        msg = f"an aggregate takes the name of a column, not {column!r}"
        raise DataflowError(msg)
    try:
        return make(**arguments)
    except (ValueError, TypeError) as error:
        raise DataflowError(str(error)) from error
