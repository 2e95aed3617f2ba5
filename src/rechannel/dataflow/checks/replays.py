"""That replayed dead letters go to the operator that they are of, and nowhere else."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from rechannel.dataflow.checks.dead import letters_leave
from rechannel.dataflow.graph.nodes import Dataflow, Node, Source, Union
from rechannel.dataflow.graph.rules import label
from rechannel.errors import DataflowError, UnknownOperatorError
from rechannel.operators.checks import suggest
from rechannel.sources.replayed.connector import ReplayedConnector


def replays_of(dataflow: Dataflow) -> dict[str, Source]:
    """Return the sources of replayed dead letters, by the operator that they are of."""
    return {
        node.connector.operator: node
        for node in dataflow.nodes
        if isinstance(node, Source) and isinstance(node.connector, ReplayedConnector)
    }


def columns_of(source: Source) -> pa.Schema:
    """Return the columns of a source of replayed dead letters."""
    if not isinstance(source.connector, ReplayedConnector):
        raise TypeError(f"{label(source)} is not one")
    return source.connector.schema


def check_replays(dataflow: Dataflow) -> None:
    """Raise DataflowError if replayed rows would reach another operator, or the same twice."""
    seen: set[str] = set()
    for source in dataflow.nodes:
        if not (isinstance(source, Source) and isinstance(source.connector, ReplayedConnector)):
            continue
        name = source.connector.operator
        if name in seen:
            msg = f"{label(source)}: the dataflow has another with_replays({name!r}); leave one out"
            raise DataflowError(msg)
        seen.add(name)
        _check_operator(dataflow, source, name)


def _check_operator(dataflow: Dataflow, source: Source, name: str) -> None:
    operator = dataflow.by_name.get(name)
    if operator is None:
        known = [str(node.name) for node in dataflow.nodes if letters_leave(node)]
        msg = f"{label(source)}: the dataflow has no operator {name!r}{suggest(name, known)}"
        raise UnknownOperatorError(msg)
    if not letters_leave(operator):
        msg = f"{label(operator)} has no dead letters to replay: give it on_error='dead_letter'"
        raise DataflowError(msg)
    others = [node for node in _readers(dataflow, source) if node is not operator]
    if others or operator not in _readers(dataflow, source):
        where = f"{label(others[0])}, which has had them" if others else "nothing"
        msg = (
            f"{label(source)}: its rows would go to {where}: put with_replays({name!r}) directly before {name!r}, and"
            " let nothing else read that stream"
        )
        raise DataflowError(msg)


def _readers(dataflow: Dataflow, node: Node) -> list[Node]:
    """Return what reads the rows of a node, looking through unions."""

    def found(node: Node) -> Iterator[Node]:
        for user in dataflow.consumers(node):
            if isinstance(user, Union):
                yield from found(user)
            else:
                yield user

    return list(found(node))
