"""An immutable mapping from timesteps, of which a changed copy is cheap, whatever its size.

The journal's state is a value, and every entry makes a new one. A sink in quarantine may owe a
hundred thousand timesteps by then, so entries are kept in pieces by their number: a copy shares
all pieces but one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar

V = TypeVar("V")

PIECE = 256
"""Numbers per piece: a change copies one piece, and one reference per piece."""


class ByTimestep(Mapping[int, V]):
    """Values by timestep, ascending."""

    __slots__ = ("_pieces", "_size")

    def __init__(self, given: Mapping[int, V] | None = None) -> None:
        """Take entries in any order."""
        pieces: dict[int, dict[int, V]] = {}
        for timestep in sorted(given or ()):
            pieces.setdefault(timestep // PIECE, {})[timestep] = given[timestep]  # type: ignore[index]
        self._pieces = pieces
        self._size = sum(map(len, pieces.values()))

    @classmethod
    def of(cls, given: Mapping[int, V]) -> ByTimestep[V]:
        """Convert a mapping; a `ByTimestep` is returned as the same object."""
        return given if isinstance(given, cls) else cls(given)

    def __getitem__(self, timestep: int) -> V:
        """Return the value of a timestep. Raises KeyError."""
        return self._pieces[timestep // PIECE][timestep]

    def __iter__(self) -> Iterator[int]:
        """Iterate over the timesteps, ascending."""
        for number in sorted(self._pieces):
            yield from sorted(self._pieces[number])

    def __len__(self) -> int:
        """Return the number of timesteps."""
        return self._size

    def __repr__(self) -> str:
        """Show the entries as a dict does."""
        return f"{type(self).__name__}({dict(self)})"

    def put(self, timestep: int, value: V) -> ByTimestep[V]:
        """Return a copy in which a timestep has a new value."""
        piece = {**self._pieces.get(timestep // PIECE, {}), timestep: value}
        return self._with(timestep // PIECE, piece)

    def without(self, timestep: int) -> ByTimestep[V]:
        """Return a copy without a timestep; the mapping itself if the timestep is not in it."""
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
