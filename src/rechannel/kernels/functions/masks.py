"""Rows by a condition that a function of a record batch tells for all of them at a time."""

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
    """Rows for which a condition holds, or (`rest`) for which it does not; null does not hold.

    function: (RecordBatch) -> one boolean per row, as an Arrow or numpy array.
    """

    function: Callable[[pa.RecordBatch], Any]
    rest: bool = False

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Ask the function. Raises UserFunctionError."""
        holds = self._mask(batch).fill_null(False)
        return batch.filter(pc.invert(holds) if self.rest else holds)

    def schema_of(self, schema: pa.Schema) -> pa.Schema:
        """Columns stay."""
        return schema

    def _mask(self, batch: pa.RecordBatch) -> pa.Array:
        what = f"condition {function_name(self.function)}"
        try:
            made = self.function(batch)
            mask = made if isinstance(made, pa.Array | pa.ChunkedArray) else pa.array(made)
        except Exception as error:
            raise user_error(what, error) from error
        if isinstance(mask, pa.ChunkedArray):
            mask = mask.combine_chunks()
        if pa.types.is_null(mask.type):
            # Of nothing, or of nothing but nulls, Arrow does not know that they are booleans.
            mask = mask.cast(pa.bool_())
        if not pa.types.is_boolean(mask.type) or len(mask) != batch.num_rows:
            msg = (
                f"{what} must return one boolean per row, {batch.num_rows} of them; it returned"
                f" {len(mask)} of {mask.type}"
            )
            raise UserFunctionError(msg)
        return mask
