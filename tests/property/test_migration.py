"""Runs of several eras, read lazily, against a dict that migrates everything at once.

The naive twin keeps one dict from key to a dict of state columns. When a migration comes, it converts every entry in
Python. The kernels keep runs as they were written and convert what they read. Both must show the same after every
change, whatever was merged when, and in whatever pieces rows were converted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rechannel.dataflow.evolution.migration import Migrate, migrate
from rechannel.dataflow.evolution.succession import migration_between
from rechannel.kernels.columnar.sorting import sort_index, take
from rechannel.kernels.lsm.lookup import find, gather
from rechannel.kernels.lsm.merge import Rows, merge_rows, slices_of
from rechannel.kernels.lsm.runs import RunWriter, live_at, open_run
from rechannel.kernels.lsm.scan import finished
from rechannel.kernels.protocol.migrate import Migration, fingerprint
from rechannel.kernels.protocol.program import Branch, StageProgram, StageStep, TaskState
from rechannel.kernels.protocol.resolved import Capabilities
from rechannel.model.eventtime import Clock
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import SPACE, Intervals
from rechannel.operators.process.track import TrackLogic
from rechannel.state.manifest import Edit, Manifest
from rechannel.state.stores.memory import MemoryStore
from tests.support.schema_versions import chains

KEYS = pa.schema([("k", pa.string())])
FIRST = pa.schema([("n", pa.int32()), ("s", pa.string())])
NAMES = st.sampled_from([None, "", *"abcdefghij"])
EIGHTHS = st.frozensets(st.integers(0, 7), min_size=1)

State = dict[str, Any]
Convert = Callable[[str | None, State], State]


@dataclass
class Change:
    """A migration, said to Rechannel and done by hand."""

    said: Migrate
    schema: pa.Schema
    by_hand: Convert


def integers(schema: pa.Schema) -> list[str]:
    return [f.name for f in schema if pa.types.is_integer(f.type)]


@st.composite
def changes(draw: st.DrawFn, old: pa.Schema, number: int) -> Change:
    """Any of what `rc.changes.migrate` can say, for these columns."""
    how = draw(st.sampled_from(["value", "expression", "rename", "drop", "retype", "using"]))
    column = draw(st.sampled_from(old.names))
    name, place = f"c{number}", old.get_field_index(column)
    if how == "value":
        value = draw(st.integers(-5, 5))
        schema = old.insert(draw(st.integers(0, len(old))), pa.field(name, pa.int64(), False))
        return Change(migrate(add={name: value}), schema, lambda k, s: {**s, name: value})
    if how == "expression" and integers(old):
        column = draw(st.sampled_from(integers(old)))
        sql = f"COALESCE(CAST({column} AS BIGINT) * 2 + LENGTH(COALESCE(k, '')), -1)"

        def computed(key: str | None, state: State) -> State:
            now = -1 if state[column] is None else state[column] * 2 + len(key or "")
            return {**state, name: now}

        return Change(migrate(add={name: sql}), old.append(pa.field(name, pa.int64())), computed)
    if how == "drop" and len(old) > 1:
        schema = old.remove(place)
        return Change(
            migrate(drop=column), schema, lambda k, s: {c: v for c, v in s.items() if c != column}
        )
    if how == "retype" and old.field(place).type == pa.int32():
        schema = old.set(place, old.field(place).with_type(pa.int64()))
        return Change(migrate(retype={column: "BIGINT"}), schema, lambda k, s: s)
    if how == "using":
        return Change(migrate(using=turned), old, lambda k, s: dict(map(turned_value, s.items())))
    schema = old.set(place, old.field(place).with_name(name))
    return Change(
        migrate(rename={column: name}),
        schema,
        lambda k, s: {name if c == column else c: v for c, v in s.items()},
    )


def turned(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Numbers one less, texts turned round: the same columns mean something else."""
    state = batch.select(batch.schema.names[1:])
    rows = [dict(map(turned_value, row.items())) for row in state.to_pylist()]
    return pa.RecordBatch.from_pylist(rows, schema=state.schema)


def turned_value(item: tuple[str, Any]) -> tuple[str, Any]:
    name, value = item
    if value is None:
        return name, None
    return name, value[::-1] if isinstance(value, str) else value - 1


