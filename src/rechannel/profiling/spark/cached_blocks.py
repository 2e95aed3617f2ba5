"""Which partitions of datasets are in storage, if the log has updates of blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from rechannel.profiling.spark.application import Stored
from rechannel.profiling.spark.events import BlockInfo, Rdd

MOST = 1 << 20
"""Partitions that are remembered; if there are more, nothing is known of any."""
_BLOCK = re.compile(r"rdd_([0-9]{1,9})_([0-9]{1,9})")


@dataclass(slots=True)
class CachedBlocks:
    """What is in storage so far."""

    known: bool = False
    """Whether the log has updates of blocks."""
    _stored: dict[int, dict[int, int]] = field(default_factory=dict)
    """By dataset and partition, how many executors store it."""
    _by: dict[str, dict[int, set[int]]] = field(default_factory=dict)
    """Partitions by executor and dataset."""
    _count: int = 0
    _full: bool = False
    """Whether there were too many."""

    def updated(self, info: BlockInfo) -> None:
        """Take up an update."""
        self.known = not self._full
        found = _BLOCK.fullmatch(info.name)
        if found is None or not self.known:
            return
        rdd, partition = int(found[1]), int(found[2])
        mine = self._by.setdefault(info.manager.executor, {}).setdefault(rdd, set())
        kept = info.level.disk or info.level.memory
        if kept and partition not in mine:
            mine.add(partition)
            self._add(rdd, partition, 1)
        elif not kept and partition in mine:
            mine.remove(partition)
            self._add(rdd, partition, -1)

    def unpersisted(self, rdd: int) -> None:
        """Forget a dataset."""
        self._count -= len(self._stored.pop(rdd, ()))
        for mine in self._by.values():
            mine.pop(rdd, None)

    def removed(self, executor: str) -> None:
        """Forget what an executor stored."""
        for rdd, partitions in self._by.pop(executor, {}).items():
            for partition in partitions:
                self._add(rdd, partition, -1)

    def stored(self, rdds: list[Rdd]) -> tuple[Stored, ...]:
        """Return those of some datasets that are to be kept in storage."""
        return tuple(
            Stored(
                rdd=rdd.number,
                name=rdd.name,
                partitions=rdd.partitions,
                cached=len(self._stored.get(rdd.number, ())) if self.known else None,
            )
            for rdd in rdds
            if rdd.level.disk or rdd.level.memory
        )

    def _add(self, rdd: int, partition: int, executors: int) -> None:
        """Note that more or fewer executors store a partition."""
        where = self._stored.setdefault(rdd, {})
        before = len(where)
        left = where.pop(partition, 0) + executors
        if left:
            where[partition] = left
        self._count += len(where) - before
        if self._count > MOST:
            self._stored, self._by, self._full, self.known = {}, {}, True, False
