"""`cogroup`: any function of all rows of a key, of two streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Generic, TypeVar

import pyarrow as pa

from rechannel.dataflow.graph.naming import caller, given, keyed_name
from rechannel.dataflow.graph.nodes import Node
from rechannel.dataflow.streams.pairing import (
    On,
    both_sides,
    need_sides,
    operator_over,
    pairs_of,
    time_of,
)
from rechannel.errors import DataflowError
from rechannel.model.ddl import schema_of
from rechannel.operators.join.cogroup_spec import CogroupSpec
from rechannel.operators.window.group_frame import ApplyBatches
from rechannel.operators.window.kinds import Timed
from rechannel.operators.window.logic import END, START

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream

Downstream = TypeVar("Downstream")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cogrouped(Generic[Downstream]):
    """Two streams whose rows meet by key. within: windows of event time; None = those of a timestep meet."""

    left: Stream
    right: Stream
    pairs: dict[str, str]
    within: Timed | None
    times: tuple[str, str] | None
    suffix: str
    then: Callable[[Node], Downstream]

    def __repr__(self) -> str:
        return (
            f"<Cogrouped {str(self.left.name)!r} and {str(self.right.name)!r}"
            f" by {', '.join(self.pairs)}>"
        )

    def apply_batches(
        self,
        function: ApplyBatches,
        schema: pa.Schema | str,
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """What a vectorised function makes of all rows of a key, of both sides: one call for many keys.

        function: (left, right: GroupFrame of the same keys) -> rows, as a RecordBatch, polars DataFrame or dict of
        arrays: one per key, or, with a column `_key` that has the number of each row's key, any number. A key has rows
        on one side at least. What is made of a key must not depend on which others share its frame.
        schema: columns of what it returns. Emits keys, window, these columns.
        """
        spec = CogroupSpec(
            function=function,
            schema=schema_of(schema),
            on=tuple(self.pairs.items()),
            within=self.within,
            times=self.times,
            suffix=self.suffix,
        )
        settled = given(name, keyed_name(self.left.node, spec.kind, tuple(self.pairs)))
        both = both_sides(
            settled,
            self.left.node,
            self.right.node,
            self.pairs,
            window=self.within,
            times=self.times,
        )
        return self.then(operator_over(both, settled, spec, tasks, bins))


def cogroup(
    left: Stream,
    right: Stream,
    on: On,
    *,
    within: Timed | None,
    times: tuple[str | None, str | None],
    suffix: str,
    then: Callable[[Node], Downstream],
) -> Cogrouped[Downstream]:
    """Two streams whose rows meet by key. Raises DataflowError, UnknownColumnError."""
    what = f"cogroup ({caller()})"
    pairs = pairs_of(on, what)
    need_sides(what, left.node, right.node, pairs, suffix)
    settled = None
    if within is None and times != (None, None):
        msg = f"{what}: left_time_column= and right_time_column= are for windows; add within=rc.windows.tumbling(...)"
        raise DataflowError(msg)
    if within is not None:
        if not isinstance(within, Timed):
            msg = f"{what}: within must be rc.windows.tumbling(...) or rc.windows.sliding(...), not {within!r}"
            raise DataflowError(msg)
        if {START, END} & {*pairs, *pairs.values()}:
            msg = f"{what}: a key is called {START!r} or {END!r}, as columns of the window are; rename the key"
            raise DataflowError(msg)
        settled = (
            time_of(left, times[0], "left", what),
            time_of(right, times[1], "right", what),
        )
    return Cogrouped(
        left=left,
        right=right,
        pairs=pairs,
        within=within,
        times=settled,
        suffix=suffix,
        then=then,
    )
