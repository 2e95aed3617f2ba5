"""Which columns every node has: one walk; a caller that has an engine answers what only it knows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from rechannel.dataflow.graph.nodes import (
    Dataflow,
    Late,
    MapBatches,
    Node,
    Paired,
    SideOutput,
    Source,
    Stateful,
    Transform,
    Union,
)
from rechannel.dataflow.graph.rules import check_inputs, check_output, label
from rechannel.errors import DataflowError

Ask = Callable[[Node, Sequence[pa.Schema]], "pa.Schema | None"]
"""(Source without columns or Transform, its inputs' columns) -> its columns; None if unknown."""


def resolve(dataflow: Dataflow, ask: Ask) -> dict[str, pa.Schema]:
    """Return the columns of every node, by name; checks each node against its input.

    Raises DataflowError naming the node that does not fit what feeds it.
    """
    found = _walk(dataflow, ask)
    for node in dataflow.nodes:
        if id(node) not in found:
            msg = f"{label(node)}: its columns could not be determined; give them with schema="
            raise DataflowError(msg)
    return {node.name: found[id(node)] for node in dataflow.nodes}


def known(node: Node) -> pa.Schema | None:
    """Columns of a node as far as they are known without an engine. Raises DataflowError."""
    return _walk(Dataflow.of(node), _nobody).get(id(node))


def bind_all(dataflow: Dataflow) -> None:
    """Check every node whose columns are known without an engine. Raises DataflowError."""
    _walk(dataflow, _nobody)


def _nobody(node: Node, inputs: Sequence[pa.Schema]) -> pa.Schema | None:
    del node, inputs
    return None


def _walk(dataflow: Dataflow, ask: Ask) -> dict[int, pa.Schema]:
    """Columns by node identity; nodes that cannot be known are left out."""
    found: dict[int, pa.Schema] = {}
    for node in dataflow.nodes:
        inputs = [found[id(up)] for up in node.feeds if id(up) in found]
        if isinstance(node, Late | SideOutput):
            inputs = [found[id(up)] for up in node.upstream.feeds if id(up) in found]
        complete = len(inputs) == len(node.feeds)
        if complete:
            check_inputs(node, inputs)
        schema = _output(node, inputs, ask) if complete else _declared(node)
        if schema is not None:
            check_output(node, schema)
            found[id(node)] = schema
    return found


def _output(node: Node, inputs: Sequence[pa.Schema], ask: Ask) -> pa.Schema | None:
    if isinstance(node, Source):
        schema = node.connector.schema
        return ask(node, inputs) if schema is None else schema
    if isinstance(node, Transform):
        return ask(node, inputs)
    if isinstance(node, Late | SideOutput) and isinstance(node.upstream, Stateful):
        return _aside(node, node.upstream, inputs[0])
    if isinstance(node, MapBatches):
        return _mapped(node, inputs[0])
    if isinstance(node, Stateful):
        return _bound(node, inputs[0])
    if isinstance(node, Paired):
        return _paired(node, inputs)
    if isinstance(node, Union):
        return _merged(inputs)
    return inputs[0]


def _aside(node: Late | SideOutput, operator: Stateful, schema: pa.Schema) -> pa.Schema:
    """Return the columns of rows that leave an operator beside its own. schema: of its input."""
    if isinstance(node, SideOutput):
        return operator.spec.side_output_schema(node.output, operator.keys, schema)
    logic: Any = operator.spec.bind(operator.keys, schema)
    late: pa.Schema = logic.row_schema
    return late


def _declared(node: Node) -> pa.Schema | None:
    return node.schema if isinstance(node, MapBatches) else None


def _mapped(node: MapBatches, schema: pa.Schema) -> pa.Schema:
    derive = getattr(node.function, "schema_of", None)
    if derive is None:
        return schema if node.schema is None else node.schema
    try:
        derived: pa.Schema = derive(schema)
    except DataflowError as error:
        raise type(error)(f"{label(node)}: {error}") from error
    return derived


def _bound(node: Stateful, schema: pa.Schema) -> pa.Schema:
    try:
        return node.spec.bind(node.keys, schema).output_schema
    except DataflowError as error:
        if str(error).startswith(label(node)):
            raise
        raise type(error)(f"{label(node)}: {error}") from error


def _paired(node: Paired, inputs: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of both sides: rows have those of theirs."""
    keys = _merged([pa.schema([side.field(key) for key in node.keys]) for side in inputs])
    own = [field for side in inputs for field in list(side)[len(keys) + 1 :]]
    return pa.schema([*keys, inputs[0].field(len(keys)), *own])


def _merged(inputs: Sequence[pa.Schema]) -> pa.Schema:
    """Columns of a union: nullable where any input's are."""
    return pa.schema(
        pa.field(field.name, field.type, any(s.field(i).nullable for s in inputs))
        for i, field in enumerate(inputs[0])
    )
