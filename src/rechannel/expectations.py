"""Expectations on rows: `stream.expect(known_price=rc.expectations.not_null("price"))`.

`expect` counts rows that do not meet them, `expect_or_drop` lets them leave as dead letters, `expect_or_fail` fails the
timestep.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.functions.expectations import (
    Between,
    Expectation,
    InSet,
    MatchesRegex,
    NotNull,
    Satisfies,
)

__all__ = ["between", "in_set", "matches_regex", "not_null", "satisfies"]


def not_null(*columns: str) -> Expectation:
    """Expect that columns are not null. Raises DataflowError if none is named."""
    _need_names("not_null", columns)
    return NotNull(columns=columns)


def between(column: str, least: Any = None, most: Any = None) -> Expectation:
    """Expect that a column lies in a range, ends included. Null meets it, NaN does not.

    least, most: values such as the column has; None = there is no such end. Raises DataflowError without any.
    """
    _need_names("between", (column,))
    if least is None and most is None:
        raise DataflowError(f"expectations.between({column!r}): give least=, most= or both")
    if least is not None and most is not None and least > most:
        raise DataflowError(
            f"expectations.between({column!r}): nothing lies between {least!r} and {most!r}; exchange them"
        )
    return Between(column=column, least=least, most=most)


def in_set(column: str, values: Iterable[Any]) -> Expectation:
    """Expect that a column has one of some values. Null meets it. Raises DataflowError if there are none."""
    _need_names("in_set", (column,))
    if isinstance(values, str):
        raise DataflowError(
            f"expectations.in_set({column!r}): values are a list of texts, not one text, {values!r}"
        )
    allowed = tuple(values)
    if not allowed or any(value is None for value in allowed):
        raise DataflowError(
            f"expectations.in_set({column!r}): give at least one value, and no None: null meets it anyway;"
            " not_null expects otherwise"
        )
    return InSet(column=column, values=allowed)


def matches_regex(column: str, pattern: str) -> Expectation:
    """Expect that a pattern is found in a column of texts, anywhere unless `^` and `$` say otherwise.

    pattern: in the syntax of RE2. Null meets it. Raises DataflowError for what is no pattern.
    """
    _need_names("matches_regex", (column,))
    if not isinstance(pattern, str):
        given = pattern.pattern if isinstance(pattern, re.Pattern) else pattern
        raise DataflowError(
            f"expectations.matches_regex({column!r}): pattern is a text, as {given!r}, not {type(pattern).__name__}"
        )
    made = MatchesRegex(column=column, pattern=pattern)
    try:
        made.met(pa.record_batch({column: [""]}))
    except pa.ArrowInvalid as error:
        raise DataflowError(
            f"expectations.matches_regex({column!r}): {pattern!r} is no pattern of RE2: {error}"
        ) from error
    return made


def satisfies(function: Callable[[pa.RecordBatch], Any]) -> Expectation:
    """Expect that a function is true. Raises DataflowError for what cannot be called.

    function: (RecordBatch) -> one boolean per row, as an Arrow or numpy array. It must be deterministic, and treat
    every row by itself. A row that it is null or raises for does not meet the expectation.
    """
    if not callable(function):
        raise DataflowError(f"expectations.satisfies needs a function, not {function!r}")
    return Satisfies(function=function)


def _need_names(called: str, columns: tuple[str, ...]) -> None:
    if not columns or not all(isinstance(name, str) for name in columns):
        raise DataflowError(f"expectations.{called}: name the column, as a text; given {columns!r}")
