"""A stream that looks its rows up in a table, in a running job."""

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, RefusedError, UnknownColumnError
from rechannel.testing import Harness, script
from tests.support.reports import reports_in

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SETTINGS = rc.Settings(tasks=2, bins=4)
LEFT = "k BIGINT, a STRING"
RIGHT = "id BIGINT, a STRING, at BIGINT, sure BOOLEAN"


class Bench:
    """Rows (k, a) look up rows (id, a, at, sure)."""

    def __init__(self, *, settings=SETTINGS, **options):
        self.scripts = script(LEFT), script(RIGHT)
        left, right = (
            rc.read().memory(each, name=name)
            for name, each in zip(("rows", "table"), self.scripts, strict=True)
        )
        found = left.lookup(right, {"k": "id"}, name="found", **options)
        self.harness = Harness([found.write.memory("out", name="out")], settings=settings)
        self.harness.start()
        self.told = []
        run = self.harness.process.runner.run
        self.harness.process.runner.run = lambda *step: (
            self.told.extend(reports_in(made := run(*step))) or made
        )
        self.timestep = 0

    def step(self, left=(), right=()):
        """One timestep; what it showed."""
        self.told.clear()
        names = ("id", "a", "at", "sure")
        self.scripts[0].push([{"k": k, "a": a} for k, a in left])
        self.scripts[1].push([dict(zip(names, row, strict=False)) for row in right])
        self.harness.process.run()
        self.timestep += 1
        rows = self.harness.outputs("out")[self.timestep].to_pylist()
        return sorted((tuple(row.values()) for row in rows), key=repr)

    def written(self):
        """Runs that the last timestep wrote."""
        states = [report.state for report in self.told if report.operator == "found"]
        return sum(len(state.edit.add) for state in states)

    def counted(self, name):
        return sum(r.costs.counts.get(name, 0) for r in self.told if r.operator == "found")

    def state(self):
        return sorted(tuple(r.values()) for r in self.harness.state("found").to_pylist())


def test_rows_find_what_the_table_has_by_then_and_do_not_wait():
    bench = Bench()
    assert bench.step([(1, "x"), (2, "y")], [(1, "r", 5, True)]) == [(1, "x", "r", 5, True)]
    assert bench.step([], [(2, "s", 6, False)]) == []
    assert bench.step([(2, "z"), (1, "w"), (2, "v")]) == [
        (1, "w", "r", 5, True),
        (2, "v", "s", 6, False),
        (2, "z", "s", 6, False),
    ]
    assert bench.harness.outputs("out")[1].schema.names == ["k", "a", "a_right", "at", "sure"]
    assert bench.state() == [(1, "r", 5, True), (2, "s", 6, False)]
    assert bench.harness.state("found").schema.names == ["k", "a", "at", "sure"]


def test_the_row_that_came_last_counts_and_those_of_a_timestep_before_its_look_ups():
    bench = Bench()
    first = [(1, "r", 9, True), (1, "s", 7, None)]
    assert bench.step([(1, "x")], first) == [(1, "x", "s", 7, None)]
    assert bench.step([(1, "x")], [(1, "t", 1, True)]) == [(1, "x", "t", 1, True)]
    assert bench.state() == [(1, "t", 1, True)]


def test_the_row_with_the_largest_by_counts_and_of_those_the_last():
    bench = Bench(by=["at", "sure"])
    first = [(1, "r", 5, False), (1, "s", 5, True), (1, "t", 5, True), (1, "u", None, True)]
    assert bench.step([(1, "x")], first) == [(1, "x", "t", 5, True)]
    assert bench.step([(1, "x")], [(1, "v", 5, False), (1, "w", 4, True)]) == [
        (1, "x", "t", 5, True)
    ]
    assert bench.step([(1, "x")], [(1, "v", 5, True)]) == [(1, "x", "v", 5, True)]
    assert bench.step([(2, "x")], [(2, "n", None, None), (2, "m", 0, None)]) == [
        (2, "x", "m", 0, None)
    ]


