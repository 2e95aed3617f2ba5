"""As-of joins in a running job: what a row meets, when it is shown, what stays, and what is refused."""

from datetime import timedelta
from random import Random

import polars as pl
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, RefusedError, UnknownColumnError
from rechannel.job import InProcess
from rechannel.kernels.tasks import emission
from rechannel.state.merging import MergePolicy
from rechannel.testing import Harness, script
from tests.support.reports import reports_in
from tests.support.two_streams import SETTINGS, TwoStreams, at

TRADES = "k BIGINT, a STRING, at TIMESTAMP"
QUOTES = "id BIGINT, price BIGINT, at TIMESTAMP"


class Bench(TwoStreams):
    """Rows (k, a, seconds) meet rows (id, price, seconds)."""

    def __init__(self, *, late=False, settings=SETTINGS, delay=0, **options):
        def meet(left, right):
            return left.asof_join(right, {"k": "id"}, name="joined", **options)

        streams = {"trades": TRADES, "quotes": QUOTES}
        super().__init__(streams, meet, late=late, settings=settings, delay=delay)

    def step(self, left=(), right=()):
        """One timestep; what it showed."""
        return self.push(
            [{"k": k, "a": a, "at": at(s)} for k, a, s in left],
            [{"id": k, "price": n, "at": at(s)} for k, n, s in right],
        )

    def state(self):
        rows = self.harness.state("joined").to_pylist()
        return sorted((row["k"], row["_side"], row["a"] or row["price"]) for row in rows)


def test_a_row_meets_the_last_one_before_it_when_event_time_has_passed_it():
    bench = Bench()
    assert bench.step([(1, "x", 20)], [(1, 7, 10), (1, 8, 20), (1, 9, 21)]) == []
    # What came last counts among those of one time, and may come in a later timestep.
    assert bench.step([(1, "y", 20)], [(1, 10, 20), (2, 1, 22)]) == []
    assert bench.step([(9, "z", 25)], [(9, 1, 25)]) == [
        (1, "x", 20, 10, 20),
        (1, "y", 20, 10, 20),
    ]
    assert bench.harness.outputs("out")[1].schema.names == ["k", "a", "at", "price", "at_right"]


def test_a_row_that_comes_when_its_key_is_quiet_meets_what_was_there_long_before():
    bench = Bench()
    bench.step([(1, "x", 1)], [(1, 7, 0), (2, 1, 1)])
    for second in range(10, 50, 10):
        bench.step([(5, "o", second)], [(5, 1, second)])
    assert bench.step([(1, "y", 60)], [(5, 1, 60)]) == [(5, "o", 40, 1, 40)]
    # Neither row of key 1 comes in the timestep in which its left one is shown.
    assert bench.step([(5, "o", 70)], [(5, 1, 70)]) == [(1, "y", 60, 7, 0)]


def test_of_a_quiet_key_only_those_are_shown_that_event_time_has_passed():
    bench = Bench()
    bench.step([(1, "x", 10), (1, "y", 20)], [(1, 7, 5)])
    assert bench.step([(9, "z", 20)], [(9, 1, 20)]) == [(1, "x", 10, 7, 5)]
    assert bench.step([(9, "v", 30)], [(9, 1, 30)]) == [(1, "y", 20, 7, 5), (9, "z", 20, 1, 20)]


def test_rows_that_meet_none_are_shown_with_nulls_or_not_at_all():
    rows = [(1, "x", 20), (2, "y", 20), (None, "n", 20)], [(1, 7, 19), (2, 8, 21), (None, 1, 19)]
    for how, without in (
        ("left", [(2, "y", 20, None, None), (None, "n", 20, None, None)]),
        ("inner", []),
    ):
        bench = Bench(how=how)
        bench.step(*rows)
        assert bench.step([(9, "z", 30)], [(9, 1, 30)]) == [(1, "x", 20, 7, 19), *without]
    assert bench.state() == [(1, "right", 7), (2, "right", 8), (9, "left", "z"), (9, "right", 1)]


