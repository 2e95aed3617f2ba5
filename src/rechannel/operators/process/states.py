"""What a `process` function can keep per key, as values: a value, a list, a map, each with a name and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.model.ddl import columns_text


@dataclass(frozen=True, eq=False, kw_only=True)
class State:
    """One state of a key. The function sees a scalar where it has one column, else a NamedTuple."""

    columns: pa.Schema
    """Columns of a value, of an element, or of what an entry holds."""
    ttl_ms: int | None = None
    """What was written that long ago, or longer, by the time of timesteps, is gone; None = it stays."""

    kind: ClassVar[str]

    def __post_init__(self) -> None:
        """Raise DataflowError without columns."""
        if not len(self.columns):
            msg = f"a {self.kind} state needs at least one column, such as 'n BIGINT'"
            raise DataflowError(msg)

    @property
    def type(self) -> pa.DataType:
        """Type of the column in which it is stored."""
        return pa.struct([each.with_nullable(True) for each in self.columns])

    @property
    def text(self) -> str:
        """What the meaning of stored rows depends on."""
        return f"{self.kind} of {columns_text(self.columns)}"

    @property
    def shape(self) -> str:
        """What of that no stored column shows."""
        return self.kind


@dataclass(frozen=True, eq=False, kw_only=True)
class ValueState(State):
    """One value."""

    kind: ClassVar[str] = "value"


@dataclass(frozen=True, eq=False, kw_only=True)
class ListState(State):
    """A list. An element is stored by itself: to append one does not write the others again."""

    kind: ClassVar[str] = "list"


@dataclass(frozen=True, eq=False, kw_only=True)
class MapState(State):
    """A map. An entry is stored by itself. key: one column with the keys of entries."""

    key: pa.Schema

    kind: ClassVar[str] = "map"

    def __post_init__(self) -> None:
        """Raise DataflowError for keys that have no text of their own."""
        State.__post_init__(self)
        if len(self.key) != 1 or not _has_text(self.key.field(0).type):
            msg = (
                "the key of a map state is one column: a string, a whole number, a boolean, a date or a timestamp; not"
                f" {columns_text(self.key) or 'nothing'}. Make a string of several columns"
            )
            raise DataflowError(msg)

    @property
    def key_field(self) -> pa.Field:
        """Column of the keys of entries."""
        return self.key.field(0)

    @property
    def text(self) -> str:
        """What the meaning of stored rows depends on."""
        return f"map of {columns_text(self.key)} to {columns_text(self.columns)}"

    @property
    def shape(self) -> str:
        """What of that no stored column shows."""
        return f"map by {columns_text(self.key)}"


def as_texts(keys: pa.Array) -> pa.Array:
    """Return keys of entries as texts, from which `from_texts` makes them again."""
    if pa.types.is_date(keys.type):
        keys = keys.cast(pa.int32())
    if pa.types.is_timestamp(keys.type):
        keys = keys.cast(pa.int64())
    return keys.cast(pa.string())


def from_texts(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return keys of entries of a type."""
    if pa.types.is_date(kind):
        return texts.cast(pa.int32()).cast(kind)
    if pa.types.is_timestamp(kind):
        return texts.cast(pa.int64()).cast(kind)
    return texts.cast(kind)


def _has_text(kind: pa.DataType) -> bool:
    types = pa.types
    ways = (
        types.is_integer,
        types.is_boolean,
        types.is_date32,
        types.is_string,
        types.is_timestamp,
    )
    return any(is_one(kind) for is_one in ways)
