"""Windows that overlap, out of totals: the same as out of panes, to the bit, and cheaper."""

import math
import struct
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from random import Random

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.dataflow.streams.stream import dataflow_of
from rechannel.errors import DataflowError, RefusedError, TimestepError
from rechannel.operators.window import incremental
from rechannel.operators.window.kinds import Sliding
from rechannel.operators.window.sliding import SlidingLogic
from rechannel.state.run import CHANGES, TOTALS
from rechannel.state.stores.memory import MemoryStore
from rechannel.testing import Harness, script
from tests.support.reports import reports_in

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "k BIGINT, i BIGINT, x DOUBLE, d DECIMAL(12,2), at TIMESTAMP"
FLOATS = (0.0, -0.0, 1.0, 0.1, 1e-9, 3e7, -2.5, 1e16, 1e300, -1e300, 5e-324, 1e-300, None)
NASTY = (*FLOATS, math.nan, math.inf, -math.inf)


def row(k, second, i=1, x=1.0, d=None):
    return {"k": k, "i": i, "x": x, "d": d, "at": EPOCH + timedelta(milliseconds=second * 1000)}


def aggregates():
    made = {
        "n": agg.count(),
        "there": agg.count("x"),
        "mean_d": agg.mean("d"),
        "mean_i": agg.mean("i"),
    }
    for of in ("i", "x", "d"):
        made[f"sum_{of}"] = agg.sum(of)
    for of in ("i", "x"):
        made |= {f"variance_{of}": agg.variance(of), f"stddev_{of}": agg.stddev(of)}
    return made | {"mean_x": agg.mean("x")}


class Bench:
    """A job over windows of `size` s every `every` s; least: also the least `i`, so that there are no totals."""

    def __init__(self, size, every, *, least=False, made=None, delay=0, tasks=2, store=None):
        self.rows = script(SCHEMA)
        made = made or aggregates()
        stream = rc.read().memory(self.rows, name="rows").event_time("at", delay * 1000)
        windows = stream.key_by("k").window(rc.windows.sliding(size * 1000, every * 1000))
        shown = windows.aggregate(made | ({"least": agg.min("i")} if least else {}), name="windows")
        self.harness = Harness(
            shown.write.memory("out", name="out"),
            settings=rc.Settings(tasks=tasks, bins=8, keep_versions=4),
            store=store or MemoryStore(),
        )
        self.timestep, self.told = 0, []
        self.start()

    def start(self):
        self.harness.start()
        run = self.harness.process.runner.run
        self.harness.process.runner.run = lambda *a: (
            self.told.extend(reports_in(found := run(*a))) or found
        )

    def step(self, rows):
        """One timestep; its rows, bit for bit, without `least`."""
        self.told.clear()
        self.rows.push(rows)
        self.harness.process.run()
        self.timestep += 1
        return without_least(self.harness.outputs("out")[self.timestep])

    def state(self):
        return sorted(map(repr, without_least(self.harness.state("windows"))))

    def runs(self, level):
        manifest = self.harness.journal_state().manifests["windows"]
        return [run for run in manifest.runs if run.level == level]

    def counted(self, name):
        return sum(r.costs.counts.get(name, 0) for r in self.told if r.operator == "windows")


def without_least(table):
    names = [name for name in table.column_names if name != "least"]
    return [tuple(map(bits, r.values())) for r in table.select(names).to_pylist()]


def bits(value):
    return struct.pack("<d", value) if isinstance(value, float) else value


