"""Schemas of Avro, and rows of them, as fastavro writes them."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st


def logical(kind: Any, name: str, **more: Any) -> dict[str, Any]:
    """A logical type."""
    return {"type": kind, "logicalType": name, **more}


ints = st.integers(-(2**31), 2**31 - 1)
longs = st.integers(-(2**63), 2**63 - 1) | st.integers(-70, 70)
texts = st.text(st.characters(codec="utf-8"), max_size=4)
moments = st.datetimes(
    dt.datetime.fromisoformat("0001-01-02"), dt.datetime.fromisoformat("9999-12-30")
)
aware = moments.map(lambda at: at.replace(tzinfo=dt.UTC))
millis = aware.map(lambda at: at.replace(microsecond=at.microsecond // 1_000 * 1_000))
money = st.integers(-(10**9) + 1, 10**9 - 1).map(lambda cents: Decimal(cents).scaleb(-2))
KINDS: list[tuple[Any, Any]] = [
    ("boolean", st.booleans()),
    ("int", ints),
    ("long", longs),
    ("float", st.floats(width=32, allow_nan=False)),
    ("double", st.floats(allow_nan=False)),
    ("string", texts),
    ("bytes", st.binary(max_size=4)),
    ({"type": "enum", "name": "E", "symbols": ["A", "B", "C"]}, st.sampled_from("ABC")),
    ({"type": "fixed", "name": "F", "size": 3}, st.binary(min_size=3, max_size=3)),
    (logical("bytes", "decimal", precision=9, scale=2), money),
    (logical({"type": "fixed", "name": "D", "size": 5}, "decimal"), None),
    (logical("int", "date"), st.dates()),
    (logical("long", "timestamp-millis"), millis),
    (logical("long", "timestamp-micros"), aware),
    (logical("long", "local-timestamp-micros"), moments),
    (logical("string", "uuid"), st.uuids().map(str)),
    (
        {
            "type": "record", "name": "R",
            "fields": [{"name": "x", "type": ["null", "long"]}, {"name": "y", "type": "string"}],
        },
        st.fixed_dictionaries({"x": st.none() | longs, "y": texts}),
    ),
]  # fmt: skip
KINDS[10] = (
    {"type": "fixed", "name": "D", "size": 5, "logicalType": "decimal", "precision": 9, "scale": 2},
    money,
)


def field(name: str, kind: Any, **more: Any) -> dict[str, Any]:
    """A field."""
    return {"name": name, "type": kind, **more}


def record(fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """A record."""
    return {"type": "record", "name": "T", "fields": fields}


@st.composite
def schemas(draw: Callable[[Any], Any], least: int = 1) -> tuple[Any, list[Any]]:
    """A schema, and rows of it."""
    chosen = draw(
        st.lists(st.sampled_from(range(len(KINDS))), min_size=least, max_size=5, unique=True)
    )
    fields, values = list[Any](), dict[str, Any]()
    for place in chosen:
        kind, of = KINDS[place]
        union = draw(st.sampled_from(["", "first", "last"]))
        if union:
            kind, of = (["null", kind] if union == "first" else [kind, "null"]), st.none() | of
        fields.append(field(f"f{place}", kind))
        values[f"f{place}"] = of
    return record(fields), draw(st.lists(st.fixed_dictionaries(values), min_size=1, max_size=6))


def written(schema: Any, row: Any) -> bytes:
    """What fastavro makes of a row."""
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(json.loads(json.dumps(schema))), row)
    return out.getvalue()
