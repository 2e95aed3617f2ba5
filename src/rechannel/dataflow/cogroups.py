"""`cogroup`: any function of all rows of a key, of two streams."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import pyarrow as pa

from rechannel.dataflow.graph import Node
from rechannel.dataflow.groupwise import need_free, need_function
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
from rechannel.dataflow.window_kinds import Timed
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import StatefulLogic
from rechannel.model.ddl import schema_of
from rechannel.operators.join.cogroup import CogroupLogic
from rechannel.operators.window.group_frame import ApplyBatches
from rechannel.operators.window.logic import END, START

if TYPE_CHECKING:
    from rechannel.dataflow.stream import Stream

Behind = TypeVar("Behind")


@dataclass(frozen=True, eq=False, kw_only=True)
class CogroupSpec(OperatorSpec):
    """What a function makes of the rows of a key, of two streams. See `kernels.cogroup`.

    on: columns that are alike, left and right. times: columns of event times, left and right, where there are windows.
    suffix: ends names that both sides have, where their rows lie side by side: in what state shows, and late rows.
    """

    function: ApplyBatches
    schema: pa.Schema
    on: tuple[tuple[str, str], ...]
    within: Timed | None = None
    times: tuple[str, str] | None = None
    suffix: str = "_right"

    def __post_init__(self) -> None:
        """Check that it can be called."""
        need_function(self.function, "(left, right) -> rows")

    @property
    def needs_time(self) -> bool:
        """Windows are complete when event time says so."""
        return self.within is not None

    @property
    def user_function(self) -> ApplyBatches:
        """What is called with the rows."""
        return self.function

    @property
    def windows_us(self) -> int | None:
        """Length of its windows, if it has any."""
        return None if self.within is None else self.within.size_us

    @property
    def runs(self) -> str:
        """What can be replaced."""
        return "a function"

    def with_function(self, function: Callable[..., Any]) -> OperatorSpec:
        """Another function understands the same state."""
        return replace(self, function=function)

    @property
    def kind(self) -> str:
        """One word."""
        return "cogroup"

    def bind(self, keys: tuple[str, ...], schema: pa.Schema) -> StatefulLogic:
        """Check columns and types of both sides. Raises DataflowError."""
        window = self.within
        ends = () if window is None else (END,)
        need_free(self.schema, (*keys, *ends))
        sides = sides_in(keys, schema, on=self.on, times=None, suffix=self.suffix, taken=ends)
        return CogroupLogic(
            keys=pa.schema([schema.field(key) for key in keys]),
            left=sides.left,
            right=sides.right,
            slots=sides.slots,
            function=self.function,
            fields=self.schema,
            window_us=None if window is None else window.size_us,
            offset_us=None if window is None else window.anchor_us,
        )

    def fingerprint(self) -> str:
        """What stored rows mean."""
        return f"cogroup({self.fixed})"

    @property
    def fixed(self) -> str:
        """Which rows meet, and which are kept."""
        within = None if self.within is None else self.within.stored_as
        return f"on {self.on}; {within}; {self.times}"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Cogrouped(Generic[Behind]):
    """Two streams whose rows meet by key. within: windows of event time; None = those of a timestep meet."""

    left: Stream
    right: Stream
    pairs: dict[str, str]
    within: Timed | None
    times: tuple[str, str] | None
    suffix: str
    then: Callable[[Node], Behind]

    def apply_batches(
        self,
        function: ApplyBatches,
        schema: pa.Schema | str,
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Behind:
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
            settled, self.left, self.right, self.pairs, window=self.within, times=self.times
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
    then: Callable[[Node], Behind],
) -> Cogrouped[Behind]:
    """Two streams whose rows meet by key. Raises DataflowError, UnknownColumnError."""
    what = f"cogroup ({caller()})"
    pairs = pairs_of(on, what)
    need_sides(what, left, right, pairs, suffix)
    settled = None
    if within is None and times != (None, None):
        msg = f"{what}: left_time_column= and right_time_column= are for windows; add within=rc.windows.tumbling(...)"
        raise DataflowError(msg)
    if within is not None:
        if not isinstance(within, Timed):
            msg = f"{what}: within is rc.windows.tumbling(...) or rc.windows.sliding(...), not {within!r}"
            raise DataflowError(msg)
        if {START, END} & {*pairs, *pairs.values()}:
            msg = f"{what}: a key has the name of a window's column; rename it"
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
