"""A built-in aggregate function, made again from how the journal has it written: without the program. Pure."""

from __future__ import annotations

import ast
from collections.abc import Sequence

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.operators.aggregate import functions

_BUILT_IN = {name: getattr(functions, name) for name in functions.__all__ if name[:1].isupper()}


def function_written(text: str) -> AggregateFunction | None:
    """Return the function that is written like this, such as `Sum(column='v')`; None of any other."""
    try:
        call = ast.parse(text, mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            return None
        given = {str(each.arg): ast.literal_eval(each.value) for each in call.keywords}
        made: AggregateFunction = _BUILT_IN[call.func.id](**given)
    except (SyntaxError, ValueError, KeyError, TypeError, DataflowError):
        return None
    return made


def finished(text: str, inputs: Sequence[pa.Field], states: Columns) -> pa.Array | None:
    """Return the values of an aggregate; None if only the program can tell. inputs: fields of its input columns."""
    function = function_written(text)
    if function is None:
        return None
    try:
        wanted = [field.type for field in function.state_fields(list(inputs))]
    except DataflowError:
        return None
    if wanted != [column.type for column in states]:
        return None
    return function.final(states, list(inputs))
