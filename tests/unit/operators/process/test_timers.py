"""Timers of `track`: a key without rows is shown once more, by event time or by that of the timesteps."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel.errors import DataflowError, RefusedError, UserFunctionError
from rechannel.job import InProcess
from rechannel.testing import Harness, script
from tests.support.reports import reports_in

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def count(user, state, rows):
    n = len(rows) if state is None else state.n + len(rows)
    return None if n >= 9 else (n, False)


def end(user, state):
    return None if user == "quiet" else (state.n, True)


def count_all(frame):
    n = frame.previous("n", 0) + frame.count()
    return {"n": n, "over": [False] * len(frame), "_drop": n >= 9}


def end_all(frame):
    quiet = [user == "quiet" for user in frame.keys["user"].to_pylist()]
    return {"n": frame.previous("n"), "over": [True] * len(frame), "_drop": quiet}


def tracked(keyed, batches, **options):
    given = {"state": "n BIGINT, over BOOLEAN", "name": "visits"} | options
    if batches:
        return keyed.track_batches(count_all, **{"expired": end_all} | given)
    return keyed.track(count, **{"expired": end} | given)


class Bench:
    """Counts per user until a timer goes off; `clock` is the machine's, ms."""

    def __init__(self, batches, *, tasks=2, late=False, delay=0, idle=None, **options):
        self.rows = script("user STRING, at TIMESTAMP")
        stream = rc.read().memory(self.rows, name="rows")
        if options.get("time") == "event":
            stream = stream.event_time("at", delay, idle=idle)
        self.visits = tracked(stream.key_by("user"), batches, **options)
        self.clock, self.told = 1_000, []
        flows = [self.visits.write.memory("out", name="out")]
        flows += [self.visits.late.write.memory("late", name="late")] if late else []
        self.harness = Harness(
            flows, settings=rc.Settings(tasks=tasks, bins=4), clock=lambda: self.clock
        )
        self.harness.start()
        run = self.harness.process.runner.run
        self.harness.process.runner.run = lambda *a: (
            self.told.extend(reports_in(found := run(*a))) or found
        )

    def step(self, now, *rows):
        """What the machine does at a time, with these rows: users, or (user, ms). What was shown, (user, n, over)."""
        self.clock = now
        before = len(self.harness.outputs("out"))
        if rows:
            given = [(row, now) if isinstance(row, str) else row for row in rows]
            self.rows.push(
                [
                    {"user": u, "at": None if ms is None else EPOCH + timedelta(milliseconds=ms)}
                    for u, ms in given
                ]
            )
        self.harness.process.run()
        shown = self.harness.outputs("out")
        self.timesteps = len(shown) - before
        return [row for t in sorted(shown)[before:] for row in self.plain(shown[t])]

    def late(self):
        return [row["user"] for t in self.harness.outputs("late").values() for row in t.to_pylist()]

    @staticmethod
    def plain(table):
        return sorted((row["user"], row["n"], row["over"]) for row in table.to_pylist())

    def state(self):
        return self.plain(self.harness.state("visits"))

    def counted(self, name):
        return sum(r.costs.counts.get(name, 0) for r in self.told if r.operator == "visits")


both = pytest.mark.parametrize("batches", [False, True])


@both
def test_a_key_is_shown_once_more_when_its_time_is_over_and_nothing_comes_in(batches):
    bench = Bench(batches, timeout="1 second")
    assert bench.step(1_000, "ann", "bob", "ann") == [("ann", 2, False), ("bob", 1, False)]
    assert bench.step(1_500, "bob") == [("bob", 2, False)]
    assert bench.step(1_999) == []
    assert bench.timesteps == 0
    assert bench.step(2_000) == [("ann", 2, True)]
    assert bench.state() == [("bob", 2, False)]
    assert bench.step(2_600) == [("bob", 2, True)]
    assert bench.state() == []
    # Whoever waits for nothing costs no timesteps.
    assert bench.step(9_000) == []
    assert bench.timesteps == 0
    assert bench.step(9_100, "ann") == [("ann", 1, False)]


@both
def test_rows_come_before_the_timer(batches):
    bench = Bench(batches, timeout="1 second")
    bench.step(1_000, "ann", "bob")
    assert bench.step(2_000, "ann") == [("ann", 2, False), ("bob", 1, True)]
    assert bench.step(3_000) == [("ann", 2, True)]


@both
def test_a_key_that_shows_nothing_or_was_dropped_is_silent(batches):
    bench = Bench(batches, timeout="1 second")
    bench.step(1_000, "quiet", *["full"] * 9, "ann")
    assert bench.state() == [("ann", 1, False), ("quiet", 1, False)]
    assert bench.step(2_000) == [("ann", 1, True)]
    assert bench.state() == []