def test_rows_that_are_too_far_apart_do_not_meet_and_go():
    bench = Bench(tolerance="5 seconds")
    bench.step([(1, "x", 20), (2, "y", 20)], [(1, 7, 15), (2, 8, 14)])
    kept = [(1, "left", "x"), (1, "right", 7), (2, "left", "y"), (2, "right", 8)]
    assert bench.state() == kept
    assert bench.step([(9, "z", 20)], [(9, 1, 21)]) == []
    assert bench.step([(9, "z", 21)], [(9, 1, 21)]) == [
        (1, "x", 20, 7, 15),
        (2, "y", 20, None, None),
        (9, "z", 20, None, None),
    ]
    # Event time is at 21 s: rows of 15 s are of no use to anybody, though nothing came for their key.
    assert bench.state() == [(9, "left", "z"), (9, "right", 1)]


def test_late_rows_of_both_sides_are_told():
    bench = Bench(late=True, delay="5 seconds")
    bench.step([(1, "x", 30)], [(1, 7, 30)])
    # Event time is at 25 s: what is of before that may have been missed already.
    bench.step([(1, "y", 24), (1, "z", None), (1, "w", 25)], [(1, 8, 24), (1, 9, 25)])
    assert bench.shown("late") == [
        (1, "left", "y", 24, None, None),
        (1, "left", "z", None, None, None),
        (1, "right", None, None, 8, 24),
    ]
    assert bench.step([(1, "v", 36)], [(1, 10, 36)]) == [
        (1, "w", 25, 9, 25),
        (1, "x", 30, 7, 30),
    ]


def test_of_rows_that_event_time_has_passed_one_of_a_key_stays(thorough):
    steps = 150 if thorough else 75
    merging = MergePolicy(fan=2)
    bench = Bench(settings=rc.Settings(tasks=1, bins=2, merging=merging))
    sizes, shown = [], 0
    for number in range(steps):
        shown += len(bench.step([(number % 5, "l", 4 * number)], [(number % 7, 1, 4 * number)]))
        sizes.append(len(bench.state()))
    assert max(sizes) <= 7 + 3
    assert shown == steps - 1
    runs = bench.harness.journal_state().manifests["joined"].runs
    assert sum(run.rows for run in runs) < 100


def test_of_rows_of_a_key_that_falls_silent_one_stays():
    merging = MergePolicy(fan=2)
    bench = Bench(settings=rc.Settings(tasks=1, bins=2, merging=merging))
    burst = [(1, price, price % 50) for price in range(100)]
    bench.step([(1, "x", 30)], [*burst, (1, 7, 60), (1, 8, 70)])
    # Event time has come to 60 s, and the key is quiet: of what is before, the last one counts.
    assert bench.step([(9, "z", 60)], [(9, 1, 60)]) == [(1, "x", 30, 80, 30)]
    assert bench.state() == [(1, "right", 7), (1, "right", 8), (9, "left", "z"), (9, "right", 1)]
    for second in range(61, 130):
        bench.step([(9, "z", second)], [(9, 1, second)])
    assert bench.state() == [(1, "right", 8), (9, "left", "z"), (9, "right", 1)]
    runs = bench.harness.journal_state().manifests["joined"].runs
    assert sum(run.rows for run in runs) < 20
    assert bench.step([(1, "y", 140)], [(9, 1, 140)]) == [(9, "z", 129, 1, 129)]
    assert bench.step([(9, "z", 150)], [(9, 1, 150)]) == [(1, "y", 140, 8, 70)]