def test_without_a_match_rows_go_or_are_shown_with_nulls_and_null_matches_nothing():
    bench = Bench(how="left")
    shown = bench.step([(1, "x"), (None, "n"), (3, "z")], [(1, "r", 5, True), (None, "m", 6, True)])
    assert shown == [
        (1, "x", "r", 5, True),
        (3, "z", None, None, None),
        (None, "n", None, None, None),
    ]
    assert bench.state() == [(1, "r", 5, True)]
    inner = Bench()
    assert inner.step([(None, "n"), (3, "z")], [(None, "m", 6, True)]) == []
    assert inner.state() == []


def test_a_timestep_of_rows_alone_writes_nothing_and_those_kept_are_the_tables():
    bench = Bench(by="at")
    bench.step([], [(k, "r", 5, True) for k in range(100)])
    assert bench.written()
    assert bench.step([(k, "x") for k in range(50)])
    assert not bench.written()
    assert bench.counted("rows_out") == 50
    # A row that is not newer is not written either.
    bench.step([], [(7, "s", 4, True)])
    assert not bench.written()
    assert len(bench.state()) == 100


def test_of_a_tables_rows_only_the_newest_travel():
    bench = Bench(by="at")
    bench.step([(1, "x")] * 5, [(k, "r", at, True) for k in range(3) for at in range(40)])
    assert bench.counted("rows_in") == 5 + 3
    assert [row[2] for row in bench.state()] == [39, 39, 39]


def test_the_table_may_be_what_another_operator_keeps():
    rows = script("k STRING, n BIGINT")
    stream = rc.read().memory(rows, name="rows")
    totals = stream.key_by("k").aggregate(total=agg.sum("n"), name="totals")
    found = stream.lookup(totals, "k", name="found")
    harness = Harness([found.write.memory("out", name="out")], settings=SETTINGS)
    harness.start()
    for n in (3, 4):
        rows.push([{"k": "a", "n": n}, {"k": "b", "n": n}])
        harness.process.run()
    shown = [table.to_pylist() for table in harness.outputs("out").values()]
    assert [sorted(tuple(row.values()) for row in each) for each in shown] == [
        [("a", 3, 3), ("b", 3, 3)],
        [("a", 4, 7), ("b", 4, 7)],
    ]


def test_a_table_without_other_columns_tells_who_is_in_it():
    rows, table = script(LEFT), script("k BIGINT")
    known = (
        rc.read()
        .memory(rows, name="rows")
        .lookup(rc.read().memory(table, name="table"), "k", name="known")
    )
    harness = Harness([known.write.memory("out", name="out")], settings=SETTINGS)
    harness.start()
    table.push([{"k": 1}])
    rows.push([{"k": 1, "a": "x"}, {"k": 2, "a": "y"}])
    harness.process.run()
    rows.push([{"k": 1, "a": "z"}, {"k": 2, "a": "y"}])
    harness.process.run()
    shown = [list(table.to_pylist()) for table in harness.outputs("out").values()]
    assert shown == [[{"k": 1, "a": "x"}], [{"k": 1, "a": "z"}]]


def test_what_may_be_missing_is_nullable():
    stream = rc.read().memory(script("k STRING, n BIGINT"), name="rows")
    counts = stream.key_by("k").aggregate(seen=agg.count(), name="counts")
    assert not stream.lookup(counts, "k").schema.field("seen").nullable
    assert stream.lookup(counts, "k", how="left").schema.field("seen").nullable


