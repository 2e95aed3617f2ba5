"""Rows that come twice pass once."""

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.settings import Settings
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = "id BIGINT, user STRING, at TIMESTAMP"


def row(id_, user, seconds=0):
    return {"id": id_, "user": user, "at": EPOCH + timedelta(seconds=seconds)}


class Bench:
    """Timesteps of rows, and what passed."""

    def __init__(self, make, *, late=False, tasks=2):
        self.rows = script(ROWS)
        made = make(rc.read().memory(self.rows, name="rows"))
        ends = [made.write.memory("out", name="out")]
        if late:
            ends.append(made.late.write.memory("late", name="late"))
        self.harness = Harness(ends, settings=Settings(tasks=tasks, bins=4))
        self.harness.start()
        self.timestep = 0

    def step(self, *rows):
        self.rows.push(list(rows))
        self.harness.process.run()
        self.timestep += 1
        return self.passed("out")

    def passed(self, sink):
        table = self.harness.outputs(sink)[self.timestep]
        return sorted((r["id"], r["user"]) for r in table.to_pylist())

    def known(self, name):
        return sorted(row["id"] for row in self.harness.state(name).to_pylist())


def test_the_first_row_of_a_key_passes_as_it_is():
    bench = Bench(lambda rows: rows.deduplicate("id", name="once"))
    assert bench.step(row(1, "first"), row(2, "b"), row(1, "second")) == [(1, "first"), (2, "b")]
    assert bench.step(row(2, "later"), row(3, "c")) == [(3, "c")]
    assert bench.step(row(1, "x"), row(2, "x"), row(3, "x")) == []
    assert bench.harness.outputs("out")[1].schema.names == ["id", "user", "at"]
    known = sorted(bench.harness.state("once").to_pylist(), key=lambda r: r["id"])
    assert [(r["id"], r["timestep"]) for r in known] == [(1, 1), (2, 1), (3, 2)]


def test_several_columns_may_be_told_by():
    bench = Bench(lambda rows: rows.deduplicate("id", "user"))
    assert bench.step(row(1, "a"), row(1, "b"), row(1, "a", 5)) == [(1, "a"), (1, "b")]


def test_distinct_is_of_whole_rows():
    bench = Bench(lambda rows: rows.distinct())
    assert bench.step(row(1, "a"), row(1, "a"), row(1, "a", 5)) == [(1, "a"), (1, "a")]
    assert bench.step(row(1, "a")) == []


def test_within_a_time_keys_are_forgotten_and_what_is_older_is_late():
    bench = Bench(
        lambda rows: rows.event_time("at").deduplicate("id", within="10 seconds", name="once"),
        late=True,
    )
    assert bench.step(row(1, "a", 0), row(2, "b", 5), row(1, "again", 9)) == [(1, "a"), (2, "b")]
    assert bench.step(row(3, "c", 10), row(1, "anew", 11)) == [(1, "anew"), (3, "c")]
    assert bench.step(row(1, "same", 12), row(2, "same", 12)) == []
    # Event time is at 12 s: what came at 2 s would be over.
    assert bench.step(row(4, "too old", 2), row(5, "in time", 2.5)) == [(5, "in time")]
    assert bench.passed("late") == [(4, "too old")]
    assert bench.known("once") == [1, 2, 3, 5]
    # Rows of 16 s and later are not late; from 15 s on, those of 2 are not the same.
    assert bench.step(row(9, "d", 26)) == [(9, "d")]
    assert bench.known("once") == [1, 3, 9]


@pytest.mark.parametrize("size", [1, 2, 3, 6])
def test_which_rows_pass_does_not_depend_on_the_cuts(size):
    for seconds, passing in (
        ([0, 30, 60, 90, 120, 150], [0, 30, 60, 90, 120, 150]),
        # From the last row that passed, whatever came meanwhile.
        ([0, 6, 12, 18, 24, 30], [0, 12, 24]),
        # What is of before it is the same, also where event time has come past its end.
        ([0, 12, 5, 11, 21, 22], [0, 12, 22]),
        ([30, 25, 39, 35, 40, 31], [30, 40]),
    ):
        bench = Bench(
            lambda rows: rows.event_time("at", "1 minute").deduplicate("id", within="10 seconds")
        )
        shown = []
        for start in range(0, 6, size):
            bench.step(*(row(1, f"{at}", at) for at in seconds[start : start + size]))
            table = bench.harness.outputs("out")[bench.timestep]
            shown += [int(user) for user in table.column("user").to_pylist()]
        assert shown == passing


