"""Windows of rows, in a running job."""

from datetime import UTC, datetime
from math import gcd
from random import Random

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, RefusedError
from rechannel.operators.aggregate.logic import AggregateLogic
from rechannel.operators.window import counted
from rechannel.testing import Harness, script

SCHEMA = "k STRING, x BIGINT, w DOUBLE, at TIMESTAMP"


class Bench:
    """A job over rows, of one timestep per step."""

    def __init__(self, window, settings=None, **aggregates):
        self.rows = script(SCHEMA)
        keyed = rc.read().memory(self.rows, name="rows").key_by("k")
        made = keyed.window(window).aggregate(**aggregates, name="counted")
        settings = settings or rc.Settings(tasks=2, bins=4)
        self.harness = Harness([made.write.memory("out", name="out")], settings=settings)
        self.harness.start()
        self.timestep = 0

    def step(self, *rows):
        at = datetime(2026, 1, 1, tzinfo=UTC)
        self.rows.push([{"k": k, "x": x, "w": float(x) / 3, "at": at} for k, x in rows])
        self.harness.process.run()
        self.timestep += 1
        return sorted(map(values, self.harness.outputs("out")[self.timestep].to_pylist()))

    def state(self):
        return sorted(map(values, self.harness.state("counted").to_pylist()))


def values(row):
    return tuple(row.values())


def test_windows_behind_one_another():
    bench = Bench(rc.windows.counting(3), total=agg.sum("x"), last=agg.last("x"))
    assert bench.step(("a", 1), ("a", 2), ("b", 5)) == []
    assert bench.state() == [("a", 0, 3, 2, 2), ("b", 0, 5, 5, 1)]
    assert bench.step(("a", 3), ("a", 4)) == [("a", 0, 6, 3)]
    assert bench.state() == [("a", 1, 4, 4, 1), ("b", 0, 5, 5, 1)]
    many = bench.step(*(("a", i) for i in range(5, 13)))
    assert many == [("a", 1, 15, 6), ("a", 2, 24, 9), ("a", 3, 33, 12)]
    # The last pane stays, to know how many rows there were.
    assert bench.state() == [("a", 3, 33, 12, 3), ("b", 0, 5, 5, 1)]
    assert bench.step(("a", 13), ("a", 14), ("a", 15)) == [("a", 4, 42, 15)]
    assert bench.harness.outputs("out")[1].schema.names == ["k", "window", "total", "last"]
    assert bench.harness.state("counted").column_names == ["k", "_pane", "total", "last", "_rows"]


def test_windows_that_overlap():
    bench = Bench(rc.windows.counting(4, every=2), xs=agg.last_n("x", 9), n=agg.count())
    assert bench.step(("a", 1), ("a", 2), ("a", 3)) == []
    assert bench.step(("a", 4)) == [("a", 0, [1, 2, 3, 4], 4)]
    assert bench.step(("a", 5)) == []
    assert bench.step(("a", 6), ("a", 7), ("a", 8), ("a", 9)) == [
        ("a", 1, [3, 4, 5, 6], 4),
        ("a", 2, [5, 6, 7, 8], 4),
    ]
    assert bench.state() == [("a", 3, [7, 8], 2, 2), ("a", 4, [9], 1, 1)]


