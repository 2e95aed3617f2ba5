"""Changelogs of operators: what they say of each, and which have none."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel import changes
from rechannel.dataflow.evolution.evolution import stream_of
from rechannel.errors import DataflowError, OtherDataflowError, RefusedError
from rechannel.kernels.protocol.capabilities import Revising
from rechannel.kernels.tasks import stateful_task
from rechannel.operators.registry import OPERATORS
from rechannel.settings import Settings
from rechannel.testing import Harness, ManualClock, MemoryStore, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ROWS = "k STRING, v BIGINT, at TIMESTAMP"


def row(k, v=0, seconds=0):
    return {"k": k, "v": v, "at": EPOCH + timedelta(seconds=seconds)}


class Bench:
    """Timesteps of rows, and what a changelog says of them."""

    def __init__(self, make, *, told=True, **settings):
        self.rows, self.clock = script(ROWS), ManualClock()
        self.stream = make(rc.read().memory(self.rows, name="rows"))
        ends = [self.stream.write.memory("out", name="out")]
        ends += [self.stream.changelog().write.memory("log", name="log")] if told else []
        known = Settings(tasks=2, bins=4, **settings)
        self.harness = Harness(ends, settings=known, clock=self.clock)
        self.harness.start()

    def step(self, *rows, wait_ms=0):
        """What is told of the next timestep, by key, without columns of times."""
        self.clock.advance(wait_ms)
        if rows:
            self.rows.push(list(rows))
        self.harness.process.run()
        return self.told()

    def told(self, sink="log"):
        last = self.harness.process.position.timestep - 1
        table = self.harness.outputs(sink).get(last) if sink in self.harness.recorders else None
        if table is None:
            return []
        kept = [f.name for f in table.schema if not pa.types.is_timestamp(f.type)]
        told = [tuple(each.values()) for each in table.select(kept).to_pylist()]
        return sorted(told, key=lambda one: str(one[0]))

    def edit(self, *edits):
        self.harness.process.reconfigure(list(edits))
        self.harness.process.run()


def counts(rows):
    return rows.key_by("k").aggregate(n=agg.count(), most=agg.max("v"), name="op")


def test_aggregates_insert_and_update():
    bench = Bench(lambda rows: rows.key_by("k").aggregate(most=agg.max("v"), name="op"))
    assert bench.step(row("a", 1), row("b", 2), row("b", 1)) == [
        ("a", 1, "insert"),
        ("b", 2, "insert"),
    ]
    assert bench.step(row("a", 5), row("b", 2), row(None, 3)) == [
        (None, 3, "insert"),
        ("a", 1, "update_before"),
        ("a", 5, "update_after"),
    ]
    assert bench.step(row("a", 4), row("b", 0)) == []


def test_rows_that_group_by_holds_equal_are_no_change():
    def last(batch):
        return pa.record_batch(
            {"k": batch["k"], "x": pc.divide(pc.cast(batch["v"], "double"), 0.0)}
        )

    bench = Bench(
        lambda rows: (
            rows.map_batches(last, "k STRING, x DOUBLE")
            .key_by("k")
            .aggregate(x=agg.last("x"), some=agg.last_n("x", 1), name="op")
        )
    )
    assert len(bench.step(row("a", 0))) == 1
    assert bench.step(row("a", 0)) == []  # NaN, and a list of NaN
    assert [change for *_, change in bench.step(row("a", 1))] == ["update_before", "update_after"]


def test_a_reader_may_leave_out_rows_before_updates_and_name_the_column():
    rows = script(ROWS, [[row("a", 1)], [row("a", 2)]])
    stream = counts(rc.read().memory(rows))
    log = stream.changelog(before=False, column="op", name="told")
    assert log.name == "told"
    assert log.schema.field("op") == pa.field("op", pa.string(), False)
    assert log.schema.names == ["k", "n", "most", "op"]
    harness = Harness([log.write.memory("log"), stream.changelog().write.memory("both")])
    harness.start().run()
    assert harness.output("memory-log")["op"].to_pylist() == ["insert", "update_after"]
    words = ["insert", "update_before", "update_after"]
    assert harness.output("memory-both")["change"].to_pylist() == words


def test_a_combination_of_rows_is_updated():
    def later(earlier, after):
        return after

    bench = Bench(lambda rows: rows.select("k", "v").key_by("k").running_reduce(later, name="op"))
    assert bench.step(row("a", 1), row("a", 2)) == [("a", 2, "insert")]
    assert bench.step(row("a", 3)) == [("a", 2, "update_before"), ("a", 3, "update_after")]
    assert bench.step(row("a", 3)) == []


def total(key, state, rows):
    made = (state or 0) + sum(rows["v"])
    return None if made < 0 else made


def test_a_key_that_a_function_drops_is_deleted():
    bench = Bench(lambda rows: rows.key_by("k").track(total, state="n BIGINT", name="op"))
    assert bench.step(row("a", 1), row("b", -1)) == [("a", 1, "insert")]
    assert bench.step(row("a", -5)) == [("a", 1, "delete")]
    assert bench.step(row("a", -5)) == []
    assert bench.step(row("a", 2)) == [("a", 2, "insert")]


@pytest.mark.parametrize("timeout", [50, 200])
def test_a_timeout_does_not_change_while_its_ends_are_told(timeout):
    def flows(milliseconds):
        keyed = rc.read().memory(rows, name="rows").key_by("k")
        made = keyed.track(total, state="n BIGINT", timeout=milliseconds, name="op")
        return [
            made.write.memory("out", name="out"),
            made.changelog().write.memory("log", name="log"),
        ]

    rows, store = script(ROWS), MemoryStore()
    harness = Harness(flows(100), store=store)
    harness.start()
    rows.push([row("a", 1)])
    harness.process.run()
    words = f"from 100 ms to {timeout} ms while"
    with pytest.raises(RefusedError, match=f"{words} a changelog is read"):
        harness.process.reconfigure(changes.change_dataflow(*flows(timeout)))
    harness.process.stop()
    with pytest.raises(OtherDataflowError, match=f"{words} its changelog is read"):
        Harness(flows(timeout), store=store).start()


def test_a_key_without_rows_is_deleted_when_its_timeout_is_over():
    bench = Bench(
        lambda rows: rows.key_by("k").track(total, state="n BIGINT", timeout=100, name="op")
    )
    bench.step(row("a", 1), row("b", 2), row("c", 3))
    assert bench.step(row("b", 1), wait_ms=60) == [
        ("b", 2, "update_before"),
        ("b", 3, "update_after"),
    ]
    # `a` comes back as its time is over: it begins anew, and its row takes the place of the one before.
    assert bench.step(row("a", 7), wait_ms=60) == [
        ("a", 1, "update_before"),
        ("a", 7, "update_after"),
        ("c", 3, "delete"),
    ]
    # No rows come, and a timestep is started nonetheless.
    assert bench.step(wait_ms=200) == [("a", 7, "delete"), ("b", 3, "delete")]
    assert bench.step(row("d", 1), wait_ms=10) == [("d", 1, "insert")]
    assert bench.harness.state("op").to_pylist() == [{"k": "d", "n": 1}]


def test_the_same_keys_end_without_a_changelog():
    def make(rows):
        return rows.key_by("k").track(total, state="n BIGINT", timeout=100, name="op")

    told, silent = Bench(make), Bench(make, told=False)
    for rows, wait in (
        ([row("a", 1), row("b", 2)], 0),
        ([row("b", 1)], 60),
        ([row("a", 7)], 60),
        ([row("c", -1), row("b", 1)], 100),
        ([row("a", 1), row("b", 1)], 1),
    ):
        for bench in (told, silent):
            bench.step(*rows, wait_ms=wait)
        shown = [sorted(map(str, b.harness.outputs("out").values())) for b in (told, silent)]
        state = [b.harness.state("op").sort_by("k").to_pylist() for b in (told, silent)]
        assert state[0] == state[1]
        assert [s for s in shown[0] if "k: [[]]" not in s] == [
            s for s in shown[1] if "k: [[]]" not in s
        ]


def test_a_key_whose_function_fails_when_its_time_is_over_is_deleted():
    def failing(key, state, rows):
        if min(rows["v"]) < 0:
            raise ValueError("negative")
        return (state or 0) + sum(rows["v"])

    rows, clock = script(ROWS), ManualClock()
    stream = (
        rc.read()
        .memory(rows, name="rows")
        .key_by("k")
        .track(failing, state="n BIGINT", timeout=100, on_error="dead_letter", name="op")
    )
    ends = [stream.changelog().write.memory("log", name="log")]
    ends.append(stream.dead_letters.write.memory("dead", name="dead"))
    harness = Harness(ends, clock=clock)
    process = harness.start()
    for value, wait in ((1, 0), (-1, 50), (-1, 100)):
        clock.advance(wait)
        rows.push([row("a", value)])
        process.run()
    words = [
        (t, r["n"], r["change"]) for t, x in harness.outputs("log").items() for r in x.to_pylist()
    ]
    assert words == [(1, 1, "insert"), (3, 1, "delete")]
    assert harness.output("dead").num_rows == 2


def test_a_farewell_is_no_row_of_the_table():
    bench = Bench(
        lambda rows: rows.key_by("k").track(
            total, state="n BIGINT", timeout=100, expired=lambda key, state: -state, name="op"
        )
    )
    bench.step(row("a", 5))
    assert bench.step(wait_ms=200) == [("a", 5, "delete")]
    assert bench.told("out") == [("a", -5)]


def timed(**more):
    def make(rows):
        keyed = rows.event_time("at").key_by("k")
        return keyed.track(total, state="n BIGINT", timeout="10 s", time="event", name="op", **more)

    return make


@pytest.mark.parametrize("more", [{}, {"expired": lambda key, state: None}])
def test_event_time_ends_keys(more):
    bench = Bench(timed(**more))
    bench.step(row("a", 1, 0), row("b", 1, 5))
    assert bench.step(row("c", 1, 12)) == [("a", 1, "delete"), ("c", 1, "insert")]
    # Rows come first, and the timers that go off by then after them: what is told is what became of the key.
    assert bench.step(row("b", 4, 6), row("c", 2, 40)) == [
        ("b", 1, "delete"),
        ("c", 1, "update_before"),
        ("c", 3, "update_after"),
    ]
    assert bench.step(row("d", 1, 41), row("d", 1, 90)) == [("c", 3, "delete"), ("d", 2, "insert")]


def test_rows_of_ranks_are_replaced():
    bench = Bench(lambda rows: rows.key_by("k").top(2, "v", name="op"))
    assert bench.step(row("a", 1), row("a", 3)) == [("a", 1, 3, "insert"), ("a", 2, 1, "insert")]
    assert bench.step(row("a", 5)) == [
        ("a", 1, 3, "update_before"),
        ("a", 1, 5, "update_after"),
        ("a", 2, 1, "update_before"),
        ("a", 2, 3, "update_after"),
    ]
    assert bench.step(row("a", 0)) == []


def test_the_latest_row_is_replaced():
    bench = Bench(lambda rows: rows.key_by("k").latest(name="op"))
    assert bench.step(row("a", 1)) == [("a", 1, "insert")]
    assert bench.step(row("a", 2)) == [("a", 1, "update_before"), ("a", 2, "update_after")]


def windows(window, **more):
    def make(rows):
        return (
            rows.event_time("at").key_by("k").window(window, **more)
            .aggregate(n=agg.sum("v"), name="op")
        )  # fmt: skip

    return make


TEN = rc.windows.tumbling("10 s")


def test_windows_that_are_emitted_on_update():
    bench = Bench(windows(TEN, emit="on_update"))
    assert bench.step(row("a", 1, 1), row("a", 1, 11)) == [("a", 1, "insert"), ("a", 1, "insert")]
    assert bench.step(row("a", 2, 12)) == [("a", 1, "update_before"), ("a", 3, "update_after")]
    # Windows that are gone stay in the table.
    assert bench.step(row("a", 2, 100)) == [("a", 2, "insert")]


def test_windows_that_take_late_rows():
    bench = Bench(windows(TEN, lateness="20 s"))
    assert bench.step(row("a", 1, 1)) == []
    assert bench.step(row("a", 5, 2)) == []  # changes nothing that was emitted
    assert bench.step(row("b", 1, 12)) == [("a", 6, "insert")]
    assert bench.step(row("a", 2, 3)) == [("a", 6, "update_before"), ("a", 8, "update_after")]
    assert bench.step(row("c", 7, 4)) == [("c", 7, "insert")]
    assert bench.step(row("a", 2, 90)) == [("b", 1, "insert")]
    assert bench.step(row("a", 2, 3)) == []  # too late


def test_windows_that_are_emitted_at_an_interval_are_told_as_they_change():
    bench = Bench(windows(TEN, emit=rc.every("1 minute")))
    assert bench.step(row("a", 1, 1)) == [("a", 1, "insert")]
    assert bench.step(row("a", 1, 2)) == [("a", 1, "update_before"), ("a", 2, "update_after")]
    assert bench.told("out") == []
    assert bench.step(row("a", 1, 30)) == [("a", 1, "insert")]
    assert bench.told("out") == [("a", 2)]


def sessions(**more):
    return windows(rc.windows.sessions("10 s"), **more)


def test_sessions_grow_and_meet():
    bench = Bench(sessions(emit="on_update"))
    assert bench.step(row("a", 1, 0), row("a", 2, 15)) == [("a", 1, "insert"), ("a", 2, "insert")]
    # The session gets longer, with the same begin.
    assert bench.step(row("a", 4, 20)) == [("a", 2, "update_before"), ("a", 6, "update_after")]
    # Two meet: the later one is no session any more.
    bench = Bench(sessions(emit="on_update", lateness="1 minute"))
    bench.step(row("a", 1, 0), row("a", 2, 15))
    assert bench.step(row("a", 4, 7)) == [
        ("a", 1, "update_before"),
        ("a", 7, "update_after"),
        ("a", 2, "delete"),
    ]


def test_a_session_that_goes_on_after_it_was_emitted_is_taken_back():
    bench = Bench(sessions(lateness="1 minute"))
    assert bench.step(row("a", 1, 0)) == []
    assert bench.step(row("b", 1, 12)) == [("a", 1, "insert")]
    assert bench.step(row("a", 2, 9)) == [("a", 1, "delete")]
    assert bench.step(row("b", 1, 60)) == [("a", 3, "insert"), ("b", 1, "insert")]


# Changes while it runs -----------------------------------------------------------------------------


def test_a_changelog_that_is_added_later_begins_with_the_table_of_then():
    bench = Bench(counts, told=False)
    bench.step(row("a", 1), row("b", 1))
    dataflow = bench.harness.process.switch.current.program.dataflow
    log = stream_of(dataflow, "op").changelog().write.memory("log", name="log")
    bench.edit(changes.add(log))
    assert bench.step(row("a", 2), row("c", 1)) == [
        ("a", 1, 1, "update_before"),
        ("a", 2, 2, "update_after"),
        ("c", 1, 1, "insert"),
    ]
    bench.edit(changes.remove("log"))
    bench.step(row("a", 2))
    assert "log" not in bench.harness.process.switch.current.program.dataflow.by_name


def test_keys_that_ended_before_are_not_told():
    bench = Bench(
        lambda rows: rows.key_by("k").track(total, state="n BIGINT", timeout=100, name="op"),
        told=False,
    )
    bench.step(row("a", 1), row("b", 1))
    bench.step(row("c", 1), wait_ms=200)
    dataflow = bench.harness.process.switch.current.program.dataflow
    log = stream_of(dataflow, "op").changelog().write.memory("log", name="log")
    bench.edit(changes.add(log))
    assert bench.step(row("a", 5)) == [("a", 5, "insert")]
    assert bench.step(row("d", 1), wait_ms=101) == [
        ("a", 5, "delete"),
        ("c", 1, "delete"),
        ("d", 1, "insert"),
    ]


def test_a_changelog_comes_and_goes_with_restarts():
    rows, clock = script(ROWS), ManualClock()

    def ends(*, told):
        stream = rc.read().memory(rows, name="rows").key_by("k")
        stream = stream.track(total, state="n BIGINT", timeout=100, name="op")
        log = [stream.changelog().write.memory("log", name="log")] if told else []
        return [stream.write.memory("out", name="out"), *log]

    harness, found = Harness(ends(told=False), clock=clock), []
    store = harness.store
    for told, wait, some in (
        (False, 0, [row("a", 1), row("b", 1)]),
        (True, 1, [row("a", 1)]),
        (True, 101, [row("c", 1)]),
        (False, 1, [row("c", 1)]),
        (True, 300, [row("c", 1), row("d", 1)]),
        (True, 101, []),
    ):
        clock.advance(wait)
        rows.push(some)
        harness = Harness(ends(told=told), clock=clock, store=store)
        process = harness.start()
        process.run()
        process.stop()
        shown = harness.output("log").to_pylist() if told else []
        found.append(sorted((r["k"], r["n"], r["change"]) for r in shown))
    assert found == [
        [],
        [("a", 1, "update_before"), ("a", 2, "update_after")],
        [("a", 2, "delete"), ("b", 1, "delete"), ("c", 1, "insert")],
        [],
        [("c", 1, "update_after"), ("c", 2, "update_before"), ("d", 1, "insert")],
        [("c", 1, "delete"), ("d", 1, "delete")],
    ]


def test_other_aggregates_are_told_with_their_columns():
    bench = Bench(counts)
    bench.step(row("a", 1), row("b", 2))
    bench.edit(changes.change_logic("op", {"n": agg.count(), "least": agg.min("v")}))
    assert bench.step(row("a", 4)) == [
        ("a", 1, None, "update_before"),
        ("a", 2, 4, "update_after"),
    ]
    assert bench.step(row("b", 0), row("a", 9)) == [
        ("a", 2, 4, "update_before"),
        ("a", 3, 4, "update_after"),
        ("b", 1, None, "update_before"),
        ("b", 2, 0, "update_after"),
    ]


def test_state_with_more_columns_is_told_as_it_is_migrated():
    def more(key, state, rows):
        n, most = (0, 0) if state is None else state
        return (n + sum(rows["v"]), max(most or 0, *rows["v"]))

    bench = Bench(lambda rows: rows.key_by("k").track(total, state="n BIGINT", name="op"))
    bench.step(row("a", 1))
    dataflow = bench.harness.process.switch.current.program.dataflow
    source = stream_of(dataflow, "rows")
    stream = source.key_by("k").track(more, state="n BIGINT, most BIGINT", name="op")
    flows = [
        stream.write.memory("out", name="out"),
        stream.changelog().write.memory("log", name="log"),
    ]
    filled = changes.migrate(add={"most": -1})
    bench.edit(changes.change_dataflow(*flows, migrate={"op": filled}))
    assert bench.step(row("a", 4)) == [
        ("a", 1, -1, "update_before"),
        ("a", 5, 4, "update_after"),
    ]


def test_logic_without_a_changelog_is_refused():
    bench = Bench(windows(TEN, emit="on_update"))
    other = windows(TEN)(rows_of()).node.spec
    with pytest.raises(
        DataflowError, match=r"window 'op' .* has no changelog: it emits a window once"
    ):
        bench.edit(changes.change_logic("op", other))


# Which operators have none -------------------------------------------------------------------------


def rows_of(name="rows"):
    return rc.read().memory(script(ROWS), name=name)


def _sorted():
    keyed = rows_of().event_time("at").key_by("k")
    made = keyed.running(before=agg.lag("v"), time_column="at")
    return type(made)(node=made.node.upstream)


def some(frame):
    return {"n": frame.count()}


NONE = {
    "AggregateSpec": None,
    "ReduceSpec": None,
    "TrackSpec": None,
    "TrackBatchesSpec": None,
    "ProcessSpec": lambda: rows_of().key_by("k").process(some, schema="n BIGINT"),
    "ProcessBatchesSpec": lambda: rows_of().key_by("k").process_batches(some, schema="n BIGINT"),
    "DeduplicateSpec": lambda: rows_of().deduplicate("k"),
    "WindowSpec": lambda: windows(TEN)(rows_of()),
    "SessionSpec": lambda: sessions()(rows_of()),
    "CountedSpec": lambda: rows_of().key_by("k").window(rc.windows.counting(2)).aggregate(n=agg.count()),
    "ApplySpec": lambda: rows_of().event_time("at").key_by("k").window(TEN).apply_batches(some, "n BIGINT"),
    "ApplySessionSpec": lambda: rows_of().event_time("at").key_by("k").window(
        rc.windows.sessions("10 s"), emit="on_update"
    ).apply_batches(some, "n BIGINT"),
    "JoinSpec": lambda: rows_of().join(rows_of("more"), on="k"),
    "AsofSpec": lambda: rows_of().event_time("at").asof_join(rows_of("more").event_time("at"), on="k"),
    "CogroupSpec": lambda: rows_of().cogroup(rows_of("more"), on="k").apply_batches(
        lambda left, right: None, "n BIGINT"
    ),
    "LookupSpec": lambda: rows_of().lookup(rows_of("more"), on="k"),
    "TopSpec": lambda: rows_of().event_time("at").key_by("k").window(TEN).top(2, "v"),
    "RunningSpec": lambda: rows_of().key_by("k").running(before=agg.lag("v")),
    "EventTimeSortSpec": _sorted,
}  # fmt: skip
"""A stream of every operator that has no changelog, at least with these settings."""


@pytest.mark.parametrize("each", OPERATORS, ids=lambda each: each.spec.__name__)
def test_an_operator_that_replaces_no_row_says_so(each):
    make = NONE[each.spec.__name__]
    if make is None:
        assert each.spec.unchanging.fget(object.__new__(each.spec)) is None
        return
    stream = make()
    assert type(stream.node.spec) is each.spec
    with pytest.raises(DataflowError, match=rf"'{stream.name}' \(.*\) has no changelog: .*\. \w+"):
        stream.changelog()


@pytest.mark.parametrize(
    "make",
    [
        counts,
        timed(),
        windows(TEN, emit="on_update"),
        windows(TEN, lateness="1 s"),
        windows(TEN, emit=rc.every("1 s")),
        windows(rc.windows.sliding("10 s", "5 s"), emit="on_update"),
        windows(rc.windows.sliding("10 s", "5 s"), lateness="1 s"),
        sessions(emit="on_update"),
        lambda rows: rows.key_by("k").top(3, "v"),
        lambda rows: rows.key_by("k").latest(),
    ],
)
def test_an_operator_that_replaces_rows_can_tell_them_apart(make):
    node = make(rows_of()).node
    assert node.spec.unchanging is None
    logic = node.spec.bind(node.keys, stream_of_schema(node.upstream))
    assert isinstance(logic, Revising)
    assert 0 < logic.table_key < len(logic.output_schema)


def stream_of_schema(node):
    return type(rows_of())(node=node).schema


def test_what_else_cannot_be():
    stream = counts(rows_of())
    with pytest.raises(DataflowError, match="ask the stream of an operator with state"):
        stream.select("k").changelog()
    with pytest.raises(DataflowError, match="ask the stream of an operator with state"):
        stream.changelog().changelog()
    with pytest.raises(
        DataflowError, match=r"have a column 'n' already: .* changelog\(column=\.\.\.\)"
    ):
        stream.changelog(column="n")
    with pytest.raises(DataflowError, match="Name their column with rank="):
        rows_of().key_by("k").top(2, "v", rank=None).changelog()
    assert rows_of().key_by("k").top(1, "v", rank=None).changelog().schema.names[0] == "k"
    timeouts = rows_of().event_time("at").key_by("k").track(total, state="n BIGINT", timeout=5)
    with pytest.raises(DataflowError, match=r"give it time='event', or expired="):
        timeouts.changelog()


# Cost ----------------------------------------------------------------------------------------------


def test_nothing_is_computed_for_a_changelog_that_nobody_reads(monkeypatch):
    calls = []
    made = stateful_task.changelog
    monkeypatch.setattr(
        stateful_task, "changelog", lambda *a, **k: calls.append(1) or made(*a, **k)
    )
    Bench(counts, told=False).step(row("a", 1))
    assert calls == []
    Bench(counts).step(row("a", 1))
    assert len(calls) == 2  # tasks


def test_a_task_with_little_memory_tells_the_same_in_parts():
    rows = [row(f"k{i % 300}", i) for i in range(900)]
    told = []
    for task_bytes in (None, 20_000):
        bench = Bench(counts, task_bytes=task_bytes)
        told.append([bench.step(*rows[:600]), bench.step(*rows[500:])])
    assert told[0] == told[1]
    assert len(told[0][1]) == 600
