"""Aggregates of windows as values; bound to columns they become executable logic."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import gcd
from typing import Any

import pyarrow as pa

from rechannel.errors import DataflowError, RefusedError
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.kernels.shuffle.watermarks import MICROS
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.aggregate.spec import AggregateSpec
from rechannel.operators.checks import need_callable, split_keys
from rechannel.operators.spec import INSTEAD, OperatorSpec
from rechannel.operators.window.closing import ClosingSpec
from rechannel.operators.window.logic import END, START, WindowLogic
from rechannel.operators.window.reduce import WindowReduceLogic
from rechannel.operators.window.sessions import FIRST, LAST
from rechannel.operators.window.sliding import SlidingLogic


@dataclass(frozen=True, eq=False, kw_only=True)
class CombineSpec:
    """The rows of a key in a window, combined two by two. See `reduce`."""

    function: Callable[[Any, Any], Any]
    """(earlier, later) -> combined; associative and commutative."""
    inverse: Callable[[Any, Any], Any] | None = None
    """(combined, leaving) -> the rest; None = windows that overlap are combined anew."""
    aggregates: Mapping[str, AggregateFunction] = field(default_factory=dict)
    """None: an `AggregateSpec` has some in this place."""
    ordered: bool = field(default=False, init=False)
    """Never: the function must not depend on the order of rows."""

    def __post_init__(self) -> None:
        """Check that they can be called."""
        need_callable(self.function, "reduce", "(earlier, later) -> combined")
        if self.inverse is not None:
            need_callable(self.inverse, "inverse of reduce", "(combined, leaving) -> the others")

    def inner(
        self, keys: tuple[str, ...], schema: pa.Schema, time: str | None
    ) -> WindowReduceLogic:
        """What is kept of the rows of a window: all columns but keys and event time. Raises DataflowError."""
        key_schema, others = split_keys(keys, schema)
        values = pa.schema([each for each in others if each.name not in (time, END)])
        for name in (START, FIRST.name, LAST.name):
            if name in others.names:
                msg = f"reduce: column {name!r} has the name of a column of windows; rename it"
                raise DataflowError(msg)
        if not len(values):
            msg = "reduce combines the columns that are neither keys nor the event time, and there are none"
            raise DataflowError(msg)
        return WindowReduceLogic(
            key_schema=key_schema,
            value_schema=values,
            function=self.function,
            inverse=self.inverse,
        )

    def need_orderless(self, windows: str, inner: AggregateLogic | WindowReduceLogic) -> None:
        """The function says itself that order does not matter."""

    def by_name(self, what: str) -> AggregateSpec:
        """Raise DataflowError: it has no names."""
        msg = f"{what}: reduce() is not supported on windows of rows; use aggregate()"
        raise DataflowError(msg)

    @property
    def irreplaceable(self) -> str:
        """No other logic understands rows that this function combined."""
        return f"the stored windows were combined with the present function, which another cannot continue: {INSTEAD}"

    def fingerprint(self) -> str:
        """The state is the stream's own columns; totals are of one pair of functions."""
        return "reduce()" if self.inverse is None else "reduce(inverse)"


Aggregates = AggregateSpec | CombineSpec
"""What is computed of the rows in a window."""


@dataclass(frozen=True, eq=False, kw_only=True)
class AggregatesSpec(OperatorSpec):
    """Aggregates of the rows in windows, whatever makes the windows."""

    aggregates: Aggregates

    @property
    def runs(self) -> str:
        """Return what can be replaced."""
        return "aggregates by name"

    @property
    def irreplaceable(self) -> str | None:
        """Return why its aggregates cannot be replaced."""
        return self.aggregates.irreplaceable

    def replaced(self, logic: object, *, keyed: bool) -> OperatorSpec | None:
        """Return the operator with other logic. Raises RefusedError if a user's function combined its rows."""
        if self.irreplaceable is not None:
            raise RefusedError(self.irreplaceable)
        return OperatorSpec.replaced(self, logic, keyed=keyed)


