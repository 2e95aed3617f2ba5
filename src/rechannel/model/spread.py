"""A spread bin: several tasks share the rows of its keys.

Rows of one side, the *divided* one, are dealt out over the tasks; rows of the other side go to all of
them. The state of the bin stays one set of rows, which all of its tasks read. Of the stored rows of
the divided side, a task considers its share; of the other side, all. So a pair of rows meets in
exactly one task:

    divided row new, other row stored    in the task that received the divided row
    both new                             in the same task: the other row is everywhere
    divided row stored, other row new    in the task in whose share the divided row is

A task stores the rows of the divided side that it received. The first task, the owner of the bin,
also stores the rows of the other side, and merges the runs. Which task wrote a row plays no part
when it is read, so spreading a bin, gathering it, or spreading it over other tasks moves no state.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import numpy as np
import numpy.typing as npt

from rechannel.model.buffers import IntArray, Mask
from rechannel.model.codec import ABSENT, written

_MIX = np.uint64(0x9E3779B97F4A7C15)
"""2^64 / golden ratio: multiples of it are spread evenly (Knuth, TAOCP 3, 6.4)."""

AS_TEXT = written(encode=str, decode=int)
"""Hashes are written as text: many readers of JSON round integers above 2^53."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A task's part in a spread bin."""

    side: int
    """The divided side."""
    place: int
    """The task's place among those that share the bin; 0 = it owns the bin."""
    of: int
    """How many tasks share the bin."""

    @property
    def primary(self) -> bool:
        """Whether the task owns the bin: it stores what goes to all."""
        return self.place == 0

    def considers(self, numbers: IntArray) -> Mask:
        """Return which stored rows of the divided side are the task's. numbers: their row order keys."""
        mixed = (numbers.astype(np.uint64) * _MIX) >> np.uint64(32)
        mine: Mask = mixed % np.uint64(self.of) == np.uint64(self.place)
        return mine


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadBin:
    """A bin that several tasks share."""

    lo: Annotated[int, AS_TEXT]
    """First hash of the bin."""
    hi: Annotated[int, AS_TEXT]
    """First hash after the bin."""
    tasks: tuple[int, ...]
    """The tasks that share it; the first one owns the bin."""
    side: int
    """The side whose rows are dealt out: 0 = left, 1 = right."""
    cut: Annotated[tuple[str, ...], ABSENT] = ()
    """Hashes, as text, at which bins were cut for it; gathered, the bins are joined there."""

    def __post_init__(self) -> None:
        """Check the tasks. Raises ValueError."""
        if len(self.tasks) < 2 or len(set(self.tasks)) < len(self.tasks):
            msg = f"a bin is spread over two or more different tasks, not {list(self.tasks)}"
            raise ValueError(msg)
        if self.side not in {0, 1} or not 0 <= self.lo < self.hi:
            msg = f"not a spread bin: hashes {self.lo} to {self.hi}, side {self.side}"
            raise ValueError(msg)

    @property
    def cuts(self) -> frozenset[int]:
        """Hashes at which bins were cut for it."""
        return frozenset(map(int, self.cut))

    def share_of(self, task: int) -> Share | None:
        """Return a task's part in the bin; None if it has none."""
        if task not in self.tasks:
            return None
        return Share(side=self.side, place=self.tasks.index(task), of=len(self.tasks))

    def places(self, hashes: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
        """Return which of the tasks, by place, gets each row, given hashes of the rows themselves."""
        places: npt.NDArray[np.uint64] = (hashes >> np.uint64(32)) % np.uint64(len(self.tasks))
        return places

    def deal(self, rows: int, turn: int) -> Iterator[tuple[int, int, int]]:
        """Yield (task, start, stop): deal rows out in even slices by their places; none of the slices is empty.

        turn: how many rows were dealt out before; so a rest of rows goes to each task in turn.
        """
        count = len(self.tasks)
        least, more = divmod(rows, count)
        start = 0
        for number in range(count):
            stop = start + least + (number < more)
            if stop > start:
                yield self.tasks[(number + turn) % count], start, stop
            start = stop