def test_event_time_comes_with_the_rows_and_not_with_the_table():
    rows, table = script("k BIGINT, at TIMESTAMP"), script("k BIGINT, a STRING, at TIMESTAMP")
    stream = rc.read().memory(rows, name="rows").event_time("at")
    timed = rc.read().memory(table, name="table").event_time("at", "1 hour")
    for each in (timed, rc.read().memory(table, name="table")):
        found = stream.lookup(each, "k", name="found")
        counts = found.key_by("a").window(rc.windows.tumbling("10 seconds"), time_column="at")
        ends = counts.aggregate(n=agg.count(), name="counts").write.memory("out", name="out")
        harness = Harness([ends], settings=SETTINGS)
        harness.start()
        table.push([{"k": 1, "a": "x", "at": EPOCH - timedelta(days=1)}])
        rows.push([{"k": 1, "at": EPOCH + timedelta(seconds=s)} for s in (1, 2, 15)])
        harness.process.run()
        assert [row["n"] for row in harness.output("out").to_pylist()] == [2]
        table.batches.clear()
        rows.batches.clear()


def test_how_may_change_live_and_what_is_kept_may_not():
    rows, table = script(LEFT), script("k BIGINT, n BIGINT")

    def build(how, by=()):
        stream = rc.read().memory(rows, name="rows")
        found = stream.lookup(
            rc.read().memory(table, name="table"), "k", how=how, by=by, name="found"
        )
        return [found.write.memory("out", name="out")]

    harness = Harness(build("inner"), settings=SETTINGS)
    harness.start()
    table.push([{"k": 1, "n": 7}])
    rows.push([{"k": 1, "a": "x"}, {"k": 2, "a": "y"}])
    harness.process.run()
    harness.process.reconfigure([rc.changes.change_dataflow(*build("left"))])
    harness.process.run()
    rows.push([{"k": 1, "a": "x"}, {"k": 2, "a": "y"}])
    harness.process.run()
    shown = harness.outputs("out")[2].to_pylist()
    assert sorted(row["n"] or 0 for row in shown) == [0, 7]
    with pytest.raises(RefusedError, match="which rows it keeps"):
        harness.process.reconfigure([rc.changes.change_dataflow(*build("left", by="n"))])


def test_a_table_gets_another_column_while_it_runs():
    rows, table = script(LEFT), script("k BIGINT, n BIGINT")

    def build(*more):
        known = rc.read().memory(table, name="table")
        if more:
            known = known.map(lambda row: (*row, row.n * 2), "k BIGINT, n BIGINT, twice BIGINT")
        stream = rc.read().memory(rows, name="rows")
        return stream.lookup(known, "k", name="found").write.memory("out", name="out")

    harness = Harness(build(), settings=SETTINGS)
    harness.start()
    table.push([{"k": 1, "n": 7}, {"k": 2, "n": 8}])
    harness.process.run()
    with pytest.raises(RefusedError, match="twice"):
        harness.process.reconfigure([rc.changes.change_dataflow(build("twice"))])
    said = {"found": rc.changes.migrate(add={"twice": "n * 2"})}
    harness.process.reconfigure([rc.changes.change_dataflow(build("twice"), migrate=said)])
    harness.process.run()
    table.push([{"k": 2, "n": 9}])
    rows.push([{"k": 1, "a": "x"}, {"k": 2, "a": "y"}])
    harness.process.run()
    shown = sorted(tuple(row.values()) for row in harness.outputs("out")[2].to_pylist())
    assert shown == [(1, "x", 7, 14), (2, "y", 9, 18)]


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script(LEFT), name="rows")
    table = rc.read().memory(script(RIGHT), name="table")
    words = rc.read().memory(script("k STRING, a STRING, a_right STRING"), name="words")
    tags = rc.read().memory(script("k BIGINT, tags ARRAY<STRING>"), name="tags")
    for wrong, message in (
        (lambda: stream.lookup(tags, "k", by="tags"), "cannot be ordered by 'tags'"),
        (lambda: stream.lookup([1], "k"), "takes a stream, a DataFrame"),
        (lambda: stream.lookup(table, "k"), "no column 'k'"),
        (lambda: stream.lookup(table, []), "the columns to join on"),
        (lambda: stream.lookup(table, {"k": "id"}, how="full"), "'inner'"),
        (lambda: stream.lookup(table, {"k": "id"}, by="when"), "no column 'when'"),
        (lambda: stream.lookup(table, {"k": "id"}, by="id"), "are equal"),
        (lambda: stream.lookup(table, {"k": "id"}, by=["at", "at"]), "each once"),
        (lambda: stream.lookup(table, {"k": "id"}, suffix=1), "suffix"),
        (lambda: stream.lookup(table, {"k": "a"}), "cast one of them"),
        (lambda: stream.lookup(words, {"a": "k"}), "another suffix"),
        (lambda: stream.lookup(table, {"k": "id"}, name="found").late, "no late rows"),
    ):
        with pytest.raises((DataflowError, UnknownColumnError), match=message):
            wrong()