def hashes_of(keys: list[str | None]) -> np.ndarray:
    return hash_columns([pa.array(keys, pa.string())]) if keys else np.empty(0, np.uint64)


@dataclass
class Twins:
    """State as runs, and as a dict."""

    schema: pa.Schema = FIRST
    migrations: list[Migration] = field(default_factory=list)
    store: MemoryStore = field(default_factory=MemoryStore)
    manifest: Manifest = field(default_factory=Manifest)
    naive: dict[str | None, State] = field(default_factory=dict)
    timestep: int = 0
    timeout: int | None = None
    stream_ms: int = 0

    @property
    def logic(self) -> TrackLogic:
        return TrackLogic(
            key_schema=KEYS,
            value_schema=pa.schema([]),
            fields=self.schema,
            timeout_ms=self.timeout,
            update=lambda key, state, rows: state,
        )

    @property
    def program(self) -> StageProgram:
        logic = self.logic
        schema_version, ways = fingerprint(KEYS, logic.state_schema), {}
        if self.migrations:
            schema_version, ways = chains(self.migrations)
        root = Branch(node="op", schema=logic.output_schema)
        return StageProgram(
            operator="op",
            root=root,
            store=self.store,
            logic=logic,
            fingerprint=schema_version,
            migrations=ways,
        )

    def change(self, change: Change) -> None:
        self.migrations.append(change.said.bind(self.schema, change.schema, keys=KEYS))
        self.schema = change.schema
        self.naive = {key: change.by_hand(key, state) for key, state in self.naive.items()}

    def write(self, rows: dict[str | None, State | None]) -> None:
        """One timestep's run. None is a tombstone."""
        keys = list(rows)
        hashes = hashes_of(keys)
        order = sort_index(hashes)
        states = [rows[keys[i]] or {} for i in order]
        columns = [pa.array([keys[i] for i in order], pa.string())]
        fields = self.logic.state_schema
        columns += [pa.array([s.get(f.name) for s in states], f.type) for f in fields]
        dropped = np.array([rows[keys[i]] is None for i in order], dtype=np.bool_)
        self._add(Rows(hashes[order], columns, dropped if dropped.any() else None), 0)
        for key, state in rows.items():
            self.naive.pop(key, None)
            if state is not None:
                self.naive[key] = state

    def merge(self, where: Intervals) -> None:
        """All runs into one, for some hashes."""
        seqs = tuple(run.seq for run in self.manifest.runs)
        parts = self.parts(where)
        if not parts:
            return
        live = live_at(Capabilities(self.logic), Clock(stream_ms=self.stream_ms))
        whole = merge_rows(parts, 1, live, bottom=True)
        self.manifest = self.manifest.apply(Edit(retire=((seqs, where),)))
        self._add(whole, 2, where)

    def _add(self, rows: Rows, level: int, where: Intervals | None = None) -> None:
        self.timestep += 1
        step = StageStep(timestep=self.timestep, stream_ms=0)
        writer = RunWriter(self.program, step, 0, f"a{self.timestep}")
        runs = writer.write(rows, where or Intervals.everything(), self.timestep, level)
        self.manifest = self.manifest.apply(Edit(add=runs))

    def parts(self, where: Intervals) -> list[Rows]:
        runs = [open_run(self.program, run) for run in self.manifest.within(where)]
        return [part for run in runs for part in slices_of(run, where)]

    def looked_up(self, keys: list[str | None]) -> dict[str | None, State]:
        hashes = hashes_of(keys)
        order = sort_index(hashes)
        (asked,) = take([pa.array(keys, pa.string())], order)
        runs = [open_run(self.program, run) for run in self.manifest.runs]
        columns, found = gather(
            find(runs, hashes[order], [asked]), len(keys), self.schema, offset=1
        )
        assert [column.type for column in columns] == self.schema.types
        rows = pa.RecordBatch.from_arrays(columns, schema=self.schema).to_pylist()
        return {key: rows[i] for i, key in enumerate(asked.to_pylist()) if found[i]}

    def scanned(self, own: Intervals) -> dict[str | None, State]:
        state = TaskState(own=own, runs=self.manifest.within(own))
        rows = finished(self.program, state, Clock(stream_ms=self.stream_ms)).to_pylist()
        return {row.pop("k"): row for row in rows}

    def retime(self, timeout: int | None) -> None:
        old = self.logic
        self.timeout = timeout
        migration = migration_between(old, self.logic, stream_ms=self.stream_ms)
        if migration is not None:
            self.migrations.append(migration)


