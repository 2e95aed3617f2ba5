"""Which keys a run cannot hold: a bitmap in the order of the hashes.

A segment with n rows gets about 16 n bits; the bit of a hash is found by subtracting the segment's lowest
hash and shifting.
Hashes are uniform, so about one bit in sixteen is set, and a key that the run does not hold passes with a
chance of about 6 %.
Of a segment of which only some bytes are here, the map is made of the hashes that the task owns; its bits are as wide
as they would be for the whole segment.
Because the map keeps the order of the hashes, sorted needles walk it from front to back: a few nanoseconds
each, where a binary
search of the run costs ten to a hundred times that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.model.hashspace import HashArray, Intervals
from rechannel.state.segments.segment import Segment

BITS_PER_ROW = 16
SEARCH_AT_ONCE = 4.0
"""A run with fewer rows than this many times the needles is searched at once: the search walks it anyway."""

_PARTIAL_KEPT = 8


@dataclass(frozen=True, eq=False)
class HashFilter:
    """Bits of the hashes that a segment holds. base: lowest hash. shift: distance between bits, as a power of two."""

    base: np.uint64
    shift: np.uint64
    bits: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, hashes: HashArray, share: float = 1.0) -> HashFilter:
        """Build from ascending hashes (at least one).

        share: of the hash space between the first and the last, how much the hashes were taken from.
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

    def may_hold(self, hashes: HashArray) -> npt.NDArray[np.bool_]:
        """Whether each hash may be in the segment; never false for one that is. Shape (rows,) -> (rows,)."""
        places = (hashes - self.base) >> self.shift
        inside = (hashes >= self.base) & (places >> np.uint64(3) < np.uint64(len(self.bits)))
        places = np.where(inside, places, np.uint64(0))
        bytes_at = self.bits[places >> np.uint64(3)]
        bit = (bytes_at >> (places & np.uint64(7)).astype(np.uint8)) & np.uint8(1)
        passed: npt.NDArray[np.bool_] = inside & bit.astype(np.bool_)
        return passed


def hash_filter_of(segment: Segment) -> HashFilter:
    """The segment's sieve, made once per process."""
    sieve = segment.memo.get("sieve")
    if not isinstance(sieve, HashFilter):
        sieve = segment.memo["sieve"] = HashFilter.of(segment.hashes)
    return sieve


def partial_hash_filter(segment: Segment, clip: Intervals) -> HashFilter | None:
    """The sieve of the clip of a partial segment, made once per process and clip; None = no rows."""
    memo: dict[Intervals, HashFilter | None] = segment.memo.setdefault("partial sieves", {})
    if clip not in memo:
        if len(memo) >= _PARTIAL_KEPT:
            memo.clear()
        pieces = [segment.hashes[piece] for piece in segment.slices(clip)]
        memo[clip] = HashFilter.of(np.concatenate(pieces), _share(clip)) if pieces else None
    return memo[clip]


def candidates(
    segment: Segment, hashes: HashArray, clip: Intervals
) -> npt.NDArray[np.bool_] | None:
    """Which needles are worth a search; None = all. clip: in which all of them are."""
    if segment.rows < SEARCH_AT_ONCE * len(hashes):
        return None
    if not segment.partial:
        return hash_filter_of(segment).may_hold(hashes)
    sieve = partial_hash_filter(segment, clip)
    return np.zeros(len(hashes), dtype=np.bool_) if sieve is None else sieve.may_hold(hashes)


def _share(clip: Intervals) -> float:
    return clip.width / (clip.spans[-1][1] - clip.spans[0][0])
