"""Which hot key to spread over several tasks, over how many, and when to gather it again. Pure.

The *heat* of a key is its rows over the rows that a task has in the mean. A key is hot above `enter` and cool below
`leave`; between the two, nothing changes. A wish counts once it has been the same in several looks in a row.

A key with heat h is spread over h / FILL tasks: none of them then has more than half of a task's share of that key,
so that what else they have fits beside it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, TypeAlias

from rechannel.control.library.hotkeys import Heat, HotKeys, heats
from rechannel.model.routing import Routing

FILL = 0.5
MOST_DOUBLINGS = 6
WIDER = 2
"""A key that is spread gets more tasks only if it needs at least so many times as many."""

Kind: TypeAlias = Literal["spread", "gather"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What would help now."""

    kind: Kind
    hash: int
    key: str
    side: int | None
    over: int
    """Tasks that share the key afterwards."""
    share: float
    """Of the key, of all rows."""

    def is_like(self, other: Wish | None) -> bool:
        """Whether it is the same wish, be it for another number of tasks."""
        return other is not None and (self.kind, self.hash) == (other.kind, other.hash)


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadKey:
    """A key that the controller has spread."""

    hash: int
    key: str
    side: int | None
    again: int = 0
    """How often it was spread before, since others had gathered it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What the controller knows of an operator."""

    wish: Wish | None = None
    looks: int = 0
    """How often in a row it was wished."""
    acted: int = 0
    """Timestep of the latest request."""
    spread: tuple[SpreadKey, ...] = ()
    refused: tuple[int, ...] = ()
    """Hashes of keys that are hot and cannot be spread, as the log says."""

    def wishing(self, wish: Wish | None) -> Known:
        """After one more look."""
        same = wish is not None and wish.is_like(self.wish)
        looks = 0 if wish is None else self.looks + 1 if same else 1
        return replace(self, wish=wish, looks=looks)

    def refusing(self, wish: Wish) -> Known:
        """After a wish was refused."""
        return replace(self, wish=None, looks=0, refused=(*self.refused, wish.hash))

    def cooled(self, found: Iterable[Heat], tasks: int, *, leave: float) -> Known:
        """Forget the refusals of keys that are cool."""
        hot = {heat.hash for heat in found if heat.share * tasks >= leave}
        return replace(self, refused=tuple(each for each in self.refused if each in hot))

    def waits(self, wish: Wish, cool_down: int) -> int:
        """Return the timesteps to wait before a wish: twice as many each time that others have taken it back."""
        return cool_down << min(self._again(wish), MOST_DOUBLINGS)

    def requested(self, wish: Wish, timestep: int) -> Known:
        """After the change that a wish is about was requested."""
        others = tuple(each for each in self.spread if each.hash != wish.hash)
        mine = SpreadKey(hash=wish.hash, key=wish.key, side=wish.side, again=self._again(wish))
        spread = others if wish.kind == "gather" else (*others, mine)
        return replace(self, wish=None, looks=0, acted=timestep, spread=spread)

    def _again(self, wish: Wish) -> int:
        mine = (e.again + 1 for e in self.spread if e.hash == wish.hash and wish.kind == "spread")
        return next(mine, 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreading:
    """What the controller knows."""

    operators: Mapping[str, Known] = field(default_factory=dict)

    def of(self, name: str) -> Known:
        """What it knows of an operator."""
        return self.operators.get(name, Known())

    def after(self, name: str, known: Known) -> Spreading:
        """Return it with other knowledge of an operator."""
        return Spreading(operators={**self.operators, name: known})


def tasks_for(heat: float, tasks: int) -> int:
    """Over how many of an operator's tasks to spread a key."""
    return min(tasks, max(2, math.ceil(heat / FILL - 1e-9)))


def wish_of(
    heaviest: Iterable[Heat],
    tasks: int,
    over: Mapping[int, int],
    known: Known,
    *,
    enter: float,
    leave: float,
) -> Wish | None:
    """Return what would help: the hottest key first, then one that is cool.

    over: by hash, how many tasks share the bin of a key; keys whose bin has one task are absent. The controller leaves
    alone what others have spread.
    """
    found = {heat.hash: heat for heat in heaviest}
    own = {each.hash for each in known.spread}
    for heat in found.values():
        if heat.hash in known.refused:
            continue
        needed = tasks_for(heat.share * tasks, tasks)
        now = over.get(heat.hash, 1)
        wider = heat.hash in own and needed >= WIDER * now
        if heat.share * tasks > enter and (now == 1 or wider):
            return _wish("spread", heat, needed)
    for each in known.spread:
        share = found[each.hash].share if each.hash in found else 0.0
        if each.hash in over and share * tasks < leave:
            heat = Heat(hash=each.hash, key=each.key, side=each.side, share=share)
            return _wish("gather", heat, 1)
    return None


def looked(known: Known, routing: Routing, found: HotKeys, *, enter: float, leave: float) -> Known:
    """Return what is known of an operator after one more look at its heaviest keys."""
    hashes = {*(key.hash for key in found.keys), *(each.hash for each in known.spread)}
    shared = {
        hash_: each for each in routing.spreads for hash_ in hashes if each.lo <= hash_ < each.hi
    }
    hot = heats(found, {hash_: each.side for hash_, each in shared.items()})
    known = known.cooled(hot, routing.tasks, leave=leave)
    over = {hash_: len(each.tasks) for hash_, each in shared.items()}
    return known.wishing(wish_of(hot, routing.tasks, over, known, enter=enter, leave=leave))


def is_worth_a_look(routing: Routing, rows: Sequence[float], enter: float) -> bool:
    """Whether a key is spread, or a bin has so many rows that one of its keys may be hot. rows: by bin."""
    tasks = routing.tasks
    return tasks > 1 and (bool(routing.spreads) or max(rows) * tasks > enter * sum(rows))


def _wish(kind: Kind, heat: Heat, over: int) -> Wish:
    return Wish(
        kind=kind, hash=heat.hash, key=heat.key, side=heat.side, over=over, share=heat.share
    )
