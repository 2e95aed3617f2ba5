"""New dataflows from a running one: other logic under a name, fewer branches, more branches.

Nodes are frozen and refer to what feeds them, so a node that changes is cloned, and so is everything downstream. All
other nodes, and all names, stay: state, offsets and files are found under names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from rechannel.dataflow.checks.check import check
from rechannel.dataflow.evolution.difference import refusal
from rechannel.dataflow.graph.naming import FreeName, caller, with_upstreams
from rechannel.dataflow.graph.nodes import (
    Dataflow,
    MapBatches,
    Node,
    Sink,
    Source,
    Stateful,
    Transform,
)
from rechannel.dataflow.graph.rules import label
from rechannel.dataflow.identity.logic import function_of
from rechannel.dataflow.streams.branching import SqlFilter
from rechannel.dataflow.streams.formatted import Columns
from rechannel.dataflow.streams.resourced import with_resource
from rechannel.dataflow.streams.stream import Stream
from rechannel.dataflow.streams.writer import Flow
from rechannel.errors import DataflowError, DuplicateNameError, RefusedError, UnknownOperatorError
from rechannel.kernels.functions.dead_letters import Apart
from rechannel.kernels.functions.resources import WithResource
from rechannel.kernels.functions.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.kernels.functions.select import Computed, Where
from rechannel.model.ddl import schema_of
from rechannel.operators.checks import suggest
from rechannel.operators.spec import INSTEAD, OperatorSpec
from rechannel.operators.window.logic import START

Logic = Callable[..., Any] | OperatorSpec | Mapping[str, Any] | str
"""What a node may be given: a function of the same shape as before, a spec of the same kind of operator (`TrackSpec`),
named aggregates for an aggregate, a SQL condition for a SQL filter."""


def with_logic(
    dataflow: Dataflow, name: str, logic: Logic, *, schema: Columns | None = None
) -> Dataflow:
    """The dataflow in which one node runs other logic. schema: its new output columns (maps only).

    Raises UnknownOperatorError, RefusedError for logic of another kind, DataflowError where
    something downstream of the node does not fit its new columns.
    """
    node = node_of(dataflow, name)
    changed = replace(_changed(node, logic, schema), where=caller())
    why = refusal(node, changed)
    if why is not None:
        raise RefusedError(why)
    return _checked(_rebuilt(dataflow, {id(node): changed}))


def without(dataflow: Dataflow, names: str | Iterable[str]) -> Dataflow:
    """The dataflow without some nodes: sinks, or whole branches.

    Stateless nodes that lead nowhere then go as well. An operator whose rows no node takes stays,
    with its state, unless it is named. Raises UnknownOperatorError, RefusedError when a node that
    stays reads one that goes, or when no node would read the rows of a source.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    gone = {id(node_of(dataflow, name)) for name in wanted}
    for node in dataflow.nodes:
        lost = next((up for up in node.upstreams if id(up) in gone), None)
        if lost is not None and id(node) not in gone:
            msg = f"{label(node)} reads the rows of {lost.name!r}: remove it too, or keep {lost.name!r}"
            raise RefusedError(msg)
    for node in reversed(dataflow.nodes):
        used = any(id(user) not in gone for user in dataflow.consumers(node))
        if used or id(node) in gone or isinstance(node, Sink | Stateful):
            continue
        if isinstance(node, Source):
            msg = f"no node would read the rows of {label(node)}: remove it too"
            raise RefusedError(msg)
        gone.add(id(node))
    return _checked(Dataflow(tuple(node for node in dataflow.nodes if id(node) not in gone)))


def with_branch(dataflow: Dataflow, *flows: Flow | Stream) -> Dataflow:
    """The dataflow with more ends, built on `stream_of` its nodes or on new sources.

    Raises DuplicateNameError for a name that is taken, DataflowError.
    """
    known = {id(node) for node in dataflow.nodes}
    for flow in flows:
        if not isinstance(flow, Flow | Stream):
            msg = f"a branch ends in stream.write..., not in {type(flow).__name__}"
            raise DataflowError(msg)
    fresh = [n for n in Dataflow.of(*(f.node for f in flows)).nodes if id(n) not in known]
    made: dict[int, Node] = {id(node): node for node in dataflow.nodes}
    taken = set(dataflow.by_name)
    for node in fresh:
        changes = with_upstreams(node, made)
        if node.name in taken:
            changes["name"] = _free(node, taken)
        made[id(node)] = replace(node, **changes) if changes else node
        taken.add(made[id(node)].name)
    return _checked(Dataflow(tuple(made.values())))