def totals_of(table):
    """An operator on a table's source, as (its stream, its end)."""
    totals = (
        rc.read().memory(table, name="table").key_by("k").aggregate(n=agg.sum("n"), name="totals")
    )
    return totals, totals.write.memory("totals-out", name="totals-out")


def test_what_an_operator_has_emitted_is_no_table_for_a_lookup_that_is_added():
    rows, table = script(LEFT), script("k BIGINT, n BIGINT")
    stream = rc.read().memory(rows, name="rows")
    totals, end = totals_of(table)
    harness = Harness([end, stream.write.memory("out", name="out")], settings=SETTINGS)
    harness.start()
    table.push([{"k": 1, "n": 7}, {"k": 1, "n": 1}])
    harness.process.run()
    large = totals.filter(lambda row: row.n > 0).map(lambda row: row, "k BIGINT, n BIGINT")
    for seen in (totals, large, large.union(totals)):
        found = stream.lookup(seen, "k", name="found").write.memory("found", name="found-out")
        refused = (
            "'found'.* would not have what 'totals' has emitted.* what a sink of it has written"
        )
        with pytest.raises(RefusedError, match=refused):
            harness.process.reconfigure(rc.changes.add(found))
    known = stream.lookup(lambda: harness.state("totals"), "k", refresh="1 minute", name="known")
    harness.process.reconfigure(rc.changes.add(known.write.memory("known", name="known-out")))
    harness.process.run()
    rows.push([{"k": 1, "a": "x"}])
    harness.process.run()
    (shown,) = [t for t in harness.outputs("known-out").values() if t.num_rows]
    assert shown.to_pylist() == [{"k": 1, "a": "x", "n": 8}]


def test_a_lookup_may_be_added_with_the_operator_that_makes_its_table():
    rows, table = script(LEFT), script("k BIGINT, n BIGINT")
    stream = rc.read().memory(rows, name="rows")
    harness = Harness([stream.write.memory("out", name="out")], settings=SETTINGS)
    harness.start()
    rows.push([{"k": 1, "a": "x"}])
    harness.process.run()
    totals, end = totals_of(table)
    found = stream.lookup(totals, "k", name="found").write.memory("found", name="found-out")
    harness.process.reconfigure(rc.changes.add(found, end))
    harness.process.run()
    table.push([{"k": 1, "n": 7}])
    rows.push([{"k": 1, "a": "y"}])
    harness.process.run()
    assert harness.outputs("found-out")[2].to_pylist() == [{"k": 1, "a": "y", "n": 7}]


def test_a_lookup_that_is_there_gets_no_other_operator_for_its_table():
    rows, table = script(LEFT), script("k BIGINT, n BIGINT")

    def build(*, other):
        stream = rc.read().memory(rows, name="rows")
        source = rc.read().memory(table, name="table")
        totals = source.key_by("k").aggregate(n=agg.sum("n"), name="totals")
        most = source.key_by("k").aggregate(n=agg.max("n"), name="most")
        ends = [each.write.memory(f"{i}", name=f"end-{i}") for i, each in enumerate((totals, most))]
        found = stream.lookup(most if other else totals, "k", name="found")
        return [*ends, found.write.memory("out", name="out")]

    harness = Harness(build(other=False), settings=SETTINGS)
    harness.start()
    with pytest.raises(RefusedError, match="what 'most' has emitted"):
        harness.process.reconfigure(rc.changes.change_dataflow(*build(other=True)))