def hashes_in(eighths: frozenset[int]) -> Intervals:
    return Intervals.of((i * SPACE // 8, (i + 1) * SPACE // 8) for i in eighths)


def lies_in(key: str | None, where: Intervals) -> bool:
    at = int(hashes_of([key])[0])
    return any(lo <= at < hi for lo, hi in where)


@st.composite
def rows_of(draw: st.DrawFn, schema: pa.Schema) -> dict[str | None, State | None]:
    def value(kind: pa.Field) -> st.SearchStrategy[Any]:
        plain = (
            st.integers(-9, 9)
            if pa.types.is_integer(kind.type)
            else st.sampled_from(["", "x", "yz"])
        )
        return st.none() | plain if kind.nullable else plain

    state = st.fixed_dictionaries({f.name: value(f) for f in schema})
    return draw(st.dictionaries(NAMES, st.none() | state, max_size=8))


@given(st.data())
def test_lazy_migration_is_migration_of_everything_at_once(data: st.DataObject):
    twins = Twins()
    twins.write(data.draw(rows_of(twins.schema)))
    for number in range(data.draw(st.integers(2, 8))):
        event = data.draw(st.sampled_from(["rows", "change", "change", "merge"]))
        if event == "change":
            twins.change(data.draw(changes(twins.schema, number)))
        elif event == "merge":
            twins.merge(hashes_in(data.draw(EIGHTHS)))
        else:
            twins.write(data.draw(rows_of(twins.schema)))
        asked = data.draw(st.lists(NAMES, unique=True, min_size=6))
        expected = {key: twins.naive[key] for key in asked if key in twins.naive}
        assert twins.looked_up(asked) == expected
        own = hashes_in(data.draw(EIGHTHS))
        inside = {key: state for key, state in twins.naive.items() if lies_in(key, own)}
        assert twins.scanned(own) == inside


@given(st.data())
def test_after_a_rewrite_nothing_needs_a_migration_any_more(data: st.DataObject):
    twins = Twins()
    for number in range(data.draw(st.integers(1, 4))):
        twins.write(data.draw(rows_of(twins.schema)))
        twins.change(data.draw(changes(twins.schema, number)))
    twins.merge(Intervals.everything())
    runs = [open_run(twins.program, run) for run in twins.manifest.runs]
    assert all(run.migrations == () for run in runs)
    assert twins.scanned(Intervals.everything()) == twins.naive


TIMEOUTS = st.sampled_from([None, 3, 6, 12])


@given(st.data())
def test_no_key_that_a_timeout_ended_comes_back(data: st.DataObject):
    """Timeouts come, go and change; what was merged when does not show."""
    twins = Twins(schema=pa.schema([("n", pa.int32())]), timeout=data.draw(TIMEOUTS))
    for _ in range(data.draw(st.integers(2, 10))):
        twins.stream_ms += data.draw(st.integers(0, 4))
        event = data.draw(st.sampled_from(["rows", "rows", "timeout", "merge"]))
        expire(twins)
        if event == "timeout":
            timed, timeout = twins.timeout is not None, data.draw(TIMEOUTS)
            twins.retime(timeout)
            if timeout is not None and not timed:
                twins.naive = {k: {**s, "_seen": twins.stream_ms} for k, s in twins.naive.items()}
            expire(twins)
        elif event == "merge":
            twins.merge(hashes_in(data.draw(EIGHTHS)))
        else:
            keys = data.draw(st.lists(NAMES, unique=True))
            twins.write({key: {"n": i, "_seen": twins.stream_ms} for i, key in enumerate(keys)})
        expected = {key: {"n": state["n"]} for key, state in twins.naive.items()}
        assert twins.scanned(Intervals.everything()) == expected


def expire(twins: Twins) -> None:
    """By hand: forget keys whose time is up."""
    if twins.timeout is not None:
        limit = twins.stream_ms - twins.timeout
        twins.naive = {k: s for k, s in twins.naive.items() if s["_seen"] >= limit}
