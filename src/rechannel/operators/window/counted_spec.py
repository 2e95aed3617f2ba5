"""Aggregates of windows of rows as a value: `rc.windows.counting(100)` and `rc.windows.counting(100, every=10)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.operators.aggregate.functions import Count
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.aggregate.spec import AggregateSpec
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.counted import COUNT, PANE, WINDOW, CountedLogic


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedSpec(OperatorSpec):
    """Aggregates of the rows of a key in windows of a number of rows. See `counted`."""

    aggregates: AggregateSpec
    size: int
    """Rows of a window."""
    every: int
    """Rows from the begin of one window to that of the next."""
    on: str | None = None
    """Column of event times by which rows are counted; None = in the order of the stream."""

    @property
    def sorted_before(self) -> bool:
        """In the order of event time, another operator sorts the rows."""
        return self.on is not None

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "aggregates by name"

    def with_columns(self, columns: Mapping[str, AggregateFunction], *, keyed: bool) -> CountedSpec:
        """Other aggregates of the same windows."""
        del keyed
        return replace(self, aggregates=AggregateSpec(aggregates=columns))

    @property
    def kind(self) -> str:
        """Return the kind in one word."""
        return "counting"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name in (WINDOW.name, PANE.name, COUNT):
            if name in self.aggregates.aggregates or name in keys:
                msg = f"column name {name!r} is reserved for windows of rows; choose another"
                raise DataflowError(msg)
        self.aggregates.bind(keys, schema)
        counted = {**self.aggregates.aggregates, COUNT: Count()}
        inner = AggregateLogic.bind(list(keys), counted, schema)
        return CountedLogic(inner=inner, size=self.size, every=self.every)

    def fingerprint(self) -> str:
        """The windows, and the aggregates."""
        return f"counting({self.fixed}; {self.aggregates.fingerprint()})"

    @property
    def fixed(self) -> str:
        """Return which windows there are: rows of a pane are merged, so the windows cannot change."""
        order = "" if self.on is None else f" of {self.on}"
        return f"{self.size} by {self.every}{order}"
