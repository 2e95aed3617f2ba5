"""What pictures say about a node."""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.dataflow.graph import MapBatches, Node, Sink, Source, Stateful, Transform
from rechannel.dataflow.rules import kind_of
from rechannel.kernels.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.kernels.user_errors import function_name

_ROW_KINDS = {RowMap: "map", RowFlatMap: "flat_map", RowFilter: "filter"}


def caption(node: Node, tasks: Mapping[str, int] | None, width: int) -> str:
    """Kind and particulars of a node in at most `width` characters.

    tasks: current number of tasks by name; without it, what the user asked for.
    """
    asked = node.tasks if isinstance(node, Stateful) else None
    count = (tasks or {}).get(node.name, asked)
    if count is None:
        return shorten(_what(node), width)
    suffix = f" · {count} {'task' if count == 1 else 'tasks'}"
    return shorten(_what(node), width - len(suffix)) + suffix


def _what(node: Node) -> str:
    if isinstance(node, Source):
        return node.connector.describe()
    if isinstance(node, Sink):
        return node.outlet.describe()
    if isinstance(node, Stateful):
        return f"{node.spec.kind} by {', '.join(node.keys)}"
    if isinstance(node, Transform):
        condition = getattr(node.function, "condition", None)
        if isinstance(condition, str):
            return f"filter {condition}"
        return f"transform {_name(node.function)}".rstrip()
    if isinstance(node, MapBatches):
        function = node.function
        kind = _ROW_KINDS.get(type(function), "map_batches")
        return f"{kind} {_name(getattr(function, 'function', function))}".rstrip()
    return kind_of(node)


def _name(function: object) -> str:
    name = function_name(function).rpartition(".")[2]
    return "" if name == "<lambda>" else name


def shorten(text: str, width: int) -> str:
    """Text of at most `width` characters, the middle left out."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
