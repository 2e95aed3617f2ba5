"""The instances of an operator: who receives which share of the records, and how fast each is. Pure.

Records go to instances by key, evenly but for the heaviest keys, each of which goes to one instance as a whole: key i
to instance i mod p. So more instances relieve an instance of everything but its heavy keys. Instances that have the
same share and speed behave alike in a fluid; a group counts them, and a simulation computes each group once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rechannel.errors import RefusedError
from rechannel.scaling.model.rates import Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Group:
    """Instances that are alike."""

    count: int
    share: float
    """Of the operator's records that each of them receives."""
    speed: float
    """Over that of a usual instance."""


def groups(
    parallelism: int, heavy: Sequence[float], speeds: Sequence[float], *, first: int | None = None
) -> tuple[Group, ...]:
    """Return the groups of instances, in the order of their first instance.

    speeds: of the first instances; the others have 1. first: how many instances are asked for; None = all.
    """
    asked = parallelism if first is None else min(first, parallelism)
    part = [(1 - sum(heavy)) / parallelism] * asked
    for number, share in enumerate(heavy):
        if number % parallelism < asked:
            part[number % parallelism] += share
    fast = [*speeds[:asked], *[1.0] * (asked - len(speeds))]
    alike = Counter(zip(part, fast, strict=True))
    return tuple(
        Group(count=count, share=share, speed=speed) for (share, speed), count in alike.items()
    )


def check_skew(heavy: Sequence[float], speeds: Sequence[float]) -> None:
    """Check shares and speeds. Raises RefusedError."""
    if any(share < 0 for share in heavy) or sum(heavy) > 1 + 1e-9:
        raise RefusedError(
            f"heavy keys with shares {tuple(heavy)}: give at least 0 each and at most 1 in all"
        )
    if any(not 0 < speed < math.inf for speed in speeds):
        raise RefusedError(f"speeds {tuple(speeds)}: give finite ones above 0")


def check_selectivity(name: str, outputs: Sequence[str], selectivity: Mapping[str, float]) -> None:
    """Check what an operator emits to whom. Raises RefusedError."""
    for consumer, each in selectivity.items():
        if consumer not in outputs:
            raise RefusedError(
                f"operator {name!r} has a selectivity for {consumer!r}, which does not read it"
            )
        if not 0 <= each < math.inf:
            raise RefusedError(
                f"operator {name!r} emits {each} records to {consumer!r} for each: give at least 0"
            )


def shares(parallelism: int, heavy: Sequence[float]) -> Floats:
    """Return the share of the records that each instance receives: shape (parallelism,), sum 1."""
    result = np.full(parallelism, (1 - sum(heavy)) / parallelism)
    np.add.at(result, np.arange(len(heavy)) % parallelism, heavy)
    return result
