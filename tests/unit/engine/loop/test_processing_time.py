"""Windows of processing time: by the time of timesteps, and shown when it has come, whatever comes in."""

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

import rechannel as rc
from rechannel import aggregates as agg
from rechannel.errors import DataflowError
from rechannel.job import InProcess
from rechannel.testing import Harness, script

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Bench:
    """Counts per user in windows of processing time; `clock` is the machine's, ms."""

    def __init__(self, window=None, *, tasks=2, **options):
        self.rows = script("user STRING, x BIGINT")
        stream = rc.read().memory(self.rows, name="rows")
        self.counts = (
            stream.key_by("user")
            .window(window or rc.windows.tumbling("1 second"), time="processing", **options)
            .aggregate(n=agg.count(), total=agg.sum("x"), name="counts")
        )
        self.clock = 1_000
        self.harness = Harness(
            self.counts.write.memory("out", name="out"),
            settings=rc.Settings(tasks=tasks, bins=4),
            clock=lambda: self.clock,
        )
        self.harness.start()

    def step(self, at, *users):
        """What the machine does at a time, with these rows; what was shown, (user, start ms, end ms, n)."""
        self.clock = at
        before = len(self.harness.outputs("out"))
        if users:
            self.rows.push([{"user": user, "x": 3} for user in users])
        self.harness.process.run()
        shown = self.harness.outputs("out")
        self.timesteps = len(shown) - before
        return [row for t in sorted(shown)[before:] for row in self.plain(shown[t])]

    def plain(self, table):
        return sorted(
            (
                row["user"],
                (row["window_start"] - EPOCH) // timedelta(milliseconds=1),
                (row["window_end"] - EPOCH) // timedelta(milliseconds=1),
                row["n"],
            )
            for row in table.to_pylist()
        )


def test_a_window_is_shown_when_its_time_has_come_and_nothing_comes_in():
    bench = Bench()
    assert bench.step(1_100, "ann", "bob", "ann") == []
    assert bench.step(1_900, "ann") == []
    assert bench.step(1_999) == []
    assert bench.timesteps == 0
    assert bench.step(2_000) == [("ann", 1_000, 2_000, 3), ("bob", 1_000, 2_000, 1)]
    # Whoever waits for nothing costs no timesteps.
    assert bench.step(9_000) == []
    assert bench.timesteps == 0


def test_rows_of_a_later_window_complete_the_one_before():
    bench = Bench()
    bench.step(1_100, "ann")
    assert bench.step(2_300, "ann") == [("ann", 1_000, 2_000, 1)]
    assert bench.plain(bench.harness.state("counts")) == [("ann", 2_000, 3_000, 1)]
    assert bench.step(3_000) == [("ann", 2_000, 3_000, 1)]


def test_windows_that_overlap():
    bench = Bench(rc.windows.sliding("2 seconds", "1 second"))
    bench.step(1_500, "ann")
    assert bench.step(2_100, "ann") == [("ann", 0, 2_000, 1)]
    assert bench.step(3_000) == [("ann", 1_000, 3_000, 2)]
    assert bench.step(4_000) == [("ann", 2_000, 4_000, 1)]
    assert bench.step(5_000) == []
    assert bench.timesteps == 0


def test_sessions_of_the_time_at_which_rows_come():
    bench = Bench(rc.windows.sessions("2 seconds"))
    assert bench.step(1_500, "ann", "bob") == []
    assert bench.step(3_000, "ann") == []
    assert bench.step(3_500) == []
    assert bench.timesteps == 0
    assert bench.step(3_501) == [("bob", 1_500, 3_500, 1)]
    assert bench.plain(bench.harness.state("counts")) == [("ann", 1_500, 5_000, 2)]
    bench.harness.process.reconfigure(
        [rc.changes.rescale("counts", 3), rc.changes.split("counts", 0)]
    )
    assert bench.step(4_000, "cid") == []
    bench.harness.start()
    assert bench.step(5_001, "ann") == [("ann", 1_500, 5_000, 2)]
    assert bench.step(9_000) == [("ann", 5_001, 7_001, 1), ("cid", 4_000, 6_000, 1)]
    assert bench.step(20_000) == []
    assert bench.timesteps == 0


