"""Two streams that meet in one operator: which columns are alike, where event times are, the nodes of both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rechannel.dataflow.graph.naming import caller
from rechannel.dataflow.graph.nodes import MapBatches, Node, Paired, Stateful
from rechannel.dataflow.graph.rules import check_numbers
from rechannel.dataflow.graph.schema import known
from rechannel.dataflow.graph.timing import declared_column
from rechannel.errors import DataflowError
from rechannel.kernels.protocol.two_sides import LEFT, PREFIXES, RIGHT, Sided
from rechannel.operators.checks import need_columns
from rechannel.operators.spec import OperatorSpec
from rechannel.operators.window.kinds import Timed
from rechannel.operators.window.logic import START, AssignWindows

if TYPE_CHECKING:
    from rechannel.dataflow.streams.stream import Stream

On = str | Sequence[str] | Mapping[str, str]
"""Columns that are alike: one name, several, or names on the left to names on the right."""


def pairs_of(on: On, what: str) -> dict[str, str]:
    """Names on the left to names on the right. Raises DataflowError."""
    pairs: dict[str, str] = {}
    if isinstance(on, str):
        pairs = {on: on}
    elif isinstance(on, Mapping):
        pairs = dict(on)
    elif isinstance(on, Sequence):
        pairs = {name: name for name in on}
    if not pairs or not all(isinstance(n, str) for n in (*pairs, *pairs.values())):
        msg = f"{what} needs the columns to join on, as in on='id' or on={{'auction': 'id'}}"
        raise DataflowError(msg)
    if len(set(pairs.values())) < len(pairs):
        twice = next(name for name, count in Counter(pairs.values()).items() if count > 1)
        msg = f"{what}: on= pairs column {twice!r} of the right side twice; name each column once"
        raise DataflowError(msg)
    return pairs


def time_of(stream: Stream, given: str | None, side: str, what: str) -> str:
    """The column of a side's event times. Raises DataflowError."""
    column = declared_column(stream.node) if given is None else given
    if column is None:
        msg = (
            f"{what} needs a column of event times of the {side} side: name it with {side}_time_column=, or before with"
            " stream.event_time('column')"
        )
        raise DataflowError(msg)
    return column


def need_sides(what: str, left: Node, right: Node, pairs: Mapping[str, str], suffix: str) -> None:
    """Raise UnknownColumnError for a column that a side does not have, DataflowError for an invalid suffix."""
    for node, names in ((left, list(pairs)), (right, list(pairs.values()))):
        schema = known(node)
        if schema is not None:
            need_columns(what, names, schema)
    if not isinstance(suffix, str):
        msg = f"{what}: suffix must be a string, such as '_right', not {suffix!r}"
        raise DataflowError(msg)


def both_sides(
    name: str,
    left: Node,
    right: Node,
    pairs: Mapping[str, str],
    *,
    window: Timed | None = None,
    times: tuple[str, str] | None = None,
) -> Paired:
    """Rows of both sides, marked, under the left one's names of the keys. window: its start is a key as well."""
    sides = ((LEFT, left, list(pairs)), (RIGHT, right, list(pairs.values())))
    nodes: list[Node] = []
    rows: Node
    for side, node, names in sides:
        rows, own = node, list(zip(names, pairs, strict=True))
        if window is not None and times is not None:
            assign = window.assign(f"window ({caller()})", times[side])
            rows = mapped(f"{name}.{PREFIXES[side]}windows", node, assign)
            own.append((START, START))
        marked = Sided(side=side, keys=tuple(own))
        nodes.append(mapped(f"{name}.{PREFIXES[side]}rows", rows, marked))
    keys = tuple(pairs) if window is None else (*pairs, START)
    return Paired(name=f"{name}.sides", where=caller(), inputs=tuple(nodes), keys=keys)


def operator_over(
    both: Paired, name: str, spec: OperatorSpec, tasks: int | None, bins: int | None
) -> Stateful:
    """The operator that receives rows of both sides. Raises DataflowError for numbers that cannot be."""
    made = Stateful(
        name=name,
        where=caller(),
        upstream=both,
        keys=both.keys,
        spec=spec,
        tasks=tasks,
        bins=bins,
    )
    check_numbers(made)
    return made


def mapped(name: str, node: Node, function: AssignWindows | Sided) -> MapBatches:
    """Rows of a side on their way to the operator."""
    return MapBatches(name=name, where=caller(), upstream=node, function=function, schema=None)
