"""The first rows of every key, and the last one, in a running job."""

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, UnknownColumnError
from rechannel.testing import Harness, script
from tests.support.reports import reports_in

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "k STRING, price DOUBLE, seller STRING, at TIMESTAMP"


def row(k, price, seller, seconds=0):
    return {"k": k, "price": price, "seller": seller, "at": EPOCH + timedelta(seconds=seconds)}


class Bench:
    """A job over rows, of one timestep per step."""

    def __init__(self, build, *, late=False):
        self.rows = script(SCHEMA)
        stream = rc.read().memory(self.rows, name="rows").event_time("at")
        top = build(stream)
        ends = [top.write.memory("out", name="out")]
        if late:
            ends.append(top.late.write.memory("late", name="late"))
        self.harness = Harness(ends, settings=rc.Settings(tasks=2, bins=4))
        self.harness.start()
        self.timestep = 0

    def step(self, *rows):
        self.rows.push(list(rows))
        self.harness.process.run()
        self.timestep += 1
        return self.shown()

    def shown(self, sink="out"):
        return [self.plain(r) for r in self.harness.outputs(sink)[self.timestep].to_pylist()]

    def state(self):
        return sorted(map(self.plain, self.harness.state("top").to_pylist()))

    @staticmethod
    def plain(shown):
        return tuple(v for name, v in shown.items() if name not in {"at", "window_end"})


def test_ranks_whose_row_is_another_one_are_shown():
    bench = Bench(lambda s: s.key_by("k").top(2, by="price", name="top"))
    assert bench.step(row("a", 1.0, "x"), row("a", 3.0, "y")) == [
        ("a", 1, 3.0, "y"),
        ("a", 2, 1.0, "x"),
    ]
    # Behind the second nothing is shown; alike to the second one is behind it.
    assert bench.step(row("a", 0.5, "z"), row("a", 1.0, "w")) == []
    assert bench.step(row("a", 2.0, "v")) == [("a", 2, 2.0, "v")]
    assert bench.step(row("a", 9.0, "u")) == [("a", 1, 9.0, "u"), ("a", 2, 3.0, "y")]
    assert bench.state() == [("a", 1, 9.0, "u"), ("a", 2, 3.0, "y")]


def test_several_columns_each_in_its_direction_with_nulls_and_nan_last():
    bench = Bench(
        lambda s: s.key_by("k").top(
            None, by=["price", "seller"], descending=[True, False], rank="place", name="top"
        )
    )
    prices = [(None, "n"), (float("nan"), "q"), (1.0, "b"), (1.0, "a"), (1.0, None), (-1.0, "c")]
    shown = bench.step(*(row("a", price, seller) for price, seller in prices))
    assert [(place, seller) for _, place, _, seller in shown] == [
        (1, "a"), (2, "b"), (3, None), (4, "c"), (5, "q"), (6, "n"),
    ]  # fmt: skip
    assert bench.harness.outputs("out")[1].schema.names == ["k", "place", "price", "seller", "at"]


def test_the_last_row_of_a_key_by_a_column_or_by_the_stream():
    bench = Bench(lambda s: s.key_by("k").latest(by="at", name="top"))
    assert bench.step(row("a", 1.0, "x", 5), row("a", 2.0, "y", 5), row("a", 3.0, "z", 4)) == [
        ("a", 2.0, "y")
    ]
    assert bench.step(row("a", 4.0, "w", 4)) == []
    assert bench.step(row("a", 5.0, "v", 5)) == [("a", 5.0, "v")]
    stream = Bench(lambda s: s.key_by("k").latest(name="top"))
    assert stream.step(row("a", 1.0, "x", 5), row("a", 3.0, "z", 4)) == [("a", 3.0, "z")]


def test_the_best_of_a_window_are_shown_when_it_is_complete():
    bench = Bench(
        lambda s: (
            s.key_by("k").window(rc.windows.tumbling("10 seconds")).top(1, by="price", name="top")
        ),
        late=True,
    )
    assert bench.step(row("a", 1.0, "x", 1), row("a", 2.0, "y", 2), row("b", 1.0, "z", 3)) == []
    assert len(bench.state()) == 2
    shown = bench.step(row("a", 3.0, "w", 9), row("a", 1.0, "v", 12))
    assert sorted((k, rank, price) for k, _, rank, price, _ in shown) == [
        ("a", 1, 3.0),
        ("b", 1, 1.0),
    ]
    assert bench.step(row("b", 5.0, "u", 8)) == []
    assert bench.shown("late") == [("b", 5.0, "u")]


