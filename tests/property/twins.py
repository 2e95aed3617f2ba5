"""Steps of a dataflow, each twice: as Rechannel runs it, and as a naive program over lists and dicts.

A `Step` is one node. `stream` builds it with the public API; `run` does the same to Python tuples,
one timestep at a time, and remembers every row that a key ever had. Nothing here is clever: whoever
wants to know what a dataflow means reads this.

Floats: sums and what is made of them are compared within a few roundings (`Near`), everything else
exactly. A column whose values are `Near` feeds no further operator.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from rechannel.model.ddl import schema_of
from rechannel.model.hashing import hash_columns
from rechannel.sources.connectors import MemoryConnector
from rechannel.testing import script
from tests.property.twin_values import AGGREGATES, Row, mix, plain

# Steps -------------------------------------------------------------------------------------------


@dataclass(eq=False, kw_only=True)
class Step:
    """A node. columns: DDL types by name. near: columns whose values are `Near`."""

    name: str
    columns: dict[str, str]
    near: frozenset[str] = frozenset()
    inputs: tuple[Step, ...] = ()

    @property
    def ddl(self) -> str:
        return ", ".join(f"{name} {kind}" for name, kind in self.columns.items())

    def place(self, name: str) -> int:
        return list(self.columns).index(name)

    def exact(self, row: Row) -> list[Any]:
        return [v for name, v in zip(self.columns, row, strict=True) if name not in self.near]

    def all(self) -> list[Step]:
        """This step and all that feed it, inputs first, each once."""
        found: dict[int, Step] = {}
        for step in self.inputs:
            found.update({id(s): s for s in step.all()})
        return [*found.values(), self]

    def stream(self, built: dict[int, Any]) -> Any:
        if id(self) not in built:
            built[id(self)] = self.build(*(step.stream(built) for step in self.inputs))
        return built[id(self)]

    def alone(self) -> Self:
        """This step without what feeds its inputs: what a function holds is part of its digest."""
        bare = [Step(name=up.name, columns=up.columns, near=up.near) for up in self.inputs]
        return replace(self, inputs=tuple(bare))

    def build(self, *inputs: Any) -> Any:
        raise NotImplementedError

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        raise NotImplementedError

    def reset(self) -> None:
        """Forget everything."""


@dataclass(eq=False, kw_only=True)
class Source(Step):
    """Rows by timestep, from 1."""

    batches: list[list[Row]]
    connector: MemoryConnector = field(init=False)
    partitions: int = 1

    def __post_init__(self) -> None:
        self.connector = script(self.ddl, partitions=self.partitions)
        for rows in self.batches:
            self.connector.push([dict(zip(self.columns, row, strict=True)) for row in rows])

    def build(self, *inputs: Any) -> Any:
        return rc.read().memory(self.connector, name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        return self.batches[timestep - 1] if timestep <= len(self.batches) else []


@dataclass(eq=False, kw_only=True)
class Filter(Step):
    """Rows by a function of a row."""

    modulus: int

    def keeps(self, row: Row) -> bool:
        return mix(self.exact(row)) % self.modulus != 0

    def build(self, *inputs: Any) -> Any:
        return inputs[0].filter(self.alone().keeps, name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        return [row for row in inputs[0] if self.keeps(row)]


@dataclass(eq=False, kw_only=True)
class Part(Step):
    """One of three branches of a stream, by functions of record batches."""

    branch: str
    modulus: int

    def _holds(self, row: Row, number: int) -> bool | None:
        found = mix([*self.exact(row), number]) % self.modulus
        return None if found == 1 else found == 0

    def _mask(self, number: int, batch: pa.RecordBatch) -> list[bool | None]:
        rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
        return [self._holds(row, number) for row in rows]

    def build(self, *inputs: Any) -> Any:
        first, second = (partial(self.alone()._mask, number) for number in range(2))
        made = inputs[0].branch(a=first, b=second, otherwise="c", name=self.name)
        return made[self.branch]

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        return [row for row in inputs[0] if self._of(row) == self.branch]

    def _of(self, row: Row) -> str:
        if self._holds(row, 0):
            return "a"
        return "b" if self._holds(row, 1) else "c"


@dataclass(eq=False, kw_only=True)
class Remap(Step):
    """Any row as a standard row made of a hash of it; `copies` of it where it is a flat_map."""

    floats: tuple[float, ...]
    copies: int | None = None

    def made(self, row: Row) -> Row:
        h = mix(self.inputs[0].exact(row))
        return (
            None if h % 7 == 0 else h % 6 - 1,
            None if h % 11 == 0 else "sß\0t"[h % 4 :],
            None if h % 5 == 0 else (h >> 8) % 3,
            None if h % 13 == 0 else self.floats[h % len(self.floats)],
        )

    def many(self, row: Row) -> list[Row]:
        made = self.made(row)
        return [made] * (mix(row[:1]) % (self.copies or 1) + (self.copies is None))

    def build(self, *inputs: Any) -> Any:
        if self.copies is None:
            return inputs[0].map(self.alone().made, self.ddl, name=self.name)
        return inputs[0].flat_map(self.alone().many, self.ddl, name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        if self.copies is None:
            return [self.made(row) for row in inputs[0]]
        return [made for row in inputs[0] for made in self.many(row)]


@dataclass(eq=False, kw_only=True)
class Vector(Step):
    """Standard rows without odd `a`, with `c` one higher: a function of record batches. opens: with a resource."""

    opens: bool = False

    def build(self, *inputs: Any) -> Any:
        def change(batch: pa.RecordBatch) -> pa.RecordBatch:
            a = batch.column(0).fill_null(0)
            kept = batch.filter(pc.equal(pc.bit_wise_and(a, 1), 0))
            columns = [*kept.columns]
            columns[2] = pc.add(columns[2], 1)
            return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

        def more(one: pa.Scalar, batch: pa.RecordBatch) -> pa.RecordBatch:
            changed = change(batch)
            c = pc.add(pc.subtract(changed.column(2), 1), one)
            return changed.set_column(2, batch.schema.field(2), c)

        if self.opens:
            return inputs[0].map_batches(more, name=self.name, resource=lambda: pa.scalar(1))
        return inputs[0].map_batches(change, name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        kept = [row for row in inputs[0] if (row[0] or 0) % 2 == 0]
        return [(a, b, None if c is None else c + 1, x) for a, b, c, x in kept]


@dataclass(eq=False, kw_only=True)
class Union(Step):
    """All rows of every input, one input behind the other."""

    def build(self, *inputs: Any) -> Any:
        return inputs[0].union(*inputs[1:], name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        return [row for rows in inputs for row in rows]


@dataclass(eq=False, kw_only=True)
class Keyed(Step):
    """An operator with state: a dict from a key to (key as it came, whatever is remembered)."""

    keys: tuple[str, ...]
    tasks: int | None = None
    memory: dict[str, tuple[Row, Any]] = field(default_factory=dict)
    stream_ms: int = 0

    def reset(self) -> None:
        self.memory = {}

    @property
    def options(self) -> dict[str, Any]:
        return {"name": self.name, "tasks": self.tasks}

    @property
    def alters_rows(self) -> bool:
        """Whether rows come to the operator with other columns than the step before has."""
        return False

    @property
    def values(self) -> list[str]:
        return [name for name in self.inputs[0].columns if name not in self.keys]

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        self.stream_ms = stream_ms
        up = self.inputs[0]
        key_places = [up.place(name) for name in self.keys]
        places = [up.place(name) for name in self.values]
        groups: dict[str, tuple[Row, list[Row]]] = {}
        for row in inputs[0]:
            key = tuple(row[i] for i in key_places)
            mine = groups.setdefault(repr(list(map(plain, key))), (key, []))
            mine[1].append(tuple(row[i] for i in places))
        emitted = []
        for text, (key, rows) in groups.items():
            known = self.memory.get(text)
            try:
                kept = self.update(key, None if known is None else known[1], rows, stream_ms)
            except Exception as error:
                if not self.failed(key, rows, error):
                    raise
                continue
            self.memory.pop(text, None)
            if kept is not None:
                self.memory[text] = (key, kept)
                emitted.append((key, (*key, *self.shown(kept))))
        return self._in_order(emitted)

    def _in_order(self, emitted: list[tuple[Row, Row]]) -> list[Row]:
        """By hash of the key: the order in which a further operator sees what this one emits."""
        places = [(self.minor(key), tie(key)) for key, _ in emitted]
        return self._placed([key for key, _ in emitted], places, [row for _, row in emitted])

    def _placed(self, keys: list[Row], places: list[Any], rows: list[Row]) -> list[Row]:
        """Rows by the hash of their key, and then by their place."""
        if not rows:
            return []
        kinds = schema_of(", ".join(f"{name} {self.columns[name]}" for name in self.hashed))
        columns = [pa.array([key[i] for key in keys], kind.type) for i, kind in enumerate(kinds)]
        hashes = hash_columns(columns).tolist()
        order = list(zip(hashes, places, strict=True))
        return [rows[i] for i in sorted(range(len(rows)), key=order.__getitem__)]

    @property
    def hashed(self) -> tuple[str, ...]:
        """Keys that say where state lies."""
        return self.keys

    def minor(self, key: Row) -> int:
        """What keys of one hash are sorted by before their values are looked at."""
        return 0

    def state(self) -> list[Row]:
        """What `job.state` shows after the last timestep."""
        return [(*key, *self.shown(kept)) for key, kept in self.memory.values() if self.alive(kept)]

    def alive(self, kept: Any) -> bool:
        return True

    def failed(self, key: Row, rows: list[Row], error: Exception) -> bool:
        """Whether a key may fail; then it stays as it was."""
        del key, rows, error
        return False

    def update(self, key: Row, kept: Any, rows: list[Row], stream_ms: int) -> Any:
        """What is remembered after some rows; None forgets the key."""
        raise NotImplementedError

    def shown(self, kept: Any) -> Row:
        """Columns that are emitted, behind the key."""
        raise NotImplementedError


def tie(key: Row) -> tuple[Any, ...]:
    """Which of two keys with one hash comes first: by value, column by column, null before all else."""
    return tuple((value is not None, _rank(value)) for value in key)


def _rank(value: Any) -> Any:
    """A value of a key as the order of keys knows it."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


