"""Functions that fail for some rows, and the dead letters that these become.

What a function does not like follows from the row alone. Texts of rows are compared as JSON without what GROUP BY does
not see: the sign of a zero may depend on where a key came from.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Any

import pyarrow as pa

import rechannel as rc
from tests.property.twin_values import Row, mix
from tests.property.twins import Step, Track

LETTERS = {"operator": "string", "error": "string", "row": "string"}
PLACED = {**LETTERS, "at_timestep": "bigint"}


class DislikedError(Exception):
    """A function fails."""


def dislike(row: Iterable[Any], modulus: int) -> None:
    """Fail for about one row of so many."""
    number = mix(row)
    if number % modulus == 0:
        msg = f"{number} is disliked"
        raise DislikedError(msg)


@dataclass(eq=False, kw_only=True)
class Failing(Step):
    """Rows as they are, by a function that fails for some of them. how: what kind of function."""

    how: str
    modulus: int
    letters: list[Row] = field(default_factory=list)

    def build(self, *inputs: Any) -> Any:
        (rows,) = inputs
        alone = self.alone()
        named = {"name": self.name, "on_error": "dead_letter"}
        if self.how == "filter":
            return rows.filter(alone.liked, **named)
        if self.how == "batches":
            return rows.map_batches(alone.all_liked, **named)
        if self.how == "map":
            return rows.map(alone.same, self.ddl, **named)
        return rows.flat_map(alone.many, self.ddl, **named)

    def liked(self, row: Row) -> bool:
        dislike(row, self.modulus)
        return True

    def same(self, row: Row) -> Row:
        dislike(row, self.modulus)
        return tuple(row)

    def many(self, row: Row) -> Iterator[Row]:
        yield tuple(row)
        dislike(row, self.modulus)

    def all_liked(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        for row in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            dislike(row, self.modulus)
        return batch

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        self.letters, passed = [], []
        for row in inputs[0]:
            try:
                passed.append(self.same(row))
            except DislikedError as error:
                self.letters.append(letter(self.name, error, self.inputs[0].columns, row))
        return passed


@dataclass(eq=False, kw_only=True)
class FailingTrack(Track):
    """Counts rows of keys, by a function that fails for some rows, and so for their keys. batches: one for all keys."""

    modulus: int
    batches: bool
    letters: list[Row] = field(default_factory=list)

    def build(self, *inputs: Any) -> Any:
        keyed = inputs[0].key_by(*self.keys)
        options = {"state": self.declared, "on_error": "dead_letter", **self.timing, **self.options}
        if self.batches:
            return keyed.track_batches(self.follow_all, **options)
        initialise = self.initialise if self.begins else None
        return keyed.track(self.follow, init_state=initialise, **options)

    def follow_all(self, frame: Any) -> Any:
        columns = [column.to_pylist() for column in frame.rows.columns]
        rows = list(zip(*columns, strict=True)) if columns else [()] * len(frame.ids)
        counts, trails = [], []
        for number, start in enumerate(frame.starts.tolist()):
            mine = rows[start : start + int(frame.sizes[number])]
            old = [frame.state.column(i)[number].as_py() for i in range(2)]
            state = self.follow(None, tuple(old) if frame.found[number] else None, mine)
            counts.append(0 if state is None else state[0])
            trails.append(0 if state is None else state[1])
        count, trail = self.fields
        return {count: counts, trail: trails, "_drop": [n == 0 for n in counts]}

    def _mixed(self, trail: int, row: Row) -> int:
        dislike(row, self.modulus)
        return super()._mixed(trail, row)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        self.letters = []
        return super().run(stream_ms, timestep, *inputs)

    def failed(self, key: Row, rows: list[Row], error: Exception) -> bool:
        names = [*self.keys, *self.values]
        self.letters += [letter(self.name, error, names, (*key, *row)) for row in rows]
        return True


@dataclass(eq=False, kw_only=True)
class DeadRows(Step):
    """Dead letters of a step."""

    def build(self, *inputs: Any) -> Any:
        return inputs[0].dead_letters.map(read, self.ddl, name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        (failing,) = self.inputs
        letters: list[Row] = failing.letters  # type: ignore[attr-defined]
        return letters


@dataclass(eq=False, kw_only=True)
class PlacedRows(DeadRows):
    """Dead letters of a step with the timestep that they are of."""

    def build(self, *inputs: Any) -> Any:
        letters = rc.dead_letters(inputs[0], of=self.inputs[0].name)
        return letters.map(read_placed, self.ddl, name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        letters = super().run(stream_ms, timestep, *inputs)
        return [(*each, timestep) for each in letters]


def letter(name: str, error: Exception, columns: Iterable[str], row: Row) -> Row:
    """What becomes of a row."""
    values = {column: _said(value) for column, value in zip(columns, row, strict=True)}
    return name, f"{type(error).__name__}: {error}", _text(values)


def read(row: Any) -> Row:
    """A dead letter with the text of its row as the twin has it."""
    return row.operator, row.error, _text(json.loads(row.row))


def read_placed(row: Any) -> Row:
    """The same, with the timestep."""
    return (*read(row), row.at_timestep)


def _text(values: dict[str, Any]) -> str:
    return json.dumps({name: _zero(value) for name, value in sorted(values.items())})


def _zero(value: Any) -> Any:
    if isinstance(value, list):
        return [_zero(each) for each in value]
    return value + 0.0 if isinstance(value, float) else value


def _said(value: Any) -> Any:
    """A value as JSON has it."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, datetime):
        return value.astimezone(UTC).isoformat()
    return [_said(each) for each in value] if isinstance(value, list) else value


def random_failing(rng: Random, name: str, up: Step) -> Failing | None:
    """A function of rows that fails for some; None where rows are not exact, or hold lists."""
    if up.near or "array" in up.columns.values():
        return None
    how = rng.choice(("filter", "map", "flat_map", "batches"))
    modulus = rng.choice((2, 3, 7))
    return Failing(name=name, columns=dict(up.columns), inputs=(up,), how=how, modulus=modulus)


def with_letters(steps: list[Step], name: Any) -> list[Step]:
    """Readers of the dead letters of steps that have some."""
    failing = [step for step in steps if isinstance(step, Failing | FailingTrack)]
    return [_reader(step, name) for step in failing]


def _reader(step: Failing | FailingTrack, name: Any) -> Step:
    """Read the dead letters of a step, of some with their timestep."""
    if step.modulus == 3:
        return PlacedRows(name=name("dead"), columns=dict(PLACED), inputs=(step,))
    return DeadRows(name=name("dead"), columns=dict(LETTERS), inputs=(step,))
