"""The rows of dead letters, from their texts: the inverse of `row_texts`. And how often a row was tried.

Texts lose types, so each row is written as text again: if that gives another text, the row does not fit these columns.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa

from rechannel.kernels.functions.dead_letters import row_texts

ATTEMPTS = "attempts"
"""Member of a dead letter's `offset`: how often the row was tried, if it was replayed."""

_BITS = 20
_MOST = (1 << _BITS) - 1


def order_of(number: int, attempts: int) -> int:
    """Return where the rows of one replay that were tried equally often stand in the stream."""
    return number << _BITS | min(attempts, _MOST)


def with_attempts(offsets: Sequence[str | None] | None, count: int, order: int) -> list[str]:
    """Return the offsets of rows that a replay has brought, and that have failed again. order: see `order_of`."""
    attempts = (order & _MOST) + 1
    known = [None] * count if offsets is None else offsets
    return [json.dumps({**json.loads(each or "{}"), ATTEMPTS: attempts}) for each in known]


def attempts_in(offset: str | None) -> int | None:
    """Return how often a row was tried, as the offset of its dead letter says; None if that does not."""
    found = json.loads(offset) if offset else None
    attempts = found.get(ATTEMPTS) if isinstance(found, dict) else None
    return attempts if isinstance(attempts, int) else None


@dataclass(frozen=True, eq=False, kw_only=True)
class LetterRows:
    """Rows of dead letters."""

    rows: pa.RecordBatch
    """Those that have the columns, in their order."""
    numbers: tuple[int, ...]
    """The number of the text of each."""
    refused: Mapping[int, str]
    """Why the others do not, by the number of the text."""


def letter_rows(texts: Sequence[str], schema: pa.Schema, needed: frozenset[str]) -> LetterRows:
    """Return the rows that texts stand for.

    schema: of the operator's input. needed: those of its columns that the operator reads; dead letters may lack the
    others, which are null then.
    """
    rows: list[pa.RecordBatch] = []
    numbers: list[int] = []
    refused: dict[int, str] = {}
    for number, text in enumerate(texts):
        try:
            rows.append(_row(text, schema, needed))
            numbers.append(number)
        except (ValueError, TypeError, KeyError, ArithmeticError, pa.ArrowException) as error:
            refused[number] = str(error)
    made = pa.Table.from_batches(rows, schema).combine_chunks().to_batches()
    empty = pa.RecordBatch.from_pylist([], schema=schema)
    return LetterRows(rows=made[0] if made else empty, numbers=tuple(numbers), refused=refused)


def _row(text: str, schema: pa.Schema, needed: frozenset[str]) -> pa.RecordBatch:
    """Return a row. Raises ValueError and others if the text does not fit these columns."""
    row = json.loads(text)
    if not isinstance(row, dict):
        raise ValueError("it is no row, but the text of a record that the source could not read")
    others = sorted(row.keys() - set(schema.names))
    lacking = sorted(needed - row.keys())
    if others or lacking:
        which = f"has {others}" if others else f"lacks {lacking}"
        raise ValueError(f"it {which}, and the operator reads other columns by now")
    values = {field.name: [_value(row.get(field.name), field.type)] for field in schema}
    made = pa.RecordBatch.from_pydict(values, schema=schema)
    again = json.loads(row_texts(made)[0])
    if {name: again[name] for name in row} != row:
        wrong = next(name for name in row if again[name] != row[name])
        raise ValueError(f"its column {wrong!r} is no {schema.field(wrong).type} as it is written")
    return made


def _value(value: Any, kind: pa.DataType) -> Any:  # noqa: PLR0911 - one per kind
    """Return a value of a type, from what JSON holds."""
    if value is None:
        return None
    if pa.types.is_floating(kind):
        return float(value)
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return base64.b64decode(value, validate=True)
    if pa.types.is_decimal(kind):
        return Decimal(value)
    if pa.types.is_timestamp(kind):
        return datetime.fromisoformat(value)
    if pa.types.is_date(kind):
        return date.fromisoformat(value)
    if pa.types.is_time(kind):
        return time.fromisoformat(value)
    if pa.types.is_struct(kind):
        return {field.name: _value(value[field.name], field.type) for field in kind.fields}
    if pa.types.is_map(kind):
        return [(_key(k, kind.key_type), _value(v, kind.item_type)) for k, v in value.items()]
    if pa.types.is_nested(kind):
        return [_value(each, kind.value_type) for each in value]
    return value


def _key(text: str, kind: pa.DataType) -> Any:
    """Return the key of an entry of a map, which is a text in JSON."""
    if pa.types.is_integer(kind):
        return int(text)
    return text == "True" if pa.types.is_boolean(kind) else _value(text, kind)
