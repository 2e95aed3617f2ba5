"""Joins, naively: see `twins`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import rechannel as rc
from tests.property.twin_values import Row, plain
from tests.property.twin_windows import TIME, instant, ms_of, starts_of, windows_of
from tests.property.twins import Keyed, tie


@dataclass(eq=False, kw_only=True)
class Kept:
    """A row that came: its side, which one it is, its key, its other columns, its time in ms."""

    side: int
    number: tuple[int, int, int]
    key: Row
    rest: Row
    time: int | None
    matched: bool = False

    @property
    def text(self) -> str:
        return repr(list(map(plain, self.key)))


@dataclass(eq=False, kw_only=True)
class Join(Keyed):
    """Pairs of rows of two inputs.

    on: names on the left to names on the right. between: ms; size: of windows, ms; neither = for ever. delays: ms.
    """

    how: str
    on: dict[str, str]
    between: tuple[int, int] | None = None
    size: int | None = None
    every: int | None = None
    delays: tuple[int, int] = (0, 0)
    kept: list[Kept] = field(default_factory=list)
    latest: list[int | None] = field(default_factory=lambda: [None, None])
    watermark: int | None = None
    late: list[Row] = field(default_factory=list)

    def reset(self) -> None:
        super().reset()
        self.kept, self.latest, self.watermark, self.late = [], [None, None], None, []

    @property
    def bounded(self) -> bool:
        return self.between is not None or self.size is not None

    def build(self, *inputs: Any) -> Any:
        within = None
        if self.between is not None:
            within = rc.between(*self.between)
        if self.size is not None:
            within = windows_of(self.size, self.every)
        if within is not None:
            inputs = self.timed(inputs)
        return inputs[0].join(inputs[1], self.on, how=self.how, within=within, **self.options)

    def timed(self, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        """Both inputs with their event times."""
        return tuple(
            each.event_time(TIME, delay, name=f"{self.name}-{side}-time")
            for side, (each, delay) in enumerate(zip(inputs, self.delays, strict=True))
        )

    def names(self, side: int) -> list[str]:
        """Columns of a side that are keys, on that side."""
        return list(self.on.values() if side else self.on)

    def others(self, side: int) -> list[str]:
        return [name for name in self.inputs[side].columns if name not in self.names(side)]

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        before = self.watermark
        came, late = self._came(timestep, inputs, before)
        self._advance()
        self.late = self._in_order(late)
        both = [*self.kept, *came]
        pairs = self._pairs(both, came)
        for left, right in pairs:
            left.matched = right.matched = True
        emitted = []
        if self.how not in ("semi", "anti"):
            emitted = [(left.key, self._row(left.key, left, right)) for left, right in pairs]
        elif self.how == "semi":
            found = {id(left): left for left, _ in pairs}
            emitted = [(e.key, self._row(e.key, e, None)) for e in both if id(e) in found]
        alone = [e for e in both if self._alone(e) and self._over(e, self.watermark)]
        self.kept = [e for e in both if self._stays(e, both)]
        return self._all_in_order(emitted, alone)

    def _came(
        self, timestep: int, inputs: tuple[list[Row], ...], before: int | None
    ) -> tuple[list[Kept], list[tuple[Row, Row]]]:
        came, late = [], []
        places: Counter[str] = Counter()
        for side, rows in enumerate(inputs):
            up = self.inputs[side]
            for row in rows:
                at = row[up.place(TIME)] if self.bounded else None
                time = None if at is None else ms_of(at)
                rest = tuple(row[up.place(name)] for name in self.others(side))
                known = [t for t in (time, self.latest[side]) if t is not None]
                self.latest[side] = max(known, default=None)
                for key in self._keys(row, side, at):
                    nth = places[repr(list(map(plain, key)))]
                    number = (side, timestep, nth)
                    one = Kept(side=side, number=number, key=key, rest=rest, time=time)
                    places[one.text] += 1
                    if self._late(one, before):
                        late.append((key, self._told(one)))
                    else:
                        came.append(one)
        return came, late

    def _keys(self, row: Row, side: int, at: Any) -> list[Row]:
        """The key of a row, once for every window that it is in."""
        key = tuple(row[self.inputs[side].place(name)] for name in self.names(side))
        if self.size is None:
            return [key]
        starts = starts_of(at, self.size, self.every)
        return [(*key, None if start is None else instant(start)) for start in starts]

    def _late(self, one: Kept, before: int | None) -> bool:
        if not self.bounded:
            return False
        if one.time is None:
            return True
        if self.size is not None:
            return self._over(one, before)
        return before is not None and one.time < before

    def _advance(self) -> None:
        if self.bounded and None not in self.latest:
            now = min(t - d for t, d in zip(self.latest, self.delays, strict=True) if t is not None)
            self.watermark = now if self.watermark is None else max(now, self.watermark)

    def _due(self, one: Kept) -> float:
        """First µs of event time at which nothing can match."""
        if not self.bounded:
            return float("inf")
        assert one.time is not None
        if self.size is not None:
            return (ms_of(one.key[-1]) + self.size) * 1000
        assert self.between is not None
        reach = -self.between[0] if one.side else self.between[1]
        return (one.time + reach) * 1000 + 1

    def _over(self, one: Kept, watermark: int | None) -> bool:
        return watermark is not None and self._due(one) <= watermark * 1000

    def _pairs(self, both: list[Kept], came: list[Kept]) -> list[tuple[Kept, Kept]]:
        new = {id(one) for one in came}
        return [
            (left, right)
            for right in both
            if right.side == 1
            for left in both
            if left.side == 0
            and (id(left) in new or id(right) in new)
            and left.text == right.text
            and not (self.how in ("semi", "anti") and left.matched)
            and None not in left.key
            and self._near(left, right)
        ]

    def _near(self, left: Kept, right: Kept) -> bool:
        if self.between is None:
            return True
        assert left.time is not None
        assert right.time is not None
        return self.between[0] <= right.time - left.time <= self.between[1]

    def _outer(self, one: Kept) -> bool:
        return self.how in ("full", "right" if one.side else "left")

    def _alone(self, one: Kept) -> bool:
        """Whether it is shown when nothing can match it any more."""
        return not one.matched and (self._outer(one) or (self.how == "anti" and one.side == 0))

    def _stays(self, one: Kept, both: list[Kept]) -> bool:
        if self._over(one, self.watermark):
            return False
        once = self.how in ("semi", "anti")
        if None in one.key and not self._outer(one):
            return self.how == "anti" and one.side == 0
        if once and one.side == 0:
            return not one.matched
        if once and self.between is None:
            first = next(e for e in both if e.side == 1 and e.text == one.text)
            return first is one
        return True

    def _row(self, key: Row, left: Kept | None, right: Kept | None) -> Row:
        shown = list(key)
        if self.size is not None:
            shown.append(instant(ms_of(key[-1]) + self.size))
        shown += left.rest if left else [None] * len(self.others(0))
        if self.how not in ("semi", "anti"):
            shown += right.rest if right else [None] * len(self.others(1))
        return tuple(shown)

    def _told(self, one: Kept) -> Row:
        """A row as state shows it."""
        nothing = [None] * len(self.others(1 - one.side))
        rest = (*nothing, *one.rest) if one.side else (*one.rest, *nothing)
        return (*one.key, "right" if one.side else "left", *rest)

    def state(self) -> list[Row]:
        return [self._told(one) for one in self.kept]

    def _all_in_order(self, emitted: list[tuple[Row, Row]], alone: list[Kept]) -> list[Row]:
        """By hash; of one hash, pairs by key, and behind them rows that found nobody, as they came."""
        rows = [
            *((key, (0, tie(key)), row) for key, row in emitted),
            *((e.key, (1, e.number, tie(e.key)), self._row(e.key, *self._sides(e))) for e in alone),
        ]
        return self._placed(*([row[i] for row in rows] for i in range(3)))

    def _sides(self, one: Kept) -> tuple[Kept | None, Kept | None]:
        return (None, one) if one.side else (one, None)
