"""How fast state is fetched ahead of a border, and when that is enough. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

FIRST_PIECE = 1 << 20
"""Bytes of the first piece; later ones follow the measured rate."""

PASSES = 5
"""How often all that moves is looked at, at most."""

LITTLE = 0.1
"""A pass that fetches at most this share of what the first one did is the last."""

SHRINKS = 0.7
"""So is one that fetches more than this share of what the one before it did: timesteps write as fast as it fetches."""


@dataclass(kw_only=True)
class Pace:
    """How much is fetched at a time, and what was fetched so far. limit: ms that a piece should occupy a core."""

    limit: float
    piece: float = float(FIRST_PIECE)
    fetched: int = 0
    present: int = 0
    pieces: int = 0

    def took(self, done: Sequence[Mapping[str, Any]]) -> float:
        """Count one piece, by what each executor says of it; how long it occupied the slowest one, ms."""
        self.fetched += sum(one["bytes_fetched"] for one in done)
        self.present += sum(one["bytes_present"] for one in done)
        self.pieces += 1
        covered = max((one["bytes_fetched"] + one["bytes_present"] for one in done), default=0)
        slowest = max((one["ms"] for one in done), default=0.0)
        if covered and slowest:
            self.piece = max(4096.0, min(2 * self.piece, covered / slowest * self.limit))
        return float(slowest)

    def to_json(self) -> dict[str, int]:
        """Facts for the history."""
        return {
            "bytes_fetched": self.fetched,
            "bytes_present": self.present,
            "pieces": self.pieces,
        }


def worth_another(passes: Sequence[int]) -> bool:
    """Whether to look again at all that moves. passes: bytes that each pass so far has fetched."""
    if not passes:
        return True
    if len(passes) >= PASSES or passes[-1] <= LITTLE * passes[0]:
        return False
    return len(passes) < 2 or passes[-1] <= SHRINKS * passes[-2]