@pytest.mark.parametrize("size", [1, 3])
def test_a_key_is_known_to_all_rows_that_are_not_late(size):
    """Event time passes the end of what counts as the same, and a row that is not late is of before it."""
    bench = Bench(
        lambda rows: rows.event_time("at").deduplicate("id", within="10 seconds"), late=True
    )
    rows = [row(1, "a", 0), row(2, "b", 12), row(1, "same", 5)]
    shown = []
    for start in range(0, 3, size):
        shown += bench.step(*rows[start : start + size])
        assert bench.passed("late") == []
    assert shown == [(1, "a"), (2, "b")]


def test_a_row_without_a_time_is_late():
    bench = Bench(
        lambda rows: rows.event_time("at").deduplicate("id", within="10 seconds", name="once"),
        late=True,
    )
    assert bench.step({"id": 1, "user": "no time", "at": None}) == []
    assert bench.passed("late") == [(1, "no time")]
    assert bench.harness.state("once").num_rows == 0
    assert bench.step({"id": 1, "user": "no time", "at": None}, row(1, "a", 50)) == [(1, "a")]
    assert bench.passed("late") == [(1, "no time")]
    assert bench.step(row(1, "same", 59), {"id": 1, "user": "none", "at": None}) == []
    assert bench.step(row(1, "anew", 60)) == [(1, "anew")]


def test_it_is_the_same_while_tasks_and_bins_change():
    alone = Bench(lambda rows: rows.deduplicate("id", name="once"))
    moved = Bench(lambda rows: rows.deduplicate("id", name="once"), tasks=1)
    for number in range(6):
        rows = [row(i * 7 % 20 + number, f"{number}-{i}") for i in range(12)]
        if number == 2:
            moved.harness.process.reconfigure(rc.changes.rescale("once", 3), rc.strategies.fluid(1))
        if number == 4:
            moved.harness.process.reconfigure(
                [rc.changes.split("once", 0), rc.changes.rescale("once", 2)]
            )
        assert moved.step(*rows) == alone.step(*rows)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rows: rows.deduplicate(), "name at least one column"),
        (lambda rows: rows.deduplicate("id", within=5), "needs a column of event times"),
        (lambda rows: rows.deduplicate("id", within=5, time_column="at"), "'rows' get there without one"),
        (lambda rows: rows.event_time("at").deduplicate("id", within=5, time_column="id"), "must be timestamps"),
        (lambda rows: rows.event_time("at").deduplicate("id", within=0), "within must be a timedelta"),
        (lambda rows: rows.map(tuple, "until_us LONG").deduplicate("until_us"), "is reserved for state"),
        (lambda rows: rows.transform(lambda df: df).distinct(), "columns are not known yet"),
        (lambda rows: rows.deduplicate("id").late, "has no late rows"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(DataflowError, match=message):
        dataflow_of(make(rc.read().memory(script(ROWS), name="rows")))


def test_a_missing_column_is_an_unknown_column():
    with pytest.raises(UnknownColumnError):
        rc.read().memory(script(ROWS), name="rows").deduplicate("who")


def test_keys_with_floats_inside_are_table_key_as_spark_tells_them():
    rows = script("k STRUCT<x: DOUBLE, l: ARRAY<DOUBLE>>, v BIGINT")
    stream = rc.read().memory(rows, name="rows")
    ends = [
        stream.deduplicate("k", name="once").write.memory("out", name="out"),
        stream.key_by("k").aggregate(n=agg.count(), name="counts"),
    ]
    harness = Harness(ends, settings=Settings(tasks=2))
    harness.start()
    nan = float("nan")
    keys = [
        {"x": -0.0, "l": [nan]},
        {"x": 0.0, "l": [-nan]},
        {"x": nan, "l": [-0.0]},
        {"x": -nan, "l": [0.0]},
    ]
    rows.push([{"k": key, "v": i} for i, key in enumerate(keys)])
    harness.process.run()
    passed = sorted(harness.outputs("out")[1].to_pylist(), key=lambda row: row["v"])
    assert [row["v"] for row in passed] == [0, 2]
    assert [str(row["k"]) for row in passed] == [
        "{'x': 0.0, 'l': [nan]}",
        "{'x': nan, 'l': [0.0]}",
    ]
    assert [row["n"] for row in harness.state("counts").to_pylist()] == [2, 2]
