"""Session windows in a running job."""

from datetime import UTC, datetime, timedelta

import pytest

import rechannel as rc
from rechannel.errors import DataflowError
from rechannel.testing import Harness, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "user STRING, x BIGINT, at TIMESTAMP"


class Bench:
    """A job that counts and sums per user in sessions with a gap of 10 s."""

    def __init__(self, delay=0, *, late=True, settings=None):
        self.rows = script(SCHEMA)
        stream = rc.read().memory(self.rows, name="rows").event_time("at", delay)
        self.sessions = (
            stream.key_by("user")
            .window(rc.sessions("10 seconds"))
            .aggregate(n=rc.count(), total=rc.sum("x"), name="sessions")
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


def test_a_session_is_shown_when_event_time_is_the_gap_behind_its_last_row():
    bench = Bench()
    assert bench.step(("ann", 1), ("ann", 5), ("bob", 3)) == []
    assert bench.step(("ann", 14), ("cid", 14)) == [("bob", 3, 13, 1, 7)]
    assert bench.step(("ann", 24)) == [("ann", 1, 24, 3, 21), ("cid", 14, 24, 1, 7)]
    assert bench.state() == [("ann", 24, 34, 1, 7)]


def test_a_row_brings_sessions_together_and_lets_them_begin_earlier():
    bench = Bench(delay="1 hour")
    bench.step(("ann", 20), ("ann", 36), ("ann", 60))
    assert [s[1:3] for s in bench.state()] == [(20, 30), (36, 46), (60, 70)]
    bench.step(("ann", 28))
    assert [s[1:4] for s in bench.state()] == [(20, 46, 3), (60, 70, 1)]
    bench.step(("ann", 15), ("ann", 45), ("ann", 54))
    assert [s[1:4] for s in bench.state()] == [(15, 70, 7)]
    assert bench.step(("bob", 3_670)) == [("ann", 15, 70, 7, 49)]
    assert bench.state() == [("bob", 3670, 3680, 1, 7)]


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
        rc.change_logic("sessions", {"n": rc.count(), "total": rc.sum("x"), "most": rc.max("x")})
    )
    bench.step(("ann", 2))
    bench.step(("ann", 3))
    assert bench.harness.state("sessions").to_pylist()[0]["most"] == 7


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script(SCHEMA), name="rows").event_time("at")
    keyed = stream.key_by("user")
    gap = rc.sessions("10 seconds")
    for wrong, words in (
        (lambda: keyed.window(gap, lateness="1 second"), "take no lateness"),
        (lambda: keyed.window(gap, emit="change"), "take no lateness"),
        (lambda: keyed.window(gap).top(1, by="x"), "of one length"),
        (lambda: keyed.window(gap).aggregate(n=rc.first("x")), "order of rows"),
        (lambda: keyed.window(gap).aggregate(_last=rc.count()), "name it otherwise"),
        (lambda: rc.sessions(0), "gap between sessions"),
    ):
        with pytest.raises(DataflowError, match=words):
            wrong()
