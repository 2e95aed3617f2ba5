"""`running`: every row of a key with functions of the rows up to it, in the order of the stream or of event time.

In the order of event time it is two operators, and so are windows of rows: one that holds rows until the watermark has
passed them, called `<name>.order`, and downstream of it one that follows the order in which they leave.
"""

from __future__ import annotations

from rechannel.dataflow.graph.nodes import Node, Stateful
from rechannel.operators.ordered.event_time_sort_spec import EventTimeSortSpec

ORDER = ".order"
"""Ends the name of the operator that holds rows."""


def arranged(on: str, name: str) -> tuple[EventTimeSortSpec, str]:
    """The operator that sorts rows by event time before one that goes by their order, and its name.

    name: of the operator that goes by the order.
    """
    return EventTimeSortSpec(on=on), f"{name}{ORDER}"


def judge_of(node: Node) -> Node:
    """The operator that tells which rows come too late for a node."""
    return node.upstream if isinstance(node, Stateful) and node.spec.sorted_before else node
