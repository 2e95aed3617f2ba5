"""Aggregates of sessions as a value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rechannel.errors import DataflowError, RefusedError
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.aggregate.spec import AggregateSpec
from rechannel.operators.spec import INSTEAD
from rechannel.operators.window.closing import ClosingSessionSpec
from rechannel.operators.window.logic import END, START
from rechannel.operators.window.reduce import WindowReduceLogic
from rechannel.operators.window.session_rows import AggregatedRows
from rechannel.operators.window.sessions import FIRST, LAST, SessionLogic
from rechannel.operators.window.spec import AggregatesSpec


@dataclass(frozen=True, eq=False, kw_only=True)
class SessionSpec(AggregatesSpec, ClosingSessionSpec):
    """Aggregates of the rows of a key in each session. See `sessions`."""

    gap_us: int
    """Rows of a key that are less than this apart are in one session."""
    on: str | None
    """Column of event times; None = sessions go by the time of timesteps."""
    lateness_us: int = 0
    """For how long, in event time, a complete session takes rows."""
    on_close: bool = True
    """Emit a session when it is complete, not in every timestep that brings it rows."""
    early_ms: int | None = None
    """Interval at which incomplete sessions are emitted as well; None = never."""
    finished: bool = False
    """All rows are in the next timestep (batch): every session is complete there."""

    def with_columns(self, columns: Mapping[str, AggregateFunction], *, keyed: bool) -> SessionSpec:
        """Other aggregates of the same sessions. Raises RefusedError where these would hold other rows."""
        del keyed
        made = AggregateSpec(aggregates=columns)
        if made.ordered != self.aggregates.ordered:
            msg = (
                "first, last and last_n need the rows of a session, and the stored sessions have only aggregates: leave"
                f" them out, or {INSTEAD}"
                if made.ordered
                else "the stored sessions have their rows, for first, last or last_n, and cannot be converted to"
                f" aggregates: keep one of the three, or {INSTEAD}"
            )
            raise RefusedError(msg)
        return replace(self, aggregates=made)

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "sessions"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name in (START, END, FIRST.name, LAST.name):
            if name in self.aggregates.aggregates or name in keys:
                msg = f"column name {name!r} is reserved for sessions; choose another"
                raise DataflowError(msg)
        if self.on is not None:
            need_time(self.on, schema)
        made = self.aggregates.inner(keys, schema, self.on)
        inner: AggregateLogic | WindowReduceLogic | AggregatedRows = made
        kept = made.kept_aggregates
        if kept is not None and kept.ordered:
            inner = AggregatedRows.of(kept)
        return SessionLogic(
            inner=inner,
            row_schema=schema,
            on=self.on,
            gap_us=self.gap_us,
            lateness_us=self.lateness_us,
            on_close=self.on_close,
            early_ms=self.early_ms,
        )

    def fingerprint(self) -> str:
        """The gap, and the aggregates."""
        return f"sessions({self.fixed}; {self.aggregates.fingerprint()})"

    @property
    def fixed(self) -> str:
        """What makes a session, and what is kept of one."""
        kind = "processing" if self.on is None else f"by {self.on}"
        late = f", {self.lateness_us}" if self.lateness_us else ""
        early = "" if self.early_ms is None else ", early"
        rows = ", rows" if self.aggregates.ordered else ""
        return f"{self.gap_us} {kind}{late}{early}{rows}"
