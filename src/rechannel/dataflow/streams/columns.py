"""Columns as users name them: `stream.select("auction", at="dateTime", euros=rc.computed(to_euros, "price"))`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pyarrow as pa

from rechannel.dataflow.graph.naming import caller
from rechannel.errors import DataflowError
from rechannel.kernels.functions.select import Computed, Select
from rechannel.model.ddl import schema_of

Choice = str | Mapping[str, str | Computed]
"""A column, or new names with old ones or `computed`."""


def computed(
    function: Callable[..., Any], *columns: str, returns: pa.DataType | str | None = None
) -> Computed:
    """Compute a column from others with a vectorised function: `rc.computed(pc.multiply, "price", "number")`.

    Args:
        function: (one Arrow array per column) -> an Arrow array of the same length, or a scalar;
            deterministic, value by value.
        columns: names of the columns that it reads.
        returns: type of the result, Arrow or DDL text ("DOUBLE"); None = found by calling the
            function with empty arrays.

    Raises:
        DataflowError: the arguments are not a function and names of columns.
    """
    what = f"computed ({caller()})"
    if not callable(function):
        msg = f"{what} needs a function of Arrow arrays first, and then the names of columns"
        raise DataflowError(msg)
    if not columns or not all(isinstance(column, str) for column in columns):
        msg = f"{what} needs the names of the columns that the function receives, as in computed(f, 'price')"
        raise DataflowError(msg)
    if not isinstance(returns, str | pa.DataType | None):
        msg = f"{what}: returns must be an Arrow type or DDL text such as 'DOUBLE', not {returns!r}"
        raise DataflowError(msg)
    if not isinstance(returns, str):
        return Computed(function=function, columns=columns, kind=returns)
    fields = schema_of(f"c {returns}")
    if len(fields) != 1:
        msg = f"{what}: returns must be the type of one column, not {returns!r}"
        raise DataflowError(msg)
    return Computed(function=function, columns=columns, kind=fields.field(0).type)


def selection(columns: tuple[Choice, ...], made: Mapping[str, str | Computed]) -> Select:
    """What `select` was given. Raises DataflowError."""
    what = f"select ({caller()})"
    chosen: list[tuple[str, str | Computed]] = []
    for column in (*columns, made):
        if isinstance(column, Mapping):
            chosen += column.items()
        else:
            chosen.append((column, column))
    nameless = [name for name, _ in chosen if not isinstance(name, str)]
    if nameless:
        advice = "name what is computed, as in x=rc.computed(...)"
        msg = f"{what} takes names of columns and rc.computed(...), not {nameless[0]!r}; {advice}"
        raise DataflowError(msg)
    if not chosen:
        msg = f"{what}: name at least one column"
        raise DataflowError(msg)
    wrong = next((of for _, of in chosen if not isinstance(of, str | Computed)), None)
    if wrong is not None:
        msg = f"{what} takes names of columns and rc.computed(...), not {wrong!r}"
        raise DataflowError(msg)
    return Select(columns=tuple(chosen))