@dataclass(eq=False, kw_only=True)
class Aggregate(Keyed):
    """Named aggregates. chosen: (name of the aggregate, input column) by output column."""

    chosen: dict[str, tuple[str, str]]

    def build(self, *inputs: Any) -> Any:
        made = {name: AGGREGATES[how].function(of) for name, (how, of) in self.chosen.items()}
        return inputs[0].key_by(*self.keys).aggregate(made, **self.options)

    def update(self, key: Row, kept: Any, rows: list[Row], stream_ms: int) -> Any:
        return [*(kept or []), *rows]

    def shown(self, kept: Any) -> Row:
        return tuple(
            AGGREGATES[how].naive([row[self.values.index(of)] if of else None for row in kept])
            for how, of in self.chosen.values()
        )


@dataclass(eq=False, kw_only=True)
class Reduce(Keyed):
    """The last value that is not null, and all strings one behind the other (their end)."""

    rowwise: bool

    def build(self, *inputs: Any) -> Any:
        keyed = inputs[0].key_by(*self.keys)
        function = self.join_rows if self.rowwise else self.join_batches
        return keyed.running_reduce(function, rowwise=self.rowwise, **self.options)

    def join_rows(self, earlier: Row, later: Row) -> Row:
        return tuple(map(self._joined, earlier, later))

    @staticmethod
    def _joined(one: Any, other: Any) -> Any:
        if isinstance(one, str) and isinstance(other, str):
            return (one + other)[-7:]
        return one if other is None else other

    @staticmethod
    def join_batches(earlier: pa.RecordBatch, later: pa.RecordBatch) -> pa.RecordBatch:
        columns = []
        for one, other in zip(earlier.columns, later.columns, strict=True):
            joined = pc.if_else(pc.is_valid(other), other, one)
            if pa.types.is_string(one.type):
                both = pc.binary_join_element_wise(one, other, "")
                end = pc.utf8_slice_codeunits(both, -7)
                joined = pc.if_else(pc.is_valid(both), end, joined)
            columns.append(joined)
        return pa.RecordBatch.from_arrays(columns, schema=earlier.schema)

    def update(self, key: Row, kept: Any, rows: list[Row], stream_ms: int) -> Any:
        for row in rows:
            kept = row if kept is None else self.join_rows(kept, row)
        return kept

    def shown(self, kept: Any) -> Row:
        return tuple(kept)


