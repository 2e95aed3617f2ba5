"""Windows that overlap, in a running job."""

from datetime import UTC, datetime, timedelta
from random import Random

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, RefusedError
from rechannel.kernels.columnar import sorting
from rechannel.operators.window import logic as windows
from rechannel.operators.window import sliding
from rechannel.operators.window.logic import AssignWindows
from rechannel.settings import Settings
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def row(user, seconds, x=1):
    at = None if seconds is None else EPOCH + timedelta(seconds=seconds)
    return {"user": user, "x": x, "at": at}


class Bench:
    """A job that counts and sums per user in windows of `size` s every `every` s."""

    def __init__(self, size=10, every=5, delay=0, *, late=False, tasks=2, offset=0):
        self.rows = script("user STRING, x BIGINT, at TIMESTAMP")
        stream = rc.read().memory(self.rows, name="rows").event_time("at", delay)
        window = rc.windows.sliding(
            timedelta(seconds=size), timedelta(seconds=every), timedelta(seconds=offset)
        )
        made = (
            stream.key_by("user")
            .window(window)
            .aggregate(n=agg.count(), total=agg.sum("x"), most=agg.max("x"), name="windows")
        )
        ends = [made.write.memory("out", name="out")]
        if late:
            ends.append(made.late.write.memory("late", name="late"))
        self.harness = Harness(ends, settings=Settings(tasks=tasks, bins=4))
        self.harness.start()
        self.timestep = 0

    def step(self, *rows):
        """One timestep; what it showed, as (user, start in s, end in s, n, total, most)."""
        self.rows.push(list(rows))
        self.harness.process.run()
        self.timestep += 1
        table = self.harness.outputs("out")[self.timestep]
        return sorted(self.plain(r) for r in table.to_pylist())

    def state(self):
        return sorted(self.plain(r)[:4] for r in self.harness.state("windows").to_pylist())

    @staticmethod
    def plain(r):
        first, last = ((r[f"window_{end}"] - EPOCH).total_seconds() for end in ("start", "end"))
        return (r["user"], first, last, r["n"], r["total"], r["most"])


def test_a_row_is_in_every_window_that_holds_it():
    bench = Bench()
    assert bench.step(row("ann", 1, 5)) == []
    assert bench.step(row("ann", 5, 2), row("ann", 9, 1)) == [("ann", -5, 5, 1, 5, 5)]
    assert bench.state() == [("ann", 0, 5, 1), ("ann", 5, 10, 2)]
    assert bench.step(row("bob", 10)) == [("ann", 0, 10, 3, 8, 5)]
    # The pane from 0 s to 5 s is in no window any more.
    assert bench.state() == [("ann", 5, 10, 2), ("bob", 10, 15, 1)]
    assert bench.step(row("bob", 16)) == [("ann", 5, 15, 2, 3, 2), ("bob", 5, 15, 1, 1, 1)]


def test_several_windows_may_become_complete_at_once():
    bench = Bench()
    bench.step(row("ann", 1), row("bob", 7))
    assert bench.step(row("cid", 100)) == [
        ("ann", 0, 10, 1, 1, 1),
        ("bob", 0, 10, 1, 1, 1),
        ("bob", 5, 15, 1, 1, 1),
    ]
    assert bench.state() == [("cid", 100, 105, 1)]


def test_the_first_timestep_shows_what_it_completes():
    bench = Bench()
    assert bench.step(row("ann", 1), row("ann", 12)) == [
        ("ann", -5, 5, 1, 1, 1),
        ("ann", 0, 10, 1, 1, 1),
    ]


def test_a_row_that_misses_some_of_its_windows_is_in_the_others():
    bench = Bench(late=True)
    bench.step(row("ann", 1), row("ann", 7))
    assert bench.step(row("ann", 2)) == []
    assert bench.step(row("ann", 12)) == [("ann", 0, 10, 3, 3, 1)]
    assert bench.step(row("ann", 3, 9), row("eve", None)) == []
    late = bench.harness.outputs("late")[bench.timestep].to_pylist()
    assert sorted((r["user"], r["x"]) for r in late) == [("ann", 9), ("eve", 1)]


@pytest.mark.parametrize(("size", "every"), [(10, 4), (9, 6), (7, 7), (60, 1)])
def test_windows_need_not_be_multiples_of_their_distance(size, every):
    bench, times = Bench(size, every, offset=3), [0, 1, 5, 8, 13, 14, 21, 27, 40]
    shown = [each for at in times for each in bench.step(row("ann", at, at))]
    ends = range(3 + size - 200 * every, 41, every)
    expected = []
    for end in ends:
        held = [at for at in times if end - size <= at < end]
        if held:
            expected.append(("ann", end - size, end, len(held), sum(held), max(held)))
    assert shown == sorted(expected)


