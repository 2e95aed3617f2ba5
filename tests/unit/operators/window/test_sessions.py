"""Session windows in a running job."""

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError, RefusedError
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "user STRING, x BIGINT, at TIMESTAMP"


class Bench:
    """A job that counts and sums per user in sessions with a gap of 10 s."""

    def __init__(self, delay=0, *, late=True, settings=None, **options):
        self.rows = script(SCHEMA)
        stream = rc.read().memory(self.rows, name="rows").event_time("at", delay)
        self.sessions = (
            stream.key_by("user")
            .window(rc.windows.sessions("10 seconds"), **options)
            .aggregate(n=agg.count(), total=agg.sum("x"), name="sessions")
        )
        ends = [self.sessions.write.memory("out", name="out")]
        if late:
            ends.append(self.sessions.late.write.memory("late", name="late"))
        self.harness = Harness(ends, settings=settings or rc.Settings(tasks=2, bins=4))
        self.harness.start()
        self.timestep = 0

    def step(self, *rows):
        """One timestep of (user, seconds); the sessions that it showed, as (user, start, end, n, total)."""
        at = [None if s is None else EPOCH + timedelta(seconds=s) for _, s in rows]
        self.rows.push(
            [{"user": user, "x": 7, "at": a} for (user, _), a in zip(rows, at, strict=True)]
        )
        self.harness.process.run()
        self.timestep += 1
        return self.plain(self.harness.outputs("out")[self.timestep])

    def plain(self, table):
        return sorted(
            (
                r["user"],
                (r["window_start"] - EPOCH).total_seconds(),
                (r["window_end"] - EPOCH).total_seconds(),
                r["n"],
                r["total"],
            )
            for r in table.to_pylist()
        )

    def late(self):
        return len(self.harness.outputs("late")[self.timestep])

    def state(self):
        return self.plain(self.harness.state("sessions"))


def test_a_session_is_shown_when_event_time_is_more_than_the_gap_behind_its_last_row():
    bench = Bench()
    assert bench.step(("ann", 1), ("ann", 5), ("bob", 3)) == []
    assert bench.step(("ann", 14), ("cid", 14)) == [("bob", 3, 13, 1, 7)]
    assert bench.step(("eva", 24)) == []
    assert bench.step(("ann", 25)) == [("ann", 1, 24, 3, 21), ("cid", 14, 24, 1, 7)]
    assert bench.state() == [("ann", 25, 35, 1, 7), ("eva", 24, 34, 1, 7)]


def test_rows_exactly_the_gap_apart_are_in_one_session():
    bench = Bench()
    assert bench.step(("ann", 1), ("bob", 1), ("ann", 11)) == []
    assert bench.step(("bob", 11)) == []
    assert bench.step(("cid", 22)) == [("ann", 1, 21, 2, 14), ("bob", 1, 21, 2, 14)]


def test_a_row_brings_sessions_together_and_lets_them_begin_earlier():
    bench = Bench(delay="1 hour")
    bench.step(("ann", 20), ("ann", 36), ("ann", 60))
    assert [s[1:3] for s in bench.state()] == [(20, 30), (36, 46), (60, 70)]
    bench.step(("ann", 28))
    assert [s[1:4] for s in bench.state()] == [(20, 46, 3), (60, 70, 1)]
    bench.step(("ann", 15), ("ann", 45), ("ann", 54))
    assert [s[1:4] for s in bench.state()] == [(15, 70, 7)]
    assert bench.step(("bob", 3_671)) == [("ann", 15, 70, 7, 49)]
    assert bench.state() == [("bob", 3671, 3681, 1, 7)]


def test_late_is_what_could_belong_to_a_session_that_is_gone():
    bench = Bench()
    bench.step(("ann", 1), ("ann", 30), ("ann", 31))
    # Event time is at 31 s. Within the session that is kept, rows may be of any age.
    bench.step(("ann", 30))
    assert bench.late() == 0
    bench.step(("ann", 29), ("bob", 30), ("bob", None))
    assert bench.late() == 3
    assert bench.state() == [("ann", 30, 41, 3, 21)]
    bench.step(("bob", 31))
    assert bench.late() == 0


