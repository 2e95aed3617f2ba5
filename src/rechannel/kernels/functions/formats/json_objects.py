"""Rows as JSON objects, column by column: as `json_values.text_of` writes them, which sees rare values only. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rechannel.kernels.functions.formats.json_values import text_of

_CONTROL = r"[\x00-\x1f]"
"""Characters that JSON writes as an escape of their own; quotes and backslashes are handled before."""
PLAIN = (1e-4, 1e16)
"""Between these, polars and Python write floats alike: without an exponent."""
YEARS = (-62_135_596_800, 253_402_300_799)
"""Seconds of the years 1 to 9999."""
DIGITS = 6
"""Most digits after the point with which a decimal never has an exponent."""
_LARGE = pa.large_string()

_Usual = Callable[[pa.Array], pa.Array]


def json_objects(batch: pa.RecordBatch) -> pa.Array:
    """Return one JSON object per row, as text. Nulls are left out.

    Raises ValueError for a value that JSON cannot hold: a time after the year 9999.
    """
    return _objects(batch.schema.names, batch.columns, batch.num_rows)


def _objects(names: list[str], columns: list[pa.Array], rows: int) -> pa.Array:
    if not columns:
        return pa.repeat(pa.scalar("{}", _LARGE), rows)
    members = []
    for name, column in zip(names, columns, strict=True):
        prefix = pa.scalar(f"{json.dumps(name, ensure_ascii=False)}: ", _LARGE)
        members.append(pc.binary_join_element_wise(prefix, _texts(column), pa.scalar("", _LARGE)))
    # Arrow leaves out the result for a row of nulls alone.
    anything = [member.is_valid() for member in members]
    empty = pc.invert(reduce(pc.or_, anything))
    members[0] = pc.if_else(empty, pa.scalar("", _LARGE), members[0])
    separator = pa.scalar(", ", _LARGE)
    inner = pc.binary_join_element_wise(*members, separator, null_handling="skip")
    return _between("{", inner, "}")


def _texts(column: pa.Array) -> pa.Array:  # noqa: PLR0911 - a table
    """Return each value as JSON; null for null."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(_LARGE)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return _but(column, pc.match_substring_regex(column, _CONTROL), _quoted)
    if pa.types.is_floating(kind):
        return _floats(column)
    if pa.types.is_binary(kind):
        return _base64(column)
    if pa.types.is_date32(kind):
        return _but(column, _outside(column.cast(pa.int32()), 86_400), _quoted)
    if pa.types.is_timestamp(kind) and kind.tz in (None, "UTC") and kind.unit != "ns":
        each = {"s": 1, "ms": 1_000, "us": 1_000_000}[kind.unit]
        return _but(column, _outside(column.cast(pa.int64()), 1 / each), _times)
    if pa.types.is_decimal128(kind) and 0 <= kind.scale <= DIGITS:
        return column.cast(_LARGE)
    if pa.types.is_struct(kind):
        names = [kind.field(at).name for at in range(kind.num_fields)]
        made = _objects(names, column.flatten(), len(column))
        return pc.if_else(column.is_valid(), made, pa.scalar(None, _LARGE))
    if pa.types.is_list(kind):
        return _lists(column)
    return _one_by_one(column)


def _one_by_one(column: pa.Array) -> pa.Array:
    kind = column.type
    made = [None if value is None else text_of(value, kind) for value in column.to_pylist()]
    return pa.array(made, _LARGE)


def _but(column: pa.Array, rare: pa.Array, usual: _Usual) -> pa.Array:
    """Return the texts of a column whose rare values are written one by one. rare: which these are."""
    if not pc.any(rare).as_py():
        return usual(column)
    rare = rare.fill_null(False)
    left = usual(pc.if_else(rare, pa.scalar(None, column.type), column))
    return pc.replace_with_mask(left, rare, _one_by_one(column.filter(rare)))


def _quoted(column: pa.Array) -> pa.Array:
    texts = column.cast(_LARGE)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        texts = pc.replace_substring(texts, "\\", "\\\\")
        texts = pc.replace_substring(texts, '"', '\\"')
    return _between('"', texts, '"')


def _floats(column: pa.Array) -> pa.Array:
    column = column.cast(pa.float64())
    numbers = column.fill_null(0.0).to_numpy(zero_copy_only=False)
    size = np.abs(numbers)
    plain = (size >= PLAIN[0]) & (size < PLAIN[1]) | (size == 0)
    return _but(column, pa.array(~plain), _in_polars(lambda of: of.cast(str)))


def _base64(column: pa.Array) -> pa.Array:
    return _between('"', _in_polars(lambda of: of.bin.encode("base64"))(column), '"')


def _in_polars(function: Callable[[Any], Any]) -> _Usual:
    """Return a function of Arrow's arrays, given one of polars' series."""

    def usual(column: pa.Array) -> pa.Array:
        import polars as pl

        made: pa.Array = function(pl.Series(pl.from_arrow(column))).to_arrow().cast(_LARGE)
        return made

    return usual


def _outside(numbers: pa.Array, seconds: float) -> pa.Array:
    """Return which times Python cannot hold. seconds: of each."""
    low, high = (int(bound / seconds) for bound in (YEARS[0], YEARS[1] + 1))
    return pc.or_(pc.less(numbers, low), pc.greater_equal(numbers, high))


def _times(column: pa.Array) -> pa.Array:
    """Return times with three digits after the point, or six where these are not enough."""
    end = '"' if column.type.tz is None else 'Z"'
    fine = column.cast(pa.timestamp("us"))  # Arrow looks a time zone up for every value
    millis = fine.cast(pa.timestamp("ms"), safe=False)
    texts = millis.cast(_LARGE)
    exact = pc.equal(millis.cast(fine.type), fine)
    if not pc.all(exact).as_py():
        texts = pc.if_else(exact, texts, fine.cast(_LARGE))
    return _between('"', pc.replace_substring(texts, " ", "T"), end)


def _lists(column: pa.Array) -> pa.Array:
    items = _texts(column.flatten()).fill_null("null")
    sizes = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    offsets = pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int64())
    lists = pa.LargeListArray.from_arrays(offsets, items)
    made = _between("[", pc.binary_join(lists, pa.scalar(", ", _LARGE)), "]")
    return pc.if_else(column.is_valid(), made, pa.scalar(None, _LARGE))


def _between(start: str, texts: pa.Array, end: str) -> pa.Array:
    ends = [pa.scalar(each, _LARGE) for each in (start, end, "")]
    return pc.binary_join_element_wise(ends[0], texts, *ends[1:])