@dataclass(frozen=True, eq=False, kw_only=True)
class WindowSpec(AggregatesSpec, ClosingSpec):
    """Aggregates of the rows of a key in each window of one length. See `logic` and `sliding`."""

    size_us: int
    """Length of a window."""
    every_us: int
    """From the begin of one window to that of the next; `size_us` if they do not overlap."""
    offset_us: int
    """A window begins at this time after 1970."""
    lateness_us: int
    """For how long, in event time, a complete window takes rows."""
    on_close: bool
    """Emit a window when it is complete, not in every timestep that brings it rows."""
    assigned: bool = False
    """Rows have their window already."""
    column: str | None = None
    """Event times; None = windows of processing time."""
    processing: bool = False
    """Windows go by the time of timesteps."""
    finished: bool = False
    """All rows are in the next timestep (batch): every window is complete there."""
    early_ms: int | None = None
    """Interval at which incomplete windows are emitted as well; None = never."""
    copies: bool = False
    """A row comes once for each window that holds it, not once for its pane."""

    @property
    def windows_us(self) -> int:
        """Length of its windows."""
        return self.size_us

    def with_columns(self, columns: Mapping[str, AggregateFunction], *, keyed: bool) -> WindowSpec:
        """Other aggregates of the same windows. Raises RefusedError where these would hold rows of another kind."""
        made = AggregateSpec(aggregates=columns)
        if self.needs_copies(made, keyed=keyed) != self.copies:
            msg = (
                "first, last and last_n need overlapping windows that have rows of their own, and the stored ones share"
                f" theirs: leave them out, or {INSTEAD}"
                if made.ordered
                else "the stored windows have rows of their own, for first, last or last_n, and cannot be converted to"
                f" windows that share theirs: keep one of the three, or {INSTEAD}"
            )
            raise RefusedError(msg)
        return replace(self, aggregates=made)

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "window"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name in self.aggregates.aggregates:
            if name == END:
                msg = f"aggregate {name!r} has the name of the window's end; choose another name"
                raise DataflowError(msg)
        if self.processing:
            known = [field for field in schema if field.name not in (START, END)]
            schema = pa.schema([*known, pa.field(START, MICROS)])
            keys = (*keys, START)
        inner = self.aggregates.inner(keys, schema, self.column)
        own = self.assigned or self.copies  # else the window is not what a late row came with
        rows = schema if own else schema.remove(schema.get_field_index(START))
        if self.every_us == self.size_us or self.copies:
            return WindowLogic(
                inner=inner,
                row_schema=rows,
                size_us=self.size_us,
                offset_us=None if self.assigned or self.copies else self.offset_us,
                lateness_us=self.lateness_us,
                on_close=self.on_close,
                processing=self.processing,
                early_ms=self.early_ms,
            )
        self.aggregates.need_orderless("windows that overlap", inner)
        return SlidingLogic(
            inner=inner,
            row_schema=rows,
            size_us=self.pane_us,
            length_us=self.size_us,
            every_us=self.every_us,
            offset_us=self.offset_us,
            processing=self.processing,
        )

    @property
    def pane_us(self) -> int:
        """The longest pane of which every window is a whole number."""
        return gcd(self.size_us, self.every_us)

    def needs_copies(self, aggregates: Aggregates, *, keyed: bool) -> bool:
        """Whether windows that overlap must each hold rows of their own: panes have no order, and are merged once."""
        if self.every_us == self.size_us or self.processing:
            return False
        corrected = self.lateness_us > 0 or not self.on_close or self.early_ms is not None
        return corrected or aggregates.ordered or not keyed

    def fingerprint(self) -> str:
        """The windows, and the aggregates."""
        return f"window({self.fixed}; {self.aggregates.fingerprint()})"

    @property
    def fixed(self) -> str:
        """Which windows there are, and how long."""
        kind = ", processing" if self.processing else f" of {self.column}"
        early = "" if self.early_ms is None else ", early"
        copies = ", copies" if self.copies else ""
        windows = f"{self.size_us} by {self.every_us}, {self.offset_us}, {self.lateness_us}"
        return f"{windows}{kind}{early}{copies}"
