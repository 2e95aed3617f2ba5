"""What pictures say about a node."""

from __future__ import annotations

from collections.abc import Mapping

from rechannel.dataflow.graph.nodes import (
    Changelog,
    DeadLetters,
    Late,
    MapBatches,
    Node,
    Paired,
    SideOutput,
    Sink,
    Source,
    Stateful,
    Transform,
)
from rechannel.dataflow.graph.rules import kind_of
from rechannel.kernels.functions.dead_letters import Apart, Malformed
from rechannel.kernels.functions.expectations import Expect
from rechannel.kernels.functions.masks import MaskFilter
from rechannel.kernels.functions.row_functions import RowFilter, RowFlatMap, RowMap
from rechannel.kernels.functions.select import Select, Where
from rechannel.kernels.functions.user_errors import function_name
from rechannel.kernels.protocol.two_sides import Sided
from rechannel.kernels.shuffle.watermarks import EventTime
from rechannel.operators.window.logic import START, AssignWindows

_ROW_KINDS = {RowMap: "map", RowFlatMap: "flat_map", RowFilter: "filter", MaskFilter: "filter"}


def caption(node: Node, tasks: Mapping[str, int] | None, width: int) -> str:
    """Kind and particulars of a node in at most `width` characters.

    tasks: current number of tasks by name; without it, what the user asked for.
    """
    asked = node.tasks if isinstance(node, (Stateful, Source)) else None
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
        keys = ", ".join(key for key in node.keys if key != START)
        return f"{node.spec.kind} by {keys}" if keys else node.spec.kind
    if isinstance(node, Paired):
        return "both sides"
    if isinstance(node, Transform):
        condition = getattr(node.function, "condition", None)
        if isinstance(condition, str):
            return f"filter {condition}"
        return f"transform {_name(node.function)}".rstrip()
    return _map(node) if isinstance(node, MapBatches) else kind_of(node)


def _map(node: MapBatches) -> str:
    function = node.function
    if isinstance(node, Late):
        return "late rows"
    if isinstance(node, DeadLetters):
        return "dead letters"
    if isinstance(node, Changelog):
        return "changelog"
    if isinstance(node, SideOutput):
        return f"side output {node.output}"
    if isinstance(function, Malformed):
        return "readable records"
    if isinstance(function, Apart):
        function = function.function
    return _built_in(function) or _of_rows(function)


def _built_in(function: object) -> str:
    """Describe one of Rechannel's own functions; empty for a user's."""
    match function:
        case Select():
            return f"select {', '.join(name for name, _ in function.columns)}"
        case Where():
            return f"filter {_name(function.condition.function)}".rstrip()
        case EventTime():
            return f"event time {function.column}"
        case AssignWindows():
            return f"windows of {function.size_us / 1e6:g} s"
        case Sided():
            return "right rows" if function.side else "left rows"
        case Expect():
            names = ", ".join(name for name, _ in function.expectations)
            return f"expect {names}" + (
                "" if function.action == "count" else f" or {function.action}"
            )
        case MaskFilter() if function.rest:
            return f"rest of filter {_name(function.function)}".rstrip()
    return ""


def _of_rows(function: object) -> str:
    kind = _ROW_KINDS.get(type(function), "map_batches")
    return f"{kind} {_name(getattr(function, 'function', function))}".rstrip()


def _name(function: object) -> str:
    name = function_name(function).rpartition(".")[2]
    return "" if name == "<lambda>" else name


def shorten(text: str, width: int) -> str:
    """Text of at most `width` characters, the middle left out."""
    if len(text) <= width:
        return text
    head = (width - 1) // 2
    return f"{text[:head]}…{text[len(text) - (width - 1 - head) :]}"
