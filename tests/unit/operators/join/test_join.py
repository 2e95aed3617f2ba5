"""Joins in a running job: what is shown when, what stays, and what is refused."""

from random import Random

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, RechannelError, UnknownColumnError
from rechannel.job import InProcess
from rechannel.model.buffers import ragged
from rechannel.operators.join import matching
from rechannel.testing import Harness, script
from tests.support.two_streams import SETTINGS, TwoStreams, at

LEFT = "k BIGINT, a STRING, at TIMESTAMP"
RIGHT = "id BIGINT, a STRING, n BIGINT, at TIMESTAMP"


class Bench(TwoStreams):
    """Rows (k, a, seconds) meet rows (id, a, n, seconds)."""

    def __init__(self, how="inner", within=None, **options):
        def meet(left, right):
            return left.join(right, {"k": "id"}, how=how, within=within, name="joined")

        super().__init__({"left": LEFT, "right": RIGHT}, meet, **options)

    def step(self, left=(), right=()):
        """One timestep; what it showed."""
        return self.push(
            [{"k": k, "a": a, "at": at(s)} for k, a, s in left],
            [{"id": k, "a": a, "n": n, "at": at(s)} for k, a, n, s in right],
        )

    def state(self):
        rows = self.harness.state("joined").to_pylist()
        return sorted((row["k"], row["_side"], row["a"] or row["a_right"]) for row in rows)


NEAR = rc.between("-10 seconds", "5 seconds")


def test_pairs_are_shown_when_the_later_row_comes():
    bench = Bench("inner", NEAR)
    assert bench.harness.outputs("out") == {}
    assert bench.step([(1, "x", 20)], [(1, "r", 7, 30), (1, "s", 8, 10)]) == [
        (1, "x", 20, "s", 8, 10)
    ]
    assert bench.step([(1, "y", 25), (2, "z", 25)]) == [(1, "y", 25, "r", 7, 30)]
    assert bench.step([], [(1, "t", 9, 30), (None, "u", 1, 30)]) == [(1, "y", 25, "t", 9, 30)]
    assert bench.harness.outputs("out")[1].schema.names == [
        "k", "a", "at", "a_right", "n", "at_right",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("how", "shown"),
    [
        ("inner", []),
        ("semi", []),
        ("left", [(1, "x", 20, None, None, None), (None, "n", 21, None, None, None)]),
        ("right", [(3, None, None, "r", 7, 22), (None, None, None, "m", 1, 21)]),
        ("anti", [(1, "x", 20), (None, "n", 21)]),
    ],
)
def test_rows_without_a_match_are_shown_when_none_can_come(how, shown):
    bench = Bench(how, NEAR)
    first = bench.step(
        [(1, "x", 20), (2, "y", 20), (None, "n", 21)],
        [(2, "q", 5, 21), (3, "r", 7, 22), (None, "m", 1, 21)],
    )
    pair = {"semi": [(2, "y", 20)], "anti": []}.get(how, [(2, "y", 20, "q", 5, 21)])
    assert first == pair
    # Nothing matches a left row of 21 s behind 26 s, nor a right row of 22 s behind 32 s.
    later = [bench.step([(9, "z", s)], [(8, "z", 0, s)]) for s in (26, 33)]
    first, then = ([row for row in rows if row[0] not in {8, 9}] for rows in later)
    assert first == [row for row in shown if row[2] == 20]
    assert then == [row for row in shown if row[2] != 20]


def test_a_full_join_shows_both_sides():
    bench = Bench("full", rc.windows.tumbling("10 seconds"))
    assert bench.step([(1, "x", 1), (2, "y", 2)], [(1, "r", 7, 9), (3, "s", 8, 9)]) == [
        (1, 0, 10, "x", 1, "r", 7, 9)
    ]
    assert bench.step([(1, "z", 10)], [(1, "t", 9, 10)]) == [
        (1, 10, 20, "z", 10, "t", 9, 10),
        (2, 0, 10, "y", 2, None, None, None),
        (3, 0, 10, None, None, "s", 8, 9),
    ]
    assert bench.state() == [(1, "left", "z"), (1, "right", "t")]


def test_late_rows_of_both_sides_are_told():
    bench = Bench("inner", NEAR, late=True, delay="5 seconds")
    bench.step([(1, "x", 30)], [(1, "r", 7, 30)])
    # Event time is at 25 s: rows of before that are late, however near to others.
    assert bench.step([(1, "y", 24), (1, "z", None)], [(1, "s", 8, 24), (1, "t", 8, 25)]) == [
        (1, "x", 30, "t", 8, 25)
    ]
    assert bench.shown("late") == [
        (1, "left", "y", 24, None, None, None),
        (1, "left", "z", None, None, None, None),
        (1, "right", None, None, "s", 8, 24),
    ]


