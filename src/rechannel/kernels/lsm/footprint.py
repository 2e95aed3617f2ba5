"""Estimate the bytes of state that a lookup will read, for operators whose keys have several state rows.

A few input rows may match a lot of state. It is counted without being read: runs are sorted by hash, so two searches
give the number of rows per hash. This costs as much as looking the keys up, so only tasks that may exceed their memory
do it.
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
from rechannel.kernels.protocol.capabilities import LookupRange
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.buffers import IntArray
from rechannel.model.hashspace import HashArray

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Met:
    """Hashes that arrived."""

    hashes: HashArray
    """Ascending and distinct."""
    asked: LookupRange | None
    """Which state rows of each hash are looked up; None means all."""

    @classmethod
    def of(cls, can: Capabilities, hashes: HashArray, values: Columns) -> Met:
        """Return those of rows that are sorted by hash."""
        starts = _heads(hashes)
        asked = can.lookup_range(values, Groups(starts, len(hashes)))
        return cls(hashes=hashes[starts], asked=asked)

    @classmethod
    def joined(cls, some: Sequence[Met]) -> Met:
        """Return the union of several; a hash may be in more than one of them."""
        hashes = np.concatenate([each.hashes for each in some])
        order = np.argsort(hashes, kind="stable")
        hashes = hashes[order]
        starts = _heads(hashes)
        both = [each.asked for each in some if each.asked is not None]
        asked = None
        if both:
            first, last = (np.concatenate(ends)[order] for ends in zip(*both, strict=True))
            asked = np.minimum.reduceat(first, starts), np.maximum.reduceat(last, starts)
        return cls(hashes=hashes[starts], asked=asked)


@dataclass(frozen=True, eq=False, kw_only=True)
class Footprint:
    """Bytes of state by hash."""

    hashes: HashArray
    """Ascending and distinct."""
    size: FloatArray
    """Estimated bytes of state at each hash."""

    @classmethod
    def at(cls, can: Capabilities, runs: Sequence[OpenRun], met: Met) -> Footprint:
        """Return the state that is looked up for the hashes that arrived."""
        size = np.zeros(len(met.hashes))
        for run in runs:
            needles, first, last = spans(can, run, met.hashes, met.asked)
            if len(needles):
                size[needles] += (last - first) * (run.segment.size / run.segment.rows)
        return cls(hashes=met.hashes, size=size)

    @property
    def total(self) -> float:
        """Bytes at all hashes."""
        return float(self.size.sum())

    def steps(self, grain: float) -> tuple[HashArray, FloatArray]:
        """Cut the hashes into steps of about `grain` bytes, or of one hash with more.

        Returns the first hash of each step and its bytes.
        """
        if not self.total:
            return self.hashes[:0], self.size[:0]
        starts = _heads((np.cumsum(self.size) // grain).astype(np.uint64))
        return self.hashes[starts], np.add.reduceat(self.size, starts)


def _heads(values: HashArray) -> IntArray:
    """Return the positions at which a new value begins."""
    return np.flatnonzero(np.diff(values, prepend=~values[:1]))
