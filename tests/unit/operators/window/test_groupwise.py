"""Functions of all rows of a key: in windows, of one stream and of two, and in a timestep."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, RefusedError, UnknownColumnError, UserFunctionError
from rechannel.job import InProcess
from rechannel.testing import Harness, script
from tests.support.two_streams import TwoStreams, at

ORDERS = "k STRING, price BIGINT, at TIMESTAMP"
VISITS = "who STRING, page STRING, at TIMESTAMP"
WINDOW = rc.windows.tumbling("10 seconds")


class Bench(TwoStreams):
    """Rows (k, price, seconds) and, if there are two streams, (who, page, seconds)."""

    def __init__(self, build, **options):
        super().__init__({"orders": ORDERS, "visits": VISITS}, build, **options)

    def step(self, orders=(), visits=()):
        """One timestep; what it showed."""
        return self.push(
            [{"k": k, "price": p, "at": at(s)} for k, p, s in orders],
            [{"who": k, "page": p, "at": at(s)} for k, p, s in visits],
        )

    def state(self):
        return self.harness.state("made").num_rows


def spread(frame):
    """One row per key: how far prices are apart, and the first one."""
    return {
        "apart": frame.max("price") - frame.min("price"),
        "first": frame.first("price"),
        "n": frame.count(),
    }


def by_window(function, schema):
    def build(orders, visits):
        return orders.key_by("k").window(WINDOW).apply_batches(function, schema, name="made")

    return build


def test_a_window_is_handed_over_when_it_is_complete():
    bench = Bench(by_window(spread, "apart BIGINT, first BIGINT, n BIGINT"), late=True)
    assert bench.step([("a", 5, 1), ("b", 1, 2)]) == []
    assert bench.step([("a", 3, 9), ("a", 9, 3), ("a", 7, 10)]) == [
        ("a", 0, 10, 6, 5, 3),
        ("b", 0, 10, 0, 1, 1),
    ]
    assert bench.state() == 1
    assert bench.step([("a", 1, 9), ("a", 2, None), ("c", 1, 25)]) == [("a", 10, 20, 0, 7, 1)]
    assert bench.shown("late") == [("a", 1, 9), ("a", 2, None)]
    assert bench.harness.outputs("out")[1].schema.names == [
        "k", "window_start", "window_end", "apart", "first", "n",
    ]  # fmt: skip


def test_any_number_of_rows_per_key_in_any_order():
    def steep(frame):
        """Rows that are higher than the one before, of keys in whatever order polars has them."""
        rows = frame.to_polars().with_columns(rise=pl.col("price").diff().over("_key"))
        return rows.filter(pl.col("rise") > 0).select("_key", "price", "rise")[::-1]

    bench = Bench(by_window(steep, "price BIGINT, rise BIGINT"))
    bench.step([("a", 5, 1), ("b", 3, 1), ("a", 6, 2), ("c", 9, 1)])
    assert bench.step([("a", 9, 3), ("b", 1, 4), ("a", 1, 30)]) == [
        ("a", 0, 10, 6, 1),
        ("a", 0, 10, 9, 3),
    ]


def test_without_a_key_all_rows_of_a_window_are_one():
    def build(orders, visits):
        windows = orders.window(WINDOW)
        return windows.apply_batches(lambda f: {"n": f.count()}, "n BIGINT", name="made")

    bench = Bench(build)
    assert bench.step([("a", 5, 1), ("b", 3, 1), ("a", 6, 12)]) == [(0, 10, 2)]


def test_rows_of_windows_may_be_looked_at_again_in_the_same_windows():
    def build(orders, visits):
        counts = orders.key_by("k").window(WINDOW).aggregate(n=agg.count(), name="counts")
        same = counts.window(rc.windows.same_window())
        most = same.apply_batches(lambda f: {"most": f.max("n")}, "most BIGINT", name="made")
        return most.window(rc.windows.same_window()).top(1, by="most", name="best")

    bench = Bench(build)
    bench.step([("a", 5, 1), ("b", 3, 1), ("a", 6, 2)])
    shown = bench.step([("a", 6, 12)]) + bench.step([("a", 6, 45)])
    assert shown == [(0, 10, 1, 2), (10, 20, 1, 1)]


def meeting(left, right):
    """Of every key, how much was paid, and the last page."""
    return {
        "orders": left.count(),
        "paid": left.sum("price"),
        "visits": right.count("page"),
        "page": right.last("page", "-"),
        "least": left.min("price"),
    }


MEETING = "orders BIGINT, paid BIGINT, visits BIGINT, page STRING, least DOUBLE"


def both(within, function=meeting, schema=MEETING):
    def build(orders, visits):
        grouped = orders.cogroup(visits, {"k": "who"}, within=within)
        return grouped.apply_batches(function, schema, name="made")

    return build


def test_both_sides_of_a_key_meet_when_their_window_is_complete():
    bench = Bench(both(WINDOW), late=True)
    assert bench.step([("a", 5, 1), (None, 2, 2)], [("a", "x", 9)]) == []
    assert bench.step([("a", 6, 3), ("z", 1, 11)], [("b", "y", 4), (None, "n", 9)]) == []
    assert bench.state() == 7
    nan = bench.step([("z", 1, 12)], [("z", "z", 12)])
    assert [row[:-1] for row in nan] == [
        ("a", 0, 10, 2, 11, 1, "x"),
        ("b", 0, 10, 0, 0, 1, "y"),
        (None, 0, 10, 1, 2, 1, "n"),
    ]
    assert [row[-1] if row[-1] == row[-1] else None for row in nan] == [5.0, None, 2.0]
    assert bench.state() == 3
    bench.step([("a", 5, 1)], [("a", "late", 2), ("a", "never", None)])
    assert bench.shown("late") == [
        ("a", 0, "left", 5, 1, None, None),
        ("a", 0, "right", None, None, "late", 2),
        ("a", None, "right", None, None, "never", None),
    ]


def test_without_windows_what_comes_together_meets_and_nothing_stays():
    bench = Bench(both(None))
    assert [row[:-1] for row in bench.step([("a", 5, 1)], [("a", "x", 90), ("b", "y", 1)])] == [
        ("a", 1, 5, 1, "x"),
        ("b", 0, 0, 1, "y"),
    ]
    assert bench.state() == 0
    assert bench.step() == []
    one, other = (
        rc.read().memory(script(columns), name=columns[:3]) for columns in (ORDERS, VISITS)
    )
    with pytest.raises(DataflowError, match="has no late rows"):
        print(both(None)(one, other).late)


def test_frames_hold_what_they_say():
    held = []

    def look(left, right):
        held.append((left, right))
        return {"_key": left.ids, "price": left.rows.column("price")}

    bench = Bench(both(None, look, "price BIGINT"))
    rows = [("a", 1, 1), ("b", 2, 1), ("a", None, 2), ("c", 4, 1)]
    assert len(bench.step(rows, [("d", "x", 1), ("a", "y", 1)])) == 4
    found = {}
    for left, right in held:
        assert len(left) == len(right) == left.keys.num_rows
        assert left.keys.equals(right.keys)
        assert left.rows.schema.names == ["price", "at"]
        assert right.rows.schema.names == ["page", "at"]
        prices = left.rows.column("price").to_pylist()
        for i, key in enumerate(left.keys.column("k").to_pylist()):
            start = left.starts[i]
            found[key] = (
                prices[start : start + left.sizes[i]],
                left.count("price")[i],
                left.first("price", -1)[i],
                left.last("price", -1)[i],
                right.first("page", "none")[i],
                right.sizes[i],
            )
        assert left.to_polars()["_key"].to_list() == left.ids.tolist()
        assert right.first("page").dtype == object
        assert np.isnat(left.first("at")[left.sizes == 0]).all()
    assert found == {
        "a": ([1, None], 1, 1, -1, "y", 1),
        "b": ([2], 1, 2, 2, "none", 0),
        "c": ([4], 1, 4, 4, "none", 0),
        "d": ([], 0, -1, -1, "x", 1),
    }


def test_over_finished_input_every_window_is_handed_over():
    orders = pa.table({"k": ["a", "a", "b"], "price": [1, 2, 3], "at": [at(1), at(2), at(55)]})
    visits = pa.table({"who": ["a"], "page": ["x"], "at": [at(3)]})
    streams = [
        rc.read().memory(script(columns), name=name).event_time("at", name=f"{name}-time")
        for name, columns in (("orders", ORDERS), ("visits", VISITS))
    ]
    with rc.run_batch(
        both(WINDOW)(*streams).write.memory("out", name="out"),
        inputs={"orders": orders, "visits": visits},
        in_process=InProcess(),
    ) as found:
        rows = [(row["k"], row["paid"], row["page"]) for row in found.output("out").to_pylist()]
    assert sorted(rows) == [("a", 3, "x"), ("b", 3, "-")]


def test_another_function_takes_over_with_the_rows_that_are_there():
    bench = Bench(by_window(lambda f: {"n": f.count()}, "n BIGINT"))
    bench.step([("a", 5, 1)])
    process = bench.harness.process
    process.reconfigure(rc.changes.change_logic("made", lambda f: {"n": f.sum("price") * 100}))
    bench.step([("a", 6, 2)])
    assert bench.step([("a", 7, 12)]) == [("a", 0, 10, 1100)]
    other = rc.read().memory(bench.scripts[0], name="orders").event_time("at", name="orders-time")
    wider = other.key_by("k").window(rc.windows.tumbling("20 seconds"))
    made = wider.apply_batches(lambda f: {"n": f.count()}, "n BIGINT", name="made")
    with pytest.raises(RefusedError, match="its windows cannot change"):
        process.reconfigure(rc.changes.change_dataflow(made.write.memory("out", name="out")))


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda f: {"m": f.count()}, "'n' is missing; 'm' is not one of them"),
        (lambda f: {"n": [1, 2, 3]}, "has 3 values for 1 keys"),
        (lambda f: {"n": [1, 2], "_key": [0]}, "2 values for 1 values of '_key'"),
        (lambda f: {"n": [1], "_key": [1]}, "from 0 to 0"),
        (lambda f: {"n": [1], "_key": [None]}, "never null"),
        (lambda f: {"n": ["x"]}, "declared bigint"),
        (lambda f: {"n": f.sum("cost")}, "no column 'cost'"),
    ],
)
def test_what_the_function_does_wrong_is_told_with_the_operators_name(function, words):
    rows = script(ORDERS)
    stream = rc.read().memory(rows, name="orders").event_time("at")
    made = by_window(function, "n BIGINT")(stream, None)
    harness = Harness(made.write.memory("out", name="out"), settings=rc.Settings(tasks=1, bins=1))
    harness.start()
    rows.push([{"k": "a", "price": 1, "at": at(1)}])
    rows.push([{"k": "a", "price": 1, "at": at(11)}])
    with pytest.raises(UserFunctionError, match=words) as told:
        harness.process.run()
    assert "operator 'made', timestep 2" in str(told.value)


def test_what_cannot_be_is_refused_before_anything_runs():
    orders = rc.read().memory(script(ORDERS), name="orders")
    visits = rc.read().memory(script(VISITS), name="visits")
    timed, seen = orders.event_time("at"), visits.event_time("at")
    on, windows = {"k": "who"}, timed.key_by("k").window(WINDOW)
    lasting = timed.key_by("k").window(WINDOW, lateness="1 second")
    for wrong, words in (
        (lambda: windows.apply_batches(None, "n BIGINT"), "needs a function"),
        (lambda: windows.apply_batches(spread, "k BIGINT"), "column 'k' is shown in front"),
        (lambda: windows.apply_batches(spread, "_key BIGINT"), "tells which key a row is of"),
        (lambda: windows.apply_batches(spread, "window_end BIGINT"), "'window_end' is shown"),
        (lambda: lasting.apply_batches(spread, "n BIGINT"), "take no lateness"),
        (lambda: windows.apply_batches(spread, "n BIGINT", tasks=0), "at least 1"),
        (lambda: timed.cogroup("visits", on), "takes a stream"),
        (lambda: timed.cogroup(seen, "k"), "no column 'k'"),
        (lambda: timed.cogroup(seen, on, within=rc.between(0, 1)), "rc.windows.sliding"),
        (
            lambda: timed.cogroup(seen, on, within=rc.windows.sessions("2 days")),
            "rc.windows.sliding",
        ),
        (lambda: timed.cogroup(seen, on, left_time_column="at"), "add within="),
        (lambda: timed.cogroup(visits, on, within=WINDOW), "of the right side"),
        (lambda: timed.cogroup(seen, {"price": "page"}).apply_batches(meeting, "n BIGINT"), "cast"),
        (lambda: timed.cogroup(seen, on).apply_batches(meeting, "k BIGINT"), "in front"),
        (lambda: timed.cogroup(seen, on).apply_batches(3, "n BIGINT"), "needs a function"),
        (lambda: timed.cogroup(seen, on).apply_batches(meeting, "n BIGINT", bins=0), "least 1"),
    ):
        with pytest.raises((DataflowError, UnknownColumnError), match=words):
            wrong()