@both
def test_event_time_has_to_pass_the_latest_row_and_the_timeout(batches):
    bench = Bench(batches, timeout="1 second", time="event", late=True)
    assert bench.step(1, ("ann", 5_000), ("bob", 4_600)) == [("ann", 1, False), ("bob", 1, False)]
    # Behind event time, but not by the timeout; and a row of before does not set a timer back.
    assert bench.step(2, ("ann", 4_100), ("bob", 5_599)) == [("ann", 2, False), ("bob", 2, False)]
    assert bench.step(3, ("cid", 6_000)) == [("ann", 2, True), ("cid", 1, False)]
    assert bench.step(4, ("ann", 5_000), ("cid", None), ("ann", 5_001)) == [("ann", 1, False)]
    assert bench.late() == ["ann", "cid"]
    assert bench.step(5, ("dan", 9_000)) == [
        ("ann", 1, True),
        ("bob", 2, True),
        ("cid", 1, True),
        ("dan", 1, False),
    ]
    assert bench.state() == [("dan", 1, False)]


@both
def test_a_key_with_nothing_but_late_rows_is_shown(batches):
    bench = Bench(batches, timeout="1 second", time="event", late=True)
    bench.step(1, ("ann", 5_000))
    bench.step(2, ("bob", 5_900))
    assert bench.step(3, ("ann", 1_000), ("bob", 6_100)) == [("ann", 1, True), ("bob", 2, False)]
    assert bench.late() == ["ann"]


@both
def test_rows_whose_own_time_is_over_by_then_are_shown_twice(batches):
    bench = Bench(batches, timeout="1 second", time="event")
    shown = bench.step(1, ("ann", 5_000), ("bob", 9_000))
    assert shown == [("ann", 1, False), ("ann", 1, True), ("bob", 1, False)]
    assert bench.state() == [("bob", 1, False)]


@both
def test_an_older_timer_of_a_key_that_began_anew_is_nothing(batches):
    bench = Bench(batches, tasks=1, timeout="1 second", time="event", delay=3_000)
    bench.step(1, ("ann", 5_000), *[(f"u{i}", 5_000) for i in range(40)])
    bench.step(2, *[("ann", 5_000)] * 8)  # dropped
    bench.step(3, ("ann", 3_000))
    assert bench.step(4, ("late", 7_000)) == [("ann", 1, True), ("late", 1, False)]
    assert [row for row in bench.step(5, ("late", 9_000)) if row[0] == "ann"] == []
    assert len(bench.state()) == 1


@both
def test_event_time_without_anybody_who_is_told(batches):
    bench = Bench(batches, timeout="1 second", time="event", expired=None)
    bench.step(1, ("ann", 5_000))
    assert bench.step(2, ("bob", 6_000)) == [("bob", 1, False)]
    assert bench.state() == [("bob", 1, False)]
    assert bench.step(3, ("ann", 6_000)) == [("ann", 1, False)]


@both
def test_an_input_that_is_idle_lets_timers_go_off(batches):
    bench = Bench(batches, timeout="1 second", time="event", idle=100)
    other = script("user STRING, at TIMESTAMP")
    other.push([{"user": "bob", "at": EPOCH + timedelta(seconds=1)}])
    streams = [
        rc.read().memory(rows, name=name).event_time("at", idle=100, name=f"{name}-time")
        for name, rows in (("a", bench.rows), ("b", other))
    ]
    visits = tracked(
        streams[0].union(streams[1]).key_by("user"),
        batches,
        timeout="1 second",
        time="event",
        time_column="at",
    )
    bench.harness = Harness(
        visits.write.memory("out", name="out"),
        settings=rc.Settings(tasks=2, bins=4),
        clock=lambda: bench.clock,
    )
    bench.harness.start()
    bench.step(1_000, ("ann", 2_500))
    bench.step(1_090, ("ann", 2_600))
    assert bench.step(1_150) == [("bob", 1, True)]


@both
def test_it_goes_on_while_it_is_changed_and_after_a_restart(batches):
    bench = Bench(batches, timeout="1 second")
    bench.step(1_100, "ann", "bob", "cid", "dan")
    bench.harness.process.reconfigure(
        [rc.changes.rescale("visits", 4), rc.changes.split("visits", 0)]
    )
    bench.step(1_200, "ann", "eve")
    bench.harness.start()
    assert [row[0] for row in bench.step(2_100)] == ["bob", "cid", "dan"]
    # A clock that goes back is not believed.
    assert bench.step(500, "ann") == [("ann", 3, False)]
    assert bench.step(3_100) == [("ann", 3, True), ("eve", 1, True)]


