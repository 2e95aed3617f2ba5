"""The heaviest keys of an operator by side, also of keys that several tasks share.

The tasks that share a key have the rows of its dealt side between them, and each has all rows of the other side. So
the rows of a key are the sum over the tasks on the dealt side, and those of one task on the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from heapq import nlargest

from rechannel.control.library.heaviest import text_of
from rechannel.kernels.protocol.control import HeavyKey, OperatorHandler, TaskView
from rechannel.kernels.protocol.two_sides import LEFT, RIGHT

OF_A_TASK = 4
"""Heaviest keys that a task names."""
MOST_KEYS = 32
"""Heaviest keys of an operator that are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Rows of one side of a key."""

    sum: int = 0
    """Over all tasks."""
    most: int = 0
    """Of one task."""

    def __add__(self, other: Rows) -> Rows:
        """Of the tasks of both."""
        return Rows(sum=self.sum + other.sum, most=max(self.most, other.most))


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKey:
    """A key that received many rows in a timestep."""

    hash: int
    key: str
    """As text."""
    left: Rows
    """All of its rows, if the operator has one input."""
    right: Rows = Rows()

    @property
    def sides(self) -> tuple[Rows, Rows]:
        """Its rows by side."""
        return self.left, self.right

    @property
    def received(self) -> int:
        """Rows that arrived in all tasks."""
        return self.left.sum + self.right.sum

    def __add__(self, other: HotKey) -> HotKey:
        """The same key in the tasks of both."""
        return HotKey(
            hash=self.hash,
            key=max(self.key, other.key),
            left=self.left + other.left,
            right=self.right + other.right,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class HotKeys:
    """The heaviest keys of an operator in a timestep."""

    rows: int = 0
    """That arrived in its tasks, those that arrived in several of them included."""
    sided: bool = False
    """Whether it has two inputs."""
    keys: tuple[HotKey, ...] = ()
    """Those with most rows first."""


class AskHotKeys(OperatorHandler):
    """Replies with the heaviest keys of a task."""

    heaviest = OF_A_TASK
    reply_type = HotKeys

    def on_complete(self, task: TaskView) -> HotKeys:
        """Those of this task."""
        sided = any(key.rows_by_side is not None for key in task.heaviest)
        return HotKeys(rows=task.rows_in, sided=sided, keys=_merged(map(_hot, task.heaviest)))

    def merge(self, one: HotKeys, other: HotKeys) -> HotKeys:
        """Those of both."""
        return HotKeys(
            rows=one.rows + other.rows,
            sided=one.sided or other.sided,
            keys=_merged([*one.keys, *other.keys]),
        )


def _hot(key: HeavyKey) -> HotKey:
    left, right = (key.rows, 0) if key.rows_by_side is None else key.rows_by_side
    return HotKey(
        hash=key.hash,
        key=text_of(key.key),
        left=Rows(sum=left, most=left),
        right=Rows(sum=right, most=right),
    )


def _merged(keys: Iterable[HotKey]) -> tuple[HotKey, ...]:
    by_hash: dict[int, HotKey] = {}
    for key in keys:
        by_hash[key.hash] = by_hash[key.hash] + key if key.hash in by_hash else key
    return tuple(nlargest(MOST_KEYS, by_hash.values(), key=lambda k: (k.received, k.hash)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Heat:
    """How much load one key is."""

    hash: int
    key: str
    side: int | None
    """The side with most of its rows, or the one that is dealt out over several tasks; None = there is one input."""
    share: float
    """Of the operator's rows, each counted once."""


def heats(found: HotKeys, dealt: Mapping[int, int]) -> tuple[Heat, ...]:
    """Return what the heaviest keys are as parts of all rows, the heaviest first.

    dealt: by hash of a key that several tasks share, the side that is dealt out over them. The result does not depend
    on whether a key is shared, or by how many tasks.
    """
    copies = reduce(lambda sum_, key: sum_ + _copies(key, dealt), found.keys, 0)
    rows = found.rows - copies
    if rows <= 0:
        return ()
    out = [
        Heat(
            hash=key.hash,
            key=key.key,
            side=dealt.get(key.hash, _larger(key)) if found.sided else None,
            share=(key.received - _copies(key, dealt)) / rows,
        )
        for key in found.keys
    ]
    return tuple(sorted(out, key=lambda heat: (-heat.share, heat.hash)))


def _larger(key: HotKey) -> int:
    return LEFT if key.left.sum >= key.right.sum else RIGHT


def _copies(key: HotKey, dealt: Mapping[int, int]) -> int:
    """How many rows of a key are there once more, for another task."""
    side = dealt.get(key.hash)
    if side is None:
        return 0
    other = key.sides[1 - side]
    return other.sum - other.most
