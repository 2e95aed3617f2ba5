"""Changes of how many tasks share the rows of a bin: for one key that has more rows than a task can take. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Annotated, Any, TypeAlias

import numpy as np
from msgspec import Meta

from rechannel.errors import RefusedError
from rechannel.model.configuration import Configuration
from rechannel.model.hashspace import SPACE
from rechannel.model.routing import Routing
from rechannel.model.spread import SpreadBin
from rechannel.reconfigure.balance import load_of_tasks
from rechannel.reconfigure.changes.change import Change, Cli
from rechannel.reconfigure.changes.operators import (
    MOST_BINS,
    MOST_TASKS,
    Operator,
    check_bins,
    routed,
    with_fields,
)
from rechannel.reconfigure.changes.registry import in_python, registered
from rechannel.reconfigure.checked import NonNegativeInt
from rechannel.reconfigure.notation import task_numbers
from rechannel.reconfigure.stream_facts import StreamFacts

__all__ = ["gather", "spread"]


class Side(StrEnum):
    """A side of an operator with two inputs."""

    LEFT = "left"
    RIGHT = "right"

    @property
    def number(self) -> int:
        """As a `SpreadBin` has it."""
        return tuple(Side).index(self)


MOST_COLUMNS, MOST_CHARACTERS = 64, 10_000
"""Of a key that is requested. A longer key is given by its hash."""

Part: TypeAlias = Annotated[str, Meta(max_length=MOST_CHARACTERS)] | int | float | bool | None
"""A value of a key column; times, dates and decimals as text."""

Key: TypeAlias = Annotated[
    Annotated[tuple[Part, ...], Meta(min_length=1, max_length=MOST_COLUMNS)] | None,
    Meta(description="The key: a value per column, as JSON or as text."),
    Cli(
        flag="--key",
        metavar="VALUE",
        help="The key; once per column.",
        read=tuple,
        many=True,
    ),
]
Bin: TypeAlias = Annotated[
    NonNegativeInt | None, Meta(description="Number of the bin."), Cli(metavar="N")
]
Hash: TypeAlias = Annotated[
    Annotated[int, Meta(ge=0)] | None,
    Meta(description="Hash of the key, as control operations report it."),
    Cli(metavar="N"),
]


@registered
@dataclass(frozen=True, slots=True, kw_only=True)
class Spread(Change):
    """Share the rows of one hot key, or of a bin, among several tasks of a join.

    Rows of one side are dealt out over the tasks, rows of the other side go to all of them. No state moves. Give the
    key, its hash, or the number of the bin. Spread again, it is shared by other tasks. `gather` is the way back.
    """

    kind = "spread"

    operator: Operator
    key: Key = None
    bin: Bin = None
    hash: Hash = None
    over: Annotated[
        Annotated[int, Meta(ge=2)]
        | Annotated[tuple[NonNegativeInt, ...], Meta(max_length=MOST_TASKS)]
        | None,
        Meta(description="How many tasks share it, or which; none = all tasks."),
        Cli(
            metavar="TASKS",
            help="How many tasks share it, or several numbers, such as 0,2.",
            read=task_numbers,
        ),
    ] = None
    side: Annotated[
        Side | None,
        Meta(
            description="The side that is dealt out, left or right; none = the one that can, or that has more rows."
        ),
    ] = None

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The bin at these tasks; for a key, cut to a bin of its own."""
        _, routing = routed(configuration, self.operator)
        side = self._side(facts)
        if routing.tasks < 2:
            msg = f"operator {self.operator!r} has one task: rescale it first"
            raise RefusedError(msg)
        made = self._cut(routing, facts)
        lo, hi = made.span(self._bin(made, facts))
        former = made.spread_at(made.bin_of(lo))
        cut = () if former is None else former.cut
        if made is not routing:
            cut = tuple(str(start) for start in made.starts if start not in set(routing.starts))
        tasks = self._tasks(made, made.owners[made.bin_of(lo)], facts)
        new = SpreadBin(lo=lo, hi=hi, tasks=tasks, side=side, cut=cut)
        others = [one for one in made.spreads if one != former]
        made = made.with_spreads([*others, new])
        return with_fields(configuration, self.operator, routing=made)

    def pinned(self, after: Configuration, facts: StreamFacts) -> Change:
        """The tasks and the side that it leads to now; a key stays a key."""
        _, routing = routed(after, self.operator)
        number = bin_meant(self, routing, facts)
        found = None if number is None else routing.spread_at(number)
        if found is None:
            return self
        return replace(self, over=found.tasks, side=tuple(Side)[found.side])

    def _side(self, facts: StreamFacts) -> int:
        """The divided side. Raises RefusedError that says why none can be."""
        name, known = self.operator, facts.divisible.get(self.operator)
        if known is None:
            why = dict.fromkeys(Side, "all rows of a key have to meet in one task")
        else:
            why = {
                side: reason
                for side in Side
                if (reason := known.undivided(side.number)) is not None
            }
        free = [side for side in Side if side not in why]
        wanted = [self.side] if self.side is not None else free
        if not set(wanted) & set(free):
            instead = (
                f". Pre-aggregate it with combine({name!r}, 'on'): senders then send one row per key"
                if name in facts.combinable
                else ""
            )
            what = "" if self.side is None or not free else f"rows of its {self.side} side: "
            reason = why[self.side or Side.LEFT]
            msg = f"operator {name!r} cannot share the rows of a key among tasks: {what}{reason}{instead}"
            raise RefusedError(msg)
        rows = facts.rows_of_sides.get(name, (0.0, 0.0))
        return max(wanted, key=lambda side: (rows[side.number], side is Side.LEFT)).number

    def _bin(self, routing: Routing, facts: StreamFacts) -> int:
        """Number of the bin that is meant."""
        number = bin_meant(self, routing, facts)
        if number is None:
            msg = f"spread({self.operator!r}): give key=, bin= or hash="
            raise RefusedError(msg)
        return number

    def _cut(self, routing: Routing, facts: StreamFacts) -> Routing:
        """The bins with one for the key alone, unless a bin is given, or its bin is spread."""
        hash_ = hash_meant(self, facts)
        if hash_ is None or routing.spread_at(routing.bin_of(hash_)) is not None:
            return routing
        starts = sorted({*routing.starts, hash_, *({hash_ + 1} - {SPACE})})
        if len(starts) > MOST_BINS:
            msg = f"operator {self.operator!r} has {routing.bins} bins; at most {MOST_BINS}: merge some first"
            raise RefusedError(msg)
        return routing.with_starts(starts)

    def _tasks(self, routing: Routing, owner: int, facts: StreamFacts) -> tuple[int, ...]:
        """The tasks that share the bin, its owner first."""
        name, most = self.operator, routing.tasks
        if isinstance(self.over, tuple):
            if len(set(self.over)) < 2 or max(self.over) >= most or owner not in self.over:
                msg = (
                    f"operator {name!r}: over={list(self.over)}: give two or more of its tasks 0 to {most - 1}, among"
                    f" them task {owner}, which owns the bin"
                )
                raise RefusedError(msg)
            return (owner, *(task for task in dict.fromkeys(self.over) if task != owner))
        count = most if self.over is None else self.over
        if count > most:
            msg = f"operator {name!r} has {most} tasks, not {count}; rescale it first"
            raise RefusedError(msg)
        loads = facts.loads.get(name, ())
        known = len(loads) == routing.bins
        load = load_of_tasks(routing, np.asarray(loads)).tolist() if known else [0.0] * most
        others = sorted(
            (task for task in range(most) if task != owner),
            key=lambda task: (load[task], (task - owner) % most),
        )
        return (owner, *others[: count - 1])


