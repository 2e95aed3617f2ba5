"""Keys of two longs that all have one hash. XXH64 over eight bytes is a chain of steps that can all be undone."""

from __future__ import annotations

from rechannel.model.xxh64 import SEED

WORD = (1 << 64) - 1
P1, P2, P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
P4, P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def colliding(count: int, target: int = 0x0123_4567_89AB_CDEF) -> tuple[list[int], list[int]]:
    """Columns a and b of as many distinct keys whose hash is the target."""
    first = list(range(count))
    return first, [_signed(_undone(_undone(target, _hashed(a, SEED)), SEED)) for a in first]


def _hashed(word: int, seed: int) -> int:
    lane = _turned(word * P2 & WORD, 31) * P1 & WORD
    mixed = (_turned((seed + P5 + 8 & WORD) ^ lane, 27) * P1 + P4) & WORD
    mixed = (mixed ^ mixed >> 33) * P2 & WORD
    mixed = (mixed ^ mixed >> 29) * P3 & WORD
    return mixed ^ mixed >> 32


def _undone(hashed: int, seed: int) -> int:
    """The word whose hash under this seed is the one given."""
    mixed = _unshifted(hashed, 32) * pow(P3, -1, 1 << 64) & WORD
    mixed = _unshifted(mixed, 29) * pow(P2, -1, 1 << 64) & WORD
    mixed = (_unshifted(mixed, 33) - P4) * pow(P1, -1, 1 << 64) & WORD
    lane = (_turned(mixed, 37) ^ (seed + P5 + 8)) & WORD
    return _turned(lane * pow(P1, -1, 1 << 64) & WORD, 33) * pow(P2, -1, 1 << 64) & WORD


def _turned(word: int, by: int) -> int:
    return (word << by | word >> 64 - by) & WORD


def _unshifted(word: int, by: int) -> int:
    """The x of which word is x ^ (x >> by)."""
    out = word
    for _ in range(64 // by + 1):
        out = word ^ out >> by
    return out


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word