def test_for_ever_all_rows_stay_and_for_semi_as_many_as_matter():
    bench = Bench("inner")
    bench.step([(1, "x", 1)], [])
    assert bench.step([], [(1, "r", 7, 10**6), (1, "s", 7, 0)]) == [
        (1, "x", 1, "r", 7, 10**6),
        (1, "x", 1, "s", 7, 0),
    ]
    assert bench.state() == [(1, "left", "x"), (1, "right", "r"), (1, "right", "s")]
    semi = Bench("semi")
    semi.step([(1, "x", 1), (1, "y", 1)], [(2, "r", 1, 1), (2, "s", 1, 1)])
    assert semi.state() == [(1, "left", "x"), (1, "left", "y"), (2, "right", "r")]
    assert semi.step([(2, "z", 1)], [(1, "t", 1, 1)]) == [(1, "x", 1), (1, "y", 1), (2, "z", 1)]
    assert semi.step([(1, "v", 1)], [(1, "w", 1, 1)]) == [(1, "v", 1)]
    assert semi.state() == [(1, "right", "t"), (2, "right", "r")]


def test_a_stream_meets_itself():
    rows = script(LEFT)
    stream = rc.read().memory(rows, name="rows")
    pairs = stream.join(stream, "k", name="pairs")
    harness = Harness(pairs.write.memory("out", name="out"), settings=SETTINGS)
    harness.start()
    rows.push([{"k": 1, "a": "x", "at": at(1)}, {"k": 1, "a": "y", "at": at(2)}])
    harness.process.run()
    shown = [(r["a"], r["a_right"]) for r in harness.outputs("out")[1].to_pylist()]
    assert sorted(shown) == [("x", "x"), ("x", "y"), ("y", "x"), ("y", "y")]