def stream_of(dataflow: Dataflow, name: str, session: Any | None = None) -> Stream:
    """The rows of a node, to build a branch on. session: the job's Spark session.

    Raises UnknownOperatorError, DataflowError for a sink.
    """
    node = node_of(dataflow, name)
    if isinstance(node, Sink):
        msg = f"{label(node)} is a sink, which has no rows: use the stream that it writes, {node.upstream.name!r}"
        raise DataflowError(msg)
    return Stream(node=node, session=session)


def node_of(dataflow: Dataflow, name: str) -> Node:
    """The node of a name. Raises UnknownOperatorError."""
    node = dataflow.by_name.get(name)
    if node is None:
        msg = f"the dataflow has no node {name!r}{suggest(str(name), list(dataflow.by_name))}"
        raise UnknownOperatorError(msg)
    return node


def _changed(node: Node, logic: Logic, schema: Columns | None) -> Node:
    """The node with other logic. Raises RefusedError."""
    if isinstance(node, MapBatches):
        return _changed_map(node, logic, schema)
    if schema is not None:
        msg = f"{label(node)}: only maps take output columns; leave schema= out"
        raise DataflowError(msg)
    if isinstance(node, Stateful):
        return replace(node, spec=_changed_spec(node, logic))
    if isinstance(node, Transform):
        if isinstance(logic, str) and isinstance(node.function, SqlFilter):
            return replace(node, function=SqlFilter(logic))
        if callable(logic):
            return replace(node, function=logic)
        raise _unfit(node, logic, "a function of a DataFrame")
    msg = f"{label(node)} runs no logic that could be replaced: add another branch and remove this one"
    raise RefusedError(msg)


def _changed_map(node: MapBatches, logic: Logic, schema: Columns | None) -> MapBatches:
    if function_of(node) is None:
        msg = (
            f"{label(node)} runs no function of yours that could be replaced: add another branch with"
            " rc.changes.add(...)"
        )
        raise RefusedError(msg)
    rows = isinstance(node.function, RowMap | RowFlatMap | RowFilter)
    if isinstance(node.function, Where) and isinstance(logic, Computed) and schema is None:
        return replace(node, function=Where(condition=logic))
    if not callable(logic):
        raise _unfit(node, logic, "a function of a row" if rows else "a function of a RecordBatch")
    columns = node.schema if schema is None else schema_of(schema)
    if isinstance(node.function, Apart):
        inner = _changed_map(replace(node, function=node.function.function), logic, schema)
        return replace(inner, function=replace(node.function, function=inner.function))
    if isinstance(node.function, RowFilter | Where):
        if schema is not None:
            msg = f"{label(node)}: a filter keeps its columns; leave schema= out"
            raise DataflowError(msg)
        if isinstance(node.function, Where):
            condition = replace(node.function.condition, function=logic)
            return replace(node, function=Where(condition=condition))
        return replace(node, function=replace(node.function, function=logic))
    if isinstance(node.function, RowMap | RowFlatMap):
        function = replace(node.function, function=logic, schema=columns)
        return replace(node, function=function, schema=columns)
    if isinstance(node.function, WithResource):
        return replace(node, function=with_resource(logic, node.function.opens), schema=columns)
    return replace(node, function=logic, schema=columns)


def _changed_spec(node: Stateful, logic: Logic) -> OperatorSpec:
    try:
        changed = node.spec.replaced(logic, keyed=node.keys != (START,))
    except RefusedError as error:
        msg = f"{label(node)}: {error}"
        raise RefusedError(msg) from None
    if changed is not None:
        return changed
    if node.spec.runs is None:
        msg = f"{label(node)} runs no function that could be replaced; {INSTEAD}"
        raise RefusedError(msg)
    raise _unfit(node, logic, node.spec.runs)


def _unfit(node: Node, logic: object, wants: str) -> RefusedError:
    return RefusedError(f"{label(node)} runs {wants}; {type(logic).__name__} cannot replace it")


def _rebuilt(dataflow: Dataflow, changed: Mapping[int, Node]) -> Dataflow:
    """The dataflow with some nodes replaced, and everything downstream of them cloned."""
    made: dict[int, Node] = {}
    for node in dataflow.nodes:
        now = changed.get(id(node), node)
        changes = with_upstreams(now, made)
        made[id(node)] = replace(now, **changes) if changes else now
    return Dataflow(tuple(made.values()))


def _free(node: Node, taken: set[str]) -> str:
    """A name that is not taken, for a node under whose name nothing is kept."""
    if not isinstance(node.name, FreeName):
        msg = (
            f"{label(node)}: there is a node {node.name!r} already; give this one another name with "
            "name=, or, if you meant that one, build on job.stream(...) of the dataflow as it is now"
        )
        raise DuplicateNameError(msg)
    number = 2
    while f"{node.name}~{number}" in taken:
        number += 1
    return FreeName(f"{node.name}~{number}")


def _checked(dataflow: Dataflow) -> Dataflow:
    check(dataflow)
    return dataflow