def test_sessions_that_change_can_be_shown():
    bench = Bench(rc.windows.sessions("2 seconds"), emit="on_update")
    assert bench.step(1_500, "ann") == [("ann", 1_500, 3_500, 1)]
    assert bench.step(3_000, "ann") == [("ann", 1_500, 5_000, 2)]
    assert bench.step(5_000, "ann") == [("ann", 1_500, 7_000, 3)]
    assert bench.step(7_001, "ann") == [("ann", 7_001, 9_001, 1)]


def test_every_change_can_be_shown():
    bench = Bench(emit="on_update")
    assert bench.step(1_100, "ann") == [("ann", 1_000, 2_000, 1)]
    assert bench.step(1_200, "ann") == [("ann", 1_000, 2_000, 2)]
    assert bench.step(2_000) == []
    assert bench.timesteps == 0


def test_it_goes_on_while_it_is_changed_and_after_a_restart():
    bench = Bench()
    bench.step(1_100, "ann", "bob", "cid", "dan")
    bench.harness.process.reconfigure(
        [rc.changes.rescale("counts", 4), rc.changes.split("counts", 0)]
    )
    bench.step(1_200, "ann", "eve")
    bench.harness.start()
    assert [row[0] for row in bench.step(2_000)] == ["ann", "bob", "cid", "dan", "eve"]
    # A clock that goes back is not believed.
    assert bench.step(500, "ann") == []
    assert bench.step(3_000) == [("ann", 2_000, 3_000, 1)]


def test_many_windows_leave_nothing_behind(thorough):
    bench = Bench(tasks=1)
    for second in range(1, 1_500 if thorough else 300):
        shown = bench.step(second * 1_000 + 10, f"u{second % 7}")
        assert len(shown) == (second > 1)
    runs = bench.harness.journal_state().manifests["counts"].runs
    assert sum(run.rows for run in runs) < 50


@pytest.mark.parametrize("kind", [rc.windows.tumbling("1 second"), rc.windows.sessions("1 second")])
def test_over_finished_input_every_window_is_complete(kind):
    rows = rc.read().memory(script("user STRING, x BIGINT"), name="rows")
    counts = (
        rows.key_by("user").window(kind, time="processing").aggregate(n=agg.count(), name="counts")
    )
    table = pa.table({"user": ["ann", "bob", "ann"], "x": [1, 2, 3]})
    with rc.run_batch(
        counts.write.memory("out", name="out"), inputs={"rows": table}, in_process=InProcess()
    ) as found:
        assert sorted((r["user"], r["n"]) for r in found.output("out").to_pylist()) == [
            ("ann", 2),
            ("bob", 1),
        ]


def test_what_cannot_be_is_refused():
    stream = rc.read().memory(script("user STRING, x BIGINT, at TIMESTAMP"), name="rows")
    keyed = stream.key_by("user")

    def window(kind, **options):
        return keyed.window(kind, time="processing", **options)

    second = rc.windows.tumbling("1 second")
    for wrong, words in (
        (
            lambda: window(rc.windows.same_window()),
            "rc.windows.tumbling, sliding or sessions",
        ),
        (lambda: window(second, time_column="at"), "They read no column"),
        (lambda: window(second, lateness=5), "no row is late"),
        (lambda: window(rc.windows.sliding(2000, 1000), emit="on_update"), "do not overlap"),
        (lambda: window(second).top(1, by="x"), "of event time"),
        (lambda: window(second).aggregate(n=agg.count()).late, "has no late rows"),
        (
            lambda: (
                window(second)
                .aggregate(n=agg.count(), name="counts")
                .key_by("n")
                .window(second, time_column="window_start")
                .aggregate(m=agg.count())
            ),
            "rows of 'counts' get there without one",
        ),
    ):
        with pytest.raises(DataflowError, match=words):
            wrong()