@dataclass(eq=False, kw_only=True)
class Track(Keyed):
    """Counts rows and keeps a number that depends on each of them and on their order.

    drop: a key ends when its count is a multiple of it. timeout_ms: None = never. begins: whether
    the first row of a key goes to an `initialise`.
    """

    drop: int
    timeout_ms: int | None
    begins: bool

    @property
    def fields(self) -> list[str]:
        return list(self.columns)[len(self.keys) :]

    @property
    def declared(self) -> str:
        return ", ".join(f"{name} long" for name in self.fields)

    def build(self, *inputs: Any) -> Any:
        keyed = self.timed(inputs[0]).key_by(*self.keys)
        initialise = self.initialise if self.begins else None
        return keyed.track(
            self.follow,
            state=self.declared,
            init_state=initialise,
            **self.timing,
            **self.options,
        )

    def timed(self, stream: Any) -> Any:
        return stream

    @property
    def timing(self) -> dict[str, Any]:
        return {"timeout": self.timeout_ms}

    def initialise(self, key: Any, row: Row) -> Any:
        return (1, self._mixed(5, row))

    def follow(self, key: Any, state: Any, rows: Iterable[Row]) -> Any:
        n, trail = (0, 0) if state is None else state
        for row in rows:
            n, trail = n + 1, self._mixed(trail, row)
        return None if n % self.drop == 0 else (n, trail)

    def _mixed(self, trail: int, row: Row) -> int:
        named = zip(self.values, row, strict=True)
        near = self.inputs[0].near
        return (trail * 31 + mix(v for name, v in named if name not in near)) % 2**53

    def update(self, key: Row, kept: Any, rows: list[Row], stream_ms: int) -> Any:
        state, left = (kept[0] if kept and self._fresh(kept, stream_ms) else None), list(rows)
        if state is None and self.begins:
            state = self.initialise(key, left.pop(0))
        if left:
            state = self.follow(key, state, left)
        return None if state is None else (state, stream_ms)

    def _fresh(self, kept: Any, stream_ms: int) -> bool:
        return self.timeout_ms is None or stream_ms - kept[1] <= self.timeout_ms

    def alive(self, kept: Any) -> bool:
        return self._fresh(kept, self.stream_ms)

    def shown(self, kept: Any) -> Row:
        return tuple(kept[0])


@dataclass(eq=False, kw_only=True)
class TrackBatches(Track):
    """The same for all keys at a time: counts rows and keeps the last `last` of them."""

    last: str

    def build(self, *inputs: Any) -> Any:
        count, trail = self.fields

        def follow(frame: Any) -> Mapping[str, Any]:
            n = frame.previous(count, 0) + frame.count()
            last = frame.previous(trail, 0) * 3 % 1000 + frame.last(self.last, -1)
            return {count: n, trail: last, "_drop": n % self.drop == 0}

        keyed = self.timed(inputs[0]).key_by(*self.keys)
        return keyed.track_batches(follow, state=self.declared, **self.timing, **self.options)

    def update(self, key: Row, kept: Any, rows: list[Row], stream_ms: int) -> Any:
        n, trail = kept[0] if kept and self._fresh(kept, stream_ms) else (0, 0)
        last = rows[-1][self.values.index(self.last)]
        n, trail = n + len(rows), trail * 3 % 1000 + (-1 if last is None else last)
        return None if n % self.drop == 0 else ((n, trail), stream_ms)
