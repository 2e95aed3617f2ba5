"""How many bytes of state lie at the hashes that arrived, for operators whose keys have several state rows.

Few rows may meet much state. It is counted without being read: runs are sorted by hash, so two searches tell how many
rows each hash has there. That costs what looking the keys up costs, so it is for tasks that may have too much in hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.kernels.columnar.columns import Columns
from rechannel.kernels.columnar.groups import Groups
from rechannel.kernels.lsm.collect import spans
from rechannel.kernels.lsm.lookup import OpenRun
from rechannel.kernels.protocol.logic import LookupRange, StatefulLogic
from rechannel.model.hashspace import HashArray

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Met:
    """Hashes that arrived, ascending and distinct. asked: which state rows of each are looked at; None = all."""

    hashes: HashArray
    asked: LookupRange | None

    @classmethod
    def of(cls, logic: StatefulLogic, hashes: HashArray, values: Columns) -> Met:
        """Of rows sorted by hash."""
        starts = _heads(hashes)
        asked = logic.asks(values, Groups(starts, len(hashes)))
        return cls(hashes=hashes[starts], asked=asked)

    @classmethod
    def joined(cls, some: Sequence[Met]) -> Met:
        """Of several, of which a hash may be in more than one."""
        hashes = np.concatenate([each.hashes for each in some])
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        starts = _heads(hashes)
        both = [each.asked for each in some if each.asked is not None]
        asked = None
        if both:
            first, last = (np.concatenate(border)[order] for border in zip(*both, strict=True))
            asked = np.minimum.reduceat(first, starts), np.maximum.reduceat(last, starts)
        return cls(hashes=hashes[starts], asked=asked)


@dataclass(frozen=True, eq=False, kw_only=True)
class Footprint:
    """Bytes of state at hashes."""

    hashes: HashArray
    size: FloatArray

    @classmethod
    def at(cls, logic: StatefulLogic, runs: Sequence[OpenRun], met: Met) -> Footprint:
        """Those that are looked at when rows arrive at some hashes."""
        size = np.zeros(len(met.hashes))
        for run in runs:
            needles, first, last = spans(logic, run, met.hashes, met.asked)
            if len(needles):
                size[needles] += (last - first) * (run.segment.size / run.segment.rows)
        return cls(hashes=met.hashes, size=size)

    @property
    def total(self) -> float:
        """At all hashes."""
        return float(self.size.sum())

    def steps(self, grain: float) -> tuple[HashArray, FloatArray]:
        """Hashes, each with the bytes from there to the next: about so many, or those of one hash."""
        if not self.total:
            return self.hashes[:0], self.size[:0]
        starts = _heads((np.cumsum(self.size) // grain).astype(np.uint64))
        return self.hashes[starts], np.add.reduceat(self.size, starts)


def _heads(values: npt.NDArray[np.uint64]) -> npt.NDArray[np.int64]:
    """Where other values begin."""
    return np.flatnonzero(np.diff(values, prepend=~values[:1]))