def random_rows(rng, now, floats, count, spread):
    return [
        row(
            rng.choice((None, 1, 2, 3, 4)),
            now - rng.random() * spread,
            rng.choice((None, 0, 5, -7, 2**40)),
            rng.choice(floats),
            rng.choice((None, Decimal("0.01"), Decimal("-9999999999.99"), Decimal("5"))),
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("seed", [5, *(pytest.param(n, marks=pytest.mark.slow) for n in (2, 6, 8))])
def test_totals_are_those_of_the_panes_to_the_bit(seed):
    rng = Random(seed)
    size, every = rng.choice(((10, 1), (10, 5), (30, 2), (9, 6), (10, 4)))
    floats, delay = rng.choice((FLOATS, NASTY)), rng.choice((0, 0, 3))
    kept, panes = (Bench(size, every, least=least, delay=delay) for least in (False, True))
    now, shown = 0.0, 0
    for _ in range(30):
        now += rng.choice((0.2, 1, 1, 2, 7, 7, 45))
        rows = random_rows(rng, now, floats, rng.choice((0, 1, 5, 20)), rng.choice((0.5, 3, 15)))
        if rng.random() < 0.1:
            change = rc.changes.rescale("windows", rng.choice((1, 2, 3)))
            for bench in (kept, panes):
                bench.harness.process.reconfigure(change)
        found = kept.step(rows)
        assert found == panes.step(rows)
        shown += len(found)
    assert shown > 30
    assert kept.state() == panes.state()


def test_rows_that_a_window_reads_do_not_follow_its_length():
    read = {}
    for size in (10, 60):
        bench = Bench(size, 1, made={"n": agg.count(), "total": agg.sum("x")}, tasks=1)
        for second in range(73):
            shown = bench.step([row(k, second + 0.5) for k in range(20)])
            if second > 70:
                read.setdefault(size, []).append(bench.counted("rows_read"))
        assert len(shown) == 20
    assert max(read[60]) <= 1.5 * max(read[10]) < 20 * 12


def test_state_of_before_there_were_totals_is_read_on():
    store, plain = MemoryStore(), Bench(10, 2, least=True)
    rng, now = Random(1), 0.0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SlidingLogic, "running", None)
        bench = Bench(10, 2, store=store)
        for _ in range(8):
            now += 1
            rows = random_rows(rng, now, FLOATS, 8, 3)
            assert bench.step(rows) == plain.step(rows)
    assert not bench.runs(TOTALS)
    bench.start()
    for _ in range(8):
        now += 1
        rows = random_rows(rng, now, FLOATS, 8, 3)
        assert bench.step(rows) == plain.step(rows)
    assert bench.runs(TOTALS)


def test_aggregates_come_and_go_while_it_runs():
    made = {"n": agg.count(), "total": agg.sum("x")}
    bench, plain = Bench(10, 2, made=made), Bench(10, 2, made=made, least=True)
    changes = {5: made | {"most": agg.max("i")}, 10: made, 15: made | {"mean": agg.mean("i")}}
    rng = Random(2)
    for second in range(25):
        if second in changes:
            bench.harness.process.reconfigure(rc.changes.change_logic("windows", changes[second]))
        rows = random_rows(rng, second, FLOATS, 8, 3)
        assert [r[:5] for r in bench.step(rows)] == plain.step(rows)
        if second in {4, 8, 14, 24}:
            assert bool(bench.runs(TOTALS)) == (second != 8)


def test_what_changes_between_two_windows_is_noted_and_noted_together():
    bench, plain = Bench(100, 50), Bench(100, 50, least=True)
    rng, most = Random(3), 0
    for number in range(60):
        now = 120 + number * 1.2
        rows = random_rows(rng, now, NASTY, 4, 60)
        assert bench.step(rows) == plain.step(rows)
        most = max(most, len(bench.runs(CHANGES)))
    assert 2 < most <= 2 * (incremental.MOST_CHANGES + 1)


def test_a_sum_on_the_way_may_be_too_large_but_not_one_that_is_shown():
    bench = Bench(2, 1, made={"total": agg.sum("i")}, tasks=1)
    half = 2**62
    shown = []
    for second, i in enumerate((half, half - 1, half, -half, -half, -half)):
        shown += bench.step([row(1, second, i)])
    assert [r[-1] for r in shown] == [half, 2 * half - 1, 2 * half - 1, 0, -2 * half]
    bench.step([row(1, 6, -1)])
    bench.step([row(1, 7, -half), row(1, 7.5, -half)])
    with pytest.raises(TimestepError, match=r"sum\('i'\)"):
        bench.step([row(1, 9, 0)])


def added(one, other):
    return pa.RecordBatch.from_arrays(
        [pc.add(*pair) for pair in zip(one.columns, other.columns, strict=True)],
        names=one.schema.names,
    )


def less(one, other):
    assert one.num_rows
    return pa.RecordBatch.from_arrays(
        [pc.subtract(*pair) for pair in zip(one.columns, other.columns, strict=True)],
        names=one.schema.names,
    )


@pytest.mark.parametrize(
    "window",
    [
        rc.windows.sliding(6000, 1000),
        rc.windows.tumbling(3000),
        rc.windows.sessions(1000),
        rc.windows.sliding(6000, 4000),
    ],
)
def test_rows_of_a_window_are_combined_with_a_function_of_yours(window):
    rows = script("k BIGINT, i BIGINT, at TIMESTAMP")
    windows = rc.read().memory(rows, name="rows").event_time("at", 500).key_by("k").window(window)
    ends = [
        windows.reduce(added, inverse=less, name="less"),
        windows.reduce(added, name="anew"),
        windows.aggregate(i=agg.sum("i"), name="sums"),
    ]
    harness = Harness(
        [end.write.memory(end.name, name=f"to-{end.name}") for end in ends],
        settings=rc.Settings(tasks=2, bins=8),
    )
    harness.start()
    rng, shown = Random(4), 0
    for second in range(1, 31):
        made = [
            row(rng.randrange(3), second - rng.random() * 2, rng.randrange(99)) for _ in range(4)
        ]
        rows.push([{name: each[name] for name in ("k", "i", "at")} for each in made])
        if second in {10, 20}:
            harness.process.reconfigure(
                [rc.changes.rescale(end.name, second // 5 - 1) for end in ends]
            )
        harness.process.run()
        found = [harness.outputs(f"to-{end.name}")[second].to_pylist() for end in ends]
        assert found[0] == found[1] == found[2]
        shown += len(found[0])
    assert shown > 20
    manifests = harness.journal_state().manifests
    kept = {name: {run.level for run in manifests[name].runs} for name in ("less", "anew")}
    assert (TOTALS in kept["less"]) == (isinstance(window, Sliding))
    assert TOTALS not in kept["anew"]
    with pytest.raises(RefusedError, match="combined with the present function"):
        harness.process.reconfigure(rc.changes.change_logic("less", less))


def test_what_cannot_be_combined_is_refused():
    keyed = rc.read().memory(script("k BIGINT, at TIMESTAMP")).event_time("at").key_by("k")
    with pytest.raises(DataflowError, match="there are none"):
        dataflow_of(keyed.window(rc.windows.sliding(6000, 1000)).reduce(added))
    with pytest.raises(DataflowError, match="inverse of reduce needs a function"):
        keyed.window(rc.windows.sliding(6000, 1000)).reduce(added, inverse="less")


def test_totals_of_a_key_that_is_not_there_any_more_go():
    bench = Bench(10, 1, made={"n": agg.count()}, tasks=1)
    bench.step([row(k, 0) for k in range(50)])
    for second in range(1, 9):
        bench.step([row(99, second)])
    assert sum(run.rows for run in bench.runs(TOTALS)) == 51
    for second in range(9, 14):
        bench.step([row(99, second)])
    assert sum(run.rows for run in bench.runs(TOTALS)) == 1
    assert len(bench.step([row(99, 300)])) == 10
    assert not bench.runs(TOTALS)
    assert np.array_equal([r[0] for r in bench.step([row(99, 301)])], [99])


def test_windows_fit_where_a_part_of_one_does_not():
    """Between two windows lies a sum that no window has."""
    big = 1 << 62
    values = (-big, big, big, -big, big, -big, 0)
    made = {"s": agg.sum("i")}
    plain = Bench(30, 10, least=True, made=made)
    totals = Bench(30, 10, made=made)
    for number, value in enumerate(values):
        one = row(1, 1 + 10 * number, i=value)
        plain.step([one])
        totals.step([one])
    shown = totals.harness.output("out").to_pylist()
    with_least = plain.harness.output("out").to_pylist()
    assert [each["s"] for each in shown] == [-big, 0, big, big, big, -big]
    assert [{**each, "least": None} for each in with_least] == [
        {**each, "least": None} for each in shown
    ]
