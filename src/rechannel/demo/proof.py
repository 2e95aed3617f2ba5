"""Are two tables the same, row for row?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """One result of the stream beside the same result from elsewhere.

    name: of the result. other: where else it comes from. rows: of the stream.
    difference: the first one in words; None when the tables are equal.
    """

    name: str
    other: str
    rows: int
    difference: str | None

    @property
    def equal(self) -> bool:
        """Whether all rows are equal."""
        return self.difference is None


def compare(
    name: str, stream: pa.Table, other_name: str, other: pa.Table, keys: Sequence[str]
) -> Comparison:
    """Compare two tables whatever the order of their rows and columns.

    keys: columns that tell the rows of either table apart.
    """
    difference = _difference(stream, other, keys)
    return Comparison(name=name, other=other_name, rows=stream.num_rows, difference=difference)


def _difference(stream: pa.Table, other: pa.Table, keys: Sequence[str]) -> str | None:
    if set(stream.column_names) != set(other.column_names):
        return f"columns {sorted(stream.column_names)} and {sorted(other.column_names)}"
    order = [(key, "ascending") for key in keys]
    left = stream.sort_by(order)
    right = other.select(stream.column_names).cast(_plain(stream.schema)).sort_by(order)
    left = left.cast(right.schema)
    if left.num_rows != right.num_rows:
        return f"{left.num_rows} and {right.num_rows} rows"
    if left.equals(right):
        return None
    pairs = zip(left.to_pylist(), right.to_pylist(), strict=True)
    one, two = next((one, two) for one, two in pairs if one != two)
    return f"{one} and {two}"


def _plain(schema: pa.Schema) -> pa.Schema:
    """Names and types only: engines differ in what they say about nulls."""
    return pa.schema([pa.field(field.name, field.type) for field in schema])