def test_between_two_timers_of_a_run_there_are_no_timesteps():
    bench = Bench(True, tasks=1, timeout="10 seconds")
    bench.step(1_000, "ann", "bob")
    bench.step(7_000, "cid")
    (run,) = bench.harness.journal_state().manifests["visits"].runs
    assert run.due == (11_000_000, 17_000_000)
    timesteps, shown = 0, []
    for at in range(7_100, 18_000, 100):
        shown += bench.step(at)
        timesteps += bench.timesteps
    assert [row[0] for row in shown] == ["ann", "bob", "cid"]
    assert timesteps == 2


def test_a_timer_that_is_not_due_costs_nothing():
    bench = Bench(True, tasks=1, timeout="1 second", time="event")
    bench.step(1, *[(f"u{i}", 5_000 + i) for i in range(500)])
    for at in range(5_500, 6_000, 100):
        assert bench.step(at, ("ann", at)) != []
    assert bench.counted("rows_read") == 0
    assert bench.step(7, ("ann", 6_000)) == [("ann", 6, False), ("u0", 1, True)]
    assert bench.counted("rows_read") == 500


@both
def test_over_finished_input_every_timer_goes_off(batches):
    rows = rc.read().memory(script("user STRING, at TIMESTAMP"), name="rows")
    for stream, time in ((rows, "processing"), (rows.event_time("at"), "event")):
        visits = tracked(stream.key_by("user"), batches, timeout="1 second", time=time)
        given = pa.table({"user": ["ann", "ann"], "at": [EPOCH, EPOCH]}).cast(
            pa.schema([("user", pa.string()), ("at", pa.timestamp("us", "UTC"))])
        )
        with rc.run_batch(
            visits.write.memory("out", name="out"), inputs={"rows": given}, in_process=InProcess()
        ) as result:
            assert Bench.plain(result.output()) == [("ann", 2, False), ("ann", 2, True)]


@both
def test_another_timeout_holds_for_rows_to_come(batches):
    bench = Bench(batches, timeout="1 second")
    bench.step(1_000, "ann", "bob")
    longer = Bench(batches, timeout="5 seconds").visits.node.spec
    bench.harness.process.reconfigure(rc.changes.change_logic("visits", longer))
    bench.step(1_400, "bob")
    assert bench.step(1_500, "bob") == [("bob", 3, False)]
    assert bench.step(2_000) == [("ann", 1, True)]
    assert bench.step(6_499) == []
    assert bench.step(6_500) == [("bob", 3, True)]


@both
def test_what_a_timer_goes_by_cannot_change(batches):
    bench = Bench(batches, timeout="1 second", expired=None)
    bench.step(1_000, "ann")
    told = Bench(batches, timeout="1 second").visits.node.spec
    with pytest.raises(RefusedError):
        bench.harness.process.reconfigure(rc.changes.change_logic("visits", told))


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"timeout": 9, "time": "event"}, "needs a column of event times"),
        ({"time": "event", "time_column": "at"}, "by which times a timeout= goes"),
        ({"timeout": 9, "time_column": "at"}, "time_column= is for time='event'"),
        ({"timeout": 9, "time": "other"}, "time must be 'event' or 'processing', not 'other'"),
        ({"timeout": "soon"}, "'soon'"),
        ({}, "timeout="),
        ({"timeout": 9, "expired": 1}, "needs a function"),
    ],
)
@both
def test_what_does_not_fit_is_told(batches, options, part):
    def started():
        stream = rc.read().memory(script("user STRING, at TIMESTAMP"), name="rows")
        visits = tracked(stream.key_by("user"), batches, **options)
        Harness(visits.write.memory("out", name="out")).start()

    with pytest.raises(DataflowError) as error:
        started()
    assert part in str(error.value)


@both
@pytest.mark.parametrize("expired", [lambda *_: 1 // 0, lambda *_: {"n": "x", "over": [1]}])
def test_a_function_that_fails_is_named(batches, expired):
    bench = Bench(batches, timeout="1 second", expired=expired)
    bench.step(1_000, "ann")
    with pytest.raises(UserFunctionError, match=r"lambda.*(ann|1 keys|'n')"):
        bench.step(2_000)


def test_the_vectorised_function_may_answer_nothing():
    bench = Bench(True, timeout="1 second", expired=lambda frame: None)
    bench.step(1_000, "ann")
    assert bench.step(2_000) == []
    assert bench.timesteps == 1
    assert bench.state() == []
