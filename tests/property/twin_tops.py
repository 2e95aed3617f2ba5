"""The first rows of every key in an order, naively: see `twins`."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tests.property.twin_values import Row, plain
from tests.property.twin_windows import TIME, instant, ms_of, starts_of, windows_of
from tests.property.twins import Keyed, tie


@dataclass(eq=False, kw_only=True)
class Top(Keyed):
    """The first `n` rows of a key. A key remembers all its rows, as (place in the order, row).

    by: columns, and whether the largest come first. size: of windows, ms; None = no windows. delay: ms.
    """

    user_keys: tuple[str, ...]
    by: dict[str, bool]
    n: int | None
    last: bool = False
    size: int | None = None
    every: int | None = None
    ties: bool = False
    ranking: str = "row_number"
    delay: int = 0
    watermark: int | None = None
    late: list[Row] = field(default_factory=list)
    came: int = 0

    def reset(self) -> None:
        super().reset()
        self.watermark, self.late, self.came = None, [], 0

    @property
    def bounded(self) -> bool:
        return self.size is not None

    def build(self, *inputs: Any) -> Any:
        stream = inputs[0]
        if self.size is not None:
            stream = stream.event_time(TIME, self.delay, name=f"{self.name}-time")
        keyed = stream.key_by(*self.user_keys)
        if self.last:
            return keyed.latest(list(self.by), **self.options)
        if self.size is not None:
            windows = keyed.window(windows_of(self.size, self.every))
            return windows.top(
                self.n,
                list(self.by),
                descending=list(self.by.values()),
                ties=self.ties,
                ranking=self.ranking,
                **self.options,
            )
        return keyed.top(self.n, list(self.by), descending=list(self.by.values()), **self.options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        touched: dict[str, None] = {}
        was = {text: self._ranked(kept) for text, (_, kept) in self.memory.items()}
        late = []
        for row, key in [(one, key) for one in inputs[0] for key in self._keys(one)]:
            if self.size is not None and (key[-1] is None or self._over(key, before)):
                late.append((key, row if self.every is None else (*row, key[-1])))
                continue
            text = repr(list(map(plain, key)))
            self.came += 1
            self.memory.setdefault(text, (key, []))[1].append((self.came, row))
            touched[text] = None
        self.late = self._in_order(late)
        if self.size is not None:
            seen = [ms_of(t) - self.delay for row in inputs[0] if (t := row[up.place(TIME)])]
            self.watermark = max([*seen, *([] if before is None else [before])], default=None)
            over = [t for t, (key, _) in self.memory.items() if self._over(key, self.watermark)]
            emitted = [(key, row) for t in over for key, row in self._table(t)]
            for text in over:
                del self.memory[text]
            return self._by_rank(emitted, whole=True)
        emitted = []
        for text in touched:
            old = was.get(text, [])
            for (key, row), (rank, one) in zip(
                self._table(text), enumerate(self._ranked(self.memory[text][1])), strict=True
            ):
                if rank >= len(old) or old[rank] is not one:
                    emitted.append((key, row))
        return self._by_rank(emitted)

    def _keys(self, row: Row) -> list[Row]:
        """The key of a row, once for every window that it is in."""
        up = self.inputs[0]
        key = tuple(row[up.place(name)] for name in self.user_keys)
        if self.size is None:
            return [key]
        starts = starts_of(row[up.place(TIME)], self.size, self.every)
        return [(*key, None if start is None else instant(start)) for start in starts]

    def _over(self, key: Row, watermark: int | None) -> bool:
        assert self.size is not None
        return watermark is not None and ms_of(key[-1]) + self.size <= watermark

    def _ranked(self, kept: list[tuple[int, Row]]) -> list[tuple[int, Row]]:
        """In order, the first ones."""
        up = self.inputs[0]
        kept = sorted(kept, key=lambda one: -one[0] if self.last else one[0])
        for name, descending in reversed(self.by.items()):
            place = up.place(name)
            there = [one for one in kept if not missing(one[1][place])]
            nans = [one for one in kept if isinstance(v := one[1][place], float) and math.isnan(v)]
            nulls = [one for one in kept if one[1][place] is None]
            # `reverse` keeps those that are alike in their order.
            there.sort(key=lambda one: bytewise(one[1][place]), reverse=descending)
            kept = [*there, *nans, *nulls]
        if self.n is None or not self.ties or len(kept) <= self.n:
            return kept[: self.n]
        if self.ranking == "dense_rank":
            first = list(dict.fromkeys(map(self._order, kept)))[: self.n]
            return [one for one in kept if self._order(one) in first]
        last = self._order(kept[self.n - 1])
        return [one for i, one in enumerate(kept) if i < self.n or self._order(one) == last]

    def _order(self, one: tuple[int, Row]) -> str:
        """Alike for rows that are alike in the order."""
        return repr([plain(one[1][self.inputs[0].place(name)]) for name in self.by])

    def _numbers(self, ranked: list[tuple[int, Row]]) -> list[int]:
        """What rows are shown to be."""
        orders = [self._order(one) for one in ranked]
        if self.ranking == "row_number":
            return list(range(1, len(orders) + 1))
        if self.ranking == "dense_rank":
            distinct = list(dict.fromkeys(orders))
            return [distinct.index(order) + 1 for order in orders]
        return [orders.index(order) + 1 for order in orders]

    def _table(self, text: str) -> list[tuple[Row, Row]]:
        key, kept = self.memory[text]
        up = self.inputs[0]
        values = [up.place(name) for name in up.columns if name not in self.user_keys]
        ends = () if self.size is None else (instant(ms_of(key[-1]) + self.size),)
        ranked = self._ranked(kept)
        return [
            (key, (*key, *ends, *(() if self.last else (rank,)), *(row[i] for i in values)))
            for rank, (_, row) in zip(self._numbers(ranked), ranked, strict=True)
        ]

    def _by_rank(self, emitted: list[tuple[Row, Row]], *, whole: bool = False) -> list[Row]:
        """By hash and key; what was waiting by hash, rank and key."""
        if not whole:
            return self._in_order(emitted)
        keys, rows = [key for key, _ in emitted], [row for _, row in emitted]
        seen: Counter[str] = Counter()
        places = []
        for key in keys:
            seen[text := repr(list(map(plain, key)))] += 1
            places.append((seen[text], tie(key)))
        return self._placed(keys, places, rows)

    def state(self) -> list[Row]:
        return [row for text in self.memory for _, row in self._table(text)]


def missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def bytewise(value: Any) -> Any:
    """Strings are ordered by their bytes."""
    return value.encode() if isinstance(value, str) else value
