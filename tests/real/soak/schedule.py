"""What happens to a stream in a soak, and when. Pure: the seed decides everything.

Kinds are dealt like cards: each comes once before any comes again, so that even a short soak has all of them. Faults
that end the driver belong to the first half only. In the second half one driver lives from beginning to end, and what
its memory does there can be judged.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from random import Random


class Kind(StrEnum):
    """What can happen. The first ones are changes that the driver is asked for."""

    RESCALE = "rescale"
    MOVE = "move"
    REBALANCE = "rebalance"
    SPLIT = "split"
    MERGE = "merge"
    PLACE = "place"
    LOGIC = "logic"
    """A column of state is added, or dropped if it is there."""
    EXECUTORS = "executors"
    KILL_EXECUTOR = "kill executor"
    KILL_BROKER = "kill broker"
    KILL_DRIVER = "kill driver"
    CUT_HOST = "cut host"
    SLOW_STORE = "slow store"
    ADD_PARTITION = "add partition"
    BAD_RECORDS = "bad records"


CHANGES = frozenset(
    {
        Kind.RESCALE,
        Kind.MOVE,
        Kind.REBALANCE,
        Kind.SPLIT,
        Kind.MERGE,
        Kind.PLACE,
        Kind.LOGIC,
        Kind.EXECUTORS,
    }
)
"""Kinds that the driver is asked for."""
ENDS_DRIVER = frozenset({Kind.KILL_DRIVER})
HOSTS = 3
SPARED = 1
"""Hosts, from the first on, whose executors no fault hits in the second half."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happens."""

    at_s: float
    """Seconds since the beginning, pauses not counted."""
    kind: Kind
    seed: int
    """Decides everything else about it."""
    host: int
    """Number of the host that a fault of hosts hits, from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How long a soak takes, how often something happens, how often everything is compared, and the seed."""

    seconds: float
    every_s: float = 20.0
    check_s: float = 300.0
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse a soak that is too short for one event of each kind. Raises ValueError."""
        if self.every_s <= 0 or self.check_s <= 0:
            msg = f"a soak needs positive intervals, not every_s={self.every_s}, check_s={self.check_s}"
            raise ValueError(msg)
        least = len(Kind) * self.every_s
        if self.seconds < least:
            msg = (
                f"a soak of {self.seconds:g} s with something every {self.every_s:g} s cannot have all {len(Kind)}"
                f" kinds: make it last at least {least:g} s, or make the interval shorter"
            )
            raise ValueError(msg)


def schedule(plan: Plan) -> tuple[Event, ...]:
    """Return the events of a soak, in the order of their times."""
    choose = Random(plan.seed)
    number = int(plan.seconds / plan.every_s)
    half = (number + 1) // 2
    early = _dealt(choose, frozenset(Kind), first=ENDS_DRIVER)
    late = _dealt(choose, frozenset(Kind) - ENDS_DRIVER)
    kinds = [next(early) for _ in range(half)]
    # The late ones begin with what the last deal of the early ones still owes.
    seen = set(kinds)
    owed = [kind for kind in sorted(Kind) if kind not in seen]
    choose.shuffle(owed)
    kinds += owed[: number - half]
    kinds += [next(late) for _ in range(number - len(kinds))]
    return tuple(
        Event(
            at_s=(place + 1) * plan.every_s,
            kind=kind,
            seed=choose.randrange(1 << 30),
            host=choose.randrange(HOSTS) if place < half else choose.randrange(SPARED, HOSTS),
        )
        for place, kind in enumerate(kinds)
    )


def pauses(plan: Plan) -> tuple[float, ...]:
    """Return when everything is compared: about every `check_s`, and at the end."""
    times = [plan.check_s * number for number in range(1, int(plan.seconds / plan.check_s) + 1)]
    if not times or plan.seconds - times[-1] > plan.every_s:
        times.append(plan.seconds)
    else:
        times[-1] = plan.seconds
    return tuple(times)


def _dealt(
    choose: Random, kinds: frozenset[Kind], first: frozenset[Kind] = frozenset()
) -> Iterator[Kind]:
    """Deal kinds again and again. first: kinds that are in the first half of the first deal."""
    while True:
        deal = sorted(kinds)
        choose.shuffle(deal)
        for kind in first:
            deal.remove(kind)
            deal.insert(choose.randrange(len(deal) // 2), kind)
        first = frozenset()
        yield from deal
