"""State columns converted row by row, and the eras that say which run needs what."""

from __future__ import annotations

import pickle
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pytest

from rechannel.errors import DamagedStateError, UserFunctionError
from rechannel.kernels.lsm.lookup import find, gather
from rechannel.kernels.lsm.merge import slices_of
from rechannel.kernels.lsm.runs import open_run
from rechannel.kernels.lsm.scan import finished
from rechannel.kernels.protocol.migrate import (
    Answer,
    Carry,
    Compute,
    Fill,
    Migration,
    converted,
    evaluate,
    fingerprint,
)
from rechannel.kernels.protocol.program import StageProgram
from rechannel.model.eventtime import Clock
from rechannel.model.hashing import hash_columns
from rechannel.model.hashspace import Intervals
from rechannel.operators.aggregate.functions import Count, Max, Sum
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.state.segments.segment import open_segment
from tests.support.schema_versions import chains
from tests.support.tasks import Bench, rows

NOW = Clock(stream_ms=0)

KEYS = pa.schema([("k", pa.string())])
OLD = pa.schema([("n", pa.int32()), ("s", pa.string())])
NEW = pa.schema([("n", pa.int64()), pa.field("twice", pa.int64()), pa.field("x", pa.float64())])


def migration(*steps, to=NEW, function=None) -> Migration:
    return Migration(key_schema=KEYS, from_schema=OLD, to_schema=to, steps=steps, function=function)


def widened() -> Migration:
    return migration(
        Carry(column=0),
        Compute(sql="CAST(n AS BIGINT) * 2", columns=("n",)),
        Fill(value=pa.array([0.5])),
    )


def columns(*rows: tuple[str | None, int | None, str | None]) -> list[pa.Array]:
    keys, ns, ss = zip(*rows, strict=True) if rows else ((), (), ())
    return [
        pa.array(keys, pa.string()), pa.array(ns, pa.int32()), pa.array(ss, pa.string())
    ]  # fmt: skip


def test_every_step_makes_its_column():
    made = widened().apply(columns(("a", 1, "x"), ("b", None, None)))

    assert [c.to_pylist() for c in made] == [["a", "b"], [1, None], [2, None], [0.5, 0.5]]
    assert [c.type for c in made[1:]] == NEW.types


def test_no_rows_are_rows():
    made = widened().apply(columns())
    assert [len(c) for c in made] == [0, 0, 0, 0]
    assert [c.type for c in made[1:]] == NEW.types


def test_a_row_does_not_depend_on_its_company():
    many = columns(*((str(i), i, None) for i in range(10)))
    whole = widened().apply(many)
    pieces = [widened().apply([c.slice(i, 3) for c in many]) for i in range(0, 10, 3)]
    for i, column in enumerate(whole):
        assert column.equals(pa.concat_arrays([piece[i] for piece in pieces]))


