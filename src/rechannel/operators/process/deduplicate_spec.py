"""`deduplicate` as a value."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.checks import split_keys
from rechannel.operators.process.deduplicate import TIMESTEP, UNTIL, DeduplicateLogic
from rechannel.operators.spec import OperatorSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class DeduplicateSpec(OperatorSpec):
    """The first row of every key. See `deduplicate`."""

    within_us: int | None = None
    """How long, in event time, a row is a duplicate of the last one that passed; None = for ever."""
    on: str | None = None
    """Column of event times."""

    @property
    def needs_time(self) -> bool:
        """Keys that are forgotten are so by event time."""
        return self.within_us is not None

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "deduplicate"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        key_schema, _ = split_keys(keys, schema)
        for reserved in (TIMESTEP, UNTIL):
            if reserved.name in keys:
                msg = f"key column {reserved.name!r} is reserved for state; rename it before deduplicate"
                raise DataflowError(msg)
        if self.on is not None:
            need_time(self.on, schema)
        return DeduplicateLogic(
            key_schema=key_schema, row_schema=schema, within_us=self.within_us, on=self.on
        )

    def fingerprint(self) -> str:
        """Return whether keys are ever forgotten: the meaning of stored times depends on it."""
        return f"deduplicate({'for ever' if self.within_us is None else 'within'})"

    @property
    def fixed(self) -> str | None:
        """How long keys are remembered, and by which time: what has been forgotten cannot come back."""
        return None if self.within_us is None else f"{self.within_us} by {self.on}"
