"""Functions of all rows of a key, of one stream in windows or of two, naively: see `twins`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from tests.property.twin_joins import Join, Kept
from tests.property.twin_values import Row, plain
from tests.property.twin_windows import TIME, instant, ms_of, starts_of, windows_of
from tests.property.twins import Keyed, Step, tie


def first_long(step: Step, names: list[str]) -> str | None:
    """A column whose values are shown."""
    return next((name for name in names if step.columns[name] == "long"), None)


def some_of(frame: Any, side: int, others: Any, value: str | None) -> dict[str, Any]:
    """Two of three rows of every key: its number, side, place, how many the other side has, a value."""
    nth = np.arange(len(frame.ids)) - frame.starts[frame.ids]
    rows = np.flatnonzero(nth % 3 != 1)
    ids = frame.ids[rows]
    nothing = pa.nulls(len(rows), pa.int64())
    return {
        "key": ids,
        "side": np.full(len(rows), side),
        "nth": nth[rows],
        "others": others[ids],
        "value": nothing if value is None else frame.rows.column(value).take(pa.array(rows)),
    }


def naive_some(rows: list[Any], side: int, others: int) -> list[Row]:
    """The same of one key. rows: values."""
    return [(side, i, others, value) for i, value in enumerate(rows) if i % 3 != 1]


@dataclass(eq=False, kw_only=True)
class Cogroup(Join):
    """What a function makes of the rows of a key, of two inputs. fields: names of what it answers."""

    fields: tuple[str, ...]

    def value(self, side: int) -> str | None:
        return first_long(self.inputs[side], self.others(side))

    def build(self, *inputs: Any) -> Any:
        within = None if self.size is None else windows_of(self.size, self.every)
        left, right = inputs if within is None else self.timed(inputs)
        made = ", ".join(f"{name} long" for name in self.fields)
        grouped = left.cogroup(right, self.on, within=within)
        return grouped.apply_batches(self.made_of, made, **self.options)

    def made_of(self, left: Any, right: Any) -> Mapping[str, Any]:
        one = some_of(left, 0, right.sizes, self.value(0))
        two = some_of(right, 1, left.sizes, self.value(1))
        named = zip(("side", "nth", "others", "value"), self.fields, strict=True)
        both = {
            name: pa.concat_arrays([pa.array(p[of], pa.int64()) for p in (one, two)])
            for of, name in named
        }
        return {"_key": np.concatenate([one["key"], two["key"]]), **both}

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        before = self.watermark
        came, late = self._came(timestep, inputs, before)
        self._advance()
        self.late = self._in_order(late)
        both = sorted([*self.kept, *came], key=lambda one: one.number)
        over = [e for e in both if self.size is None or self._over(e, self.watermark)]
        self.kept = [e for e in both if e not in over]
        groups: dict[str, list[Kept]] = {}
        for one in over:
            groups.setdefault(one.text, []).append(one)
        keys, places, rows = [], [], []
        for mine in groups.values():
            for place, made in enumerate(self._answered(mine)):
                keys.append(mine[0].key)
                places.append((tie(mine[0].key), place))
                rows.append(made)
        return self._placed(keys, places, rows)

    def _answered(self, mine: list[Kept]) -> list[Row]:
        key = mine[0].key
        ends = () if self.size is None else (instant(ms_of(key[-1]) + self.size),)
        sides = [[one for one in mine if one.side == side] for side in (0, 1)]
        out = []
        for side in (0, 1):
            name = self.value(side)
            place = None if name is None else self.others(side).index(name)
            values = [None if place is None else one.rest[place] for one in sides[side]]
            out += naive_some(values, side, len(sides[1 - side]))
        return [(*key, *ends, *row) for row in out]


@dataclass(eq=False, kw_only=True)
class Apply(Keyed):
    """What a function makes of the rows of a key in windows of `size` ms. delay: of event time, ms."""

    user_keys: tuple[str, ...]
    fields: tuple[str, ...]
    size: int
    delay: int
    every: int | None = None
    watermark: int | None = None
    late: list[Row] = field(default_factory=list)

    def reset(self) -> None:
        super().reset()
        self.watermark, self.late = None, []

    @property
    def value(self) -> str | None:
        up = self.inputs[0]
        return first_long(up, [name for name in up.columns if name not in self.user_keys])

    def build(self, *inputs: Any) -> Any:
        timed = inputs[0].event_time(TIME, self.delay, name=f"{self.name}-time")
        windows = timed.key_by(*self.user_keys).window(windows_of(self.size, self.every))
        made = ", ".join(f"{name} long" for name in self.fields)
        return windows.apply_batches(self.made_of, made, **self.options)

    def made_of(self, frame: Any) -> Mapping[str, Any]:
        made = some_of(frame, 7, frame.sizes, self.value)
        named = zip(("side", "nth", "others", "value"), self.fields, strict=True)
        return {"_key": made["key"], **{name: made[of] for of, name in named}}

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        late = []
        at = up.place(TIME)
        for row, ms in [
            (one, s) for one in inputs[0] for s in starts_of(one[at], self.size, self.every)
        ]:
            start = None if ms is None else instant(ms)
            key = (*(row[up.place(name)] for name in self.user_keys), start)
            if start is None or self._over(key, before):
                late.append((key, row if self.every is None else (*row, start)))
                continue
            text = repr(list(map(plain, key)))
            self.memory.setdefault(text, (key, []))[1].append(row)
        self.late = self._in_order(late)
        seen = [ms_of(t) - self.delay for row in inputs[0] if (t := row[up.place(TIME)])]
        self.watermark = max([*seen, *([] if before is None else [before])], default=None)
        over = [t for t, (key, _) in self.memory.items() if self._over(key, self.watermark)]
        keys, places, rows = [], [], []
        for text in over:
            key, kept = self.memory.pop(text)
            values = [row[up.place(self.value)] if self.value else None for row in kept]
            for place, made in enumerate(naive_some(values, 7, len(kept))):
                keys.append(key)
                places.append((tie(key), place))
                rows.append((*key, instant(ms_of(key[-1]) + self.size), *made))
        return self._placed(keys, places, rows)

    def _over(self, key: Row, watermark: int | None) -> bool:
        return watermark is not None and ms_of(key[-1]) + self.size <= watermark

    def state(self) -> list[Row]:
        up = self.inputs[0]
        places = [up.place(name) for name in up.columns if name not in self.user_keys]
        return [
            (*key, *(row[i] for i in places)) for key, kept in self.memory.values() for row in kept
        ]