def test_rows_of_keys_that_nothing_is_due_of_are_not_looked_at(monkeypatch):
    """Work follows what came and what is due, not the state."""
    bench, looked = Bench(settings=rc.Settings(tasks=1, bins=2)), []
    collect = emission.whole_keys

    def counted(*given):
        found = collect(*given)
        looked.append(len(found))
        return found

    monkeypatch.setattr(emission, "whole_keys", counted)
    bench.step([(0, "x", 0)], [(key, 1, 0) for key in range(1000)])
    bench.step([(0, "x", 10)], [(key, 1, 10) for key in range(1000)])
    looked.clear()
    for second in range(20, 60, 10):
        bench.step([(second, "x", second), (second + 1, "x", second)], [(999, 1, second)])
    # Left rows wait for a timestep, each with the right row that it will meet. That event time passes the right rows of
    # all keys is nothing to look at.
    assert looked == [2, 4, 4, 4]


def scattered(seed, rows=120, keys=3):
    """Rows of both sides in the order in which they come; their times come up to 20 s out of order."""
    rng = Random(seed)

    def some(made):
        return [(rng.randrange(keys), made(i), i + rng.randrange(20)) for i in range(rows)]

    return some(lambda i: f"r{i}"), some(lambda i: i)


@pytest.mark.parametrize("tolerance", [None, 3])
@pytest.mark.parametrize("seed", range(3))
def test_what_rows_meet_is_what_polars_says(seed, tolerance):
    left, right = scattered(seed)
    bench = Bench(
        delay="30 seconds", tolerance=None if tolerance is None else timedelta(seconds=tolerance)
    )
    found = []
    for start in range(0, 120, 10):
        found += bench.step(left[start : start + 10], right[start : start + 10])
    found += bench.step([(99, "end", 500)], [(99, 0, 500)])
    trades = pl.DataFrame(left, ["k", "a", "s"], orient="row").sort("s", maintain_order=True)
    quotes = pl.DataFrame(right, ["k", "price", "t"], orient="row").sort("t", maintain_order=True)
    expected = trades.join_asof(
        quotes, left_on="s", right_on="t", by="k", tolerance=tolerance, coalesce=False
    )
    assert sorted(found) == sorted(expected.select("k", "a", "s", "price", "t").rows())
    alone = sum(row[3] is None for row in found)
    assert (20 < alone < 100) if tolerance else (alone < 20)


def test_over_finished_input_everything_is_shown():
    left = pa.table({"k": [1, 2, 2], "a": ["x", "y", "z"], "at": [at(5), at(0), at(9)]})
    right = pa.table({"k": [2, 2, 1], "b": [5, 6, 7], "at": [at(8), at(1), at(6)]})
    one = rc.read().memory(script("k BIGINT, a STRING, at TIMESTAMP"), name="one")
    other = rc.read().memory(script("k BIGINT, b BIGINT, at TIMESTAMP"), name="other")
    joined = one.event_time("at").asof_join(other.event_time("at"), "k", name="joined")
    with rc.run_batch(
        joined.write.memory("out", name="out"),
        inputs={"one": left, "other": right},
        in_process=InProcess(),
    ) as found:
        rows = [(row["k"], row["a"], row["b"]) for row in found.output("out").to_pylist()]
    assert sorted(rows, key=repr) == [(1, "x", None), (2, "y", None), (2, "z", 5)]


def test_windows_behind_it_miss_nothing():
    rows = script(TRADES), script(QUOTES)
    left, right = (
        rc.read().memory(each, name=name).event_time("at", "3 seconds", name=f"{name}-time")
        for name, each in zip(("trades", "quotes"), rows, strict=True)
    )
    joined = left.asof_join(right, {"k": "id"}, name="joined")
    counts = joined.key_by("k").window(rc.windows.tumbling("2 seconds"), time_column="at")
    counted = counts.aggregate(n=agg.count(), name="counts")
    ends = [joined.write.memory("out", name="out"), counted.write.memory("n", name="n")]
    ends.append(counted.late.write.memory("late", name="late"))
    harness = Harness(ends, settings=SETTINGS)
    harness.start()
    for number in range(60):
        rows[0].push([{"k": number % 3, "a": "l", "at": at(2 * number - number % 4)}])
        rows[1].push([{"id": number % 4, "price": 1, "at": at(2 * number - number % 3)}])
    harness.process.run()
    shown = sum(table.num_rows for table in harness.outputs("out").values())
    assert sum(table.num_rows for table in harness.outputs("late").values()) == 0
    found = sum(row["n"] for table in harness.outputs("n").values() for row in table.to_pylist())
    assert shown > 50
    assert 0 <= shown - found < 5


