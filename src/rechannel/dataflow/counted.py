"""Windows of so many rows of a key: `rc.windows.counting(100)`, `rc.windows.counting(100, every=10)`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from rechannel.dataflow.former import emission_hint
from rechannel.dataflow.naming import caller
from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.dataflow.specs import AggregateSpec
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import AggregateFunction, StatefulLogic
from rechannel.operators.aggregate.functions import Count
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.window.counted import COUNT, PANE, WINDOW, CountedLogic


@dataclass(frozen=True, eq=False, kw_only=True)
class CountedSpec(OperatorSpec):
    """Aggregates of the rows of a key in windows of so many rows. See `kernels.counted`. on: column of event times;
    None = rows are counted in the stream's order.
    """

    aggregates: AggregateSpec
    size: int
    every: int
    on: str | None = None

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
        """One word."""
        return "counting"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types. Raises DataflowError."""
        for name in (WINDOW.name, PANE.name, COUNT):
            if name in self.aggregates.aggregates or name in keys:
                msg = f"{name!r} is the name of a column of windows of rows; name it otherwise"
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
        """Which windows there are: rows that are in a pane cannot be told apart any more."""
        order = "" if self.on is None else f" of {self.on}"
        return f"{self.size} by {self.every}{order}"


def rows_of(number: int, what: str) -> int:
    """A number of rows. Raises DataflowError unless it is a positive whole number."""
    if isinstance(number, bool) or not isinstance(number, int) or number < 1:
        msg = f"{what} is a whole number of rows of at least 1, not {number!r}"
        raise DataflowError(msg)
    return number


def check_counting(keys: tuple[str, ...], lateness: object, emit: str, time: str) -> None:
    """Raise DataflowError for what windows of rows have not."""
    what = f"window ({caller()}): windows of rows"
    if not keys:
        msg = f"{what} need a key; use key_by"
        raise DataflowError(msg)
    if time != "event":
        msg = f"{what} go by the order of the stream, or of the event times in time_column=; leave time= away"
        raise DataflowError(msg)
    if lateness:
        msg = f"{what} have no end that rows could miss; leave lateness= away"
        raise DataflowError(msg)
    if emit != "on_close":
        msg = f"{what} are shown when they are complete; leave emit={emit!r} away{emission_hint(emit)}"
        raise DataflowError(msg)
