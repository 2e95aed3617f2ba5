"""Orders of rows: what `top` and `latest` go by, and the sort before what goes by event time.

`running`, and windows of rows, are two operators in the order of event time: one, called `<name>.order`, that
holds rows until the watermark has passed them, and downstream of it one that follows the order in which they leave.
"""

from __future__ import annotations

from collections.abc import Sequence

from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.graph.nodes import Node, Stateful
from rechannel.errors import DataflowError
from rechannel.operators.ordered.event_time_sort_spec import EventTimeSortSpec
from rechannel.operators.ordered.top import RANKINGS

ORDER = ".order"
"""Ends the name of the operator that holds rows."""


def order_of(
    by: str | Sequence[str], descending: bool | Sequence[bool]
) -> tuple[tuple[str, bool], ...]:
    """Columns and directions of an order. Raises DataflowError."""
    names = [by] if isinstance(by, str) else list(by) if isinstance(by, Sequence) else []
    directions = list(descending) if isinstance(descending, Sequence) else [descending] * len(names)
    if not names or not all(isinstance(name, str) for name in names):
        msg = f"top ({caller()}) needs a column to order rows by, as in by='price'"
        raise DataflowError(msg)
    if not all(isinstance(direction, bool) for direction in directions):
        msg = f"top ({caller()}): descending must be True or False, for all or for each, not {descending!r}"
        raise DataflowError(msg)
    if len(directions) != len(names):
        msg = f"top ({caller()}): descending has {len(directions)} values for {len(names)} columns"
        raise DataflowError(msg)
    return tuple(zip(names, directions, strict=True))


def ranking_of(ranking: str) -> str:
    """How rows that are alike are numbered. Raises DataflowError."""
    if ranking not in RANKINGS:
        msg = f"top ({caller()}): ranking must be one of {', '.join(map(repr, RANKINGS))}, not {ranking!r}"
        raise DataflowError(msg)
    return ranking


def number_of(n: int | None) -> int | None:
    """Return the number of rows; None = all. Raises DataflowError unless it is positive."""
    if n is not None and (isinstance(n, bool) or not isinstance(n, int) or n < 1):
        msg = f"top ({caller()}): n must be a whole number of at least 1, or None for all rows, not {n!r}"
        raise DataflowError(msg)
    return n


def arranged(on: str, name: str) -> tuple[EventTimeSortSpec, str]:
    """The operator that sorts rows by event time before one that goes by their order, and its name.

    name: of the operator that goes by the order.
    """
    return EventTimeSortSpec(on=on), f"{name}{ORDER}"


def judge_of(node: Node) -> Node:
    """Return the operator that decides which rows are late for a node."""
    return node.upstream if isinstance(node, Stateful) and node.spec.sorted_before else node
