"""The operator that sorts rows by event time before one that goes by their order, as a value."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.protocol.two_sides import ROW
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.ordered.event_time_sort import EventTimeSortLogic
from rechannel.operators.spec import OperatorSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class EventTimeSortSpec(OperatorSpec):
    """Rows of a key, emitted in the order of event time. See `event_time_sort`."""

    on: str
    """Column of event times."""

    @property
    def needs_time(self) -> bool:
        """Rows wait until event time has passed them."""
        return True

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "order"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        need_time(self.on, schema)
        if ROW.name in schema.names:
            msg = f"input column {ROW.name!r} is reserved for state; rename it before running"
            raise DataflowError(msg)
        key_schema = pa.schema([schema.field(key) for key in keys])
        return EventTimeSortLogic(keys=key_schema, row_schema=schema, on=self.on)

    def fingerprint(self) -> str:
        """The state is the stream's own columns."""
        return f"order({self.fixed})"

    @property
    def fixed(self) -> str:
        """What rows wait for."""
        return f"by {self.on}"