def test_a_function_sees_keys_and_old_state():
    def shout(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.schema.names == ["k", "n", "s"]
        return pa.record_batch({"loud": batch.column("k"), "n": batch.column("n")})

    to = pa.schema([("n", pa.int64()), ("loud", pa.string())])
    made = migration(Answer(), Answer(), to=to, function=shout).apply(columns(("a", 1, "x")))
    assert [c.to_pylist() for c in made] == [["a"], [1], ["a"]]


@pytest.mark.parametrize(
    ("answer", "what"),
    [
        (lambda b: 1, "it gave int"),
        (lambda b: b.slice(1), "it gave 1 rows"),
        (lambda b: b.select(["s"]), "must answer the column 'n' once; it gave s"),
        (lambda b: pa.record_batch({"n": b.column("s")}), "string does not fit"),
        (lambda b: pa.record_batch({"n": pa.array([1, None])}), "'n' is NOT NULL, but 1 of "),
        (lambda b: 1 / 0, "raised ZeroDivisionError"),
    ],
)
def test_what_a_function_must_not_answer(answer, what):
    to = pa.schema([pa.field("n", pa.int64(), nullable=False)])
    with pytest.raises(UserFunctionError, match=what):
        migration(Answer(), to=to, function=answer).apply(columns(("a", 1, "x"), ("b", 2, "y")))


def test_steps_and_columns_agree():
    with pytest.raises(ValueError, match="1 steps cannot make 3 columns"):
        migration(Carry(column=0))
    with pytest.raises(ValueError, match="steps cannot make"):
        migration(Answer(), Carry(column=0), Carry(column=0))


def test_an_expression_that_fails_names_itself():
    step = Compute(sql="CAST(s AS BIGINT)", columns=("s",))
    batch = pa.RecordBatch.from_arrays(columns(("a", 1, "x")), names=["k", "n", "s"])
    with pytest.raises(UserFunctionError, match=r"migration 'CAST\(s AS BIGINT\)' failed"):
        evaluate(step, batch)


def test_tombstones_are_not_converted():
    def strict(batch: pa.RecordBatch) -> pa.RecordBatch:
        assert batch.column("n").null_count == 0
        return batch.select(["n"])

    to = pa.schema([pa.field("n", pa.int32(), nullable=False)])
    chain = (migration(Answer(), to=to, function=strict),)
    gone = np.array([True, False, True])
    given = columns(("a", None, None), ("b", 2, None), ("c", None, None))

    made, dropped = converted(chain, given, gone)
    assert [c.to_pylist() for c in made] == [["a", "b", "c"], [None, 2, None]]
    assert dropped.tolist() == gone.tolist()
    made, dropped = converted(chain, given, np.ones(3, dtype=np.bool_))
    assert made[1].to_pylist() == [None, None, None]
    assert dropped.all()


def test_rows_whose_time_was_up_become_tombstones():
    timed = pa.schema([("n", pa.int32()), pa.field("_seen", pa.int64(), nullable=False)])
    longer = Migration(
        key_schema=KEYS,
        from_schema=timed,
        to_schema=pa.schema([("n", pa.int32())]),
        steps=(Carry(column=0),),
        expired_before_ms=10,
    )
    keys, state = pa.array(["a", "b", "c"]), pa.array([1, 2, 3], pa.int32())
    made, dropped = converted((longer,), [keys, state, pa.array([9, 10, 11])])
    assert [c.to_pylist() for c in made] == [["a", "b", "c"], [None, 2, 3]]
    assert dropped.tolist() == [True, False, False]
    _, dropped = converted((longer,), [keys, state, pa.array([10, 10, 11])])
    assert dropped is None
    with pytest.raises(ValueError, match="no column '_seen'"):
        replace(longer, from_schema=longer.to_schema)


def test_it_travels():
    again = pickle.loads(pickle.dumps(widened()))
    assert again.apply(columns(("a", 1, "x")))[2].to_pylist() == [2]


def test_a_fingerprint_does_not_know_nullability():
    strict = pa.schema([pa.field("n", pa.int32(), nullable=False), ("s", pa.string())])
    assert fingerprint(KEYS, strict) == fingerprint(KEYS, OLD)
    assert fingerprint(KEYS, NEW) != fingerprint(KEYS, OLD)
    assert len(fingerprint(KEYS, OLD)) == 16


def test_every_migration_begins_an_era():
    there = migration(Carry(column=0), to=pa.schema([("n", pa.int32())]))
    back = Migration(
        key_schema=KEYS,
        from_schema=there.to_schema,
        to_schema=OLD,
        steps=(Carry(column=0), Fill(value=pa.array(["new"]))),
    )
    last, ways = chains([there, back])

    first = fingerprint(KEYS, OLD)
    assert last == f"{first}.2"
    assert ways == {first: (there, back), fingerprint(KEYS, there.to_schema): (back,)}


ROWS = pa.schema([("k", pa.string()), ("v", pa.int64())])


@dataclass
class Running(Bench):
    """A bench whose runs say which columns they have."""

    migrations: tuple[Migration, ...] = ()
    forgets: bool = False

    @property
    def program(self) -> StageProgram:
        schema_version, ways = fingerprint(self.logic.key_schema, self.logic.state_schema), {}
        if self.migrations:
            schema_version, ways = chains(self.migrations)
        return replace(
            super().program, fingerprint=schema_version, migrations={} if self.forgets else ways
        )


def grown(bench: Bench) -> tuple[AggregateLogic, Migration]:
    """One aggregate more."""
    more = {"n": Count(), "total": Sum(column="v"), "top": Max(column="v")}
    logic = AggregateLogic.bind(["k"], more, ROWS)
    steps = (Carry(column=0), Carry(column=1), Fill(value=pa.array([None], pa.int64())))
    old = bench.logic
    return logic, Migration(
        key_schema=old.key_schema,
        from_schema=old.state_schema,
        to_schema=logic.state_schema,
        steps=steps,
    )


def filled() -> Running:
    """Three keys of two aggregates."""
    logic = AggregateLogic.bind(["k"], {"n": Count(), "total": Sum(column="v")}, ROWS)
    bench = Running(logic)
    bench.step([(rows(("a", 1), ("b", 2), ("c", 3)), 0)])
    return bench


def later(bench: Running) -> Running:
    """The same state under logic with one aggregate more."""
    logic, more = grown(bench)
    return replace(bench, logic=logic, migrations=(more,))


def test_look_ups_slices_and_scans_see_the_new_columns():
    bench = later(filled())
    schema = bench.logic.state_schema
    runs = [open_run(bench.program, run) for run in bench.state.runs]

    asked = pa.array(["a", "z"])
    asked = asked.take(pa.array(np.argsort(hash_columns([asked]))))
    state, found = gather(find(runs, hash_columns([asked]), [asked]), 2, schema, 1)
    at = asked.to_pylist().index("a")
    assert found.tolist() == [name == "a" for name in asked.to_pylist()]
    assert [column[at].as_py() for column in state] == [1, 1, None]

    (part,) = [p for run in runs for p in slices_of(run, Intervals.everything())]
    assert [c.type for c in part.columns[1:]] == schema.types
    shown = finished(bench.program, bench.state, NOW).to_pylist()
    assert sorted(row["k"] for row in shown) == ["a", "b", "c"]
    assert {row["top"] for row in shown} == {None}


def test_state_written_afterwards_is_of_the_new_era():
    bench = later(filled())
    emitted = bench.step([(rows(("a", 7)), 0)])
    assert emitted == [{"k": "a", "n": 2, "total": 8, "top": 7}]
    last, _ = chains(bench.migrations)
    newest = open_segment(bench.store, bench.manifest.runs[0].segment)
    assert newest.meta.schema == last
    shown = {row["k"]: row["n"] for row in finished(bench.program, bench.state, NOW).to_pylist()}
    assert shown == {"a": 2, "b": 1, "c": 1}


def test_a_rewrite_leaves_nothing_of_the_old_era():
    bench = later(filled())
    bench.step([(rows(("a", 7), ("b", 7), ("d", 7)), 0)])
    (run,) = bench.manifest.runs  # so few rows are rewritten at once
    assert open_segment(bench.store, run.segment).meta.schema == chains(bench.migrations)[0]
    assert replace(bench, forgets=True).step([(rows(("c", 1)), 0)])[0]["n"] == 2


def test_a_run_of_an_unknown_era_is_refused():
    bench = replace(later(filled()), forgets=True)
    with pytest.raises(
        DamagedStateError, match=r"operator 'op': segment segments/op/.*no migration"
    ):
        finished(bench.program, bench.state, NOW)


def test_a_failing_migration_names_operator_and_segment():
    bench = later(filled())
    (more,) = bench.migrations

    def broken(batch: pa.RecordBatch) -> pa.RecordBatch:
        msg = "no"
        raise RuntimeError(msg)

    bad = replace(more, steps=(Answer(), Answer(), Answer()), function=broken)
    bench = replace(bench, migrations=(bad,))
    with pytest.raises(
        UserFunctionError, match=r"operator 'op', segment segments/op/.* raised Runti"
    ):
        finished(bench.program, bench.state, NOW)
