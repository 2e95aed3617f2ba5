"""A stream that looks its rows up in a table, naively: see `twins`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tests.property.twin_tops import bytewise
from tests.property.twin_values import Row, plain
from tests.property.twins import Keyed


@dataclass(eq=False, kw_only=True)
class Lookup(Keyed):
    """Rows of the first input with the newest row of the second one. A key remembers that row.

    on: names on the left to names on the right. by: columns of the table.
    """

    how: str
    on: dict[str, str]
    by: tuple[str, ...] = ()

    def build(self, *inputs: Any) -> Any:
        return inputs[0].lookup(inputs[1], self.on, how=self.how, by=self.by, **self.options)

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        for row in inputs[1]:
            key, rest = self._parts(1, row)
            text = repr(list(map(plain, key)))
            _, kept = self.memory.get(text, (key, None))
            if None not in key and (kept is None or self._place(rest) >= self._place(kept)):
                self.memory[text] = (key, rest)
        emitted = []
        for row in inputs[0]:
            key, rest = self._parts(0, row)
            _, found = self.memory.get(repr(list(map(plain, key))), (key, None))
            if found is not None or self.how == "left":
                nothing = (None,) * len(self._others(1))
                emitted.append((key, (*key, *rest, *(nothing if found is None else found))))
        return self._in_order(emitted)

    def _names(self, side: int) -> list[str]:
        return list(self.on.values() if side else self.on)

    def _others(self, side: int) -> list[str]:
        return [name for name in self.inputs[side].columns if name not in self._names(side)]

    def _parts(self, side: int, row: Row) -> tuple[Row, Row]:
        """Key and other columns of a row."""
        up = self.inputs[side]
        key = tuple(row[up.place(name)] for name in self._names(side))
        return key, tuple(row[up.place(name)] for name in self._others(side))

    def _place(self, rest: Row) -> list[Any]:
        """Where a row is among those of its key: what is missing is older than all there is."""
        return [_age(rest[self._others(1).index(name)]) for name in self.by]

    def shown(self, kept: Any) -> Row:
        return tuple(kept)


def _age(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (0,)
    return (1,) if isinstance(value, float) and math.isnan(value) else (2, bytewise(value))
