"""Functions of the order of a key's rows, in a running job."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, RefusedError, TimestepError, UnknownColumnError
from rechannel.job import InProcess
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "price BIGINT, k STRING, weight DOUBLE, at TIMESTAMP"


def row(k, price, seconds=0, weight=None):
    at = None if seconds is None else EPOCH + timedelta(seconds=seconds)
    return {"price": price, "k": k, "weight": weight, "at": at}


class Bench:
    """A job over rows, of one timestep per step."""

    def __init__(self, build, *, late=False, schema=SCHEMA, delay=0):
        self.rows = script(schema)
        stream = rc.read().memory(self.rows, name="rows")
        made = build(stream.event_time("at", delay) if "at" in schema else stream)
        ends = [made.write.memory("out", name="out")]
        if late:
            ends.append(made.late.write.memory("late", name="late"))
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

    def reconfigure(self, change):
        self.harness.process.reconfigure(change)
        self.step(row("z", 0))  # the change holds at the latest behind this one

    @staticmethod
    def plain(shown):
        return tuple(v for name, v in shown.items() if name not in {"at", "weight"})


def test_every_row_leaves_with_what_was_before_it():
    bench = Bench(
        lambda s: s.key_by("k").running(
            {"is": agg.cumulative(agg.count())},
            before=agg.lag("price"),
            older=agg.lag("price", 3, default=0),
            change=agg.difference("price"),
            total=agg.cumulative(agg.sum("price")),
            most=agg.cumulative(agg.max("price")),
            name="run",
        )
    )
    first = bench.step(row("a", 1), row("b", 9), row("a", 4), row("a", None))
    assert sorted(first, key=repr) == [
        ("a", 1, 1, None, 0, None, 1, 1),
        ("a", 4, 2, 1, 0, 3, 5, 4),
        ("a", None, 3, 4, 0, None, 5, 4),
        ("b", 9, 1, None, 0, None, 9, 9),
    ]
    assert bench.step(row("a", 2), row("a", 3)) == [
        ("a", 2, 4, None, 1, None, 7, 4),
        ("a", 3, 5, 2, 4, 1, 10, 4),
    ]
    out = bench.harness.outputs("out")[1].schema
    assert out.names[:4] == ["k", "price", "weight", "at"]
    state = {r["k"]: r for r in bench.harness.state("run").to_pylist()}
    assert state["a"] == {
        "k": "a", "is": 5, "before": [3], "older": [None, 2, 3], "change": [3], "total": 10, "most": 4,
    }  # fmt: skip
    assert state["b"]["older"] == [9]


def test_the_last_value_that_is_known():
    bench = Bench(
        lambda s: s.key_by("k").running(
            known=agg.cumulative(agg.last("price", ignore_nulls=True)),
            first=agg.cumulative(agg.first("price")),
            three=agg.cumulative(agg.last_n("price", 2)),
        )
    )
    bench.step(row("a", None), row("a", 1))
    assert bench.step(row("a", None), row("a", 2)) == [
        ("a", None, 1, None, [1, None]),
        ("a", 2, 2, None, [None, 2]),
    ]


def test_types_of_values_and_of_differences():
    schema = "k STRING, small TINYINT, d DECIMAL(38, 2), e DECIMAL(5, 1), f FLOAT, day DATE, l ARRAY<INT>"
    bench = Bench(
        lambda s: s.key_by("k").running(
            small_=agg.difference("small"),
            d_=agg.difference("d"),
            e_=agg.difference("e"),
            f_=agg.difference("f"),
            day_=agg.lag("day"),
            l_=agg.lag("l"),
            e_before=agg.lag("e", default=0),
            name="run",
        ),
        schema=schema,
    )

    def given(small, d, e, f, day, values):
        names = ("k", "small", "d", "e", "f", "day", "l")
        return dict(zip(names, ("a", small, d, e, f, day, values), strict=True))

    day = datetime(2026, 1, 1, tzinfo=UTC).date()
    high, less = Decimal("9" * 36 + ".00"), Decimal("9" * 35 + "8.00")
    shown = bench.step(
        given(-128, high, Decimal("1.5"), 0.5, day, [1, 2]),
        given(127, less, Decimal("0.1"), 2.0, None, None),
    )
    zero = Decimal("0.0")
    assert shown[0][7:] == (None, None, None, None, None, None, zero)
    assert shown[1][7:] == (255, -1, Decimal("-1.4"), 1.5, day, [1, 2], Decimal("1.5"))
    kinds = bench.harness.outputs("out")[1].schema.types[7:11]
    assert kinds == [pa.int64(), pa.decimal128(38, 2), pa.decimal128(6, 1), pa.float64()]
    with pytest.raises(TimestepError, match=r"difference\('d'\) does not fit"):
        bench.step(given(0, Decimal(f"-{high}"), None, 0.0, None, None))


def test_differences_that_do_not_fit_fail_the_timestep():
    bench = Bench(lambda s: s.key_by("k").running(change=agg.difference("price"), name="run"))
    bench.step(row("a", 2**62))
    with pytest.raises(
        TimestepError, match=r"difference\('price'\) does not fit its result type int64"
    ):
        bench.step(row("a", -(2**62) - 1))


def test_the_order_of_event_time():
    bench = Bench(
        lambda s: s.key_by("k").running(
            before=agg.lag("price"), n=agg.cumulative(agg.count()), time_column="at", name="run"
        ),
        late=True,
    )
    assert bench.step(row("a", 5, 5), row("a", 2, 2), row("b", 1, 1), row("a", 3, 3)) == [
        ("a", 2, None, 1),
        ("a", 3, 2, 2),
        ("b", 1, None, 1),
    ]
    # Rows of the watermark's own time wait for others of that time; of two alike, the one that came first is first.
    assert bench.step(row("a", 6, 5), row("a", 4, 4)) == []
    assert bench.shown("late") == [(4, "a")]
    waiting = bench.harness.state("run.order")
    assert waiting.column_names == ["k", "price", "weight", "at"]
    assert sorted(waiting["price"].to_pylist()) == [5, 6]
    assert bench.step(row("b", 9, 8), row("b", 0, None)) == [("a", 5, 3, 3), ("a", 6, 5, 4)]
    assert bench.shown("late") == [(0, "b")]
    assert bench.harness.state("run").num_rows == 2
    assert bench.harness.state("run.order").num_rows == 1


def test_windows_behind_lose_no_row():
    def build(stream):
        rows = stream.key_by("k").running(
            step=agg.difference("price"), time_column="at", name="run"
        )
        windows = rows.key_by("k").window(rc.windows.tumbling("2 seconds"), time_column="at")
        return windows.aggregate(n=agg.count(), most=agg.max("step"), name="windows")

    bench = Bench(build, late=True, delay="3 seconds")
    shown = []
    for second in (1, 0, 3, 2, 5, 4, 7, 6, 20, 40):
        shown += bench.step(row("a", second, second))
        assert bench.shown("late") == []
    assert sorted((n, most) for *_, n, most in shown) == [(1, 13), (2, 1), (2, 1), (2, 1), (2, 1)]


def test_a_batch_waits_for_nothing():
    rows = script(SCHEMA)
    rows.push([row("a", 2, 2), row("a", 1, 1), row("a", 9, None)])
    stream = rc.read().memory(rows, name="rows").event_time("at")
    run = stream.key_by("k").running(before=agg.lag("price"), time_column="at", name="run")
    ends = [run.write.memory("out", name="out"), run.late.write.memory("late", name="late")]
    with rc.run_batch(ends, in_process=InProcess()) as result:
        assert [r["before"] for r in result.output("out").to_pylist()] == [None, 1]
        assert result.output("late")["price"].to_pylist() == [9]


def test_rows_that_wait_are_not_read_when_others_come(monkeypatch):
    bench = Bench(
        lambda s: s.key_by("k").running(before=agg.lag("price"), time_column="at", name="run"),
        delay="1 hour",
    )
    bench.step(*(row("a", i, i) for i in range(50)))
    told, run = [], bench.harness.process.runner.run
    monkeypatch.setattr(
        bench.harness.process.runner, "run", lambda *step: told.extend(f := run(*step)) or f
    )
    bench.step(row("a", 1, 51))
    counts = [
        task.costs.counts
        for report in told
        if report.operator == "run.order"
        for task in report.reports
        if task.costs.counts["rows_in"]
    ]
    assert [one["keys_found"] for one in counts] == [0]


def test_other_functions_of_a_running_operator():
    bench = Bench(
        lambda s: s.key_by("k").running(
            before=agg.lag("price"), total=agg.cumulative(agg.sum("price")), name="run"
        )
    )
    bench.step(row("a", 1), row("a", 2))
    more = {
        "before": agg.lag("price", default=-1),
        "n": agg.cumulative(agg.count()),
        "older": agg.lag("price", 2),
    }
    bench.reconfigure(rc.changes.change_logic("run", more))
    # What is new begins with the rows to come; what is kept goes on; what is gone is forgotten.
    assert bench.step(row("a", 3), row("b", 7)) == [("a", 3, 2, 1, None), ("b", 7, -1, 1, None)]
    bench.reconfigure(rc.changes.rescale("run", 3))
    assert bench.step(row("a", 4), row("a", 5)) == [("a", 4, 3, 2, None), ("a", 5, 4, 3, 3)]
    deeper = {**more, "before": agg.lag("price", 2)}
    with pytest.raises(RefusedError, match=r"'before' was LastN.*n=1.*would be.*n=2"):
        bench.reconfigure(rc.changes.change_logic("run", deeper))
    with pytest.raises(RefusedError, match="functions of the order of rows"):
        bench.reconfigure(rc.changes.change_logic("run", lambda x: x))


def test_another_order_is_refused():
    rows = script(SCHEMA)

    def ends(on):
        stream = rc.read().memory(rows, name="rows").event_time("at")
        run = stream.key_by("k").running(before=agg.lag("price"), time_column=on, name="run")
        return run.write.memory("out", name="out")

    harness = Harness([ends(None)], settings=rc.Settings(tasks=2, bins=4))
    process = harness.start()
    rows.push([row("a", 1)])
    process.run()
    with pytest.raises(RefusedError, match="what is gone cannot come back"):
        process.reconfigure(rc.changes.change_dataflow(ends("at")))


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script(SCHEMA), name="rows").event_time("at")
    keyed = stream.key_by("k")
    for wrong, words in (
        (keyed.running, "at least one function"),
        (lambda: keyed.running(total=agg.sum("price")), r"use cumulative\("),
        (lambda: keyed.running(total=3), "use lag, difference or cumulative"),
        (lambda: keyed.running(x=agg.lag("cost")), "no column 'cost'"),
        (lambda: keyed.running(weight=agg.lag("price")), "a column 'weight' already"),
        (lambda: keyed.running(k=agg.lag("price")), "a column 'k' already"),
        (lambda: keyed.running(x=agg.lag("price", 0)), "n >= 1 rows, not 0"),
        (lambda: keyed.running(x=agg.difference("price", 1.5)), "n >= 1 rows, not 1.5"),
        (lambda: keyed.running(x=agg.lag(3)), "the name of a column, not 3"),
        (
            lambda: keyed.running(x=agg.lag("price", default="none")),
            "is not a value of type bigint",
        ),
        (lambda: keyed.running(x=agg.difference("at")), "cannot take column 'at'"),
        (lambda: keyed.running(x=agg.difference("k")), "cannot take column 'k'"),
        (lambda: keyed.running(x=agg.cumulative(agg.sum("at"))), "cannot take column 'at'"),
        (lambda: agg.cumulative("price"), "takes an aggregate"),
        (
            lambda: agg.cumulative(agg.count_distinct("price")),
            "count_distinct cannot be cumulative",
        ),
        (
            lambda: keyed.running(x=agg.lag("price"), time_column="when"),
            "no event-time column 'when'",
        ),
        (lambda: keyed.running(x=agg.lag("price"), time_column="price"), "must be timestamps"),
        (lambda: keyed.running(x=agg.lag("price")).late, "has no late rows"),
        (lambda: keyed.running(x=agg.lag("price"), tasks=0), "at least 1"),
    ):
        with pytest.raises((DataflowError, UnknownColumnError), match=words):
            wrong()
    untimed = rc.read().memory(script(SCHEMA), name="rows")
    with pytest.raises(DataflowError, match="how far event time has come"):
        untimed.key_by("k").running(x=agg.lag("price"), time_column="at")
