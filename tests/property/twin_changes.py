"""Changelogs, naively: the table that an operator's rows make up, as a dict, before and after every timestep.

See `twins`. A table is what `state` shows, where an operator shows all its state. Of windows and sessions, those that
were shown stay in it when their state is gone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from rechannel.errors import DataflowError
from tests.property.programs import Program
from tests.property.twin_timers import Timed
from tests.property.twin_tops import Top
from tests.property.twin_values import Row, plain
from tests.property.twin_windows import Sessions, Window, ms_of
from tests.property.twins import Aggregate, Filter, Keyed, Step, tie

CHANGE = "what"
"""The column of changes."""

Table = dict[str, Row]
"""Rows by the text of their key."""


@dataclass(eq=False, kw_only=True)
class Changes(Step):
    """What happens to the table of a step. before: whether rows before updates are among them."""

    before: bool = True
    table: Table = field(default_factory=dict)

    def reset(self) -> None:
        self.table = {}

    def build(self, *inputs: Any) -> Any:
        return inputs[0].changelog(before=self.before, column=CHANGE, name=self.name)

    def run(self, stream_ms: int, timestep: int, *inputs: list[Row]) -> list[Row]:
        (operator,) = self.inputs
        assert isinstance(operator, Keyed)
        operator.stream_ms = stream_ms
        old, self.table = self.table, after(operator, self.table, inputs[0])
        keys, places, rows = [], [], []
        for text, row in {**old, **self.table}.items():
            for phase, made in enumerate(changes_of(old.get(text), self.table.get(text))):
                if made[-1] == "update_before" and not self.before:
                    continue
                keys.append(row[: len(operator.hashed)])
                places.append((tie(identity_of(operator, row)), phase))
                rows.append(made)
        return operator._placed(keys, places, rows)


def changes_of(old: Row | None, new: Row | None) -> list[Row]:
    """What is told of a key, given its row before and after."""
    if old is None:
        return [] if new is None else [(*new, "insert")]
    if new is None:
        return [(*old, "delete")]
    if plain(list(old)) == plain(list(new)):
        return []
    return [(*old, "update_before"), (*new, "update_after")]


def after(operator: Keyed, table: Table, emitted: list[Row]) -> Table:
    """The table after a timestep. emitted: what the operator emitted in it."""
    if isinstance(operator, Sessions):
        return _with_sessions(operator, table, emitted)
    if isinstance(operator, Window):
        shown = list(emitted)
        if operator.early is not None:
            shown += operator.state()
        return {**table, **_by_key(operator, shown)}
    return _by_key(operator, operator.state())


def _with_sessions(operator: Sessions, table: Table, emitted: list[Row]) -> Table:
    """Sessions of now replace all that lie within them."""
    kept, width = dict(table), len(operator.keys)
    present = [*emitted, *operator.state()]
    for row in present:
        for text, old in table.items():
            same = plain(list(old[:width])) == plain(list(row[:width]))
            if same and row[width] <= old[width] and old[width + 1] <= row[width + 1]:
                kept.pop(text, None)
    every = not operator.complete or operator.early is not None
    shown = [
        row
        for row in present
        if every or operator.passed(ms_of(row[width + 1]) + 1, operator.watermark)
    ]
    return {**kept, **_by_key(operator, shown)}


def _by_key(operator: Keyed, rows: list[Row]) -> Table:
    return {repr(plain(list(identity_of(operator, row)))): row for row in rows}


def identity_of(operator: Keyed, row: Row) -> Row:
    """What tells a row of the table from others: the key, and the rank or the begin of the session."""
    more = isinstance(operator, Sessions) or (isinstance(operator, Top) and not operator.last)
    return row[: len(operator.keys) + more]


# Programs ------------------------------------------------------------------------------------------


def told(step: Step) -> bool:
    """Whether there is a changelog of a step whose twin is exact."""
    if not isinstance(step, Keyed) or step.near:
        return False
    try:
        step.stream({}).changelog(column=CHANGE)
    except DataflowError:
        return False
    return True


def with_changelogs(program: Program, rng: Random) -> Program:
    """The program, and a sink for the changelog of every step that has one, or of what is made of it."""
    ends = dict(program.ends)
    for step in [step for step in program.steps if told(step)]:
        columns = {**step.columns, CHANGE: "string"}
        made: Step = Changes(
            name=f"changes-of-{step.name}",
            columns=columns,
            inputs=(step,),
            before=rng.random() < 0.8,
        )
        ends[f"sink-{made.name}"] = made
        if rng.random() < 0.3:
            more = downstream(made, rng)
            ends[f"sink-{more.name}"] = more
    return Program(ends=ends, times=program.times)


def downstream(made: Step, rng: Random) -> Step:
    """An operator, or a function, of a changelog."""
    if rng.random() < 0.5:
        return Filter(
            name=f"some-{made.name}",
            columns=made.columns,
            inputs=(made,),
            modulus=rng.randint(2, 5),
        )
    first, kind = next(iter(made.columns.items()))
    return Aggregate(
        name=f"counts-{made.name}",
        columns={CHANGE: "string", "n_of": "long", "last_of": kind},
        inputs=(made,),
        keys=(CHANGE,),
        chosen={"n_of": ("count", ""), "last_of": ("last", first)},
    )


def kind_of(step: Step) -> str:
    """How the rows of a step become those of a table, to see that each way was met."""
    if isinstance(step, Window):
        shown = "early" if step.early else "on close" if step.complete else "on update"
        return f"{type(step).__name__} {shown}"
    if isinstance(step, Timed):
        return "timers of event time" if step.event else "timers of processing time"
    return type(step).__name__


def check_fold(where: str, by_timestep: Mapping[int, list[Row]], operator: Keyed) -> Table:
    """Apply a changelog with rows before updates, and see that every row goes with those before it."""
    table: Table = {}
    for timestep, rows in by_timestep.items():
        known, now = dict(table), dict(table)
        for *values, change in rows:
            row = tuple(values)
            (text,) = _by_key(operator, [row])
            at = f"{where}, timestep {timestep}, key {text}: {change} of {row}"
            if change in ("update_before", "delete"):
                assert text in known, f"{at}: it was never inserted"
                assert plain(list(known[text])) == plain(values), f"{at}: it was {known[text]}"
                assert now.pop(text, None) is not None, f"{at}: there are two of it"
            if change == "insert":
                assert text not in known, f"{at}: it is there already, as {known[text]}"
            if change == "update_after":
                assert text in known, f"{at}: nothing was before it"
                assert plain(list(known[text])) != plain(values), f"{at}: nothing changed"
            if change in ("insert", "update_after"):
                assert text not in now or change == "update_after", f"{at}: there are two of it"
                now[text] = row
        table = now
    return table
