"""Which keys a run cannot hold: a bitmap in the order of the hashes.

A segment with n rows gets about 16 n bits; the bit of a hash is found by subtracting the segment's lowest
hash and shifting.
Hashes are uniform, so about one bit in sixteen is set, and a key that the run does not hold passes with a
chance of about 6 %.
Because the map keeps the order of the hashes, sorted needles walk it from front to back: a few nanoseconds
each, where a binary
search of the run costs ten to a hundred times that.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from rechannel.model.hashspace import HashArray
from rechannel.state.segment import Segment

BITS_PER_ROW = 16
SEARCH_AT_ONCE = 4.0
"""A run with fewer rows than this many times the needles is searched at once: the search walks it anyway."""


@dataclass(frozen=True, eq=False)
class Sieve:
    """Bits of the hashes that a segment holds. base: lowest hash. shift: distance between bits, as a power of two."""

    base: np.uint64
    shift: np.uint64
    bits: npt.NDArray[np.uint8]

    @classmethod
    def of(cls, hashes: HashArray) -> Sieve:
        """Build from ascending hashes (at least one)."""
        width = int(hashes[-1]) - int(hashes[0])
        wanted = BITS_PER_ROW * len(hashes)
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


def sieve_of(segment: Segment) -> Sieve:
    """The segment's sieve, made once per process."""
    sieve = segment.memo.get("sieve")
    if not isinstance(sieve, Sieve):
        sieve = segment.memo["sieve"] = Sieve.of(segment.hashes)
    return sieve


def candidates(segment: Segment, hashes: HashArray) -> npt.NDArray[np.bool_] | None:
    """Which needles are worth a search; None = all."""
    if segment.rows < SEARCH_AT_ONCE * len(hashes):
        return None
    return sieve_of(segment).may_hold(hashes)
