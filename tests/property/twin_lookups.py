"""A stream that looks its rows up in a table, naively: see `twins`."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rechannel.model.ddl import schema_of
from tests.property.twin_tops import bytewise
from tests.property.twin_values import Row, mix, plain
from tests.property.twins import Keyed, Step


@dataclass(eq=False, kw_only=True)
class Given(Step):
    """A finished table, which is another one at every time. refresh: ms; None = it is read once.

    clock: the time at which it is read, once there is one.
    """

    span: int
    refresh: int | None
    clock: Callable[[], float] = lambda: 0
    read_ms: int | None = None

    def reset(self) -> None:
        self.read_ms = None

    def build(self, *inputs: Any) -> Any:
        return lambda: pa.Table.from_pylist(
            [dict(zip(self.columns, row, strict=True)) for row in self.rows(int(self.clock()))],
            schema_of(self.ddl),
        )

    def rows(self, stream_ms: int) -> list[Row]:
        """Some keys, of which some rows stay as they are for a while."""
        known = [k for k in range(self.span) if mix((k, stream_ms)) % 3]
        often = [(k, mix((k, stream_ms // 50)) % 4, k % 2 == 0 or None) for k in known]
        return [(None, 0, True), (-1, stream_ms, None), *often]

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        """The whole of it, as it was read last."""
        due = self.refresh is not None and stream_ms - (self.read_ms or 0) >= self.refresh
        if self.read_ms is None or due:
            self.read_ms = stream_ms
        return self.rows(self.read_ms)


@dataclass(eq=False, kw_only=True)
class Lookup(Keyed):
    """Rows of the first input with the newest row of the second one. A key remembers that row.

    on: names on the left to names on the right. by: columns of the table.
    """

    how: str
    on: dict[str, str]
    by: tuple[str, ...] = ()

    def build(self, *inputs: Any) -> Any:
        table, options = self.inputs[1], self.options
        if isinstance(table, Given) and table.refresh is not None:
            options["refresh"] = table.refresh
        return inputs[0].lookup(inputs[1], self.on, how=self.how, by=self.by, **options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        if isinstance(self.inputs[1], Given):
            self.memory = {}
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