def test_it_is_the_same_while_tasks_and_bins_change():
    alone, moved = Bench(20, 5), Bench(20, 5, tasks=1)
    for number in range(12):
        rows = [row(f"u{i * 7 % 5}", number * 4 + i % 6, i) for i in range(15)]
        if number == 2:
            moved.harness.process.reconfigure(
                rc.changes.rescale("windows", 3), rc.strategies.fluid(1)
            )
        if number == 6:
            moved.harness.process.reconfigure(
                [rc.changes.split("windows", 0), rc.changes.rescale("windows", 2)]
            )
        assert moved.step(*rows) == alone.step(*rows)
        assert moved.state() == alone.state()


@pytest.mark.parametrize(
    ("window", "options", "aggregates", "message"),
    [
        (lambda: rc.windows.sliding(5, 10), {}, {}, "would leave out the rows between two windows"),
        (lambda: rc.windows.sliding(5, 0), {}, {}, "distance between windows must be a timedelta"),
    ],
)
def test_what_makes_no_sense_is_refused(window, options, aggregates, message):
    stream = rc.read().memory(script("user STRING, x BIGINT, at TIMESTAMP")).event_time("at")
    with pytest.raises(DataflowError, match=message):
        dataflow_of(
            stream.key_by("user").window(window(), **options).aggregate(n=agg.count(), **aggregates)
        )


def test_a_window_of_many_panes_costs_its_panes_and_not_their_windows():
    rows = script("user STRING, x BIGINT, at TIMESTAMP")
    stream = rc.read().memory(rows, name="rows").event_time("at").key_by("user")
    sums = stream.window(rc.windows.sliding("400 seconds", "1 second")).aggregate(
        total=agg.sum("x"), name="sums"
    )
    harness = Harness(sums.write.memory("out", name="out"), settings=rc.Settings(tasks=1, bins=1))
    harness.start()
    start = datetime(2026, 1, 1, tzinfo=UTC)
    made = []
    for seconds in range(500):
        rows.push([{"user": "ann", "x": 1, "at": start + timedelta(seconds=seconds)}])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            sliding,
            "nested_order",
            lambda *by: made.append(len(by[0])) or sorting.nested_order(*by),
        )
        harness.process.run()
    assert max(made) <= 2 * 400
    shown = [r for t in harness.outputs("out").values() for r in t.to_pylist()]
    assert max(row["total"] for row in shown) == 400
    assert len(shown) == 499


def test_windows_that_overlap_need_no_key():
    assert shown_of(
        lambda stream: stream.window(TEN_BY_FIVE).aggregate(n=agg.count(), name="w")
    ) == [
        (EPOCH - timedelta(seconds=5), EPOCH + timedelta(seconds=5), 2),
        (EPOCH, EPOCH + timedelta(seconds=10), 3),
    ]


TEN_BY_FIVE = rc.windows.sliding("10 seconds", "5 seconds")


def shown_of(made, *, timesteps=2, late=False):
    """What comes out of rows at 1, 4 and 6 s, of which the second comes last, and of one at 10 s."""
    rows = script("user STRING, x BIGINT, at TIMESTAMP")
    stream = made(rc.read().memory(rows, name="rows").event_time("at"))
    ends = [stream.write.memory("out", name="out")]
    ends += [stream.late.write.memory("late", name="late")] if late else []
    harness = Harness(ends, settings=Settings(tasks=2, bins=4))
    harness.start()
    rows.push([row("ann", 1, 7), row("ann", 6, 8), row("ann", 4, 9)][: 3 if timesteps == 2 else 2])
    if timesteps == 3:
        rows.push([row("ann", 4, 9)])
    rows.push([row("bob", 10)])
    harness.process.run()
    tables = [t for name in ("out", "late")[: 1 + late] for t in harness.outputs(name).values()]
    return sorted((tuple(each.values()) for table in tables for each in table.to_pylist()), key=str)


def test_each_window_has_its_rows_in_order_where_that_matters():
    def made(stream):
        windows = stream.key_by("user").window(TEN_BY_FIVE)
        return windows.aggregate(f=agg.first("x"), l=agg.last("x"), name="w")

    assert [each[3:] for each in shown_of(made)] == [(7, 9), (7, 9)]


def test_the_first_rows_of_each_window():
    def made(stream):
        windows = stream.key_by("user").window(TEN_BY_FIVE)
        return windows.top(1, by="x", rank=None, name="w")

    assert [each[1:4] for each in shown_of(made)] == [
        (EPOCH - timedelta(seconds=5), EPOCH + timedelta(seconds=5), 9),
        (EPOCH, EPOCH + timedelta(seconds=10), 9),
    ]


