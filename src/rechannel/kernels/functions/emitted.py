"""The rows that a `process` function made, and their columns.

Often a function keeps the very tuples that it emits. Then they are converted once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from operator import is_
from types import GeneratorType
from typing import Any, Self

import pyarrow as pa

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.functions.python_rows import Label, check_tuples, columns_of
from rechannel.kernels.functions.row_functions import as_tuple


@dataclass(frozen=True, eq=False, kw_only=True)
class Emitted:
    """Rows that were made, as columns."""

    tuples: Sequence[Any] = ()
    """The rows, if they came as tuples."""
    columns: Columns = field(default_factory=list)

    @classmethod
    def of(cls, rows: list[Any], fields: pa.Schema, name: str, what: Label) -> Self:
        """Convert tuples, dicts, or values if there is one column. Raises UserFunctionError. name: of the function."""
        if all(issubclass(kind, tuple) for kind in set(map(type, rows))):
            if not set(map(len, rows)) <= {len(fields)}:
                check_tuples(rows, fields, what)
            return cls(tuples=rows, columns=columns_of(rows, fields, what))
        rows = [as_tuple(row, fields, name) for row in rows]
        check_tuples(rows, fields, what)
        return cls(columns=columns_of(rows, fields, what))

    def known(self, values: Sequence[Any], fields: Sequence[pa.Field]) -> Columns | None:
        """Return the columns of values if they are the same tuples, one by one, and of the same types."""
        if not values or len(values) != len(self.tuples):
            return None
        alike = [each.type for each in self.columns] == [each.type for each in fields]
        return self.columns if alike and all(map(is_, values, self.tuples)) else None


def rows_in(made: Any) -> Any:
    """Return the rows that a function returned, to iterate over. Raises TypeError for a single one."""
    if type(made) is list or type(made) is GeneratorType:
        return made
    if isinstance(made, str | bytes | Mapping) or not hasattr(made, "__iter__"):
        msg = f"it returned {made!r}: yield rows, or return a list of them, or None"
        raise TypeError(msg)
    return made