def test_lateness_keeps_a_session_that_is_shown_and_shows_it_again():
    bench = Bench(lateness="20 seconds")
    bench.step(("ann", 1), ("cid", 60))
    # Event time is at 60 s: what could belong to a session that ended before 40 s is late.
    assert bench.step(("bob", 39), ("bob", 40)) == [("bob", 40, 50, 1, 7)]
    assert bench.late() == 1
    # Both are complete, and become one.
    assert bench.step(("bob", 52)) == []
    assert bench.step(("bob", 46)) == []
    assert bench.state() == [("bob", 40, 62, 3, 21), ("cid", 60, 70, 1, 7)]
    assert bench.step(("dan", 63)) == [("bob", 40, 62, 3, 21)]
    assert bench.step(("bob", 45)) == [("bob", 40, 62, 4, 28)]
    bench.step(("dan", 83))
    assert bench.step(("bob", 45)) == []
    assert bench.late() == 1
    assert [each[0] for each in bench.state()] == ["cid", "dan", "dan"]


def test_every_change_can_be_shown():
    bench = Bench(delay="1 hour", emit="on_update")
    assert bench.step(("ann", 20), ("ann", 36)) == [("ann", 20, 30, 1, 7), ("ann", 36, 46, 1, 7)]
    assert bench.step(("bob", 20)) == [("bob", 20, 30, 1, 7)]
    assert bench.step(("ann", 28)) == [("ann", 20, 46, 3, 21)]
    assert bench.step(("cid", 5_000)) == [("cid", 5000, 5010, 1, 7)]
    assert [each[0] for each in bench.state()] == ["cid"]


def pushed(rows, harness, *came):
    """One timestep of (user, seconds, x); what it showed."""
    made = [{"user": u, "x": x, "at": EPOCH + timedelta(seconds=s)} for u, s, x in came]
    rows.push(made)
    harness.process.run()
    outputs = harness.outputs("out")
    return outputs[max(outputs)].to_pylist()


def test_aggregates_by_order_go_by_the_order_in_which_rows_came():
    rows = script(SCHEMA)
    keyed = rc.read().memory(rows, name="rows").event_time("at", "1 hour").key_by("user")
    made = keyed.window(rc.windows.sessions("10 seconds")).aggregate(
        first=agg.first("x"),
        last=agg.last("x"),
        newest=agg.last_n("x", 3),
        n=agg.count(),
        name="made",
    )
    harness = Harness(made.write.memory("out", name="out"), settings=rc.Settings(tasks=2, bins=4))
    harness.start()
    pushed(rows, harness, ("ann", 20, 1), ("ann", 36, 2), ("bob", 20, 3), ("ann", 20, 4))
    pushed(rows, harness, ("ann", 40, 5), ("bob", 21, 6))
    harness.process.reconfigure(rc.changes.rescale("made", 4))
    # Two sessions become one: what came to both of them is in one order.
    pushed(rows, harness, ("ann", 28, 7))
    shown = pushed(rows, harness, ("cid", 4_000, 8))
    found = sorted((r["user"], r["first"], r["last"], r["newest"], r["n"]) for r in shown)
    assert found == [("ann", 1, 7, [4, 5, 7], 5), ("bob", 3, 6, [3, 6], 2)]
    with pytest.raises(RefusedError, match="the stored sessions have their rows"):
        harness.process.reconfigure(rc.changes.change_logic("made", {"n": agg.count()}))
    harness.process.reconfigure(rc.changes.change_logic("made", {"second": agg.last_n("x", 2)}))
    pushed(rows, harness, ("cid", 4_001, 9))
    shown = pushed(rows, harness, ("dan", 9_000, 1))
    assert [(r["user"], r["second"]) for r in shown] == [("cid", [8, 9])]


def path(frame):
    """Where every session began and ended, and how long its steps were."""
    x = frame.rows.column("x").to_numpy()
    steps = [x[at : at + size] for at, size in zip(frame.starts, frame.sizes, strict=True)]
    return {"steps": [" ".join(map(str, each)) for each in steps]}


def each_row(frame):
    """As many rows as there are."""
    return {"_key": frame.ids, "doubled": frame.rows.column("x").to_numpy() * 2}


def applied(function, schema, **options):
    rows = script(SCHEMA)
    stream = rc.read().memory(rows, name="rows").event_time("at", "1 hour")
    made = stream.key_by("user").window(rc.windows.sessions("10 seconds"), **options)
    made = made.apply_batches(function, schema, name="made")
    ends = [made.write.memory("out", name="out"), made.late.write.memory("late", name="late")]
    harness = Harness(ends, settings=rc.Settings(tasks=2, bins=4))
    harness.start()
    return rows, harness


