"""Two streams that meet in one operator: which columns are alike, where event times are, the nodes of both sides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from rechannel.dataflow.graph import MapBatches, Node, Paired, Stateful
from rechannel.dataflow.keyed import check_numbers
from rechannel.dataflow.naming import caller
from rechannel.dataflow.operator_spec import OperatorSpec
from rechannel.dataflow.rules import need_columns, suggest
from rechannel.dataflow.schema import known
from rechannel.dataflow.timing import declared_column
from rechannel.dataflow.window_kinds import Timed
from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.kernels.protocol.two_sides import LEFT, PREFIXES, RIGHT, ROW, Side, Sided, slots_of
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.join.two_inputs import SHOWN_SIDE
from rechannel.operators.window.logic import START, AssignWindows

if TYPE_CHECKING:
    from rechannel.dataflow.stream import Stream

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
        msg = f"{what}: say which columns are alike, as in on='id' or on={{'auction': 'id'}}"
        raise DataflowError(msg)
    if len(set(pairs.values())) < len(pairs):
        msg = f"{what}: a column of the right side is named twice: {', '.join(pairs.values())}"
        raise DataflowError(msg)
    return pairs


def time_of(stream: Stream, said: str | None, side: str, what: str) -> str:
    """The column of a side's event times. Raises DataflowError."""
    column = declared_column(stream.node) if said is None else said
    if column is None:
        msg = (
            f"{what}: say which column of the {side} side has the event times, with {side}_time_column=, or before with"
            " stream.event_time('column')"
        )
        raise DataflowError(msg)
    return column


def need_sides(
    what: str, left: Stream, right: Stream, pairs: Mapping[str, str], suffix: str
) -> None:
    """Raise UnknownColumnError for a column that a side does not have, DataflowError for a suffix that is none."""
    for stream, names in ((left, list(pairs)), (right, list(pairs.values()))):
        schema = known(stream.node)
        if schema is not None:
            need_columns(what, names, schema)
    if not isinstance(suffix, str):
        msg = f"{what}: suffix ends names: it is a text, not {suffix!r}"
        raise DataflowError(msg)


def both_sides(
    name: str,
    left: Stream,
    right: Stream,
    pairs: Mapping[str, str],
    *,
    window: Timed | None = None,
    times: tuple[str, str] | None = None,
) -> Paired:
    """Rows of both sides, marked, under the left one's names of the keys. window: its start is a key as well."""
    sides = ((LEFT, left, list(pairs)), (RIGHT, right, list(pairs.values())))
    nodes: list[Node] = []
    for side, stream, names in sides:
        node, own = stream.node, list(zip(names, pairs, strict=True))
        if window is not None and times is not None:
            assign = window.assign(f"window ({caller()})", times[side])
            node = mapped(f"{name}.{PREFIXES[side]}windows", node, assign)
            own.append((START, START))
        marked = Sided(side=side, keys=tuple(own))
        nodes.append(mapped(f"{name}.{PREFIXES[side]}rows", node, marked))
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Sides:
    """Columns of both sides that are not keys, and the slots that they share."""

    left: Side
    right: Side
    slots: pa.Schema


def sides_in(
    keys: tuple[str, ...],
    schema: pa.Schema,
    *,
    on: Sequence[tuple[str, str]],
    times: tuple[str, str] | None,
    suffix: str,
    taken: Sequence[str] = (),
) -> Sides:
    """Both sides, out of the columns of what `both_sides` makes.

    times: columns of event times that the operator reads; None = it does not. suffix: ends names of the right side
    that are there already, on the left or `taken`. Raises DataflowError, UnknownColumnError.
    """
    need_free_keys(keys, (ROW.name, SHOWN_SIDE.name))
    others = schema.names[len(keys) + 1 :]
    names = [[n for n in others if n.startswith(PREFIXES[side])] for side in (LEFT, RIGHT)]
    left_slots, right_slots, slots = slots_of(
        *([schema.field(name) for name in side] for side in names)
    )
    left = [plain_name(name) for name in names[LEFT]]
    there = {*keys, *left, *taken}
    right = [_named(plain_name(name), suffix, there) for name in names[RIGHT]]
    if SHOWN_SIDE.name in (*left, *right):
        msg = f"column {SHOWN_SIDE.name!r} has the name of a column that state is shown with; rename it"
        raise DataflowError(msg)
    made = [
        Side(
            fields=pa.schema(
                schema.field(n).with_name(as_) for n, as_ in zip(own, shown, strict=True)
            ),
            sources=tuple(own),
            slots=places,
            time=None
            if times is None
            else _time_in(schema, own, times[side], [p[side] for p in on]),
        )
        for side, own, shown, places in (
            (LEFT, names[LEFT], left, left_slots),
            (RIGHT, names[RIGHT], right, right_slots),
        )
    ]
    return Sides(left=made[LEFT], right=made[RIGHT], slots=slots)


def need_free_keys(keys: Sequence[str], taken: Sequence[str]) -> None:
    """Raise DataflowError for a key that is called as a column of the state is."""
    for key in keys:
        if key in taken:
            msg = f"key {key!r} has the name of a column of the state; rename it"
            raise DataflowError(msg)


def plain_name(name: str) -> str:
    """A side's column without its prefix."""
    return name.partition(".")[2]


def _named(name: str, suffix: str, taken: set[str]) -> str:
    named = name + suffix if name in taken else name
    if named in taken:
        msg = f"both sides have a column {name!r}, and {named!r} is there already; give another suffix="
        raise DataflowError(msg)
    taken.add(named)
    return named


def _time_in(schema: pa.Schema, names: list[str], column: str, keys: list[str]) -> int:
    """Which of a side's columns has the event times."""
    plain = [plain_name(name) for name in names]
    if column not in (*plain, *keys):
        msg = f"there is no column {column!r} of event times{suggest(column, plain)}"
        raise UnknownColumnError(msg)
    if column not in plain:
        msg = (
            f"column {column!r} of event times is a key of the join, so rows that match have the same time:"
            " leave it out of on=, or join within=rc.windows.tumbling(...)"
        )
        raise DataflowError(msg)
    place = plain.index(column)
    need_time(names[place], schema)
    return place