def test_many_rows_leave_nothing_behind(thorough):
    bench = Bench("left", NEAR, settings=rc.Settings(tasks=1, bins=2))
    sizes, shown = [], 0
    steps = 600 if thorough else 100
    for number in range(steps):
        shown += len(
            bench.step([(number % 5, "l", 4 * number)], [(number % 7, "r", 1, 4 * number)])
        )
        sizes.append(len(bench.state()))
    assert max(sizes[steps // 2 :]) <= max(sizes[: steps // 2]) <= 12
    assert shown >= steps - 5
    runs = bench.harness.journal_state().manifests["joined"].runs
    assert sum(run.rows for run in runs) < 50


def test_over_finished_input_everything_is_shown():
    left = pa.table({"k": [1, 2, 2], "a": ["x", "y", "z"]})
    right = pa.table({"k": [2, 3], "b": [5, 6]})
    one = rc.read().memory(script("k BIGINT, a STRING"), name="one")
    other = rc.read().memory(script("k BIGINT, b BIGINT"), name="other")
    joined = one.join(other, "k", name="joined")
    with rc.run_batch(
        joined.write.memory("out", name="out"),
        inputs={"one": left, "other": right},
        in_process=InProcess(),
    ) as found:
        rows = [tuple(row.values()) for row in found.output("out").to_pylist()]
    assert sorted(rows) == [(2, "y", 5), (2, "z", 5)]


def test_what_cannot_be_is_refused_before_anything_runs():
    left = rc.read().memory(script(LEFT), name="left")
    right = rc.read().memory(script(RIGHT), name="right")
    timed = left.event_time("at")
    for wrong, words in (
        (lambda: left.join(right, "k"), "no column 'k'"),
        (lambda: left.join(right, []), "the columns to join on"),
        (
            lambda: left.join(right, {"k": "id", "a": "id"}),
            "pairs column 'id' of the right side twice",
        ),
        (lambda: left.join(right, {"k": "a"}), "bigint and string on the two sides"),
        (lambda: left.join(right, {"k": "id"}, how="cross"), "how must be one of inner"),
        (lambda: left.join(right, {"k": "id"}, how="left"), "use within="),
        (lambda: left.join(right, {"k": "id"}, within="1 day"), r"rc.between\(...\)"),
        (
            lambda: left.join(right, {"k": "id"}, within=rc.windows.sessions("2 days")),
            "windows of a join have one length",
        ),
        (lambda: left.join(right, {"k": "id"}, within=NEAR), "of the left side"),
        (lambda: timed.join(right, {"k": "id"}, within=NEAR), "of the right side"),
        (
            lambda: timed.join(right, {"k": "id"}, within=NEAR, right_time_column="at"),
            "rows of 'right' get there without one",
        ),
        (lambda: left.join(right, {"k": "id"}, suffix=""), "give another suffix="),
        (lambda: left.join("right", "k"), "takes a stream"),
        (lambda: left.join(right, {"k": "id"}).late, "has no late rows"),
        (lambda: rc.between("1 second", 0), "give the smaller one first"),
        (
            lambda: timed.join(right.event_time("at"), {"at": "at"}, within=NEAR),
            "is a key of the join",
        ),
    ):
        with pytest.raises((DataflowError, UnknownColumnError), match=words):
            wrong()


@pytest.mark.parametrize(
    "within", [NEAR, rc.windows.tumbling("10 seconds")], ids=["near", "windows"]
)
@pytest.mark.parametrize("column", ["at", "at_right"])
def test_windows_behind_a_join_miss_nothing(within, column):
    rows = script(LEFT), script(RIGHT)
    left, right = (
        rc.read().memory(each, name=name).event_time("at", "3 seconds", name=f"{name}-time")
        for name, each in zip(("left", "right"), rows, strict=True)
    )
    joined = left.join(right, {"k": "id"}, how="full", within=within, name="joined")
    counts = joined.key_by("k").window(rc.windows.tumbling("2 seconds"), time_column=column)
    counted = counts.aggregate(n=agg.count(), name="counts")
    ends = [joined.write.memory("out", name="out"), counted.write.memory("n", name="n")]
    ends.append(counted.late.write.memory("late", name="late"))
    harness = Harness(ends, settings=SETTINGS)
    harness.start()
    for number in range(60):
        rows[0].push([{"k": number % 3, "a": "l", "at": at(2 * number - number % 4)}])
        rows[1].push([{"id": number % 4, "a": "r", "n": 1, "at": at(2 * number - number % 3)}])
    harness.process.run()
    shown = [row for table in harness.outputs("out").values() for row in table.to_pylist()]
    late = [row for table in harness.outputs("late").values() for row in table.to_pylist()]
    # Rows without a time are of no window, whatever it is that went before.
    assert [row for row in late if row[column] is not None] == []
    found = sum(row["n"] for table in harness.outputs("n").values() for row in table.to_pylist())
    assert found > 50
    assert len([row for row in shown if row[column] is not None]) - found < 20


def test_other_columns_do_not_get_into_the_state_of_others_unnoticed():
    rows = script("k BIGINT, price BIGINT, qty BIGINT"), script("k BIGINT, w STRING")

    def flow(on="k", *, swapped=False, how="inner"):
        left, right = (
            rc.read().memory(each, name=name)
            for name, each in zip(("left", "right"), rows, strict=True)
        )
        left = left.map(
            lambda row: (row.k, row.qty, row.price) if swapped else (row.k, row.price, row.qty),
            "k BIGINT, qty BIGINT, price BIGINT"
            if swapped
            else "k BIGINT, price BIGINT, qty BIGINT",
            name="columns",
        )
        joined = left.join(right, on, how=how, name="joined")
        return joined.write.memory("out", name="out")

    harness = Harness(flow(), settings=SETTINGS)
    process = harness.start()
    rows[0].push([{"k": 1, "price": 100, "qty": 7}])
    process.run()
    for other, words in (
        (flow({"price": "k"}), "which rows it keeps"),
        (flow(how="semi"), "which rows it keeps"),
    ):
        with pytest.raises(RechannelError, match=words):
            process.reconfigure(rc.changes.change_dataflow(other))
    # What was stored under a name is found under it, wherever it stands now.
    process.reconfigure(rc.changes.change_dataflow(flow(swapped=True)))
    rows[0].push([{"k": 1, "price": 200, "qty": 8}])
    rows[1].push([{"k": 1, "w": "x"}])
    process.run()
    shown = [r for t in harness.outputs("out").values() for r in t.to_pylist()]
    assert sorted((r["price"], r["qty"]) for r in shown) == [(100, 7), (200, 8)]


def test_tombstones_that_are_migrated_hide_their_rows():
    rows = script("k BIGINT, x BIGINT, at TIMESTAMP"), script("k BIGINT, at TIMESTAMP")

    def flow(columns):
        left, right = (
            rc.read().memory(each, name=name).event_time("at", name=f"{name}-time")
            for name, each in zip(("left", "right"), rows, strict=True)
        )
        left = left.map(
            lambda row: (row.k, row.x, row.at, 5)[: len(columns.split(","))], columns, name="wider"
        )
        left = left.event_time("at", name="again")
        joined = left.join(right, "k", how="anti", within=NEAR, name="joined")
        return joined.write.memory("out", name="out")

    settings = rc.Settings(tasks=1, bins=1)
    harness = Harness(flow("k BIGINT, x BIGINT, at TIMESTAMP"), settings=settings)
    process = harness.start()
    left, right = rows
    left.push([{"k": k, "x": k, "at": at(100)} for k in range(50)])
    right.push([])
    left.push([])
    right.push([{"k": k, "at": at(100)} for k in range(5)])
    process.run()
    migration = rc.changes.migrate(add={"left.y": None})
    wider = flow("k BIGINT, x BIGINT, at TIMESTAMP, y BIGINT")
    process.reconfigure(rc.changes.change_dataflow(wider, migrate={"joined": migration}))
    left.push([{"k": 99, "x": 1, "at": at(200)}])
    right.push([{"k": 98, "at": at(200)}])
    process.run()
    shown = [r["k"] for t in harness.outputs("out").values() for r in t.to_pylist()]
    assert sorted(shown) == list(range(5, 50))


@pytest.fixture
def made(monkeypatch):
    """How many pairs were made, whether shown or not."""
    counts = []

    def counted(first, count):
        counts.append(int(count.sum()))
        return ragged(first, count)

    monkeypatch.setattr(matching, "ragged", counted)
    return counts


@pytest.mark.parametrize(
    ("how", "pairs", "shown"), [("inner", 3, 3), ("left", 3, 3), ("semi", 0, 3), ("anti", 0, 0)]
)
def test_only_rows_that_are_near_are_paired(made, how, pairs, shown):
    bench = Bench(how, rc.between(0, 0), delay="1 hour")
    bench.step([(1, "x", s) for s in range(400)])
    made.clear()
    found = bench.step((), [(1, "r", n, s) for n, s in enumerate((7, 8, 8.5, 99, *[-5] * 200))])
    assert sum(made) == pairs
    assert len(found) == shown


@pytest.mark.parametrize(
    ("how", "within", "shown"),
    [
        ("semi", None, 20),
        ("semi", rc.windows.tumbling("1 hour"), 20),
        ("anti", rc.windows.tumbling("1 hour"), 0),
    ],
)
def test_rows_are_not_paired_to_see_whether_a_key_has_one(made, how, within, shown):
    bench = Bench(how, within)
    bench.step([(1, "x", 100 + s) for s in range(20)])
    assert len(bench.step((), [(1, "r", 1, 110)] * 20)) == shown
    assert sum(made) == 0


def test_rows_found_by_time_are_those_found_one_by_one(monkeypatch):
    shown = {}
    for few in (-1, 1 << 30):
        monkeypatch.setattr(matching, "FEW", few)
        for how in ("inner", "left", "right", "full", "semi", "anti"):
            bench = Bench(how, NEAR, delay="5 seconds")
            rng = Random(7)
            for step in range(6):
                left = [(rng.randint(1, 2), "x", step * 7 + rng.randint(0, 15)) for _ in range(9)]
                right = [(k, "r", n, s) for n, (k, _, s) in enumerate(rng.sample(left, 5))]
                rows = [] if step == 2 else left, [] if step == 3 else right
                bench.step(*rows)
                table = bench.harness.outputs("out")[bench.timestep].to_pylist()
                shown[few, how, step] = table, bench.state()
    assert all(shown[-1, *key] == shown[1 << 30, *key] for few, *key in shown if few == -1)
    assert any(table for table, _ in shown.values())


def named(**names):
    """Two streams whose columns k, a are called otherwise."""
    columns = f"{names.get('k', 'k')} BIGINT, {names.get('a', 'a')} STRING, at TIMESTAMP"
    other = f"{names.get('k', 'k')} BIGINT, {names.get('b', 'b')} STRING, at TIMESTAMP"
    pair = (rc.read().memory(script(each), name=f"s{i}") for i, each in enumerate((columns, other)))
    return [each.event_time("at", name=f"t{i}") for i, each in enumerate(pair)]


@pytest.mark.parametrize("name", ["_side", "_row"])
def test_names_of_columns_of_the_state_are_refused_as_keys(name):
    left, right = named(k=name)
    for made in (
        lambda: left.join(right, name),
        lambda: left.join(right, name, how="semi", within=NEAR),
        lambda: left.asof_join(right, name),
        lambda: left.cogroup(right, name).apply_batches(lambda one, _: {"n": one.count()}, "n INT"),
    ):
        with pytest.raises(DataflowError, match=f"key column '{name}' is reserved for state"):
            made()


def test_a_key_is_called_matched_where_no_state_is():
    left, right = named(k="matched")
    left.join(right, "matched")
    with pytest.raises(DataflowError, match="key column 'matched' is reserved for state"):
        left.join(right, "matched", how="left", within=NEAR)
    left, right = named(a="matched")
    left.join(right, "k", how="left", within=NEAR)


@pytest.mark.parametrize("side", ["a", "b"])
def test_the_name_under_which_state_shows_sides_is_refused(side):
    left, right = named(**{side: "_side"})
    for made in (lambda: left.join(right, "k"), lambda: left.asof_join(right, "k")):
        with pytest.raises(DataflowError, match="column '_side' is reserved for state"):
            made()
    left, right = named(**{side: "_row"})
    left.join(right, "k")
