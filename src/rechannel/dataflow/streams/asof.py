"""`asof_join`: what the user says of rows that meet the last ones before them, and what it means as nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.dataflow.graph.naming import caller, given, keyed_name
from rechannel.dataflow.graph.nodes import Stateful
from rechannel.dataflow.streams.pairing import (
    On,
    both_sides,
    need_sides,
    operator_over,
    pairs_of,
    time_of,
)
from rechannel.errors import DataflowError
from rechannel.operators.join.asof_spec import AsofSpec

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream

Direction = Literal["backward"]


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
        msg = f"{what}: how must be 'left' or 'inner', not {how!r}"
        raise DataflowError(msg)
    if direction != "backward":
        msg = (
            f"{what}: direction must be 'backward', not {direction!r}; for rows that come after those here, use join"
            " with within=rc.between(0, ...)"
        )
        raise DataflowError(msg)
    need_sides(what, left.node, right.node, pairs, suffix)
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
    both = both_sides(settled, left.node, right.node, pairs)
    return operator_over(both, settled, spec, tasks, bins)
