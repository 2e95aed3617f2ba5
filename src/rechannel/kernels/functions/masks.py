"""Filter rows by a function that evaluates a condition for a whole record batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rechannel.errors import UserFunctionError
from rechannel.kernels.functions.user_errors import function_name, user_error


@dataclass(frozen=True, eq=False, kw_only=True)
class MaskFilter:
    """Keeps the rows for which a condition is true; null is not true."""

    function: Callable[[pa.RecordBatch], Any]
    """(RecordBatch) -> one boolean per row, as an Arrow or numpy array."""
    rest: bool = False
    """Keep the other rows instead."""

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Filter a batch. Raises UserFunctionError."""
        holds = self.mask(batch).fill_null(False)
        return batch.filter(pc.invert(holds) if self.rest else holds)

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Return the schema unchanged."""
        return schema

    def mask(self, batch: pa.RecordBatch) -> pa.Array:
        """Return for each row what the function says, nulls included. Raises UserFunctionError."""
        what = f"condition {function_name(self.function)}"
        try:
            made = self.function(batch)
            mask = made if isinstance(made, pa.Array | pa.ChunkedArray) else pa.array(made)
        except Exception as error:
            raise user_error(what, error) from error
        if isinstance(mask, pa.ChunkedArray):
            mask = mask.combine_chunks()
        if pa.types.is_null(mask.type):
            # Arrow cannot infer the type of an empty or all-null array.
            mask = mask.cast(pa.bool_())
        if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
            msg = (
                f"{what} must return one boolean per row, {batch.num_rows} of them; it returned"
                f" {len(mask)} of {mask.type}"
            )
            raise UserFunctionError(msg)
        return mask