def test_what_it_keeps_cannot_change_and_columns_can():
    rows = script(TRADES), script(QUOTES)

    def flow(**options):
        left, right = (
            rc.read().memory(each, name=name).event_time("at", name=f"{name}-time")
            for name, each in zip(("trades", "quotes"), rows, strict=True)
        )
        right = right.map(
            lambda row: (row.id, row.at, row.price),
            "id BIGINT, at TIMESTAMP, price BIGINT",
            name="columns",
        )
        joined = left.asof_join(
            right.event_time("at"), {"k": "id"}, name="joined", suffix="_there", **options
        )
        return joined.write.memory("out", name="out")

    harness = Harness(flow(), settings=SETTINGS)
    process = harness.start()
    for other in (flow(tolerance="1 day"), flow(how="inner")):
        with pytest.raises(RefusedError, match="which rows it keeps"):
            process.reconfigure(rc.changes.change_dataflow(other))
    with pytest.raises(RefusedError, match="no function that could be replaced"):
        process.reconfigure(rc.changes.change_logic("joined", lambda row: row))


def test_what_cannot_be_is_refused_before_anything_runs():
    left = rc.read().memory(script(TRADES), name="left")
    right = rc.read().memory(script(QUOTES), name="right")
    timed, there = left.event_time("at"), right.event_time("at")
    on = {"k": "id"}
    for wrong, words in (
        (lambda: timed.asof_join(there, "k"), "no column 'k'"),
        (lambda: timed.asof_join(there, []), "the columns to join on"),
        (lambda: timed.asof_join(there, on, how="right"), "how must be 'left' or 'inner'"),
        (lambda: timed.asof_join(there, on, direction="forward"), "direction must be 'backward'"),
        (lambda: timed.asof_join(there, on, tolerance="soon"), "tolerance must be a timedelta"),
        (lambda: timed.asof_join(there, on, suffix=""), "give another suffix="),
        (lambda: timed.asof_join("right", on), "takes a stream"),
        (lambda: left.asof_join(there, on), "of the left side"),
        (lambda: timed.asof_join(right, on), "of the right side"),
        (
            lambda: timed.asof_join(right, on, right_time_column="at"),
            "rows of 'right' get there without",
        ),
        (lambda: timed.asof_join(there, on, left_time_column="a"), "must be timestamps"),
        (
            lambda: timed.asof_join(there, on, left_time_column="when"),
            "no column 'when' of event times",
        ),
        (lambda: timed.asof_join(there, {"at": "at"}), "is a key of the join"),
        (lambda: timed.asof_join(there, {"k": "price", "at": "at"}), "is a key of the join"),
    ):
        with pytest.raises((DataflowError, UnknownColumnError), match=words):
            wrong()


def test_rows_that_wait_for_nothing_are_not_looked_at():
    bench, reports = Bench(settings=rc.Settings(tasks=1, bins=1)), []
    run = bench.harness.process.runner.run
    bench.harness.process.runner.run = lambda *step: (
        reports.extend(reports_in(found := run(*step))) or found
    )
    bench.step([(1, "x", 0)], [(k, 7, 1) for k in range(200)] + [(9, 8, 1_000)])
    read = []
    for second in (5, 6, 7):
        reports.clear()
        bench.step([(second, "x", second)])
        read.append(sum(report.costs.counts.get("rows_read", 0) for report in reports))
    assert bench.shown("out") == [(6, "x", 6, 7, 1)]
    assert read[1:] == [1, 1]
