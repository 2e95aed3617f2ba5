"""`asof_join` as a value."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.operators.join.asof import AsofLogic
from rechannel.operators.join.columns import sides_in
from rechannel.operators.spec import OperatorSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class AsofSpec(OperatorSpec):
    """Rows with the last one before them. See `kernels.asof`.

    on: columns that are alike, left and right. times: columns of event times, left and right. suffix: ends names that
    both sides have.
    """

    how: str
    on: tuple[tuple[str, str], ...]
    times: tuple[str, str]
    tolerance_us: int | None = None
    suffix: str = "_right"

    @property
    def needs_time(self) -> bool:
        """A row waits until event time has passed its own."""
        return True

    @property
    def kind(self) -> str:
        """One word."""
        return "asof_join"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types of both sides. Raises DataflowError."""
        sides = sides_in(keys, schema, on=self.on, times=self.times, suffix=self.suffix)
        return AsofLogic(
            keys=pa.schema([schema.field(key) for key in keys]),
            left=sides.left,
            right=sides.right,
            slots=sides.slots,
            how=self.how,
            tolerance_us=self.tolerance_us,
        )

    def fingerprint(self) -> str:
        """What stored rows mean."""
        return f"asof_join({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows meet, and which are kept."""
        return f"{self.how} on {self.on}; {self.times}; within {self.tolerance_us}"
