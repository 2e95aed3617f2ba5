"""`asof_join`: what the user says of rows that meet the last ones before them, and what it means as nodes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

from rechannel.dataflow.durations import Duration, microseconds
from rechannel.dataflow.graph import Stateful
from rechannel.dataflow.naming import caller, given, keyed_name
from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.dataflow.pairing import (
    On,
    both_sides,
    need_sides,
    operator_over,
    pairs_of,
    sides_in,
    time_of,
)
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.operators.join.asof import AsofLogic

if TYPE_CHECKING:
    from rechannel.dataflow.stream import Stream

Direction = Literal["backward"]


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


def asof_join(  # noqa: PLR0913 - the arguments of `Stream.asof_join`
    left: Stream,
    right: Stream,
    on: On,
    *,
    times: tuple[str | None, str | None],
    direction: str,
    tolerance: Duration | None,
    how: str,
    suffix: str,
    name: str | None,
    tasks: int | None,
    bins: int | None,
) -> Stateful:
    """The operator that shows rows with the last one before them. Raises DataflowError, UnknownColumnError."""
    what = f"asof_join ({caller()})"
    pairs = pairs_of(on, what)
    if how not in ("left", "inner"):
        msg = f"{what}: how is left or inner, not {how!r}"
        raise DataflowError(msg)
    if direction != "backward":
        msg = (
            f"{what}: direction is 'backward', not {direction!r}; rows that come after those here are shown by join"
            " with within=rc.between(0, ...)"
        )
        raise DataflowError(msg)
    need_sides(what, left, right, pairs, suffix)
    spec = AsofSpec(
        how=how,
        on=tuple(pairs.items()),
        times=(time_of(left, times[0], "left", what), time_of(right, times[1], "right", what)),
        tolerance_us=None
        if tolerance is None
        else microseconds(tolerance, f"{what}: tolerance", least=0),
        suffix=suffix,
    )
    settled = given(name, keyed_name(left.node, spec.kind, tuple(pairs)))
    both = both_sides(settled, left, right, pairs)
    return operator_over(both, settled, spec, tasks, bins)