@registered
@dataclass(frozen=True, slots=True, kw_only=True)
class Gather(Change):
    """Let one task have a spread bin again: the one that owns it. No state moves.

    Give the key, its hash, or the number of the bin; none = all spread bins of the operator.
    """

    kind = "gather"

    operator: Operator
    key: Key = None
    bin: Bin = None
    hash: Hash = None

    def resolved(self, configuration: Configuration, facts: StreamFacts) -> Configuration:
        """The bin at its owner, joined with the bins that it was cut from."""
        _, routing = routed(configuration, self.operator)
        number = bin_meant(self, routing, facts)
        found = routing.spreads
        if number is not None:
            found = tuple(one for one in found if one.lo == routing.starts[number])
        if not found:
            there = [routing.bin_of(one.lo) for one in routing.spreads]
            what = "no bin is" if number is None else f"bin {number} is not"
            msg = f"operator {self.operator!r}: {what} spread over tasks; spread bins: {there}"
            raise RefusedError(msg)
        return with_fields(configuration, self.operator, routing=gathered(routing, found))


def hash_meant(change: Spread | Gather, facts: StreamFacts) -> int | None:
    """The hash that a change names. Raises RefusedError if it names more than one of key, bin and hash."""
    name = change.operator
    given = [part for part in ("key", "bin", "hash") if getattr(change, part) is not None]
    if len(given) > 1:
        msg = f"{change.kind}({name!r}): give one of {', '.join(f'{part}=' for part in given)}"
        raise RefusedError(msg)
    if change.hash is not None and change.hash >= SPACE:
        msg = f"{change.kind}({name!r}): a hash is less than 2^64"
        raise RefusedError(msg)
    if change.key is None:
        return change.hash
    known = facts.divisible.get(name)
    if known is None:
        msg = f"the key columns of operator {name!r} are not known: give bin= or hash="
        raise RefusedError(msg)
    return known.hash_of(change.key)


