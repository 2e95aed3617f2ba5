"""`cogroup(...).apply_batches` as a value."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.operators.join.cogroup import CogroupLogic
from rechannel.operators.join.columns import sides_in
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.apply_spec import need_free, need_function
from rechannel.operators.window.group_frame import ApplyBatches
from rechannel.operators.window.kinds import Timed
from rechannel.operators.window.logic import END


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupSpec(OperatorSpec):
    """What a function makes of all rows of a key, of two streams. See `cogroup`."""

    function: ApplyBatches
    schema: pa.Schema
    """Columns that the function returns."""
    on: tuple[tuple[str, str], ...]
    """Names of the join keys, (left, right)."""
    within: Timed | None = None
    """Windows whose rows meet; None = rows of one timestep meet."""
    times: tuple[str, str] | None = None
    """Columns of event times, (left, right); None if no times are needed."""
    suffix: str = "_right"
    """Appended to columns of the right side whose name the left side has too."""

    def __post_init__(self) -> None:
        """Check that it can be called."""
        need_function(self.function, "(left, right) -> rows")

    @property
    def needs_time(self) -> bool:
        """Windows are complete when event time says so."""
        return self.within is not None

    @property
    def user_function(self) -> ApplyBatches:
        """What is called with the rows."""
        return self.function

    @property
    def windows_us(self) -> int | None:
        """Length of its windows, if it has any."""
        return None if self.within is None else self.within.size_us

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Another function understands the same state."""
        return replace(self, function=function)

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "cogroup"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types of both sides. Raises DataflowError."""
        window = self.within
        ends = () if window is None else (END,)
        need_free(self.schema, (*keys, *ends))
        sides = sides_in(keys, schema, on=self.on, times=None, suffix=self.suffix, taken=ends)
        return CogroupLogic(
            keys=pa.schema([schema.field(key) for key in keys]),
            left=sides.left,
            right=sides.right,
            slots=sides.slots,
            function=self.function,
            fields=self.schema,
            window_us=None if window is None else window.size_us,
            offset_us=None if window is None else window.anchor_us,
        )

    def fingerprint(self) -> str:
        """Return what the meaning of stored rows depends on."""
        return f"cogroup({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows meet, and which are kept."""
        within = None if self.within is None else self.within.stored_as
        return f"on {self.on}; {within}; {self.times}"
