"""A mapping from timesteps that never changes, and of which a changed copy is cheap however much is in it.

The journal's state is a value, and there is another one with every entry. A sink in quarantine may owe a hundred
thousand timesteps by then. So entries lie in pieces by their number: a copy shares all pieces but one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

V = TypeVar("V")

PIECE = 256
"""Numbers in a piece: what a change copies is so many entries, and one reference for each piece."""


class ByTimestep(Mapping[int, V]):
    """Values by the number of a timestep, ascending."""

    __slots__ = ("_pieces", "_size")

    def __init__(self, given: Mapping[int, V] | None = None) -> None:
        """Take what is given, in any order."""
        pieces: dict[int, dict[int, V]] = {}
        for timestep in sorted(given or ()):
            pieces.setdefault(timestep // PIECE, {})[timestep] = given[timestep]  # type: ignore[index]
        self._pieces = pieces
        self._size = sum(map(len, pieces.values()))

    @classmethod
    def of(cls, given: Mapping[int, V]) -> ByTimestep[V]:
        """The same, without a copy where it is one already."""
        return given if isinstance(given, cls) else cls(given)

    def __getitem__(self, timestep: int) -> V:
        """The value of a timestep. Raises KeyError."""
        return self._pieces[timestep // PIECE][timestep]

    def __iter__(self) -> Iterator[int]:
        """Numbers, ascending."""
        for number in sorted(self._pieces):
            yield from sorted(self._pieces[number])

    def __len__(self) -> int:
        """How many there are."""
        return self._size

    def __repr__(self) -> str:
        """As a dict shows it."""
        return f"{type(self).__name__}({dict(self)})"

    def put(self, timestep: int, value: V) -> ByTimestep[V]:
        """A copy with a value in it, in place of the one that was there."""
        piece = {**self._pieces.get(timestep // PIECE, {}), timestep: value}
        return self._with(timestep // PIECE, piece)

    def without(self, timestep: int) -> ByTimestep[V]:
        """A copy without a timestep; the same where it is not there."""
        piece = self._pieces.get(timestep // PIECE, {})
        if timestep not in piece:
            return self
        return self._with(timestep // PIECE, {t: v for t, v in piece.items() if t != timestep})

    def _with(self, number: int, piece: dict[int, V]) -> ByTimestep[V]:
        made: ByTimestep[V] = ByTimestep()
        made._size = self._size - len(self._pieces.get(number, {})) + len(piece)
        made._pieces = {**self._pieces, number: piece}
        if not piece:
            del made._pieces[number]
        return made
