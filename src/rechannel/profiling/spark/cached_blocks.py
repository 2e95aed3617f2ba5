"""Which partitions of datasets are in storage, if the log has updates of blocks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from sys import intern

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
    _where: dict[int, dict[int, tuple[str, ...]]] = field(default_factory=dict)
    """By dataset and partition, the executors that store it."""
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
        where = self._where.setdefault(rdd, {})
        before, executor = len(where), intern(info.manager.executor)
        others = _without(where.pop(partition, ()), executor)
        kept = (*others, executor) if info.level.disk or info.level.memory else others
        if kept:
            where[partition] = kept
        self._count += len(where) - before
        if self._count > MOST:
            self._where, self._full, self.known = {}, True, False

    def unpersisted(self, rdd: int) -> None:
        """Forget a dataset."""
        self._count -= len(self._where.pop(rdd, ()))

    def removed(self, executor: str) -> None:
        """Forget what an executor stored."""
        for rdd, where in self._where.items():
            left = {partition: _without(names, executor) for partition, names in where.items()}
            self._where[rdd] = {partition: names for partition, names in left.items() if names}
            self._count -= len(where) - len(self._where[rdd])

    def stored(self, rdds: list[Rdd]) -> tuple[Stored, ...]:
        """Return those of some datasets that are to be kept in storage."""
        return tuple(
            Stored(
                rdd=rdd.number,
                name=rdd.name,
                partitions=rdd.partitions,
                cached=len(self._where.get(rdd.number, ())) if self.known else None,
            )
            for rdd in rdds
            if rdd.level.disk or rdd.level.memory
        )


def _without(names: tuple[str, ...], name: str) -> tuple[str, ...]:
    return tuple(each for each in names if each != name)
