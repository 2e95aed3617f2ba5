"""Columns of an operator with two inputs: which are alike, which belong to a side, where event times are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.kernels.protocol.two_sides import LEFT, PREFIXES, RIGHT, ROW, Side, slots_of
from rechannel.kernels.shuffle.watermarks import need_time
from rechannel.operators.checks import suggest
from rechannel.operators.join.two_inputs import SHOWN_SIDE


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
        msg = f"input column {SHOWN_SIDE.name!r} is reserved for state; rename it before the join"
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
            msg = f"key column {key!r} is reserved for state; rename it before the join"
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
