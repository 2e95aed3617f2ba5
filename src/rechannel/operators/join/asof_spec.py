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
    """Left rows with the latest right row at or before their event time. See `asof`."""

    how: str
    """left or inner."""
    on: tuple[tuple[str, str], ...]
    """Names of the join keys, (left, right)."""
    times: tuple[str, str]
    """Columns of event times, (left, right)."""
    tolerance_us: int | None = None
    """The right row is at most this much earlier; None = any time."""
    suffix: str = "_right"
    """Appended to columns of the right side whose name the left side has too."""

    @property
    def needs_time(self) -> bool:
        """A row waits until event time has passed its own."""
        return True

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
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
        """Return what the meaning of stored rows depends on."""
        return f"asof_join({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows meet, and which are kept."""
        return f"{self.how} on {self.on}; {self.times}; within {self.tolerance_us}"
