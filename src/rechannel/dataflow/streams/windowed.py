"""Streams whose rows have a key and a window, and their operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import pyarrow as pa

from rechannel.dataflow.graph.durations import Duration, microseconds
from rechannel.dataflow.graph.naming import caller, given, keyed_name, stateless_name
from rechannel.dataflow.graph.nodes import MapBatches, Node, Stateful
from rechannel.dataflow.graph.timing import declared_column
from rechannel.dataflow.streams.former import emission_hint
from rechannel.dataflow.streams.ordering import arranged, number_of, order_of, ranking_of
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.logic import AggregateFunction
from rechannel.model.ddl import schema_of
from rechannel.operators.aggregate.spec import AggregateSpec, named_aggregates
from rechannel.operators.ordered.top_spec import TopSpec
from rechannel.operators.window.group_frame import ApplyBatches
from rechannel.operators.window.kinds import Windows
from rechannel.operators.window.logic import START
from rechannel.operators.window.spec import CombineSpec
from rechannel.operators.window.terms import Asked, Before, Every, Placed, Terms

if TYPE_CHECKING:
    from rechannel.dataflow.streams.keyed import KeyedStream

Downstream = TypeVar("Downstream")
"""The stream that an operator returns."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WindowedStream(Generic[Downstream]):
    """A stream whose rows have a key and a window."""

    keyed: KeyedStream[Downstream]
    window: Windows
    terms: Terms

    def aggregate(
        self,
        columns: Mapping[str, AggregateFunction] | None = None,
        /,
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
        **aggregates: AggregateFunction,
    ) -> Downstream:
        """Aggregate the rows of a key in a window: key columns, `window_start`, `window_end`, aggregates.

        Windows of rows have one column `window`, their number from 0, in place of the two times. Rows that
        come after their window is gone are in `.late` of the stream that this returns, and counted in its progress.
        Arguments are those of `KeyedStream.aggregate`.
        """
        made = AggregateSpec(aggregates=named_aggregates(columns, aggregates))
        return self._aggregated(made, name, tasks, bins)

    def reduce(
        self,
        function: Callable[[Any, Any], Any],
        *,
        inverse: Callable[[Any, Any], Any] | None = None,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """Combine the rows of a key in a window into one: keys, `window_start`, `window_end`, other columns.

        Args:
            function: (earlier, later) -> combined, associative and commutative, over the columns that
                are neither keys nor the event time: record batches of equal length, row i belongs to
                row i.
            inverse: (combined, leaving) -> remaining, exactly what `function` makes of the others. With
                it, overlapping windows cost what enters and leaves them, not everything in them.
            name, tasks, bins: see `KeyedStream`.
        """
        return self._aggregated(CombineSpec(function=function, inverse=inverse), name, tasks, bins)

    def __repr__(self) -> str:
        keyed = self.keyed
        by = f" by {', '.join(keyed.keys)}" if keyed.keys else ""
        return f"<WindowedStream {str(keyed.node.name)!r}{by}, {self.window}>"

    def _repr_html_(self) -> str:
        return self.keyed._repr_html_()

    def _aggregated(
        self,
        aggregates: AggregateSpec | CombineSpec,
        name: str | None,
        tasks: int | None,
        bins: int | None,
    ) -> Downstream:
        placed = self.window.aggregated(f"window ({caller()})", aggregates, self.terms)
        return self._operator(placed, name, tasks, bins)

    def top(  # noqa: PLR0913 - as many as there are things to say
        self,
        n: int | None,
        by: str | Sequence[str],
        *,
        descending: bool | Sequence[bool] = True,
        ties: bool = False,
        ranking: Literal["row_number", "rank", "dense_rank"] = "row_number",
        rank: str | None = "rank",
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """Rank the rows of each key and window and keep the first `n`, emitted when the window closes.

        As `KeyedStream.top`. Sessions, lateness and emit="on_update" are refused.

        Args:
            n, by, descending, rank: as in `KeyedStream.top`.
            ties: include rows that are equal to the `n`th.
            ranking: as in SQL: "row_number", "rank" (equal rows share the number of the first, and
                numbers are skipped) or "dense_rank" (none are skipped). Without `ties`, `n` counts row
                numbers; with them, it bounds the rank or dense rank.
            name, tasks, bins: see `KeyedStream`.
        """
        whole = self.window.whole(f"top ({caller()})", self.terms)
        spec = TopSpec(
            by=order_of(by, descending),
            n=number_of(n),
            ties=ties,
            ranking=ranking_of(ranking),
            rank=rank,
            window_us=whole.size_us,
            offset_us=whole.anchor_us,
            every_us=whole.overlap_us,
            column=whole.column,
        )
        return self._operator(whole.with_rows(spec), name, tasks, bins)

    def apply_batches(
        self,
        function: ApplyBatches,
        schema: pa.Schema | str,
        *,
        name: str | None = None,
        tasks: int | None = None,
        bins: int | None = None,
    ) -> Downstream:
        """Apply a vectorised function to all rows of a key in a window, when the window closes.

        Emits keys, window, and the columns of `schema`. In overlapping windows, each window stores its rows;
        lateness and other values of `emit` are refused.

        Sessions accept both: then the function is called whenever a session is emitted, `window_start` and
        `window_end` are keys of the frame, and all rows of a session are written again when it receives rows.

        Args:
            function: (GroupFrame) -> rows as a RecordBatch, polars DataFrame or dict of arrays: one per
                key, or, with a column `_key` that holds the number of each row's key, any number. The
                result for a key must not depend on the other keys in the frame.
            schema: columns of the result.
            name, tasks, bins: see `KeyedStream`.
        """
        what = f"apply_batches ({caller()})"
        placed = self.window.applied(what, function, schema_of(schema), self.terms)
        return self._operator(placed, name, tasks, bins)

    def _operator(
        self, placed: Placed, name: str | None, tasks: int | None, bins: int | None
    ) -> Downstream:
        """Make the operator, downstream of the nodes that its rows need first."""
        keyed, spec = self.keyed, placed.spec
        settled = given(name, keyed_name(keyed.node, spec.kind, keyed.keys))
        node = keyed.node
        if placed.order_by is not None:
            node = keyed._made(*arranged(placed.order_by, settled), tasks, bins, None)
        if placed.assign is not None:
            node = MapBatches(
                name=f"{settled}.windows" if name else stateless_name(node, "windows"),
                where=caller(),
                upstream=node,
                function=placed.assign,
                schema=None,
            )
        keys = (*keyed.keys, START) if placed.by_start else keyed.keys
        return replace(keyed, node=node, keys=keys)._operator(spec, settled, tasks, bins, None)


def windowed(
    keyed: KeyedStream[Downstream],
    window: Windows,
    *,
    time_column: str | None,
    lateness: Duration,
    emit: str | Every,
    time: str,
) -> WindowedStream[Downstream]:
    """Return the rows of keys by windows, as `KeyedStream.window` says. Raises DataflowError."""
    what = f"window ({caller()})"
    if not isinstance(window, Windows):
        msg = (
            f"{what}: expected a window such as rc.windows.tumbling('10 seconds'), sliding, sessions or"
            f" counting, not {window!r}"
        )
        raise DataflowError(msg)
    asked = Asked(
        what=what,
        before=_before(keyed.node),
        keys=keyed.keys,
        time_column=time_column,
        lateness_us=microseconds(lateness, f"{what}: lateness", least=0),
        emit=emit,
        time=time,
        hint=emission_hint(emit),
    )
    return WindowedStream(keyed=keyed, window=window, terms=window.terms(asked))


def _before(node: Node) -> Before:
    """What is known of a node's rows before they get windows."""
    specs = [each.spec for each in _nearest(node)]
    return Before(
        name=node.name,
        time_column=declared_column(node),
        sizes_us=frozenset(size for spec in specs if (size := spec.windows_us) is not None),
        corrects=any(spec.corrects for spec in specs),
    )


def _nearest(node: Node) -> list[Stateful]:
    """Operators that a node's rows come out of."""
    if isinstance(node, Stateful):
        return [node]
    return [found for up in node.upstreams for found in _nearest(up)]
