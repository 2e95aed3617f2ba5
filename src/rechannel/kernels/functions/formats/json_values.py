"""Values as JSON, one by one, as Spark writes them: nulls are left out of objects, decimals keep all their digits."""

from __future__ import annotations

import base64
import datetime as dt
import decimal
import json
import math
from typing import Any

import pyarrow as pa


def text_of(value: Any, kind: pa.DataType) -> str:
    """Return a value of a type as JSON."""
    if value is None:
        return "null"
    if pa.types.is_struct(kind):
        fields = [kind.field(i) for i in range(kind.num_fields)]
        there = [
            (f.name, text_of(value[f.name], f.type)) for f in fields if value[f.name] is not None
        ]
        return _object(there)
    if pa.types.is_map(kind):
        return _object([(str(key), text_of(part, kind.item_type)) for key, part in value])
    if pa.types.is_list(kind):
        return f"[{', '.join(text_of(part, kind.value_type) for part in value)}]"
    if isinstance(value, decimal.Decimal):
        return str(value)  # a JSON number, which Java's BigDecimal writes the same way
    return json.dumps(_plain(value), ensure_ascii=False)


def _object(members: list[tuple[str, str]]) -> str:
    fields = (f"{json.dumps(name, ensure_ascii=False)}: {text}" for name, text in members)
    return f"{{{', '.join(fields)}}}"


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{'-' if value < 0 else ''}Infinity"
    if isinstance(value, dt.datetime):
        text = value.isoformat(timespec="milliseconds" if value.microsecond % 1000 == 0 else "auto")
        return text.replace("+00:00", "Z")
    return value.isoformat() if isinstance(value, dt.date) else value
