"""Random dataflows, each twice: as Rechannel runs it, and as a naive program over lists and dicts.

A `Step` is one node. `stream` builds it with the public API; `run` does the same to Python tuples,
one timestep at a time, and remembers every row that a key ever had. Nothing here is clever: whoever
wants to know what a dataflow means reads this.

Floats: sums and what is made of them are compared within a few roundings (`Near`), everything else
exactly. A column whose values are `Near` feeds no further operator.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rechannel as rc
from rechannel.kernels.logic import AggregateFunction
from rechannel.model.ddl import schema_of
from rechannel.model.hashing import hash_columns
from rechannel.sources.connectors import MemoryConnector
from rechannel.testing import script

Row = tuple[Any, ...]
NASTY = (0.0, -0.0, 1.0, 0.1, -2.5, 1e16, 1e308, -1e308, 5e-324, math.nan, math.inf, -math.inf)
TAME = (0.0, -0.0, 1.0, 0.1, 0.2, 0.3, -2.5, 1e16, math.nan, 1 / 3)
STANDARD = {"a": "long", "b": "string", "c": "long", "x": "double"}


# Values ------------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value without what GROUP BY does not see: one zero, one NaN."""
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    return [plain(item) for item in value] if isinstance(value, list) else value


def mix(values: Iterable[Any]) -> int:
    """A number that depends on every value."""
    return zlib.crc32(repr([plain(value) for value in values]).encode())


@dataclass(frozen=True)
class Near:
    """A float that may be a few roundings off. slack: in units of the value's column."""

    value: float
    slack: float

    def accepts(self, got: float | None) -> bool:
        if got is None:
            return False
        if not math.isfinite(self.value) or not math.isfinite(got):
            same = repr(got) == repr(self.value)
            return same or (max(abs(got), abs(self.value)) == math.inf and self._huge(got))
        return math.isclose(got, self.value, rel_tol=1e-14, abs_tol=self.slack + 5e-324)

    def _huge(self, got: float) -> bool:
        return min(abs(got), abs(self.value)) > 1.7e308


def alike(expected: list[Row], got: list[Row]) -> bool:
    """The same rows in any order, with expected floats near the ones that came."""
    if len(expected) != len(got):
        return False
    if not expected:
        return True
    near = [isinstance(value, Near) for value in expected[0]]
    for row in expected:
        near = [n or isinstance(value, Near) for n, value in zip(near, row, strict=True)]

    def exact(row: Row) -> str:
        return repr([plain(value) for value, n in zip(row, near, strict=True) if not n])

    pairs = zip(sorted(expected, key=exact), sorted(got, key=exact), strict=True)
    return all(exact(one) == exact(other) and _near(one, other, near) for one, other in pairs)


def _near(expected: Row, got: Row, near: list[bool]) -> bool:
    return all(
        value.accepts(other) if isinstance(value, Near) else value is other is None
        for value, other, n in zip(expected, got, near, strict=True)
        if n
    )


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

    def build(self, *inputs: Any) -> Any:
        raise NotImplementedError

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
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

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        return self.batches[timestep - 1] if timestep <= len(self.batches) else []


@dataclass(eq=False, kw_only=True)
class Filter(Step):
    """Rows by a function of a row."""

    modulus: int

    def keeps(self, row: Row) -> bool:
        return mix(self.exact(row)) % self.modulus != 0

    def build(self, *inputs: Any) -> Any:
        return inputs[0].filter(self.keeps, name=self.name)

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        return [row for row in inputs[0] if self.keeps(row)]


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
            return inputs[0].map(self.made, self.ddl, name=self.name)
        return inputs[0].flat_map(self.many, self.ddl, name=self.name)

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        if self.copies is None:
            return [self.made(row) for row in inputs[0]]
        return [made for row in inputs[0] for made in self.many(row)]


@dataclass(eq=False, kw_only=True)
class Vector(Step):
    """Standard rows without odd `a`, with `c` one higher: a function of record batches."""

    def build(self, *inputs: Any) -> Any:
        def change(batch: pa.RecordBatch) -> pa.RecordBatch:
            a = batch.column(0).fill_null(0)
            kept = batch.filter(pc.equal(pc.bit_wise_and(a, 1), 0))
            columns = [*kept.columns]
            columns[2] = pc.add(columns[2], 1)
            return pa.RecordBatch.from_arrays(columns, schema=batch.schema)

        return inputs[0].map_batches(change, name=self.name)

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        kept = [row for row in inputs[0] if (row[0] or 0) % 2 == 0]
        return [(a, b, None if c is None else c + 1, x) for a, b, c, x in kept]