@pytest.mark.parametrize("chunk", [3, 1 << 17])
@pytest.mark.parametrize(
    ("size", "every"), [(1, 1), (7, 7), (7, 1), (12, 5), (12, 8), (60, 1), (64, 48)]
)
def test_windows_of_any_shape_are_those_of_a_list(size, every, chunk, monkeypatch):
    monkeypatch.setattr(counted, "CHUNK_ROWS", chunk)
    rng = Random(f"{size} by {every}")
    settings = rc.Settings(tasks=2, bins=4)
    bench = Bench(
        rc.windows.counting(size, every),
        settings,
        xs=agg.last_n("x", size + 1),
        mean=agg.mean("w"),
        most=agg.max("x"),
        kinds=agg.count_distinct("x"),
        first=agg.first("x"),
    )
    seen = {k: [] for k in "abc"}
    for _ in range(12):
        rows = [(rng.choice("aaabc"), rng.randrange(50)) for _ in range(rng.choice((1, 5, 90)))]
        expected = []
        for k, x in rows:
            seen[k].append(x)
            if len(seen[k]) >= size and (len(seen[k]) - size) % every == 0:
                mine = seen[k][-size:]
                number = (len(seen[k]) - size) // every
                expected.append((k, number, mine, sum(mine), max(mine), len(set(mine)), mine[0]))
        shown = bench.step(*rows)
        got = [(k, n, xs, round(mean * 3 * size), *rest) for k, n, xs, mean, *rest in shown]
        assert got == sorted(expected)
        held = bench.harness.state("counted").num_rows
        assert held <= 3 * (size // gcd(size, every) + 1)


def test_a_window_of_many_panes_costs_as_much_as_one_of_few(monkeypatch):
    merged, pairs = [], AggregateLogic.merged_pairs

    def counting(self, old, new, found):
        merged.append(len(found))
        return pairs(self, old, new, found)

    monkeypatch.setattr(AggregateLogic, "merged_pairs", counting)
    bench = Bench(rc.windows.counting(500, every=1), total=agg.sum("x"))
    shown = bench.step(*(("a", 1) for _ in range(5_000)))
    assert shown == [("a", i, 500) for i in range(4_501)]
    assert sum(merged) <= 5 * 5_000
    assert len(merged) < 60
    merged.clear()
    monkeypatch.setattr(counted, "CHUNK_ROWS", 50)
    assert len(bench.step(*(("a", 1) for _ in range(5_000)))) == 5_000
    assert sum(merged) <= 10 * 5_000


def test_aggregates_can_be_exchanged_and_windows_cannot():
    bench = Bench(rc.windows.counting(2), n=agg.count())
    bench.step(("a", 1))
    process = bench.harness.process
    process.reconfigure(
        rc.changes.change_logic("counted", {"n": agg.count(), "most": agg.max("x")})
    )
    bench.step(("b", 1))
    process.reconfigure(rc.changes.rescale("counted", 3))
    assert bench.step(("a", 7)) == [("a", 0, 2, 7)]
    rows = rc.read().memory(bench.rows, name="rows").key_by("k")
    other = rows.window(rc.windows.counting(3)).aggregate(n=agg.count(), name="counted")
    with pytest.raises(RefusedError, match="its windows cannot change"):
        process.reconfigure(rc.changes.change_dataflow(other.write.memory("out", name="out")))


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script(SCHEMA), name="rows").event_time("at")
    keyed = stream.key_by("k")
    three = rc.windows.counting(3)
    for wrong, words in (
        (
            lambda: rc.windows.counting(0),
            "size of a window must be a whole number of rows of at least 1, not 0",
        ),
        (lambda: rc.windows.counting("3"), "not '3'"),
        (lambda: rc.windows.counting(3, every=1.5), "distance between windows"),
        (lambda: rc.windows.counting(3, every=4), "would leave out the rows between two windows"),
        (lambda: keyed.window(three, time="processing"), "leave out time="),
        (lambda: stream.key_by("k").window(three, time_column="x").aggregate(n=agg.count()), "'x'"),
        (lambda: keyed.window(three, lateness="1 second"), "leave out lateness="),
        (lambda: keyed.window(three, emit="on_update"), "leave out emit='on_update'"),
        (lambda: keyed.window(three).top(1, by="x"), "of event time"),
        (lambda: keyed.window(three, time_column="at").top(1, by="x"), "of one length"),
        (lambda: stream.window(three), "need a key"),
        (lambda: keyed.window(three).aggregate(), "at least one"),
        (
            lambda: keyed.window(three).aggregate(window=agg.count()),
            "'window' is reserved",
        ),
        (lambda: keyed.window(three).aggregate({"_rows": agg.count()}), "'_rows' is reserved"),
        (lambda: keyed.window(three).aggregate(n=agg.sum("k")), "cannot take column 'k'"),
        (lambda: keyed.window(three).aggregate(n=agg.count()).late, "has no late rows"),
        (lambda: stream.join(stream, "k", within=three), "windows of a join"),
    ):
        with pytest.raises(DataflowError, match=words):
            wrong()


def test_rows_are_counted_in_the_order_of_event_time_where_that_is_said():
    rows = script(SCHEMA)
    keyed = rc.read().memory(rows, name="rows").event_time("at", "1 second").key_by("k")
    windows = keyed.window(rc.windows.counting(2), time_column="at")
    made = windows.aggregate(first=agg.first("x"), last=agg.last("x"), name="counted")
    ends = [made.write.memory("out", name="out"), made.late.write.memory("late", name="late")]
    harness = Harness(ends, settings=rc.Settings(tasks=2, bins=4))
    harness.start()
    at = datetime(2026, 1, 1, tzinfo=UTC)
    for came in ([3, 1, 2], [5, 4, 9], [0, 20]):
        stamped = [{"k": "a", "x": s, "w": 0.0, "at": at.replace(second=s)} for s in came]
        rows.push(stamped)
        harness.process.run()
    shown = [values(each) for t in harness.outputs("out").values() for each in t.to_pylist()]
    assert shown == [("a", 0, 1, 2), ("a", 1, 3, 4), ("a", 2, 5, 9)]
    late = [each["x"] for t in harness.outputs("late").values() for each in t.to_pylist()]
    assert late == [0]


LARGE = 2**63 - 1


@pytest.mark.parametrize("apart", [True, False])
@pytest.mark.parametrize("xs", [(LARGE, 1, -10), (0, LARGE, -LARGE, 5, -5, LARGE)])
def test_a_window_whose_sum_fits_does_not_fail_for_sums_in_between(apart, xs):
    bench = Bench(rc.windows.counting(3, every=1), total=agg.sum("x"))
    made = []
    for rows in [[("a", x)] for x in xs] if apart else [[("a", x) for x in xs]]:
        made += bench.step(*rows)
    assert [total for _, _, total in made] == [sum(xs[i : i + 3]) for i in range(len(xs) - 2)]
