"""A message with fields of every type, and rows of it."""

from __future__ import annotations

import datetime as dt
from typing import Any

from hypothesis import strategies as st

from tests.support.messages import add, classes, file

SCALARS = (
    "double", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes", "uint32", "sfixed32",
    "sfixed64", "sint32", "sint64",
)  # fmt: skip


def everything() -> Any:
    """The class."""
    of = file()
    message = of.message_type.add(name="Every")
    enum = of.enum_type.add(name="E")
    for number, name in enumerate("AB"):
        enum.value.add(name=name, number=number)
    inner = message.nested_type.add(name="In")
    add(inner, "x", "int64", 1)
    entry = message.nested_type.add(name="MEntry")
    entry.options.map_entry = True
    add(entry, "key", "string", 1)
    add(entry, "value", "int64", 2)
    for number, kind in enumerate(SCALARS, start=1):
        add(message, f"f_{kind}", kind, number)
    message.oneof_decl.add(name="one")
    add(message, "left", "int32", 20, oneof_index=0)
    add(message, "right", "string", 21, oneof_index=0)
    add(message, "maybe", "int64", 22, optional=True)
    add(message, "e", "shop.E", 23, enum=True)
    add(message, "at", "google.protobuf.Timestamp", 24)
    add(message, "w", "google.protobuf.Int64Value", 25)
    add(message, "r", "shop.Every.In", 26)
    add(message, "many", "int64", 27, repeated=True)
    add(message, "rs", "shop.Every.In", 28, repeated=True)
    add(message, "m", "shop.Every.MEntry", 29, repeated=True)
    return classes(of, "shop.Every")[0]


EVERY = everything()


def whole(bits: int, signed: bool) -> st.SearchStrategy[int]:
    """Whole numbers."""
    low = -(2 ** (bits - 1)) if signed else 0
    return st.integers(low, 2 ** (bits - signed) - 1)


VALUES = {
    "double": st.floats(allow_nan=False), "bool": st.booleans(), "bytes": st.binary(max_size=4),
    "string": st.text(st.characters(codec="utf-8"), max_size=4),
    **{kind: whole(int(kind[-2:]), kind[0] not in "uf") for kind in SCALARS if kind[-2:] in ("32", "64")},
}  # fmt: skip
FIRST, LAST = map(dt.datetime.fromisoformat, ("0001-01-02", "9999-12-30"))
longs = whole(64, signed=True)
inner = st.fixed_dictionaries({"x": longs})
every = st.fixed_dictionaries(
    {f"f_{kind}": VALUES[kind] for kind in SCALARS},
    optional={
        "left": whole(32, signed=True), "maybe": longs, "e": st.sampled_from(["A", "B"]), "r": inner,
        "many": st.lists(longs, max_size=3), "rs": st.lists(inner, max_size=2),
        "m": st.dictionaries(VALUES["string"], longs, max_size=1),
        "at": st.datetimes(FIRST, LAST), "w": longs,
    },
)  # fmt: skip


def written(row: dict[str, Any]) -> bytes:
    """What protobuf makes of a row."""
    plain = {name: value for name, value in row.items() if name not in ("at", "w")}
    made = EVERY(**plain)
    if "at" in row:
        made.at.FromDatetime(row["at"])
    if "w" in row:
        made.w.value = row["w"]
    value: bytes = made.SerializeToString()
    return value