def bin_meant(change: Spread | Gather, routing: Routing, facts: StreamFacts) -> int | None:
    """The bin that a change names; None if it names none. Raises RefusedError."""
    hash_ = hash_meant(change, facts)
    if hash_ is not None:
        return routing.bin_of(hash_)
    if change.bin is not None:
        check_bins(change.operator, routing, (change.bin,))
    return change.bin


def gathered(routing: Routing, spreads: Sequence[SpreadBin]) -> Routing:
    """The routing without some spread bins; bins are joined where they were cut for them."""
    left = [one for one in routing.spreads if one not in spreads]
    bare = routing.with_spreads(left)
    gone = set(_joinable(bare, {start for one in spreads for start in one.cuts}))
    return bare.with_starts([start for start in bare.starts if start not in gone])


def _joinable(routing: Routing, starts: set[int]) -> Iterator[int]:
    """Yield those starts at which two bins of one owner meet of which none is spread."""
    for number in range(1, routing.bins):
        if routing.starts[number] in starts:
            pair = (number - 1, number)
            alike = routing.owners[number - 1] == routing.owners[number]
            if alike and all(routing.spread_at(one) is None for one in pair):
                yield routing.starts[number]


@in_python
def spread(
    operator: str,
    key: Any = None,
    *,
    bin: int | None = None,  # noqa: A002 - as the other changes call it
    hash: int | None = None,  # noqa: A002
    over: int | Sequence[int] | None = None,
    side: Side | str | None = None,
) -> Spread:
    """Share the rows of a key, or of a bin, among tasks.

    key: of several columns a tuple. over: how many tasks, or which; None = all. side: "left" or "right".
    """
    many = over if over is None or isinstance(over, int) else tuple(over)
    return Spread(
        operator=operator,
        key=_key(key),
        bin=bin,
        hash=hash,
        over=many,
        side=side,  # type: ignore[arg-type]
    )


@in_python
def gather(
    operator: str,
    key: Any = None,
    *,
    bin: int | None = None,  # noqa: A002 - as the other changes call it
    hash: int | None = None,  # noqa: A002
) -> Gather:
    """Let one task have a spread bin again; without key, bin and hash, all spread bins."""
    return Gather(operator=operator, key=_key(key), bin=bin, hash=hash)


def _key(given: Any) -> tuple[Part, ...] | None:
    """A key as JSON can hold it."""
    if given is None:
        return None
    parts = given if isinstance(given, tuple | list) else (given,)
    return tuple(map(_part, parts))


def _part(value: Any) -> Part:
    plain = value.item() if isinstance(value, np.generic) else value
    return plain if plain is None or isinstance(plain, str | int | float) else str(plain)
