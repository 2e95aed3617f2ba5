"""Which values may be no JSON objects with given columns: a quick look at each value of a batch that does not parse.

The look only sorts values into two heaps. Whether a suspect is bad is for Arrow's parser to say, and so is why. A bad
value that is not suspected costs time, and nothing else.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Annotated, Any

import msgspec
import pyarrow as pa

WIDEST = (-(2**63), 2**63 - 1)
"""Bounds that msgspec can check."""
MOMENT = r"^\d{4}-\d\d-\d\d([ T]\d\d(:?\d\d(:?\d\d(\.\d{1,9})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$"


def suspects(values: Sequence[bytes | None], schema: pa.Schema) -> Iterator[int]:
    """Yield the places of values that may be no objects with the columns of a schema."""
    look = _look(schema)
    for place, value in enumerate(values):
        if value is None:
            continue
        try:
            look(value)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            yield place


@lru_cache(64)
def _look(schema: pa.Schema) -> Callable[[bytes], Any]:
    """Return what raises for a suspect."""
    members = [(f"m{at}", _kind(field.type) | None, None) for at, field in enumerate(schema)]
    names = {f"m{at}": name for at, name in enumerate(schema.names)}
    try:
        row: Any = msgspec.defstruct("Row", members, rename=names, gc=False)
    except ValueError:  # a name that has to be escaped in JSON
        row = dict[str, Any]
    decode: Callable[[bytes], Any] = msgspec.json.Decoder(row | None).decode
    return decode


def _kind(kind: pa.DataType) -> Any:  # noqa: PLR0911 - a table
    """Return what a value of a type is in JSON, at least; Any if nothing is known of that."""
    if pa.types.is_boolean(kind):
        return bool
    if pa.types.is_integer(kind):
        signed = pa.types.is_signed_integer(kind)
        low, high = (-(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1)
        low, high = (low, high) if signed else (0, (1 << kind.bit_width) - 1)
        return Annotated[int, msgspec.Meta(ge=max(low, WIDEST[0]), le=min(high, WIDEST[1]))]
    if pa.types.is_floating(kind):
        return float
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return str
    if pa.types.is_date(kind):
        return dt.date
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return bytes  # from base64
    if pa.types.is_timestamp(kind):
        return Annotated[str, msgspec.Meta(pattern=MOMENT)]
    if pa.types.is_list(kind):
        return list[_kind(kind.value_type) | None]  # type: ignore[misc]
    return Any
