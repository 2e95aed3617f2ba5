"""When the state of a `track` ends for want of rows, and whether a row is emitted then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.errors import DataflowError
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.process.timers import Timer


@dataclass(frozen=True, eq=False, kw_only=True)
class Timeouts(OperatorSpec):
    """A part of a spec. timeout_ms: None = never. on: the column of event times; None = the time of timesteps.

    expired: what is called for keys whose time is over; None: they go unheard. finished: all rows are in the next
    timestep.
    """

    timeout_ms: int | None = None
    on: str | None = None
    expired: Callable[..., Any] | None = None
    finished: bool = False

    @property
    def needs_time(self) -> bool:
        """Whether it goes by the rows' own time."""
        return self.on is not None

    @property
    def processing(self) -> bool:
        """Whether something is shown by the time of timesteps."""
        return self.on is None and self.expired is not None

    @property
    def fixed(self) -> str | None:
        """By which time timers go: what was set by one says nothing of another."""
        if self.on is not None:
            return f"timers by {self.on}"
        return "timers of processing time" if self.processing else None

    def timer(self, schema: pa.Schema) -> Timer | None:
        """How timers are set; None where there are none. Raises DataflowError."""
        if self.fixed is None:
            return None
        if self.on is not None:
            need_time(self.on, schema)
        if self.timeout_ms is None:
            msg = "track: say after which time keys end, with timeout="
            raise DataflowError(msg)
        return Timer(timeout_us=self.timeout_ms * 1_000, on=self.on, row_schema=schema)

    def described(self, state: str) -> str:
        """A fingerprint: the columns of the state, and which time is kept with it."""
        kept = "" if self.timeout_ms is None else "; timeout"
        return f"track({state}{kept if self.fixed is None else f'; {self.fixed}'})"