@pytest.mark.parametrize(
    ("ranking", "ranks", "first_two"),
    [
        ("row_number", [1, 2, 3, 4, 5, 6], [1, 2, 3]),
        ("rank", [1, 2, 2, 4, 5, 5], [1, 2, 2]),
        ("dense_rank", [1, 2, 2, 3, 4, 4], [1, 2, 2]),
    ],
)
def test_rows_that_are_alike_share_a_rank(ranking, ranks, first_two):
    prices = (3.0, 9.0, 5.0, None, 5.0, None)
    for n, expected in ((None, ranks), (2, first_two)):
        bench = Bench(
            lambda s, n=n: (
                s.key_by("k")
                .window(rc.windows.tumbling("10 seconds"))
                .top(n, by="price", ties=True, ranking=ranking, name="top")
            )
        )
        bench.step(*(row("a", price, "x") for price in prices[:3]), row("b", 1.0, "y"))
        bench.step(*(row("a", price, "x") for price in prices[3:]))
        kept = sorted(r["rank"] for r in bench.harness.state("top").to_pylist() if r["k"] == "a")
        assert kept == expected
        shown = bench.step(row("c", 1.0, "z", 20))
        assert [r[2] for r in shown if r[0] == "a"] == expected


def test_the_best_of_all_windows_of_a_time():
    def hottest(stream):
        counts = stream.key_by("k").window(rc.windows.sliding("20 seconds", "10 seconds"))
        found = counts.aggregate(n=agg.count(), name="counts")
        return found.window(rc.windows.same_window()).top(1, by=["n", "k"], name="top")

    bench = Bench(hottest)
    shown = bench.step(row("a", 1.0, "x", 1), row("b", 1.0, "x", 2), row("b", 1.0, "x", 11))
    shown += bench.step(row("c", 1.0, "x", 35))
    assert [(r[1], r[2], r[3]) for r in sorted(shown)] == [(1, "b", 1), (1, "b", 2), (1, "b", 1)]
    assert bench.state() == []


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script(SCHEMA), name="rows").event_time("at")
    keyed = stream.key_by("k")
    for wrong, words in (
        (lambda: keyed.top(0, by="price"), "at least 1"),
        (lambda: keyed.top(1, by=[]), "to order rows by"),
        (lambda: keyed.top(1, by="cost"), "no column 'cost'"),
        (lambda: keyed.top(1, by="k"), "which is a key"),
        (lambda: keyed.top(1, by="price", descending=[True, False]), "2 values for 1 columns"),
        (lambda: keyed.top(1, by="price", rank="seller"), "rank="),
        (
            lambda: keyed.window(rc.windows.sessions("9 seconds")).top(1, by="price"),
            "of one length",
        ),
        (
            lambda: keyed.window(rc.windows.tumbling(10)).top(1, by="price", ranking="dense"),
            "ranking must be one of",
        ),
        (lambda: keyed.window(rc.windows.same_window()), "do not come out of windows"),
    ):
        with pytest.raises((DataflowError, UnknownColumnError), match=words):
            wrong()


def test_rows_that_cannot_be_among_the_best_do_not_travel_and_count_as_late_all_the_same():
    def best(stream):
        return (
            stream.key_by("k")
            .window(rc.windows.tumbling("10 seconds"))
            .top(1, by="price", name="top")
        )

    bench, told = Bench(best), []
    run = bench.harness.process.runner.run
    bench.harness.process.runner.run = lambda *step: (
        told.extend(reports_in(found := run(*step))) or found
    )

    def counted(name):
        return sum(report.costs.counts.get(name, 0) for report in told if report.operator == "top")

    bench.step(*(row(k, float(i), "x", 1) for k in "ab" for i in range(50)))
    assert (counted("rows_in"), counted("rows_late")) == (2, 0)
    bench.step(row("a", 1.0, "x", 25))
    told.clear()
    assert bench.step(*(row(k, float(i), "x", 1) for k in "abc" for i in range(20))) == []
    assert counted("rows_in") < 10
    assert counted("rows_late") == 60