def test_a_row_is_late_for_a_window_and_in_time_for_another():
    def made(stream):
        windows = stream.key_by("user").window(TEN_BY_FIVE, emit="on_update")
        return windows.aggregate(n=agg.count(), name="w")

    expected = [
        ("ann", *seconds(-5, 5), 1),
        ("ann", *seconds(0, 10), 2),
        ("ann", *seconds(0, 10), 3),
        ("ann", *seconds(5, 15), 1),
        ("bob", *seconds(5, 15), 1),
        ("bob", *seconds(10, 20), 1),
        ("ann", 9, *seconds(4, -5)),
    ]
    assert shown_of(made, timesteps=3, late=True) == sorted(expected, key=str)


def seconds(*numbers):
    return tuple(EPOCH + timedelta(seconds=number) for number in numbers)


def test_with_lateness_a_window_takes_rows_when_it_was_shown():
    def made(stream):
        windows = stream.key_by("user").window(TEN_BY_FIVE, lateness="2 seconds")
        return windows.aggregate(n=agg.count(), name="w")

    assert shown_of(made, timesteps=3) == [
        ("ann", *seconds(-5, 5), 1),
        ("ann", *seconds(-5, 5), 2),
        ("ann", *seconds(0, 10), 3),
    ]


def test_panes_in_many_windows_are_taken_some_windows_at_a_time(monkeypatch):
    """The same rows, however few at once."""

    def shown():
        bench = Bench(size=40, every=2)
        bench.step(*(row("ab"[i % 2], i * 0.7, x=i) for i in range(100)))
        return bench.step(row("a", 500))

    whole = shown()
    monkeypatch.setattr(sliding, "AT_ONCE", 3)
    assert shown() == whole
    assert len(whole) > 30


def test_a_row_goes_into_every_window_that_holds_it():
    rng = Random(7)
    for _ in range(100):
        every = rng.randint(1, 9)
        assign = AssignWindows(
            column="at",
            size_us=every + rng.randint(0, 20),
            offset_us=rng.randint(0, 30),
            every_us=every,
        )
        times = [rng.choice((None, rng.randint(-40, 40))) for _ in range(20)]
        rows = pa.record_batch({"x": range(20), "at": pa.array(times, pa.timestamp("us", "UTC"))})
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(windows, "COPIED_ROWS", rng.choice((1, 7, 1_000)))
            made = pa.Table.from_batches(assign(rows), assign.schema_of(rows.schema))
        starts = made["window_start"].cast(pa.int64()).to_pylist()
        expected = []
        for x, at in enumerate(times):
            near = range(-100, 100)
            held = [s for s in near if at is not None and s <= at < s + assign.size_us]
            fit = [s for s in held if (s - assign.offset_us) % every == 0]
            expected += [(x, start) for start in (fit if at is not None else [None])]
        assert list(zip(made["x"].to_pylist(), starts, strict=True)) == expected


def test_a_row_is_kept_so_often_at_most():
    stream = rc.read().memory(script("user STRING, at TIMESTAMP"), name="rows").event_time("at")
    window = stream.key_by("user").window(
        rc.windows.sliding("2000 seconds", "1 second"), emit="on_update"
    )
    with pytest.raises(DataflowError, match=r"is in 2,000 windows.*at most 1,000 are allowed"):
        window.aggregate(n=agg.count())
    plain = stream.key_by("user").window(rc.windows.sliding("2000 seconds", "1 second"))
    plain.aggregate(n=agg.count(), name="fine")


def test_windows_of_rows_without_any_other_column():
    rows = script("window_start TIMESTAMP, window_end TIMESTAMP, n BIGINT")
    timed = rc.read().memory(rows, name="rows").event_time("window_end")
    counts = timed.window(TEN_BY_FIVE).aggregate(m=agg.count(), name="again")
    harness = Harness(counts.write.memory("out", name="out"), settings=Settings(tasks=1, bins=1))
    harness.start()
    for second in (3, 30):
        end = EPOCH + timedelta(seconds=second)
        rows.push([{"window_start": EPOCH, "window_end": end, "n": 1}])
        harness.process.run()
    tables = harness.outputs("out").values()
    assert sorted(each["m"] for table in tables for each in table.to_pylist()) == [1, 1]


@pytest.mark.parametrize("new", [{"n": agg.count()}, {"n": agg.count(), "f": agg.first("x")}])
def test_the_form_of_what_is_stored_stays(new):
    rows = script("user STRING, x BIGINT, at TIMESTAMP")
    keyed = rc.read().memory(rows, name="rows").event_time("at").key_by("user")
    old = {"n": agg.count()} if "f" in new else {"n": agg.count(), "f": agg.first("x")}
    made = keyed.window(TEN_BY_FIVE).aggregate(**old, name="windows")
    harness = Harness(made.write.memory("out", name="out"), settings=Settings(tasks=1, bins=1))
    process = harness.start()
    with pytest.raises(RefusedError, match=r"windows that share theirs|share theirs: leave"):
        process.reconfigure(rc.changes.change_logic("windows", new))
    process.reconfigure(rc.changes.change_logic("windows", {**old, "total": agg.sum("x")}))
