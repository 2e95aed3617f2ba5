"""Functions of the order of a key's rows, naively: see `twins`."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import gcd
from typing import TYPE_CHECKING, Any

import rechannel as rc
from rechannel import aggregates as agg
from tests.property.twin_values import AGGREGATES, Row, plain
from tests.property.twin_windows import TIME, ms_of
from tests.property.twins import Keyed, Step, tie

if TYPE_CHECKING:
    from tests.property.programs import Writer


@dataclass(frozen=True, kw_only=True)
class Function:
    """One of them. how: lag, difference, or a name in AGGREGATES."""

    how: str
    of: str
    n: int = 1
    default: Any = None

    @property
    def made(self) -> Any:
        if self.how == "lag":
            return agg.lag(self.of, self.n, default=self.default)
        if self.how == "difference":
            return agg.difference(self.of, self.n)
        return agg.cumulative(AGGREGATES[self.how].function(self.of))

    def behind(self, values: list[Any]) -> Any:
        """Of the last row, given the values of all rows up to it."""
        if self.how not in ("lag", "difference"):
            return AGGREGATES[self.how].naive(values)
        there = len(values) > self.n
        earlier = values[-1 - self.n] if there else self.default
        if self.how == "lag":
            return earlier
        return None if earlier is None or values[-1] is None else values[-1] - earlier

    def kept(self, values: list[Any]) -> Any:
        if self.how in ("lag", "difference"):
            return values[-self.n :]
        return AGGREGATES[self.how].naive(values)


@dataclass(eq=False, kw_only=True)
class Arranged(Keyed):
    """Rows wait until event time has passed them. A key remembers (ms, timestep, place, row). delay: ms."""

    delay: int
    watermark: int | None = None
    late: list[Row] = field(default_factory=list)

    def reset(self) -> None:
        super().reset()
        self.watermark, self.late = None, []

    def build(self, *inputs: Any) -> Any:
        """The stream before it: the operator is made together with the one behind it."""
        return inputs[0].event_time(TIME, self.delay, name=f"{self.name}-time")

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, before = self.inputs[0], self.watermark
        late, places = [], dict[str, int]()
        for row in inputs[0]:
            key = tuple(row[up.place(name)] for name in self.keys)
            text = repr(list(map(plain, key)))
            place = places[text] = places.get(text, -1) + 1
            at = row[up.place(TIME)]
            if at is None or (before is not None and ms_of(at) < before):
                late.append((key, row))
                continue
            kept = self.memory.setdefault(text, (key, []))[1]
            kept.append((ms_of(at), timestep, place, row))
        self.late = self._in_order(late)
        seen = [ms_of(t) - self.delay for row in inputs[0] if (t := row[up.place(TIME)])]
        self.watermark = max([*seen, *([] if before is None else [before])], default=None)
        keys, order, rows = [], [], []
        for text, (key, kept) in list(self.memory.items()):
            left = [one for one in kept if self.watermark is None or one[0] >= self.watermark]
            for ms, came, place, row in kept:
                if self.watermark is not None and ms < self.watermark:
                    keys.append(key)
                    order.append((ms, came, place, tie(key)))
                    rows.append(row)
            self.memory[text] = (key, left)
            if not left:
                del self.memory[text]
        return self._placed(keys, order, rows)

    def state(self) -> list[Row]:
        up = self.inputs[0]
        names = [*self.keys, *self.values]
        return [
            tuple(row[up.place(name)] for name in names)
            for _, kept in self.memory.values()
            for *_, row in kept
        ]


@dataclass(eq=False, kw_only=True)
class Running(Keyed):
    """Every row with functions of the rows up to it. A key remembers all its rows."""

    functions: dict[str, Function]

    @property
    def timed(self) -> bool:
        return isinstance(self.inputs[0], Arranged)

    @property
    def late(self) -> list[Row]:
        (before,) = self.inputs
        assert isinstance(before, Arranged)
        return before.late

    def build(self, *inputs: Any) -> Any:
        made = {name: function.made for name, function in self.functions.items()}
        keyed = inputs[0].key_by(*self.keys)
        return keyed.running(made, time_column=TIME if self.timed else None, **self.options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, emitted = self.inputs[0], []
        places = [up.place(name) for name in self.values]
        for row in inputs[0]:
            key = tuple(row[up.place(name)] for name in self.keys)
            kept = self.memory.setdefault(repr(list(map(plain, key))), (key, []))[1]
            kept.append(row)
            made = [f.behind(self._values(f, kept)) for f in self.functions.values()]
            emitted.append((key, (*key, *(row[i] for i in places), *made)))
        return self._in_order(emitted)

    def shown(self, kept: Any) -> Row:
        return tuple(f.kept(self._values(f, kept)) for f in self.functions.values())

    def _values(self, function: Function, kept: list[Row]) -> list[Any]:
        place = self.inputs[0].place(function.of) if function.of else 0
        return [row[place] for row in kept]


@dataclass(eq=False, kw_only=True)
class Counted(Keyed):
    """Aggregates of the last `size` rows of a key, every `every` rows. A key remembers all its rows."""

    chosen: dict[str, tuple[str, str]]
    size: int
    every: int

    def build(self, *inputs: Any) -> Any:
        made = {name: AGGREGATES[how].function(of) for name, (how, of) in self.chosen.items()}
        windows = inputs[0].key_by(*self.keys).window(rc.windows.counting(self.size, self.every))
        return windows.aggregate(made, **self.options)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        up, emitted = self.inputs[0], []
        for row in inputs[0]:
            key = tuple(row[up.place(name)] for name in self.keys)
            kept = self.memory.setdefault(repr(list(map(plain, key))), (key, []))[1]
            kept.append(row)
            if len(kept) >= self.size and (len(kept) - self.size) % self.every == 0:
                number = (len(kept) - self.size) // self.every
                emitted.append((key, (*key, number, *self.shown(kept[-self.size :]))))
        return self._in_order(emitted)

    def state(self) -> list[Row]:
        """Panes that a window to come is made of, and the newest one."""
        pane, out = gcd(self.size, self.every), []
        for key, kept in self.memory.values():
            complete = max((len(kept) - self.size) // self.every + 1, 0)
            newest = (len(kept) - 1) // pane
            for number in range(min(complete * self.every // pane, newest), newest + 1):
                mine = kept[number * pane : (number + 1) * pane]
                out.append((*key, number, *self.shown(mine), len(mine)))
        return out

    def shown(self, kept: Any) -> Row:
        up = self.inputs[0]
        return tuple(
            AGGREGATES[how].naive([row[up.place(of)] if of else None for row in kept])
            for how, of in self.chosen.values()
        )


def random_counted(writer: Writer, up: Step) -> Counted | None:
    """Windows of a few rows; None where they would have no key of their own."""
    rng = writer.rng
    usable = [n for n, kind in up.columns.items() if kind in AGGREGATES["min"].takes]
    usable = [n for n in usable if n not in up.near and n != "window"]
    if not usable:
        return None
    keys = tuple(rng.sample(usable, min(len(usable), rng.choice((1, 1, 2)))))
    columns = {**{n: up.columns[n] for n in keys}, "window": "long"}
    name = writer.name("counted")
    chosen = writer.chosen(up, columns)
    for shown, (how, of) in chosen.items():
        result = AGGREGATES[how].kind
        columns[shown] = up.columns[of] if result == "?" else result
    size, every = rng.choice(((1, 1), (2, 2), (5, 5), (2, 1), (4, 1), (6, 2), (6, 4), (10, 4)))
    return Counted(
        name=name,
        columns=columns,
        near=frozenset(n for n, (how, _) in chosen.items() if AGGREGATES[how].near),
        inputs=(up,),
        keys=keys,
        tasks=rng.choice((None, None, 1, 2, 3)),
        chosen=chosen,
        size=size,
        every=every,
    )


def random_running(writer: Writer, up: Step) -> Running | None:
    """Some functions; None where there is nothing that they could be of."""
    rng = writer.rng
    usable = [n for n, kind in up.columns.items() if kind in AGGREGATES["min"].takes]
    if up.near or len(usable) < 2:
        return None
    keys = tuple(rng.sample(usable, rng.choice((1, 1, 2)) if len(usable) > 2 else 1))
    others = {n: up.columns[n] for n in usable if n not in keys}
    columns = {**{n: up.columns[n] for n in keys}}
    columns |= {n: kind for n, kind in up.columns.items() if n not in keys}
    name = writer.name("running")
    functions, near = {}, set()
    for number in range(rng.choice((1, 2, 4))):
        made = _random_function(writer, others)
        shown = f"r{writer.made}_{number}"
        functions[shown] = made
        kind = others.get(made.of, "long")
        columns[shown] = kind
        if made.how in AGGREGATES:
            result = AGGREGATES[made.how]
            columns[shown] = kind if result.kind == "?" else result.kind
            near |= {shown} if result.near else set()
    tasks = rng.choice((None, None, 1, 2, 3))
    if TIME in up.columns and not isinstance(up, Keyed) and rng.random() < 0.6:
        up = Arranged(
            name=f"{name}.order",
            columns=dict(up.columns),
            inputs=(up,),
            keys=keys,
            tasks=tasks,
            delay=rng.choice((0, 0, 100, 300)),
        )
    return Running(
        name=name,
        columns=columns,
        near=frozenset(near),
        inputs=(up,),
        keys=keys,
        tasks=tasks,
        functions=functions,
    )


def _random_function(writer: Writer, others: dict[str, str]) -> Function:
    rng = writer.rng
    numbers = [name for name, kind in others.items() if kind != "string"]
    kind = rng.choice(("lag", "difference", "cumulative", "cumulative"))
    n = rng.choice((1, 1, 2, 5))
    if kind == "difference" and numbers:
        return Function(how="difference", of=rng.choice(numbers), n=n)
    if kind == "lag":
        of = rng.choice(list(others))
        fitting = {"long": -7, "string": "none", "double": 0.5}[others[of]]
        return Function(how="lag", of=of, n=n, default=rng.choice((None, fitting)))
    pairs = [
        (how, of)
        for how, aggregate in AGGREGATES.items()
        for of, column in others.items()
        if column in aggregate.takes and how != "distinct"
    ]
    how, of = rng.choice(pairs)
    return Function(how=how, of=of)
