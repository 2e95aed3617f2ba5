"""Rows as JSON objects, column by column: as `jsonlines.text_of` writes them, without a look at every row. Pure."""

from __future__ import annotations

import json
from functools import reduce

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.sinks.jsonlines import text_of

_CONTROL = r"[\x00-\x1f]"
"""Characters that JSON writes as an escape of their own; quotes and backslashes are handled before."""


def json_objects(batch: pa.RecordBatch) -> pa.Array:
    """Return one JSON object per row, as text. Nulls are left out."""
    if not batch.num_columns:
        return pa.repeat(pa.scalar("{}"), batch.num_rows)
    members = []
    for field, column in zip(batch.schema, batch.columns, strict=True):
        name = pa.scalar(f"{json.dumps(field.name, ensure_ascii=False)}: ", pa.large_string())
        texts = _texts(column).cast(pa.large_string())
        members.append(pc.binary_join_element_wise(name, texts, pa.scalar("", pa.large_string())))
    # Arrow leaves out the result for a row of nulls alone.
    anything = [member.is_valid() for member in members]
    empty = pc.invert(reduce(pc.or_, anything))
    members[0] = pc.if_else(empty, pa.scalar("", pa.large_string()), members[0])
    separator = pa.scalar(", ", pa.large_string())
    inner = pc.binary_join_element_wise(*members, separator, null_handling="skip")
    ends = [pa.scalar(end, pa.large_string()) for end in ("{", "}", "")]
    return pc.binary_join_element_wise(ends[0], inner, ends[1], ends[2])


def _texts(column: pa.Array) -> pa.Array:
    """Return each value as JSON; null for null."""
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        return column.cast(pa.string())
    if (pa.types.is_string(kind) or pa.types.is_large_string(kind)) and not _any(column, _CONTROL):
        column = pc.replace_substring(column, "\\", "\\\\")
        quoted = pc.replace_substring(column, '"', '\\"')
        quote = pa.scalar('"', quoted.type)
        return pc.binary_join_element_wise(quote, quoted, quote, pa.scalar("", quoted.type))
    made = [None if value is None else text_of(value, kind) for value in column.to_pylist()]
    return pa.array(made, pa.large_string())


def _any(column: pa.Array, pattern: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(column, pattern)).as_py())
