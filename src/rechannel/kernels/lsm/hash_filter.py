"""Hash filters: bitmaps that say which keys a run cannot hold.

A segment with n rows gets about 16 n bits; subtracting the segment's lowest hash and shifting gives the bit of a hash.
Hashes are uniform, so about one bit in sixteen is set, and a key that the run does not hold passes with a probability
of about 6 %. For a segment of which only some bytes are on this host, the filter covers the hashes that the task owns,
with bits as wide as for the whole segment. The bitmap keeps the order of the hashes, so sorted needles walk through it
from start to end in a few nanoseconds each; a binary search of the run costs ten to a hundred times as much.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.model.buffers import Mask
from rechannel.model.hashspace import HashArray, Intervals
from rechannel.state.segments.segment import Segment

BITS_PER_ROW = 16
SEARCH_AT_ONCE = 4.0
"""A run with fewer rows than this many times the needles is searched without a filter."""

_PARTIAL_KEPT = 8


@dataclass(frozen=True, eq=False)
class HashFilter:
    """Bits of the hashes that a segment holds."""

    base: np.uint64
    """Lowest hash."""
    shift: np.uint64
    """Hashes per bit, as a power of two."""
    bits: npt.NDArray[np.uint8]
    """The bitmap, lowest bit first."""

    @classmethod
    def of(cls, hashes: HashArray, share: float = 1.0) -> HashFilter:
        """Build a filter from ascending hashes (at least one).

        share: fraction of the hash space from the first to the last hash that the hashes were taken from.
        """
        width = int(hashes[-1]) - int(hashes[0])
        wanted = int(BITS_PER_ROW * len(hashes) / share)
        shift = max(0, (width // wanted).bit_length())
        places = (hashes - hashes[0]) >> np.uint64(shift)
        bytes_at = places >> np.uint64(3)
        first = np.flatnonzero(np.append(True, bytes_at[1:] != bytes_at[:-1]))
        values = (np.uint8(1) << (places & np.uint64(7)).astype(np.uint8)).astype(np.uint8)
        bits = np.zeros((width >> shift >> 3) + 1, dtype=np.uint8)
        bits[bytes_at[first]] = np.bitwise_or.reduceat(values, first)
        return cls(hashes[0], np.uint64(shift), bits)

    def may_hold(self, hashes: HashArray) -> Mask:
        """Return whether each hash may be in the segment, never False for one that is. Shape (rows,) -> (rows,)."""
        places = (hashes - self.base) >> self.shift
        inside = (hashes >= self.base) & (places >> np.uint64(3) < np.uint64(len(self.bits)))
        places = np.where(inside, places, np.uint64(0))
        bytes_at = self.bits[places >> np.uint64(3)]
        bit = (bytes_at >> (places & np.uint64(7)).astype(np.uint8)) & np.uint8(1)
        passed: Mask = inside & bit.astype(np.bool_)
        return passed


def hash_filter_of(segment: Segment) -> HashFilter:
    """Return the filter of a segment, built once per process."""
    known = segment.memo.get("hash filter")
    if not isinstance(known, HashFilter):
        known = segment.memo["hash filter"] = HashFilter.of(segment.hashes)
    return known


def partial_hash_filter(segment: Segment, clip: Intervals) -> HashFilter | None:
    """Return the filter of a partial segment's clip, built once per process and clip; None if it has no rows."""
    memo: dict[Intervals, HashFilter | None] = segment.memo.setdefault("partial filters", {})
    if clip not in memo:
        if len(memo) >= _PARTIAL_KEPT:
            memo.clear()
        pieces = [segment.hashes[piece] for piece in segment.slices(clip)]
        memo[clip] = HashFilter.of(np.concatenate(pieces), _share(clip)) if pieces else None
    return memo[clip]


def candidates(segment: Segment, hashes: HashArray, clip: Intervals) -> Mask | None:
    """Return which needles are worth a search; None means all. clip: intervals that contain all needles."""
    if segment.rows < SEARCH_AT_ONCE * len(hashes):
        return None
    if not segment.partial:
        return hash_filter_of(segment).may_hold(hashes)
    known = partial_hash_filter(segment, clip)
    return np.zeros(len(hashes), dtype=np.bool_) if known is None else known.may_hold(hashes)


def _share(clip: Intervals) -> float:
    return clip.width / (clip.spans[-1][1] - clip.spans[0][0])
