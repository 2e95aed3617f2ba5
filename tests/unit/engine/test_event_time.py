"""Windows of event time in a running job."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import RefusedError
from rechannel.job import InProcess
from rechannel.kernels.shuffle.watermarks import MICROS
from rechannel.model.eventtime import NEVER
from rechannel.settings import Settings
from rechannel.state.keys import SEGMENTS
from rechannel.testing import Harness, ManualClock, script

EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
ROW = ("user", "x", "at")
SETTINGS = Settings(tasks=2, bins=4, keep_versions=8)


def at(seconds):
    return EPOCH + timedelta(seconds=seconds)


def row(user, seconds, x=1):
    return {"user": user, "x": x, "at": None if seconds is None else at(seconds)}


class Bench:
    """A job that counts and sums per user in windows of 10 s."""

    def __init__(self, delay=0, *, late=False, settings=SETTINGS, idle=None, sources=1, **options):
        self.scripts = [script("user STRING, x BIGINT, at TIMESTAMP") for _ in range(sources)]
        streams = [
            rc.read()
            .memory(each, name=f"rows-{i}")
            .event_time("at", delay, idle=idle, name=f"time-{i}")
            for i, each in enumerate(self.scripts)
        ]
        stream = streams[0].union(*streams[1:]) if sources > 1 else streams[0]
        self.windows = (
            stream.key_by("user")
            .window(rc.windows.tumbling("10 seconds"), **options)
            .aggregate(n=agg.count(), total=agg.sum("x"), name="windows")
        )
        ends = [self.windows.write.memory("out", name="out")]
        if late:
            ends.append(self.windows.late.write.memory("late", name="late"))
        self.clock = 1_000
        self.harness = Harness(ends, settings=settings, clock=lambda: self.clock)
        self.harness.start()
        self.timestep = 0

    def step(self, *rows, source=0):
        """One timestep; what it showed, as (user, start in s, n, total)."""
        self.scripts[source].push(list(rows))
        self.harness.process.run()
        self.timestep += 1
        return self.shown("out")

    def quiet(self, millis):
        """What timesteps show that begin by themselves when so much time has passed."""
        self.clock += millis
        self.harness.process.run()
        shown = []
        while self.timestep < max(self.harness.outputs("out")):
            self.timestep += 1
            shown.append(self.shown("out"))
        return shown

    def shown(self, sink):
        table = self.harness.outputs(sink)[self.timestep]
        if sink == "late":
            return sorted((r["user"], r["at"], r["x"]) for r in table.to_pylist())
        return sorted(
            (r["user"], (r["window_start"] - EPOCH).total_seconds(), r["n"], r["total"])
            for r in table.to_pylist()
        )

    def state(self):
        table = self.harness.state("windows")
        return sorted(
            (r["user"], (r["window_start"] - EPOCH).total_seconds(), r["n"])
            for r in table.to_pylist()
        )

    @property
    def watermark(self):
        return self.harness.journal_state().times["windows"].watermark


def test_a_window_is_shown_once_when_it_is_complete():
    bench = Bench()
    assert bench.step(row("ann", 1), row("bob", 2), row("ann", 3)) == []
    assert bench.state() == [("ann", 0, 2), ("bob", 0, 1)]
    assert bench.step(row("ann", 9.999999)) == []
    # The row that completes it comes in the same timestep.
    assert bench.step(row("cid", 10)) == [("ann", 0, 3, 3), ("bob", 0, 1, 1)]
    assert bench.state() == [("cid", 10, 1)]
    assert bench.step(row("cid", 11)) == []
    assert bench.step(row("dan", 40)) == [("cid", 10, 2, 2)]


def test_a_window_shows_its_end():
    bench = Bench()
    bench.step(row("ann", 1), row("ann", 10))
    (shown,) = bench.harness.outputs("out")[1].to_pylist()
    assert shown["window_end"] - shown["window_start"] == timedelta(seconds=10)


def test_rows_that_complete_a_window_may_be_older_than_others_of_their_timestep():
    bench = Bench()
    assert bench.step(row("ann", 15), row("ann", 3)) == [("ann", 0, 1, 1)]


def test_the_delay_is_waited_for():
    bench = Bench("5 seconds")
    bench.step(row("ann", 1))
    assert bench.step(row("ann", 14.999999)) == []
    assert bench.step(row("ann", 15), row("ann", 2)) == [("ann", 0, 2, 2)]


def test_rows_of_windows_that_are_gone_are_late_and_can_be_had():
    bench = Bench(late=True)
    bench.step(row("ann", 1), row("bob", 12))
    assert bench.step(row("ann", 2, 7), row("ann", 12), row("eve", None)) == []
    assert bench.shown("late") == [("ann", at(2), 7), ("eve", None, 1)]
    assert bench.state() == [("ann", 10, 1), ("bob", 10, 1)]
    assert bench.step(row("ann", 20)) == [("ann", 10, 1, 1), ("bob", 10, 1, 1)]
    assert bench.shown("late") == []


@pytest.mark.parametrize("combined", [True, False])
def test_late_rows_are_counted_whether_or_not_anybody_wants_them(combined):
    mode = "on" if combined else "off"
    bench, reports = Bench(), []
    run = bench.harness.process.runner.run
    bench.harness.process.runner.run = lambda *step: reports.extend(found := run(*step)) or found
    bench.harness.process.reconfigure(rc.changes.combine("windows", mode))
    bench.step(row("ann", 12))
    bench.step(row("ann", 2), row("ann", 3), row("bob", 1), row("ann", 13))
    assert bench.state() == [("ann", 10, 2)]
    tasks = [task for report in reports for task in report.reports]
    assert sum(task.costs.counts.get("rows_late", 0) for task in tasks) == 3


def test_lateness_keeps_a_complete_window_for_corrections():
    bench = Bench(lateness="5 seconds")
    bench.step(row("ann", 1), row("bob", 1))
    assert bench.step(row("ann", 11)) == [("ann", 0, 1, 1), ("bob", 0, 1, 1)]
    assert bench.step(row("ann", 2, 5)) == [("ann", 0, 2, 6)]
    assert bench.step(row("cid", 14)) == []
    assert bench.state() == [("ann", 0, 2), ("ann", 10, 1), ("bob", 0, 1), ("cid", 10, 1)]
    assert bench.step(row("cid", 15)) == []
    assert bench.state() == [("ann", 10, 1), ("cid", 10, 2)]
    assert bench.step(row("ann", 3)) == []


def test_with_every_change_windows_are_shown_as_they_grow():
    bench = Bench(emit="on_update")
    assert bench.step(row("ann", 1)) == [("ann", 0, 1, 1)]
    assert bench.step(row("ann", 2), row("bob", 11)) == [("ann", 0, 2, 2), ("bob", 10, 1, 1)]
    assert bench.step(row("ann", 3)) == []
    assert bench.state() == [("bob", 10, 1)]


def test_the_slowest_source_counts_unless_it_is_idle():
    bench = Bench(sources=2, idle="1 minute")
    assert bench.step(row("ann", 30)) == []
    assert bench.watermark == NEVER
    assert bench.step(row("bob", 12), source=1) == []
    assert bench.state() == [("ann", 30, 1), ("bob", 10, 1)]
    assert bench.step(row("ann", 31)) == []
    bench.clock += 60_001
    assert bench.step(row("ann", 32)) == [("bob", 10, 1, 1)]


def test_when_the_slowest_source_becomes_idle_windows_are_shown_though_nothing_comes_in():
    bench = Bench(sources=2, idle="1 minute")
    bench.step(row("bob", 1), source=1)
    bench.clock += 50_000
    assert bench.step(row("ann", 2), row("ann", 25)) == []
    assert bench.quiet(10_000) == []
    # The other source becomes idle later: the one that is then left alone has told all that it can.
    assert bench.quiet(1) == [[("ann", 0, 1, 1), ("bob", 0, 1, 1)]]
    assert bench.watermark == 1_000_000 * int(at(25).timestamp())
    assert bench.quiet(1_000_000) == []
    assert bench.harness.journal_state().last_committed == 3
    # What comes later goes by what was shown.
    assert bench.step(row("bob", 24), row("bob", 3), source=1) == []
    assert bench.state() == [("ann", 20, 1), ("bob", 20, 1)]


def test_nothing_is_done_for_a_source_that_becomes_idle_where_no_window_waits():
    bench = Bench(sources=2, idle="1 minute")
    bench.step(row("bob", 21), source=1)
    bench.clock += 50_000
    bench.step(row("ann", 25))
    assert bench.quiet(20_000) == []
    assert bench.harness.journal_state().last_committed == 2


def test_a_driver_that_is_started_again_shows_what_a_source_has_become_idle_for():
    bench = Bench(sources=2, idle="1 minute")
    bench.step(row("bob", 1), source=1)
    bench.clock += 50_000
    bench.step(row("ann", 2), row("ann", 25))
    bench.harness.start()
    assert bench.quiet(10_001) == [[("ann", 0, 1, 1), ("bob", 0, 1, 1)]]


def test_a_source_that_becomes_idle_is_heard_of_behind_other_operators():
    left, right = (script("user STRING, x BIGINT, at TIMESTAMP") for _ in range(2))
    streams = [
        rc.read().memory(each, name=f"rows-{i}").event_time("at", idle="1 minute", name=f"time-{i}")
        for i, each in enumerate((left, right))
    ]
    first = streams[0].union(streams[1]).deduplicate("user", name="first")
    windows = first.key_by("x").window(rc.windows.tumbling("10 seconds"), time_column="at")
    counts = windows.aggregate(n=agg.count(), name="counts")
    clock = ManualClock()
    harness = Harness(counts.write.memory("out", name="out"), settings=SETTINGS, clock=clock)
    process = harness.start()
    right.push([row("bob", 1)])
    process.run()
    clock.advance(50_000)
    left.push([row("ann", 2), row("cid", 25)])
    process.run()
    clock.advance(10_001)
    process.run()
    assert [r["n"] for r in harness.outputs("out")[3].to_pylist()] == [2]


def test_state_of_an_earlier_timestep_is_seen_as_it_was_then():
    bench = Bench()
    bench.step(row("ann", 1))
    bench.step(row("bob", 11))
    table = bench.harness.state("windows", timestep=1)
    assert [r["user"] for r in table.to_pylist()] == ["ann"]


def test_windows_of_windows():
    rows = script("user STRING, x BIGINT, at TIMESTAMP")
    timed = rc.read().memory(rows, name="rows").event_time("at")
    small = (
        timed.key_by("user")
        .window(rc.windows.tumbling("10 seconds"))
        .aggregate(n=agg.count(), name="small")
    )
    windows = small.key_by("n").window(rc.windows.tumbling("1 minute"), time_column="window_start")
    large = windows.aggregate(users=agg.count(), name="large")
    harness = Harness(large.write.memory("out", name="out"), settings=SETTINGS)
    harness.start()
    for batch in (
        [row("ann", 1), row("ann", 2), row("bob", 55)],
        [row("cid", 61)],
        [row("cid", 125)],
    ):
        rows.push(batch)
    harness.process.run()
    shown = {
        t: [(r["n"], r["users"]) for r in table.to_pylist()]
        for t, table in harness.outputs("out").items()
    }
    assert {t: sorted(found) for t, found in shown.items()} == {
        1: [],
        2: [(1, 1), (2, 1)],
        3: [(1, 1)],
    }


def test_a_restart_goes_on_with_event_time():
    bench = Bench()
    bench.step(row("ann", 1), row("bob", 12))
    bench.harness.process.stop()
    bench.harness.start()
    assert bench.watermark == (at(12) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(
        microseconds=1
    )
    assert bench.step(row("ann", 2), row("bob", 13)) == []
    assert bench.state() == [("bob", 10, 2)]


@pytest.mark.parametrize(
    "window",
    [rc.windows.tumbling("10 seconds"), rc.windows.sliding("20 seconds", "10 seconds")],
    ids=repr,
)
def test_over_finished_input_every_window_is_complete(window):
    rows = script("user STRING, x BIGINT, at TIMESTAMP")
    timed = rc.read().memory(rows, name="rows").event_time("at", "1 hour")
    counts = timed.key_by("user").window(window).aggregate(n=agg.count(), name="windows")
    columns = {
        name: [each[name] for each in (row("ann", 15), row("ann", 1), row("bob", 99))]
        for name in ROW
    }
    table = pa.table(
        columns, schema=pa.schema([("user", pa.string()), ("x", pa.int64()), ("at", MICROS)])
    )
    with rc.run_batch(
        counts.write.memory("out", name="out"), inputs={"rows": table}, in_process=InProcess()
    ) as found:
        shown = sorted(
            (r["user"], (r["window_end"] - EPOCH).total_seconds(), r["n"])
            for r in found.output("out").to_pylist()
        )
    tumbling = [("ann", 10, 1), ("ann", 20, 1), ("bob", 100, 1)]
    sliding = [("ann", 10, 1), ("ann", 20, 2), ("ann", 30, 1), ("bob", 100, 1), ("bob", 110, 1)]
    assert shown == (tumbling if window == rc.windows.tumbling("10 seconds") else sliding)


@pytest.mark.parametrize("emit", ["on_close", "on_update"])
def test_many_windows_leave_nothing_behind(emit, thorough):
    windows = 2_000 if thorough else 160
    bench = Bench(settings=Settings(tasks=1, bins=2), emit=emit)
    sizes = []
    for number in range(windows):
        shown = bench.step(row("ann", 10 * number), row(f"u{number % 7}", 10 * number + 5))
        assert len(shown) == 2 * (emit == "on_update" or number > 0)
        runs = bench.harness.journal_state().manifests["windows"].runs
        sizes.append((len(runs), sum(run.rows for run in runs)))
    early, late = sizes[: windows // 2], sizes[windows // 2 :]
    assert max(late) <= max(early)
    assert max(rows for _, rows in late) <= 8
    bench.harness.process.sweep()
    assert len(list(bench.harness.store.list(SEGMENTS))) < 50


def test_a_change_at_an_event_time_holds_when_the_windows_up_to_it_are_complete():
    bench = Bench(delay="5 seconds")
    process = bench.harness.process
    with pytest.raises(RefusedError, match="has no event time"):
        process.reconfigure(
            rc.changes.rescale("windows", 1), at=rc.changes.watermark(at(20), "rows-0")
        )
    process.reconfigure(rc.changes.rescale("windows", 1), at=rc.changes.watermark(at(20)))
    tasks = []
    for seconds in (1, 24, 25, 26):
        bench.step(row("ann", seconds))
        tasks.append(process.position.configuration.operators["windows"].tasks)
    # The row of 25 s ends 20 s; the stream is idle behind it, so the change needs no timestep to come.
    assert tasks == [2, 2, 1, 1]
    assert process.journal.state.coordination.find("r1").taken[0].timestep == 4
    with pytest.raises(RefusedError, match="has passed"):
        process.reconfigure(rc.changes.rescale("windows", 2), at=rc.changes.watermark(at(20)))


def test_late_rows_have_a_time_of_their_own_if_it_is_said_again():
    rows = script("user STRING, x BIGINT, at TIMESTAMP")
    first = rc.read().memory(rows, name="rows").event_time("at").key_by("user")
    windows = first.window(rc.windows.tumbling("10 seconds")).aggregate(
        n=agg.count(), name="windows"
    )
    again = windows.late.event_time("at", "5 seconds", name="again").key_by("user")
    late = again.window(rc.windows.tumbling("10 seconds")).aggregate(n=agg.count(), name="late")
    harness = Harness(late.write.memory("out", name="out"), settings=SETTINGS)
    harness.start()
    for seconds in (100, 1, 2, 25):
        rows.push([row("ann", seconds)])
    harness.process.run()
    shown = {t: table.to_pylist() for t, table in harness.outputs("out").items()}
    assert [len(shown[t]) for t in (1, 2, 3, 4)] == [0, 0, 0, 1]
    assert (shown[4][0]["window_start"], shown[4][0]["n"]) == (at(0), 2)
