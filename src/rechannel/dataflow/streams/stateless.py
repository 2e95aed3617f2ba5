"""The operators of a stream that call functions of its rows and keep no state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from rechannel.dataflow.checks.dead import has_dead_letters
from rechannel.dataflow.graph.naming import caller, given, stateless_name
from rechannel.dataflow.graph.nodes import FrameFunction, MapBatches, Node, Transform
from rechannel.dataflow.streams.branching import Condition, SqlFilter, branches
from rechannel.dataflow.streams.columns import Choice, selection
from rechannel.dataflow.streams.expecting import Expecting
from rechannel.dataflow.streams.formatted import Columns, Formatted
from rechannel.dataflow.streams.resourced import Opens, with_resource
from rechannel.errors import DataflowError
from rechannel.kernels.functions.dead_letters import Apart, OnError
from rechannel.kernels.functions.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.kernels.functions.select import Computed, Where
from rechannel.kernels.protocol.program import BatchFunction
from rechannel.model.ddl import schema_of

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream


class Stateless(Formatted, Expecting):
    """The operators of `Stream` that call functions of its rows."""

    __slots__ = ()

    if TYPE_CHECKING:
        node: Node

        def _then(self, node: Node, *others: Stream) -> Stream:
            """Make a stream of the rows of a node."""

    def transform(
        self, function: FrameFunction, *, materialise: bool = False, name: str | None = None
    ) -> Stream:
        """Apply a deterministic DataFrame -> DataFrame function to the rows of each timestep.

        Args:
            function: receives the rows of one timestep and no others.
            materialise: store the result, so that a function that is not deterministic is computed
                once per timestep and not again by a retry.
            name: of the node.
        """
        return self._frame(function, name, "transform", materialise=materialise)

    def map_batches(
        self,
        function: BatchFunction | Callable[[Any, pa.RecordBatch], Any],
        schema: Columns | None = None,
        *,
        resource: Opens | None = None,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Apply a deterministic function to Arrow record batches.

        How rows are cut into batches is not promised.

        Args:
            function: (RecordBatch) -> RecordBatch; with `resource`, (resource, RecordBatch) -> RecordBatch.
            schema: columns of the result; None = those of the input.
            resource: opens what the function needs once per worker process, such as a connection.
            on_error: "fail" = the timestep fails; "dead_letter" = a batch for which the function fails
                is halved, down to single rows, and the rows that fail are in `.dead_letters`. The
                function must then treat every row by itself.
            name: of the node.
        """
        _need_callable(function, "map_batches")
        made: Any = function if resource is None else with_resource(function, resource)
        if has_dead_letters("map_batches", on_error):
            made = Apart(function=made, on_error=on_error)
        return self._batches(made, None if schema is None else schema_of(schema), name)

    def map(
        self,
        function: Callable[[Any], Any],
        schema: Columns,
        *,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Make one row of each row with a Python function.

        Args:
            function: receives a row as a NamedTuple; returns a tuple in the order of `schema`, a dict,
                or, if `schema` has one column, its value.
            schema: columns of the result.
            on_error: "fail" = the timestep fails; "dead_letter" = rows for which the function raises,
                or returns what does not fit `schema`, are in `.dead_letters`.
            name: of the node.
        """
        _need_callable(function, "map")
        has_dead_letters("map", on_error)
        columns = schema_of(schema)
        rows = RowMap(function=function, schema=columns, on_error=on_error)
        return self._batches(rows, columns, name, "map")

    def flat_map(
        self,
        function: Callable[[Any], Iterable[Any]],
        schema: Columns,
        *,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Make any number of rows of each row with a Python function.

        Args:
            function: receives a row as a NamedTuple; returns an iterable of rows, each as in `map`.
            schema: columns of the result.
            on_error: as in `map`; a row that fails emits none of its rows.
            name: of the node.
        """
        _need_callable(function, "flat_map")
        has_dead_letters("flat_map", on_error)
        columns = schema_of(schema)
        rows = RowFlatMap(function=function, schema=columns, on_error=on_error)
        return self._batches(rows, columns, name, "flat_map")

    def select(self, *columns: Choice, name: str | None = None, **made: str | Computed) -> Stream:
        """Choose, rename and compute columns.

            stream.select("auction", "price", at="dateTime", euros=rc.computed(to_euros, "price"))

        A column that nothing needs is not read, if the source can leave it out (Parquet files can).

        Args:
            columns: names of columns; "*" = all except those in `made`; a mapping = as `made`, for
                names that are arguments of this method.
            name: of the node.
            made: new name = old name, or `rc.computed(...)`.

        Raises:
            DataflowError, UnknownColumnError: a column cannot be made.
        """
        return self._batches(selection(columns, made), None, name, "select")

    def filter(
        self,
        condition: str | Computed | Callable[[Any], Any],
        *,
        on_error: OnError = "fail",
        name: str | None = None,
    ) -> Stream:
        """Keep the rows for which a condition holds.

        Args:
            condition: a condition in Spark's SQL, `rc.computed(...)`, or a function of a row.
            on_error: for a function of a row, as in `map`.
            name: of the node.
        """
        if has_dead_letters("filter", on_error) and isinstance(condition, str | Computed):
            msg = f"filter ({caller()}): only a function of a row has dead letters; leave on_error= out"
            raise DataflowError(msg)
        if isinstance(condition, str):
            return self._frame(SqlFilter(condition), name, "filter")
        if isinstance(condition, Computed):
            return self._batches(Where(condition=condition), None, name, "filter")
        _need_callable(condition, "filter")
        rows = RowFilter(function=condition, on_error=on_error)
        return self._batches(rows, None, name, "filter")

    def branch(
        self, *, otherwise: str | None = None, name: str | None = None, **conditions: Condition
    ) -> Mapping[str, Stream]:
        """Split the stream: each row goes to the first branch whose condition holds. Null does not hold.

        Args:
            otherwise: name of the branch for all other rows; None = they are dropped.
            name: prefix of the names of the nodes.
            conditions: branch name = condition in Spark's SQL, or a function
                (RecordBatch) -> one boolean per row.

        Returns:
            The branches by name.
        """
        made = branches(self.node, conditions, otherwise, name)
        return {each: self._then(node) for each, node in made.items()}

    def _frame(
        self, function: FrameFunction, name: str | None, kind: str, *, materialise: bool = False
    ) -> Stream:
        _need_callable(function, kind)
        node = Transform(
            name=given(name, stateless_name(self.node, kind)),
            where=caller(),
            upstream=self.node,
            function=function,
            materialise=materialise,
        )
        return self._then(node)

    def _batches(
        self,
        function: BatchFunction,
        schema: pa.Schema | None,
        name: str | None,
        kind: str = "map_batches",
    ) -> Stream:
        _need_callable(function, kind)
        node = MapBatches(
            name=given(name, stateless_name(self.node, kind)),
            where=caller(),
            upstream=self.node,
            function=function,
            schema=schema,
        )
        return self._then(node)


def _need_callable(function: object, operator: str) -> None:
    if not callable(function):
        msg = f"{operator} ({caller()}) needs a function, not {type(function).__name__}"
        raise DataflowError(msg)
