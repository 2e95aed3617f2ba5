"""A process function with a broadcast input, naively: the table is a dict. See `twins`.

What the function does with a table is the same for both: it is given a mapping from key to row, or a naive one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import pyarrow as pa

import rechannel as rc
from tests.property.twin_values import Row, mix
from tests.property.twins import Keyed, Step, Track, TrackBatches

TABLE, SEEN = "rules", "seen"


@dataclass(eq=False, kw_only=True)
class Latest(Keyed):
    """The last row of each key."""

    def build(self, *inputs: Any) -> Any:
        return inputs[0].key_by(*self.keys).latest(**self.options)

    def update(self, key: Row, kept: Any, rows: list[Row], stream_ms: int) -> Any:
        return rows[-1]

    def shown(self, kept: Any) -> Row:
        return tuple(kept)


@dataclass(eq=False, kw_only=True)
class Ruled(Keyed):
    """Counts what a table had when rows of a key came. The second input is the table. batches: of all keys at once."""

    batches: bool

    @property
    def fields(self) -> list[str]:
        return list(self.columns)[len(self.keys) :]

    def build(self, *inputs: Any) -> Any:
        keyed, alone = inputs[0].key_by(*self.keys), self.alone()
        process = keyed.process_batches if self.batches else keyed.process
        return process(
            alone.follow_all if self.batches else alone.follow,
            schema=", ".join(f"{name} long" for name in self.fields),
            states={SEEN: rc.states.value_state("n BIGINT")},
            broadcast={TABLE: inputs[1]},
            **self.options,
        )

    def follow(self, key: Any, rows: Any, context: Any) -> Iterator[Any]:
        seen = context.value(SEEN)
        seen.set(seen.get(0) + len(context.broadcast(TABLE)))
        yield seen.get(), self.judged(map(tuple, rows), context.broadcast(TABLE))

    def follow_all(self, frame: Any) -> Mapping[str, Any]:
        """Do the same: what is in the frame is a row per key of the table."""
        rows = frame.broadcast(TABLE)
        table = by_key(rows.to_pylist(), len(self.table.keys))
        n = frame.previous(SEEN, "n", 0) + rows.num_rows
        frame.set_value(SEEN, {"n": n})
        came: list[list[Row]] = [[] for _ in range(len(frame))]
        columns = [frame.rows.column(name).to_pylist() for name in self.values]
        for number, owner in enumerate(frame.ids.tolist()):
            came[owner].append(tuple(column[number] for column in columns))
        judged = [self.judged(each, table) for each in came]
        return {self.fields[0]: n, self.fields[1]: pa.array(judged, pa.int64())}

    def judged(self, rows: Iterable[Row], table: Mapping[Any, Any]) -> int:
        """A number that depends on each row, on all of the table, on its order, and on which keys it has."""
        trail, up, known = 0, self.inputs[0], list(table)
        for key in known:
            found = tuple(table[key])
            exact = [
                v
                for n, v in zip(self.table.columns, found, strict=True)
                if n not in self.near_there
            ]
            trail = (trail * 7 + mix(exact)) % 2**40
        for row in rows:
            named = zip(self.values, row, strict=True)
            number = mix(value for name, value in named if name not in up.near)
            wanted = known[number % len(known)] if known and number % 3 else number
            trail = (trail * 31 + number + (wanted in table)) % 2**40
        return trail

    @property
    def near_there(self) -> frozenset[str]:
        return self.inputs[1].near

    @property
    def table(self) -> Any:
        return self.inputs[1]

    def alone(self) -> Any:
        alone = super().alone()
        there = self.inputs[1]
        bare = Keyed(name="", columns=there.columns, near=there.near, keys=self.table.keys)
        alone.inputs = (alone.inputs[0], bare)
        return alone

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        names = list(self.table.columns)
        rows = [dict(zip(names, row, strict=True)) for row in self.table.state()]
        self.now = by_key(rows, len(self.table.keys))
        return super().run(stream_ms, timestep, *inputs)

    def update(self, key: Row, kept: Any, rows: list[Row], stream_ms: int) -> Any:
        n = (0 if kept is None else kept[0]) + len(self.now)
        return n, self.judged(rows, self.now)

    def shown(self, kept: Any) -> Row:
        return tuple(kept)

    def state(self) -> list[Row]:
        return [(*key, SEEN, None, None, {"n": n}) for key, (n, _) in self.memory.values()]


def by_key(rows: list[dict[str, Any]], keys: int) -> dict[Any, Row]:
    """Rows of a table by their keys, in the order of these: null last, NaN before it."""
    made = [tuple(row.values()) for row in rows]
    made.sort(key=lambda row: [_place(value) for value in row[:keys]])
    return {row[0] if keys == 1 else row[:keys]: row for row in made}


def _place(value: Any) -> tuple[Any, ...]:
    if value is None:
        return (2,)
    if isinstance(value, float) and math.isnan(value):
        return (1,)
    return (0, value.encode() if isinstance(value, str) else value)


def random_ruled(rng: Random, events: Step, table: Step, name: str) -> Ruled:
    """A process function over a step."""
    usable = [n for n in ("a", "b", "c") if n in events.columns and n not in events.near]
    keys = tuple(rng.sample(usable, rng.choice((1, 1, 2))))
    return Ruled(
        name=name,
        columns={key: events.columns[key] for key in keys}
        | {f"{name}_n": "long", f"{name}_trail": "long"},
        inputs=(events, table),
        keys=keys,
        tasks=rng.choice((None, None, 1, 2, 3)),
        batches=rng.random() < 0.5,
    )


def random_table(rng: Random, changes: Step, name: str) -> Keyed:
    """A table with one row per key; keys of some end by a condition or by time."""
    keys = tuple(rng.sample(("a", "b", "c"), rng.choice((1, 1, 2))))
    columns = {key: changes.columns[key] for key in keys}
    options: dict[str, Any] = {
        "inputs": (changes,),
        "keys": keys,
        "tasks": rng.choice((None, 1, 3)),
    }
    kind = rng.choice(("latest", "track", "track", "track_batches"))
    if kind == "latest":
        columns |= {n: k for n, k in changes.columns.items() if n not in keys}
        return Latest(name=name, columns=columns, **options)
    options["columns"] = columns | {"n": "long", "trail": "long"}
    options |= {"drop": rng.choice((2, 3, 1000)), "timeout_ms": rng.choice((None, 5, 50))}
    longs = [n for n in ("a", "c") if n not in keys]
    if kind == "track" or not longs:
        return Track(name=name, begins=rng.random() < 0.3, **options)
    return TrackBatches(name=name, begins=False, last=rng.choice(longs), **options)