@dataclass(eq=False, kw_only=True)
class Union(Step):
    """All rows of every input, one input behind the other."""

    def build(self, *inputs: Any) -> Any:
        return inputs[0].union(*inputs[1:], name=self.name)

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        return [row for rows in inputs for row in rows]


@dataclass(eq=False, kw_only=True)
class Keyed(Step):
    """An operator with state: a dict from a key to (key as it came, whatever is remembered)."""

    keys: tuple[str, ...]
    tasks: int | None = None
    memory: dict[str, tuple[Row, Any]] = field(default_factory=dict)
    now_ms: int = 0

    def reset(self) -> None:
        self.memory = {}

    @property
    def options(self) -> dict[str, Any]:
        return {"name": self.name, "tasks": self.tasks}

    @property
    def values(self) -> list[str]:
        return [name for name in self.inputs[0].columns if name not in self.keys]

    def run(self, now_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        self.now_ms = now_ms
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
            known = self.memory.pop(text, None)
            kept = self.update(key, None if known is None else known[1], rows, now_ms)
            if kept is not None:
                self.memory[text] = (key, kept)
                emitted.append((key, (*key, *self.shown(kept))))
        return self._in_order(emitted)

    def _in_order(self, emitted: list[tuple[Row, Row]]) -> list[Row]:
        """By hash of the key: the order in which a further operator sees what this one emits."""
        if not emitted:
            return []
        kinds = schema_of(", ".join(f"{name} {self.columns[name]}" for name in self.keys))
        columns = [
            pa.array([key[i] for key, _ in emitted], kind.type) for i, kind in enumerate(kinds)
        ]
        hashes = hash_columns(columns).tolist()
        order = sorted(range(len(emitted)), key=lambda i: (hashes[i], tie(emitted[i][0])))
        return [emitted[i][1] for i in order]

    def state(self) -> list[Row]:
        """What `job.state` shows after the last timestep."""
        return [(*key, *self.shown(kept)) for key, kept in self.memory.values() if self.alive(kept)]

    def alive(self, kept: Any) -> bool:
        return True

    def update(self, key: Row, kept: Any, rows: list[Row], now_ms: int) -> Any:
        """What is remembered after some rows; None forgets the key."""
        raise NotImplementedError

    def shown(self, kept: Any) -> Row:
        """Columns that are emitted, behind the key."""
        raise NotImplementedError


def tie(key: Row) -> str:
    """Which of two keys with one hash comes first."""
    zero = (value + 0.0 if isinstance(value, float) else value for value in key)
    return repr(tuple(value.encode() if isinstance(value, str) else value for value in zero))


Naive = Callable[[list[Any]], Any]


@dataclass(frozen=True)
class Column:
    """An aggregate. kind: DDL type of its result ("?" = its input's)."""

    function: Callable[[str], AggregateFunction]
    naive: Naive
    kind: str
    takes: tuple[str, ...] = ("long", "double", "string")
    near: bool = False


@dataclass(eq=False, kw_only=True)
class Aggregate(Keyed):
    """Named aggregates. chosen: (name of the aggregate, input column) by output column."""

    chosen: dict[str, tuple[str, str]]

    def build(self, *inputs: Any) -> Any:
        made = {name: AGGREGATES[how].function(of) for name, (how, of) in self.chosen.items()}
        return inputs[0].key_by(*self.keys).aggregate(made, **self.options)

    def update(self, key: Row, kept: Any, rows: list[Row], now_ms: int) -> Any:
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

    def update(self, key: Row, kept: Any, rows: list[Row], now_ms: int) -> Any:
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
        keyed = inputs[0].key_by(*self.keys)
        initialise = self.initialise if self.begins else None
        return keyed.track(
            self.follow,
            state=self.declared,
            timeout=self.timeout_ms,
            initialise=initialise,
            **self.options,
        )

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

    def update(self, key: Row, kept: Any, rows: list[Row], now_ms: int) -> Any:
        state, left = (kept[0] if kept and self._fresh(kept, now_ms) else None), list(rows)
        if state is None and self.begins:
            state = self.initialise(key, left.pop(0))
        if left:
            state = self.follow(key, state, left)
        return None if state is None else (state, now_ms)

    def _fresh(self, kept: Any, now_ms: int) -> bool:
        return self.timeout_ms is None or now_ms - kept[1] <= self.timeout_ms

    def alive(self, kept: Any) -> bool:
        return self._fresh(kept, self.now_ms)

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

        keyed = inputs[0].key_by(*self.keys)
        return keyed.track_batches(
            follow, state=self.declared, timeout=self.timeout_ms, **self.options
        )

    def update(self, key: Row, kept: Any, rows: list[Row], now_ms: int) -> Any:
        n, trail = kept[0] if kept and self._fresh(kept, now_ms) else (0, 0)
        last = rows[-1][self.values.index(self.last)]
        n, trail = n + len(rows), trail * 3 % 1000 + (-1 if last is None else last)
        return None if n % self.drop == 0 else ((n, trail), now_ms)


# Aggregates --------------------------------------------------------------------------------------


def present(values: list[Any]) -> list[Any]:
    return [value for value in values if value is not None]


def special(values: list[float]) -> float | None:
    """What NaN and infinities make of a sum."""
    odd = {value for value in values if not math.isfinite(value)}
    if not odd:
        return None
    return math.nan if any(map(math.isnan, odd)) or len(odd) > 1 else odd.pop()


def rounded(exact: Fraction) -> float:
    try:
        return float(exact)
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def slack(values: list[float], power: int) -> float:
    largest = max((abs(value) for value in values), default=0.0)
    return float(min(largest, 1e300)) * 2.0**-60 if power == 1 else largest * (largest * 2.0**-60)


def exact_sum(values: list[Any], scale: Fraction = Fraction(1)) -> Any:
    some = present(values)
    if not some:
        return None
    if all(isinstance(value, int) for value in some) and scale == 1:
        return sum(some)
    odd = special([float(value) for value in some])
    total = odd if odd is not None else rounded(sum(map(Fraction, some), Fraction(0)) * scale)
    return Near(total, slack([float(value) for value in some], 1))


def exact_mean(values: list[Any]) -> Any:
    some = present(values)
    return exact_sum(some, Fraction(1, len(some))) if len(some) > 1 else _single(some)


def _single(values: list[Any]) -> Any:
    return Near(float(values[0]), 0.0) if values else None


def exact_variance(values: list[Any]) -> Any:
    some = [float(value) for value in present(values)]
    if len(some) < 2:
        return None
    if special(some) is not None:
        return Near(math.nan, 0.0)
    exact = [Fraction(value) for value in some]
    mean = sum(exact, Fraction(0)) / len(exact)
    total = sum(((value - mean) ** 2 for value in exact), Fraction(0)) / (len(exact) - 1)
    return Near(rounded(total), slack(some, 2))


def exact_deviation(values: list[Any]) -> Any:
    variance = exact_variance(values)
    if variance is None or not math.isfinite(variance.value):
        return variance
    return Near(math.sqrt(variance.value), math.sqrt(variance.slack))


def rank(value: Any) -> Any:
    """NaN behind all numbers, strings by their bytes."""
    if isinstance(value, float):
        return (math.isnan(value), 0.0 if math.isnan(value) else value)
    return value.encode() if isinstance(value, str) else value


NUMBERS = ("long", "double")

AGGREGATES = {
    "count": Column(lambda _: rc.count(), len, "long"),
    "count_of": Column(rc.count, lambda values: len(present(values)), "long"),
    "sum": Column(rc.sum, exact_sum, "long", ("long",)),
    "sum_of_floats": Column(rc.sum, exact_sum, "double", ("double",), near=True),
    "mean": Column(rc.mean, exact_mean, "double", NUMBERS, near=True),
    "min": Column(rc.min, lambda v: min(present(v), key=rank, default=None), "?"),
    "max": Column(rc.max, lambda v: max(present(v), key=rank, default=None), "?"),
    "variance": Column(rc.variance, exact_variance, "double", NUMBERS, near=True),
    "stddev": Column(rc.stddev, exact_deviation, "double", ("long",), near=True),
    "first": Column(rc.first, lambda values: values[0], "?"),
    "last": Column(rc.last, lambda values: values[-1], "?"),
    "first_value": Column(
        lambda column: rc.first(column, ignore_nulls=True),
        lambda values: next(iter(present(values)), None),
        "?",
    ),
    "last_n": Column(lambda column: rc.last_n(column, 3), lambda v: v[-3:], "array"),
    "distinct": Column(
        rc.count_distinct, lambda values: len({repr(plain(v)) for v in present(values)}), "long"
    ),
}


# Programs ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Program:
    """A dataflow. ends: steps that go to a sink of their own, by its name."""

    ends: dict[str, Step]
    times: list[int]

    @property
    def steps(self) -> list[Step]:
        """All steps, inputs first."""
        found: dict[int, Step] = {}
        for end in self.ends.values():
            found.update({id(step): step for step in end.all()})
        return list(found.values())

    @property
    def keyed(self) -> list[Keyed]:
        return [step for step in self.steps if isinstance(step, Keyed)]

    @property
    def timesteps(self) -> int:
        return len(self.times)

    def flows(self) -> list[Any]:
        """The dataflow, for Rechannel."""
        built: dict[int, Any] = {}
        return [
            step.stream(built).write.memory(name, name=name) for name, step in self.ends.items()
        ]

    def run(self) -> tuple[dict[str, dict[int, list[Row]]], dict[str, list[list[Row]]]]:
        """The dataflow, naively: rows of every sink by timestep, and every state after each timestep."""
        outputs: dict[str, dict[int, list[Row]]] = {name: {} for name in self.ends}
        states: dict[str, list[list[Row]]] = {step.name: [] for step in self.keyed}
        for step in self.steps:
            step.reset()
        for timestep, now_ms in enumerate(self.times, 1):
            rows: dict[int, list[Row]] = {}
            for step in self.steps:
                inputs = [rows[id(up)] for up in step.inputs]
                rows[id(step)] = step.run(now_ms, timestep, *inputs)
            for name, step in self.ends.items():
                outputs[name][timestep] = rows[id(step)]
            for step in self.keyed:
                step.now_ms = now_ms
                states[step.name].append(step.state())
        return outputs, states


@dataclass
class Writer:
    """Writes a random program."""

    rng: Random
    made: int = 0

    def program(self) -> Program:
        rng = self.rng
        times, now = [], 1_000_000
        for _ in range(rng.choice((2, 3, 4, 5, 6, 16))):
            now += rng.choice((0, 1, 10, 10, 100))
            times.append(now)
        floats = rng.choice((NASTY, TAME))
        sources = [self.source(len(times), floats, i) for i in range(rng.choice((1, 1, 2)))]
        steps: list[Step] = list(sources)
        for _ in range(rng.choice((0, 1, 2, 2))):
            steps.append(self.stateless(steps, floats))
        for _ in range(rng.choice((1, 1, 2, 2, 3))):
            keyed = self.keyed(rng.choice(steps[-4:]), len(times))
            steps.append(keyed)
            if rng.random() < 0.5:
                steps.append(self.stateless([keyed], floats))
        fed = {id(up) for step in steps for up in step.inputs}
        ends = [step for step in steps if id(step) not in fed or rng.random() < 0.2]
        return Program(ends={f"sink-{step.name}": step for step in ends}, times=times)

    def name(self, kind: str) -> str:
        self.made += 1
        return f"{kind}-{self.made}"

    def source(self, timesteps: int, floats: tuple[float, ...], number: int) -> Source:
        rng = self.rng
        # Few rows behind many, and state is merged; as many as before, and it is written anew each time.
        later = rng.choice(((0, 1, 2), (0, 1, 3, 8, 20))) if timesteps < 10 else (0, 1, 2)
        counts = [rng.choice((20, 40)), *(rng.choice(later) for _ in range(timesteps - 1))]
        span = rng.choice((2, 5, 40))
        batches = [
            [
                (
                    rng.choice((None, *range(span))),
                    rng.choice((None, "", "s", "t", "sß", "a\0")),
                    rng.choice((None, 0, 1, 2, -(2**40))),
                    rng.choice((None, *floats)),
                )
                for _ in range(count)
            ]
            for count in counts
        ]
        if number:
            batches = batches[: rng.randint(1, timesteps)]
        return Source(
            name=self.name("source"),
            columns=dict(STANDARD),
            batches=batches,
            partitions=rng.randint(1, 4),
        )

    def stateless(self, steps: list[Step], floats: tuple[float, ...]) -> Step:
        rng = self.rng
        up = rng.choice(steps)
        standard = [step for step in steps if list(step.columns) == list(STANDARD)]
        kind = rng.choice(("filter", "map", "flat_map", "vector", "union"))
        if kind == "union" and standard:
            inputs = tuple(rng.choice(standard) for _ in range(rng.choice((2, 2, 3))))
            return Union(name=self.name("union"), columns=dict(STANDARD), inputs=inputs)
        if kind == "vector" and up in standard:
            return Vector(name=self.name("vector"), columns=dict(STANDARD), inputs=(up,))
        if kind == "filter":
            return Filter(
                name=self.name("filter"),
                columns=dict(up.columns),
                near=up.near,
                inputs=(up,),
                modulus=rng.randint(2, 5),
            )
        return Remap(
            name=self.name("remap"),
            columns=dict(STANDARD),
            inputs=(up,),
            floats=floats,
            copies=rng.choice((2, 3)) if kind == "flat_map" else None,
        )

    def keyed(self, up: Step, timesteps: int) -> Step:
        rng = self.rng
        usable = [n for n, kind in up.columns.items() if kind in AGGREGATES["min"].takes]
        usable = [n for n in usable if n not in up.near]
        keys = tuple(rng.sample(usable, min(len(usable) - 1, rng.choice((1, 1, 1, 2, 3))) or 1))
        kinds = ["aggregate", "aggregate", "track"]
        values = [name for name in up.columns if name not in keys]
        if values and not up.near and "array" not in up.columns.values():
            kinds.append("reduce")
        longs = [n for n in values if up.columns[n] == "long" and n not in up.near]
        if longs:
            kinds.append("track_batches")
        common: dict[str, Any] = {
            "keys": keys,
            "inputs": (up,),
            "tasks": rng.choice((None, None, 1, 2, 3)),
        }
        columns = {key: up.columns[key] for key in keys}
        return self._keyed(rng.choice(kinds), up, columns, longs, common)

    def _keyed(
        self,
        kind: str,
        up: Step,
        columns: dict[str, str],
        longs: list[str],
        common: dict[str, Any],
    ) -> Step:
        rng = self.rng
        if kind == "aggregate":
            chosen = self._chosen(up, columns)
            for name, (how, of) in chosen.items():
                result = AGGREGATES[how].kind
                columns[name] = up.columns[of] if result == "?" else result
            near = frozenset(n for n, (how, _) in chosen.items() if AGGREGATES[how].near)
            return Aggregate(
                name=self.name("aggregate"), columns=columns, near=near, chosen=chosen, **common
            )
        if kind == "reduce":
            columns |= {n: k for n, k in up.columns.items() if n not in columns}
            rowwise = rng.random() < 0.5
            return Reduce(name=self.name("reduce"), columns=columns, rowwise=rowwise, **common)
        tracking: dict[str, Any] = {
            "columns": {**columns, f"n{self.made}": "long", f"trail{self.made}": "long"},
            "drop": rng.choice((2, 3, 5, 1000)),
            "timeout_ms": rng.choice((None, 5, 50)),
            **common,
        }
        if kind == "track":
            return Track(name=self.name("track"), begins=rng.random() < 0.3, **tracking)
        last = rng.choice(longs)
        return TrackBatches(name=self.name("track_batches"), begins=False, last=last, **tracking)

    def _chosen(self, up: Step, keys: Mapping[str, str]) -> dict[str, tuple[str, str]]:
        rng = self.rng
        pairs = [
            (how, of)
            for how, aggregate in AGGREGATES.items()
            for of, kind in up.columns.items()
            if kind in aggregate.takes and of not in keys and of not in up.near
        ]
        ordered = {"first", "last", "first_value", "last_n"}
        if rng.random() < 0.6:  # else nothing would ever be combined
            pairs = [pair for pair in pairs if pair[0] not in ordered]
        some = rng.sample(pairs, min(len(pairs), 3)) or [("count", "")]
        return {f"o{self.made}_{i}": pair for i, pair in enumerate(some)}