def test_a_function_is_handed_all_rows_of_a_session():
    rows, harness = applied(path, "steps STRING")
    pushed(rows, harness, ("ann", 20, 1), ("ann", 36, 2), ("bob", 20, 3), ("ann", 20, 4))
    pushed(rows, harness, ("ann", 28, 7))
    shown = pushed(rows, harness, ("cid", 4_000, 8), ("ann", 0, 1))
    assert sorted((r["user"], r["steps"]) for r in shown) == [
        ("ann", "1"),
        ("ann", "1 2 4 7"),
        ("bob", "3"),
    ]
    assert [r["window_end"] for r in shown if r["user"] == "bob"] == [EPOCH + timedelta(seconds=30)]
    pushed(rows, harness, ("ann", 300, 8))
    assert len(harness.outputs("late")[4]) == 1
    (kept,) = harness.state("made").to_pylist()
    assert (kept["user"], kept["x"]) == ("cid", [8])
    harness.process.reconfigure(rc.changes.change_logic("made", shouted))
    pushed(rows, harness)
    shown = pushed(rows, harness, ("dan", 9_000, 1))
    assert [r["steps"] for r in shown] == ["8!"]


def shouted(frame):
    return {"steps": [f"{x}!" for x in frame.rows.column("x").to_pylist()]}


def test_a_function_may_answer_many_rows_with_every_change():
    rows, harness = applied(each_row, "doubled BIGINT", emit="on_update")
    pushed(rows, harness, ("ann", 20, 1), ("bob", 20, 3))
    shown = pushed(rows, harness, ("ann", 25, 2))
    assert [(r["user"], r["doubled"]) for r in shown] == [("ann", 2), ("ann", 4)]


def test_windows_of_sessions_that_are_shown_again_are_refused():
    stream = rc.read().memory(script(SCHEMA), name="rows").event_time("at")
    for options in ({"lateness": 5}, {"emit": "on_update"}, {"emit": rc.every(5)}):
        shown = (
            stream.key_by("user")
            .window(rc.windows.sessions(10), **options)
            .aggregate(n=agg.count())
        )
        with pytest.raises(DataflowError, match="count them twice"):
            shown.window(rc.windows.tumbling(100), time_column="window_end").aggregate(
                m=agg.count()
            )


def test_a_stale_session_is_not_shown_again():
    bench = Bench(settings=rc.Settings(tasks=1, bins=2))
    shown = []
    for seconds in range(0, 400, 5):
        shown += bench.step(("ann", seconds), *[(f"u{seconds % 7}", seconds)] * 3)
    assert [s for s in shown if s[0] == "ann"] == []
    (last,) = bench.step(("bob", 1_000))[:1]
    assert last == ("ann", 0, 405, 80, 560)
    assert len(bench.state()) == 1
    runs = bench.harness.journal_state().manifests["sessions"].runs
    assert sum(run.rows for run in runs) < 100


def test_aggregates_can_be_exchanged_and_gaps_cannot():
    bench = Bench()
    bench.step(("ann", 1))
    process = bench.harness.process
    process.reconfigure(
        rc.changes.change_logic(
            "sessions", {"n": agg.count(), "total": agg.sum("x"), "most": agg.max("x")}
        )
    )
    bench.step(("ann", 2))
    bench.step(("ann", 3))
    assert bench.harness.state("sessions").to_pylist()[0]["most"] == 7


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script(SCHEMA), name="rows").event_time("at")
    keyed = stream.key_by("user")
    gap = rc.windows.sessions("10 seconds")
    for wrong, words in (
        (lambda: keyed.window(gap, emit="changes"), "emit must be 'on_close'"),
        (lambda: keyed.window(gap).top(1, by="x"), "of one length"),
        (lambda: keyed.window(gap).apply_batches(max, "window_end TIMESTAMP"), "leave it out"),
        (lambda: keyed.window(gap).aggregate(_last=agg.count()), "reserved for sessions"),
        (lambda: rc.windows.sessions(0), "gap between sessions"),
    ):
        with pytest.raises(DataflowError, match=words):
            wrong()
