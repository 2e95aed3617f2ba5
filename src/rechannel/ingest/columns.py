"""The columns that posted rows must have, and what an error about a row says. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import DataflowError, RefusedError
from rechannel.model.ddl import type_name
from rechannel.sources.cutting import row_bytes, value_bytes

EXPANDED_BYTES = 256 << 20
"""What the rows of a request may take in memory, by their columns: short rows take far more than their text."""


class BadRowsError(RefusedError):
    """A body does not hold rows with the declared columns: nothing of it is kept."""

    def __init__(self, what: str, row: int | None = None, column: str | None = None) -> None:
        """row: counted from 1."""
        where = [] if row is None else [f"row {row:,}"]
        where += [] if column is None else [f"column {column!r}"]
        super().__init__(f"{', '.join(where)}: {what}" if where else what)
        self.row, self.column = row, column


class TooManyRowsError(RefusedError):
    """The rows of a body would take too much memory."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Declared columns. Raises DataflowError for a type that JSON rows cannot have."""

    schema: pa.Schema
    ignore_unknown: bool = False
    """Whether members that are no columns are ignored; otherwise they are refused."""
    as_text: pa.Schema = field(init=False)
    """The same, all of which may be null, with texts in place of dates: Arrow reads dates out of texts, but not out of
    JSON.
    """
    _elements: tuple[int, int] = field(init=False, repr=False, compare=False)
    """See `_element_bytes`."""

    def __post_init__(self) -> None:
        """Find the columns to parse."""
        object.__setattr__(self, "schema", self.schema.remove_metadata())
        texts = [
            pa.field(each.name, pa.string() if pa.types.is_date32(each.type) else each.type)
            for each in self.schema
        ]
        object.__setattr__(self, "as_text", pa.schema(texts))
        object.__setattr__(self, "_elements", _element_bytes(pa.struct(list(self.schema))))
        for each in texts:
            if not _in_json(each.type):
                raise DataflowError(
                    f"column {each.name!r} is {type_name(each.type)}, which rows in JSON cannot have: declare a type"
                    " of numbers, texts, times, decimals, or an array or struct of them"
                )

    def check_arrays(self, body: bytes) -> None:
        """Raise TooManyRowsError if the elements of arrays in a body would take too much memory.

        No more of them are there than the body has opening braces and commas.
        """
        objects, others = self._elements
        taken = body.count(b"{") * objects + body.count(b",") * others
        if taken > EXPANDED_BYTES:
            raise TooManyRowsError(
                f"the arrays of the body would take some {taken >> 20:,} MiB in memory, and {EXPANDED_BYTES >> 20} are"
                " the most. Send fewer rows at once, or shorter arrays"
            )

    def check_count(self, rows: int) -> None:
        """Raise TooManyRowsError if this number of rows would take too much memory."""
        most = EXPANDED_BYTES // row_bytes(self.schema)
        if rows > most:
            raise TooManyRowsError(
                f"the body has {rows:,} rows: at most {most:,} of these columns are taken at once. Send several"
            )

    def check_nulls(self, rows: pa.RecordBatch) -> None:
        """Raise BadRowsError for a null in a column that is NOT NULL."""
        for each in self.schema:
            column = rows.column(each.name)
            if not each.nullable and column.null_count:
                row = pc.index(column.is_null(), True).as_py()
                raise BadRowsError("it is NOT NULL, and has no value", row + 1, each.name)


def _element_bytes(kind: pa.DataType, *, within: bool = False) -> tuple[int, int]:
    """Return what an element of an array takes at most: one that is an object, and any other one; 0 without arrays.

    within: whether the type is that of elements.
    """
    own = value_bytes(kind) if within else 0
    if pa.types.is_list(kind):
        objects, others = _element_bytes(kind.value_type, within=True)
        return objects, max(own, others)
    if not pa.types.is_struct(kind):
        return 0, own
    inner = [_element_bytes(kind.field(i).type) for i in range(kind.num_fields)]
    return max([own, *(one for one, _ in inner)]), max([0, *(other for _, other in inner)])


def _in_json(kind: pa.DataType) -> bool:
    if pa.types.is_list(kind):
        return _in_json(kind.value_type)
    if pa.types.is_struct(kind):
        return all(_in_json(kind.field(i).type) for i in range(kind.num_fields))
    wrong = (pa.types.is_map, pa.types.is_date, pa.types.is_null)
    return not any(is_one(kind) for is_one in wrong)
